"""Writing operators: declarations, tracing, the functions on arrays, input families, cost."""
