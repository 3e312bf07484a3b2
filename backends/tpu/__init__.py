"""TPUs through Pallas."""
