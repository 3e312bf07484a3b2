"""A planned program as Pallas: regions, values and stores of a kernel, the host function, the module."""
