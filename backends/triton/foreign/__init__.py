"""Triton kernels from elsewhere: in place of an operator's own, and such as belong to none."""
