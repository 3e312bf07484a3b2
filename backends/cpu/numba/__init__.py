"""numba: kernels as plain loops that LLVM vectorises."""
