"""Python and jax.numpy as text: expressions with their places, what operations are called, where long lines break."""
