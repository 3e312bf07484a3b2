"""A source as a jax function in a worker process: what the process needs, the entry, its dtypes, the kernels it calls."""
