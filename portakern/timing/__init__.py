"""Timing kernels and peers: the native clock, samples taken in turns, intervals instead of single numbers."""
