"""Programs of a launch as a device may run them: in an order that nobody foresees, and at the same time.

The interpreter runs them one after the other, so that a sum which programs tear from each other comes out right.  Strangers'
kernels are run in another order (the same one for a grid throughout a process, so that sums by atomics repeat), and who touches
what is noted: an element that one program stores and another one loads, stores otherwise, or changes by an atomic, is an error.
Programs that have an atomic's address in common may have waited for each other, and are not looked at.  Where programs wait in
loops, they keep their order, since those that they wait for must have been run.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import numpy as np

from portakern.errors import SimulatorError

MOST = 1 << 20
"""Elements that are noted of a launch; one with more is not looked at."""

LOAD, STORE, ATOMIC = range(3)

_order = np.random.default_rng()
_orders: dict[int, list[int]] = {}
_launch: Launch | None = None
_done = False


class Launch:
    """What programs touched."""

    def __init__(self, grid: Sequence[int], shuffled: bool) -> None:
        self.grid = tuple(grid)
        count = int(np.prod(self.grid))
        self.order = _orders.setdefault(count, _order.permutation(count).tolist()) if shuffled and count <= MOST else None
        self.program, self.count, self.inside = 0, 0, False
        self.touched: list[list[tuple[np.ndarray, int, np.ndarray | None]]] = [[], [], []]
        self.atomics: dict[int, set[int]] = defaultdict(set)

    def place(self, x: int, y: int, z: int) -> tuple[int, int, int]:
        _, ny, nz = self.grid
        number = (x * ny + y) * nz + z
        self.program = number = self.order[number] if self.order is not None else number
        return number // nz // ny, number // nz % ny, number % nz

    def note(self, kind: int, addresses: np.ndarray, mask: np.ndarray | None, values: np.ndarray | None = None) -> None:
        addresses = np.asarray(addresses)
        self.count += addresses.size
        if self.inside or self.count > MOST:
            return
        wanted = np.broadcast_to(True if mask is None else np.asarray(mask), addresses.shape).astype(bool)
        found = addresses[wanted].astype(np.uint64)
        bits = None
        if values is not None:
            plain = np.ascontiguousarray(np.broadcast_to(values, addresses.shape)[wanted])
            bits = plain.view(f"u{plain.itemsize}").astype(np.uint64)
        self.touched[kind].append((found, self.program, bits))
        if kind == ATOMIC:
            self.atomics[self.program].update(found.tolist())

    def race(self) -> str:
        """Of which two programs; '' where there is none that was seen."""
        if self.count > MOST or not (self.touched[STORE] or self.touched[ATOMIC]):
            return ""
        stored, stores, values = self._all(STORE)
        first, last = _spans(stored, stores)
        least, most = _spans(stored, values)
        apart = [a for a in first if first[a] != last[a] and least[a] != most[a]]
        for a in apart:
            if self._unordered(first[a], last[a]):
                return f"programs {first[a]} and {last[a]} store different values in the same element"
        for kind, does in ((LOAD, "loads"), (ATOMIC, "changes by an atomic")):
            if found := self._against(kind, first, last):
                return f"program {found[0]} stores an element that program {found[1]} {does}"
        added, adds, _ = self._all(ATOMIC)
        if found := self._against(LOAD, *_spans(added, adds)):
            return f"program {found[0]} changes an element by an atomic that program {found[1]} loads"
        return ""

    def _against(self, kind: int, first: dict[int, int], last: dict[int, int]) -> tuple[int, int] | None:
        known = np.fromiter(first, np.uint64, len(first))
        for addresses, program, _ in self.touched[kind]:
            for a in addresses[np.isin(addresses, known)].tolist():
                for other in (first[a], last[a]):
                    if other != program and self._unordered(other, program):
                        return other, program
        return None

    def _unordered(self, one: int, other: int) -> bool:
        return self.atomics[one].isdisjoint(self.atomics[other])

    def _all(self, kind: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        parts = self.touched[kind]
        none = np.zeros(0, np.uint64)
        addresses = np.concatenate([none, *(a for a, _, _ in parts)])
        programs = np.concatenate([none, *(np.full(len(a), p, np.uint64) for a, p, _ in parts)])
        values = np.concatenate([none, *(v if v is not None else np.zeros(len(a), np.uint64) for a, _, v in parts)])
        return addresses, programs, values


def _spans(addresses: np.ndarray, values: np.ndarray) -> tuple[dict[int, int], dict[int, int]]:
    """The least and the greatest value of each address."""
    if not addresses.size:
        return {}, {}
    order = np.lexsort((values, addresses))
    a, v = addresses[order], values[order]
    begin = np.flatnonzero(np.r_[True, a[1:] != a[:-1]])
    end = np.r_[begin[1:], len(a)] - 1
    keys = a[begin].tolist()
    return dict(zip(keys, v[begin].tolist(), strict=True)), dict(zip(keys, v[end].tolist(), strict=True))


@contextmanager
def looked_for() -> Iterator[None]:
    """Launches meanwhile are looked at.  Raises :class:`SimulatorError` of kind ``race`` at the end, whatever the host function
    makes of its errors."""
    global _seen
    _prepare()
    before, _seen = _seen, []
    try:
        yield
        if _seen:
            raise SimulatorError(_seen[0], kind="race",
                                 hint="programs of one launch run in any order and at once: use atomics, or two launches")
    finally:
        _seen = before


_seen: list[str] | None = None


def _prepare() -> None:
    """Once per process: what launches and what touches memory tells :data:`_launch`."""
    global _done
    if _done:
        return
    from triton.runtime import interpreter  # type: ignore[attr-defined]

    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    around(executor, "__call__", _launching)
    around(builder, "set_grid_dim", _dims)
    around(builder, "set_grid_idx", _index)
    around(builder, "create_masked_load", lambda old, self, ptrs, mask, *rest, **named: _noted(
        partial(old, **named), (self, ptrs, mask, *rest), LOAD, ptrs.data, mask))  # fmt: skip
    around(builder, "create_masked_store", lambda old, self, ptrs, value, mask, *rest, **named: _noted(
        partial(old, **named), (self, ptrs, value, mask, *rest), STORE, ptrs.data, mask, value.data))  # fmt: skip
    for name in ("create_atomic_cas", "create_atomic_rmw", "create_atomic_load", "create_atomic_store", "create_atomic_poll"):
        if hasattr(builder, name):
            around(builder, name, lambda old, self, *args, **named: _noted(
                partial(old, **named), (self, *args), ATOMIC, _pointers(args), None))  # fmt: skip
    _done = True


def around(owner: Any, name: str, new: Callable[..., Any]) -> None:
    old = getattr(owner, name)

    @wraps(old)
    def called(self: Any, *args: Any, **named: Any) -> Any:
        return new(old, self, *args, **named)

    setattr(owner, name, called)


def _launching(old: Callable[..., Any], executor: Any, *args: Any, **named: Any) -> Any:
    global _launch
    if _seen is None:
        return old(executor, *args, **named)
    before, _launch = _launch, Launch((1, 1, 1), not may_wait(executor.fn))
    try:
        result = old(executor, *args, **named)
        if race := _launch.race():
            _seen.append(f"{getattr(executor.fn, '__name__', 'a kernel')} races: {race}")
        return result
    finally:
        _launch = before


def may_wait(function: Callable[..., Any]) -> bool:
    """Whether programs may wait for others."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        return True
    return "atomic" in text and ("while" in text or "poll" in text)


def _dims(old: Callable[..., Any], builder: Any, *grid: int) -> None:
    global _launch
    if _launch is not None:
        shuffled = _launch.order is not None
        _launch = Launch(grid, shuffled)
    old(builder, *grid)


def _index(old: Callable[..., Any], builder: Any, x: int, y: int, z: int) -> None:
    old(builder, *(_launch.place(x, y, z) if _launch is not None else (x, y, z)))


def _pointers(args: Sequence[Any]) -> Any:
    """The addresses that an atomic goes to: its first tensor."""
    return next(x.data for x in args if hasattr(x, "data"))


def _noted(old: Callable[..., Any], args: tuple[Any, ...], kind: int, addresses: Any, mask: Any, values: Any = None) -> Any:
    launch = _launch
    if launch is None:
        return old(*args)
    launch.note(kind, addresses, getattr(mask, "data", None), values)
    before, launch.inside = launch.inside, True
    try:
        return old(*args)
    finally:
        launch.inside = before
