"""AMD GPUs through HIP."""
