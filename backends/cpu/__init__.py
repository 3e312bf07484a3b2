"""The host CPU through numba and C++."""
