"""What numba kernels make of a run, and what Python does beside them, told apart by two runs on different inputs.

Every call of a compiled function is noted, and what its arrays hold then.  What kernels before it did not leave there is of the
host function's making: so it is after the last call with outputs.  Such contents are held against those of the earlier run.
What is the same in both is a constant.  What was in an input, or left by a kernel, and in both runs in the same place, was
moved.  All else is work that kernels did not do, however little.

Work can be handed to kernels in other ways than by contents: by a number, by a shape, by a constant of a kernel that is made
for it, by which kernels are called in which order.  So both runs must call the same kernels in the same way.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any

import numpy as np

from portakern.errors import PortakernError
from portakern.tools.frozen import frozen

from .calling import HINT, calls_through, held_in, told_of
from .helpers import helpers_of

NARROW = 2
"""Bytes of elements whose values are found by chance."""

Key = tuple[int, int, str]
"""What is the same in two runs: how many calls there were before, the number of a root or result, and which of both it is."""


@dataclass(frozen=True)
class Contents:
    """What a host function left in the memory of a root; ``known`` contents were there before."""

    key: Key
    data: np.ndarray
    changed: np.ndarray
    known: int


@dataclass(frozen=True)
class Call:
    """``form`` is how a kernel is called, beside what arrays hold and numbers with a fraction are."""

    kernel: Any
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]
    form: tuple[Any, ...]
    known: int

    @property
    def numbers(self) -> list[complex]:
        given = _flat((*self.arguments, *self.named.values()))
        return [complex(x) for x in given if isinstance(x, float | complex | np.inexact)]


@dataclass
class Noted:
    """One run.  ``roots`` are the arrays whose memory was seen, those of the operator first, ``state`` what is in them but for
    what the host function did since, and ``pool`` what was given or kernels left, in order."""

    roots: list[np.ndarray]
    state: list[np.ndarray] = field(default_factory=list)
    steps: list[Contents | Call] = field(default_factory=list)
    pool: dict[Key, np.ndarray] = field(default_factory=dict)
    threads: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.state = [x.copy() for x in self.roots]
        self.own = len(self.roots)
        self.calls = 0
        self.pool = {(0, n, "given"): x for n, x in enumerate(self.state)}

    def called(self, launch: Callable[..., Any], kernel: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        self.threads.add(threading.get_ident())
        places = [self.look(x) for x in _flat((*arguments, *named.values())) if isinstance(x, np.ndarray)]
        form = (frozen(kernel), *(told_of(x, self.place) for x in (*arguments, *sorted(named.items()))))
        self.steps.append(Call(kernel, arguments, dict(named), form, len(self.pool)))
        self.calls += 1
        result = launch(kernel, *arguments, **named)
        for n in dict.fromkeys(places):
            if not np.array_equal(_bytes(self.state[n]), _bytes(self.roots[n])):
                self.state[n] = self.roots[n].copy()
                self.pool[self.calls, n, "left"] = self.state[n]
        for n, x in enumerate(_flat((result,))):
            if isinstance(x, np.ndarray | np.number | float | int | complex):
                self.pool[self.calls, n, "given back"] = np.array(x)
        return result

    def place(self, array: np.ndarray) -> tuple[int, int]:
        """The number of its root, which was seen, and where it begins: from the operator's array that it is a part of, else in
        all memory that it belongs to.  A kernel can be told a number by either."""
        number = self._number(array)
        own = 0 <= number < self.own
        return number, array.ctypes.data - (self.roots[number].ctypes.data if own else begins(array))

    def _number(self, array: np.ndarray) -> int:
        return next((n for n, root in enumerate(self.roots) if np.may_share_memory(root, array)), -1)

    def ended(self) -> None:
        for x in self.roots[: self.own]:
            self.look(x)

    def look(self, array: np.ndarray) -> int:
        """Notes what the host function put into the memory of ``array`` since; the number of its root."""
        number = self._number(array)
        if number < 0:
            number = len(self.roots)
            self.roots.append(_root(array))
            self.state.append(self.roots[-1].copy())
            changed = np.ones(array.size if self.roots[-1] is array else self.roots[-1].size, bool)
        else:
            changed = (_rows(self.state[number]) != _rows(self.roots[number])).any(1)
        if changed.any():
            self.state[number] = data = self.roots[number].copy()
            self.steps.append(Contents((self.calls, number, "host"), data, changed, len(self.pool)))
        return number

    # ---- what a host function computed

    def work(self, before: Noted) -> tuple[dict[int, np.ndarray], str]:
        """By the number of a step the elements that were computed (none in one whose numbers were), and words of them."""
        found: dict[int, np.ndarray] = {}
        contents = {s.key: s for s in before.steps if isinstance(s, Contents)}
        calls = iter([s for s in before.steps if isinstance(s, Call)])
        for number, step in enumerate(self.steps):
            if isinstance(step, Contents):
                other = contents.get(step.key)
                computed = step.changed & ~_same(step, other) & ~self._moved(step, other, before)
                if computed.any():
                    found[number] = computed
                continue
            if numbers := self._computed(step, next(calls, None), before):
                found[number] = np.ones(numbers, bool)
        count = sum(int(c.sum()) for c in found.values())
        return found, f"and computes {count} elements and numbers in Python" if found else ""

    def _computed(self, step: Call, other: Call | None, before: Noted) -> int:
        """How many numbers of a call hang on what is in inputs, and are none of it."""
        mine, theirs = step.numbers, other.numbers if other is not None else []
        if not mine or len(mine) != len(theirs):
            return len(mine)
        mine_, theirs_ = np.array(mine, np.complex128), np.array(theirs, np.complex128)
        same = (mine_ == theirs_) | ((mine_ != mine_) & (theirs_ != theirs_))
        moved = _paired(mine_, theirs_, self._both(step.known, before, np.dtype(np.complex128)))
        return int((~same & ~moved).sum())

    def _moved(self, step: Contents, other: Contents | None, before: Noted) -> np.ndarray:
        """Which elements come from one place in both runs; in a step that the other run did not have, from any place."""
        kind = step.data.dtype
        if other is not None and (other.data.shape, other.data.dtype) == (step.data.shape, kind):
            return _paired(step.data, other.data, self._both(step.known, before, kind))
        others = [x.reshape(-1) for x in list(self.pool.values())[: step.known] if x.size]
        if kind.itemsize <= NARROW:
            same = [x for x in others if x.dtype == kind and x.size == step.data.size]
            whole = any(np.array_equal(np.sort(_words(x)), np.sort(_words(step.data))) for x in same)
            return np.full(step.data.size, whole)
        moved = np.zeros(step.data.size, bool)
        for x in others:
            moved |= np.isin(_words(step.data), _words(_cast(x, kind)))
        return moved

    def _both(self, known: int, before: Noted, kind: np.dtype[Any]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """What was given or left in this run and in the one before, as elements of a kind."""
        for key, x in list(self.pool.items())[:known]:
            y = before.pool.get(key)
            if x.size and y is not None and (y.shape, y.dtype) == (x.shape, x.dtype):
                yield from zip(_casts(x, kind), _casts(y, kind), strict=True)

    def differs(self, before: Noted) -> str:
        """How kernels are called in another way than in the run before, in words; empty where they are not.  Threads call in
        any order."""
        mine, theirs = ([s.form for s in run.steps if isinstance(s, Call)] for run in (self, before))
        if len(self.threads | before.threads) > 1:
            mine, theirs = (sorted(Counter(map(repr, forms)).items()) for forms in (mine, theirs))
        if mine == theirs:
            return ""
        number = next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
        return f"what arrays hold decides how kernels are called: on other inputs call {number + 1} of {len(mine)} is another"

    def again(self, but: Mapping[int, np.ndarray]) -> None:
        """The calls, and what the host function did between them, but for what is in ``but``."""
        for number, step in enumerate(self.steps):
            if isinstance(step, Contents):
                wanted, root = step.changed & ~but[number] if number in but else step.changed, self.roots[step.key[1]]
                np.copyto(root, step.data, where=wanted.reshape(root.shape))
            elif number not in but:
                step.kernel(*step.arguments, **step.named)


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
    if any(x.dtype.kind == "f" or x.dtype == np.uint16 for x in begin) and (words := found.differs(before)):
        raise PortakernError("decoy", words, hint=HINT)  # integers, by which grids may go, are those of the run before
    but, words = found.work(before)
    for step in found.steps:
        if isinstance(step, Call) and (names := reaches(step.kernel)):
            raise PortakernError("decoy", f"a kernel reaches for {', '.join(names)}", hint=HINT)
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
    for result in getattr(kernel, "_dispatcher", kernel).overloads.values():
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
        if (held := held_in(x)) is not None:
            yield from _flat(held)
        else:
            yield x


def _root(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory, as far as numpy knows, where it is plain; else the array itself."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return root if root.flags.c_contiguous and root.dtype == array.dtype else array


def begins(array: np.ndarray) -> int:
    """Where the memory begins of which an array is a part; 0 where Python may have chosen the place (``from_address``)."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    owner = root.base.obj if isinstance(root.base, memoryview) else root.base
    placed = not (owner is None or isinstance(owner, bytes | bytearray | mmap) or type(owner).__module__.startswith("torch"))
    return 0 if placed else root.ctypes.data


def _bytes(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def _rows(x: np.ndarray) -> np.ndarray:
    """[elements, bytes]; of a contiguous array, its own memory."""
    return (x if x.flags.c_contiguous else np.ascontiguousarray(x)).reshape(-1).view(np.uint8).reshape(x.size, -1)


def _cast(x: np.ndarray, kind: np.dtype[Any]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return x.astype(kind)


def _casts(x: np.ndarray, kind: np.dtype[Any]) -> list[np.ndarray]:
    """An array as elements of a kind: by value, and as the bits of narrow floats."""
    import ml_dtypes

    found = [_cast(x, kind)]
    narrow = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
    if kind == np.uint16 and x.dtype.kind == "f":
        found += [_cast(x, n).view(np.uint16) for n in narrow]
    if x.dtype == np.uint16 and kind.kind == "f":
        found += [_cast(x.view(n), kind) for n in narrow]
    return found


_MIXED = np.random.default_rng().integers(1, 1 << 63, 2, np.uint64) * np.uint64(2) + np.uint64(1)


def _paired(mine: np.ndarray, theirs: np.ndarray, places: Iterator[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Which elements of two runs are together those of one of the places."""
    wanted = _mixed(mine, theirs)
    found = np.zeros(wanted.size, bool)
    for x, y in places:
        found |= np.isin(wanted, _mixed(x, y))
    return found


def _mixed(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A number for each pair of elements."""
    words = [_words(a) for a in (x, y)]
    if words[0].dtype.kind == "u":
        return words[0].astype(np.uint64) * _MIXED[0] + words[1].astype(np.uint64) * _MIXED[1]
    halves = [np.ascontiguousarray(a).reshape(-1).view(np.uint64).reshape(a.size, -1) for a in words]
    return np.array([hash((*a.tolist(), *b.tolist())) for a, b in zip(*halves, strict=True)], np.int64).view(np.uint64)


def _words(x: np.ndarray) -> np.ndarray:
    """Elements as bits, of which NaN equals itself."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(f"u{flat.itemsize}") if flat.itemsize in (1, 2, 4, 8) else flat


def _same(step: Contents, other: Contents | None) -> np.ndarray:
    if other is None or (other.data.shape, other.data.dtype) != (step.data.shape, step.data.dtype):
        return np.zeros(step.data.size, bool)
    return (_rows(step.data) == _rows(other.data)).all(1)


def _poison(root: np.ndarray) -> None:
    if root.flags.writeable and root.dtype.kind == "f":
        root[...] = np.random.default_rng().standard_normal(root.shape) * 1e30
    elif root.flags.writeable:
        root[...] = 0
