"""What a window of a kernel is, as jax has it: the block of an operand that a grid step sees."""

from __future__ import annotations

from typing import Any


def is_windowed(window: Any) -> bool:
    """Whether the pipeline copies it block by block to VMEM, and the kernel does not itself (memory space ANY or HBM)."""
    space = str(getattr(window.transformed_block_aval, "memory_space", "")).lower()
    return not any(word in space for word in ("any", "hbm", "smem", "semaphore"))


def extent_of(spec: Any) -> int:
    """Elements of a block along one dim; squeezed dims take one."""
    if isinstance(spec, int):
        return spec
    return int(getattr(spec, "block_size", None) or getattr(spec, "max_block_size", None) or 1)
