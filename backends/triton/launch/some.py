"""Some programs of an interpreted launch alone, where all of them would take hours."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .races import around, may_wait

_done = False
_some: Some | None = None


class Some:
    """Programs, by their places in the grid, of which none begins after so many seconds; without any nothing runs.

    Attributes:
        ran: how many did.
        waits: whether the programs of a kernel may wait for each other.
    """

    def __init__(self, programs: Sequence[int] = (), seconds: float = math.inf) -> None:
        self.programs, self._until = programs, time.monotonic() + seconds
        self.grid: tuple[int, ...] = (1, 1, 1)
        self.ran, self.waits = 0, False

    def place(self, number: int) -> tuple[int, int, int]:
        """Where in the grid the program is that runs as this one."""
        if number and time.monotonic() > self._until:
            raise _EnoughRan
        self.ran = number + 1
        _, ny, nz = self.grid
        at = self.programs[number]
        return at // nz // ny, at // nz % ny, at % nz


class _EnoughRan(BaseException):
    """The loop over the grid makes an error of its own of any other exception."""


@contextmanager
def alone(some: Some) -> Iterator[None]:
    """Launches meanwhile run these programs alone."""
    global _some
    _prepare()
    before, _some = _some, some
    try:
        yield
    finally:
        _some = before


def _prepare() -> None:
    """Once per process."""
    global _done
    if _done:
        return
    from triton.runtime import interpreter  # type: ignore[attr-defined]

    around(interpreter.GridExecutor, "__call__", _launching)
    around(interpreter.InterpreterBuilder, "set_grid_dim", lambda old, builder, *grid: old(
        builder, *(_some.grid if _some is not None else grid)))  # fmt: skip
    around(interpreter.InterpreterBuilder, "set_grid_idx", lambda old, builder, x, y, z: old(
        builder, *(_some.place(x) if _some is not None else (x, y, z))))  # fmt: skip
    _done = True


def _launching(old: Callable[..., Any], executor: Any, *args: Any, **named: Any) -> Any:
    some = _some
    if some is None:
        return old(executor, *args, **named)
    some.waits |= may_wait(executor.fn)
    whole = executor.grid
    x, y, z = (*_grid_of(executor, args, named), 1, 1)[:3]
    some.grid = (int(x), int(y), int(z))
    if not some.programs or 0 in some.grid:
        return None
    executor.grid = (len(some.programs),)
    try:
        return old(executor, *args, **named)
    except _EnoughRan:
        return None
    finally:
        executor.grid = whole


def _grid_of(executor: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    if not callable(executor.grid):
        return executor.grid
    taken = inspect.signature(executor.fn).parameters
    return executor.grid(inspect.getcallargs(executor.fn, *args, **{k: v for k, v in named.items() if k in taken}))
