"""CUDA files on AMD: compiled as they are where HIP has the same, and what it has not is named with what there is instead."""
