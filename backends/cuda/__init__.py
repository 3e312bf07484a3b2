"""NVIDIA GPUs through CUDA C++."""
