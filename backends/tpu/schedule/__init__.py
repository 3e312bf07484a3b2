"""The schedules that a loop nest may have on a TPU, by family, and the model that orders those of products."""
