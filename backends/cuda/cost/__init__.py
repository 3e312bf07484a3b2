"""A first model of NVIDIA's multiprocessors: what machine code asks of issue, pipes and memory, and how long that takes."""
