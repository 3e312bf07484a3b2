"""NVIDIA and AMD GPUs through Triton."""
