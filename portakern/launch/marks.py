"""What tells whether an array still holds the numbers that it held, without a look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

IMMUTABLE = ("jax", "jaxlib")
"""Libraries whose arrays nobody writes."""


@dataclass(frozen=True)
class Mark:
    """An array as it was: which one, where its memory lay, how often torch had seen it written, and the optimisers' steps until
    then, since those that are fused write uncounted.

    ``memory`` keeps that memory from being given to another array meanwhile.
    """

    array: Any
    memory: Any = None
    address: int = 0
    version: int = 0
    steps: int = 0

    def holds(self, x: Any) -> bool:
        """Whether ``x`` is that array and nobody is known to have written it since."""
        if x is not self.array:
            return False
        return self.memory is None or (x._version == self.version and x.data_ptr() == self.address
                                       and self.steps == _steps.taken)  # fmt: skip


def mark(x: Any) -> Mark | None:
    """``None`` for arrays whose writes nobody counts: numpy's and cupy's, and torch's of inference mode."""
    library = type(x).__module__.partition(".")[0]
    if library in IMMUTABLE:
        return Mark(x)
    if library != "torch" or not hasattr(x, "is_inference") or x.is_inference():
        return None
    _watch_optimisers()
    return Mark(x, x.detach(), x.data_ptr(), x._version, _steps.taken)


class _Steps:
    """How many steps optimisers of torch have taken in this process."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self, *of: Any) -> None:
        self.taken += 1


_steps = _Steps()


@cache
def _watch_optimisers() -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(_steps)


def hold(marks: Sequence[Mark | None], arrays: Sequence[Any]) -> bool:
    """Whether all of them are known to be as they were."""
    return all(m is not None and m.holds(x) for m, x in zip(marks, arrays, strict=True))
