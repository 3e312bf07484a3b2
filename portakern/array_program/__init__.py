"""A tensor program as a plain Python function on arrays of numpy, torch or jax."""

from .function import ArrayFunction, array_function

__all__ = ["ArrayFunction", "array_function"]
