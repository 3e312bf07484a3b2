"""Kernels run on the CPU, as this backend's simulator: grids walked, values, memory and races, and what they find."""
