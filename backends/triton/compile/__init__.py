"""Triton's compiler for GPUs that need not be there: the worker process, machine code read, occupancy."""
