"""Triton's interpreter with its faults mended, as the simulator of every Triton target."""
