"""Running on a TPU that is there, through jax."""
