"""What jax makes of a function for a chip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def staged(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """``function`` as one program of XLA, which traces call ``jit_<name>``."""
    import jax

    def program(*arrays: Any) -> Any:
        return function(*arrays)

    program.__name__ = program.__qualname__ = name
    return jax.jit(program)
