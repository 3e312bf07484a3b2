"""A program as Triton: what operations are called, the parts of a kernel, the host function, the module."""
