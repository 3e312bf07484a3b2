"""AMD machine code, of HIP, Triton or anyone: read, executed on the CPU, searched for missing waits, and priced.

The name is LLVM's for the architecture.  Each folder is a room; ``backends/rocm/README.md`` draws which one imports which.
"""
