"""What numba kernels make of a run, and what Python does beside them, told apart by the contents of arrays.

Every call of a compiled function is noted.  What its arrays hold then, and kernels before it did not leave there, is of the
host function's making: so it is after the last call with outputs.  Such contents are held against those of an earlier run on
other inputs.  What is the same is a constant; what was in an input, or left by a kernel, was moved.  All else is work that
kernels did not do.  What it took to compute is not seen, so that nothing is too little.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from portakern.errors import PortakernError

from .helpers import helpers_of

NARROW = 2
"""Bytes of elements whose values are found by chance: of these, whole arrays are moved or nothing."""


@dataclass(frozen=True)
class Contents:
    """What a host function left in the memory of a root; ``known`` contents were there before."""

    root: int
    data: np.ndarray
    changed: np.ndarray
    known: int


@dataclass(frozen=True)
class Call:
    kernel: Any
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]
    known: int

    @property
    def numbers(self) -> list[float]:
        return [float(x) for x in _flat((*self.arguments, *self.named.values())) if isinstance(x, float | np.floating)]


@dataclass
class Noted:
    """One run.  ``roots`` are the arrays whose memory was seen, those of the operator first, ``state`` what is in them but for
    what the host function did since, and ``pool`` what was given or kernels left, in order."""

    roots: list[np.ndarray]
    state: list[np.ndarray] = field(default_factory=list)
    steps: list[Contents | Call] = field(default_factory=list)
    pool: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = [x.copy() for x in self.roots]
        self.own = len(self.roots)
        self.pool = list(self.state)

    def called(self, launch: Callable[..., Any], kernel: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        places = [self.look(x) for x in _flat((*arguments, *named.values())) if isinstance(x, np.ndarray)]
        self.steps.append(Call(kernel, arguments, dict(named), len(self.pool)))
        result = launch(kernel, *arguments, **named)
        for n in dict.fromkeys(places):
            if not np.array_equal(_bytes(self.state[n]), _bytes(self.roots[n])):
                self.state[n] = self.roots[n].copy()
                self.pool.append(self.state[n])
        return result

    def ended(self) -> None:
        for x in self.roots[: self.own]:
            self.look(x)

    def look(self, array: np.ndarray) -> int:
        """Notes what the host function put into the memory of ``array`` since; the number of its root."""
        number = next((n for n, root in enumerate(self.roots) if np.may_share_memory(root, array)), -1)
        if number < 0:
            number = len(self.roots)
            self.roots.append(_root(array))
            self.state.append(self.roots[-1].copy())
            changed = np.ones(array.size if self.roots[-1] is array else self.roots[-1].size, bool)
        else:
            changed = (_rows(self.state[number]) != _rows(self.roots[number])).any(1)
        if changed.any():
            self.state[number] = data = self.roots[number].copy()
            self.steps.append(Contents(number, data, changed, len(self.pool)))
        return number

    # ---- what a host function computed

    def work(self, before: Noted) -> tuple[dict[int, np.ndarray], str]:
        """By the number of a step the elements that were computed (none in one whose numbers were), and words of them."""
        found: dict[int, np.ndarray] = {}
        for number, step in enumerate(self.steps):
            other = before.steps[number] if number < len(before.steps) else None
            if isinstance(step, Contents):
                computed = step.changed & ~_same(step, other) & ~self._moved(step)
                if computed.any():
                    found[number] = computed
            elif numbers := self._computed(step, other):
                found[number] = np.ones(numbers, bool)
        count = sum(int(c.sum()) for c in found.values())
        return found, f"and computes {count} elements and numbers in Python" if found else ""

    def _computed(self, step: Call, other: Any) -> int:
        """How many numbers of a call hang on what is in inputs, and are none of it."""
        mine, theirs = step.numbers, other.numbers if isinstance(other, Call) else []
        moved = [any((x == n).any() for x in self.pool[: step.known] if x.dtype.kind == "f") for n in mine]
        return sum(not m and (n >= len(theirs) or x != theirs[n]) for n, (x, m) in enumerate(zip(mine, moved, strict=True)))

    def _moved(self, step: Contents) -> np.ndarray:
        mine, kind = step.data.reshape(-1), step.data.dtype
        others = [x.reshape(-1) for x in self.pool[: step.known] if x.size]
        if kind.itemsize <= NARROW:
            same = [x for x in others if x.dtype == kind and x.size == mine.size]
            whole = any(np.array_equal(np.sort(_words(x)), np.sort(_words(mine))) for x in same)
            return np.full(mine.size, whole)
        moved = np.zeros(mine.size, bool)
        for x in others:
            with np.errstate(all="ignore"):
                moved |= np.isin(_words(mine), _words(x.astype(kind)))
        return moved

    def again(self, but: Mapping[int, np.ndarray]) -> None:
        """The calls, and what the host function did between them, but for what is in ``but``."""
        for number, step in enumerate(self.steps):
            if isinstance(step, Contents):
                wanted, root = step.changed & ~but[number] if number in but else step.changed, self.roots[step.root]
                np.copyto(root, step.data, where=wanted.reshape(root.shape))
            elif number not in but:
                step.kernel(*step.arguments, **step.named)


@contextmanager
def calls_through(launch: Callable[..., Any]) -> Iterator[None]:
    """Calls of compiled functions from Python are ``launch(original, function, arguments, named)``."""
    from numba.core.dispatcher import Dispatcher

    original = Dispatcher.__call__

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return launch(original, self, arguments, named)

    Dispatcher.__call__ = call  # type: ignore[method-assign]
    try:
        yield
    finally:
        del Dispatcher.__call__


def noted(function: Callable[..., Any], arguments: Sequence[Any]) -> Noted:
    """The host function, run and noted."""
    found = Noted([x for x in arguments if isinstance(x, np.ndarray)])
    with calls_through(found.called):
        function(*arguments)
    found.ended()
    return found


def kernels_alone(function: Callable[..., Any], arguments: Sequence[Any], before: Noted) -> str:
    """Runs, and then takes away what the host function computed; what that was, in words."""
    arrays = [x for x in arguments if isinstance(x, np.ndarray)]
    begin = [x.copy() for x in arrays]
    found = noted(function, arguments)
    but, words = found.work(before)
    for step in found.steps:
        if isinstance(step, Call) and (names := reaches(step.kernel)):
            raise PortakernError("decoy", f"a kernel reaches for {', '.join(names)}")
    if but:
        for x, was in zip(arrays, begin, strict=True):
            if x.flags.writeable:
                x[...] = was
        for root in found.roots[found.own :]:
            _poison(root)
        found.again(but)
    count = sum(isinstance(s, Call) for s in found.steps)
    return f"its host function calls {count or 'no'} kernel{'s' if count != 1 else ''} {words}".strip()


def reaches(kernel: Any) -> list[str]:
    """How what was compiled of a kernel in this process lets others work (see :meth:`NumbaToolchain.helpers`); of what was
    restored nothing is known here, which was looked at when it was compiled."""
    found: list[str] = []
    for result in kernel.overloads.values():
        with contextlib.suppress(Exception):  # what has no text
            found += helpers_of(result.library.get_asm_str())
    return found


def host_alone(function: Callable[..., Any], arguments: Sequence[Any]) -> str:
    with calls_through(lambda original, kernel, given, named: None):
        function(*arguments)
    return "its host function was run with kernels that do nothing"


# ---- memory ------------------------------------------------------------------------------------------------------------------


def _flat(values: Any) -> Iterator[Any]:
    for x in values:
        if isinstance(x, list | tuple):
            yield from _flat(x)
        else:
            yield x


def _root(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory, as far as numpy knows, where it is plain; else the array itself."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return root if root.flags.c_contiguous and root.dtype == array.dtype else array


def _bytes(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def _rows(x: np.ndarray) -> np.ndarray:
    """[elements, bytes]; of a contiguous array, its own memory."""
    return (x if x.flags.c_contiguous else np.ascontiguousarray(x)).reshape(-1).view(np.uint8).reshape(x.size, -1)


def _words(x: np.ndarray) -> np.ndarray:
    """Elements as bits, of which NaN equals itself."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(f"u{flat.itemsize}") if flat.itemsize in (1, 2, 4, 8) else flat


def _same(step: Contents, other: Any) -> np.ndarray:
    if not isinstance(other, Contents) or (other.data.shape, other.data.dtype) != (step.data.shape, step.data.dtype):
        return np.zeros(step.data.size, bool)
    return (_rows(step.data) == _rows(other.data)).all(1)


def _poison(root: np.ndarray) -> None:
    if root.flags.writeable and root.dtype.kind == "f":
        root[...] = np.random.default_rng().standard_normal(root.shape) * 1e30
    elif root.flags.writeable:
        root[...] = 0
