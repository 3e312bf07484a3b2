"""Bounds of long programs, measured.

Taken operation by operation at its worst, an error grows by the sum of the magnitudes of a matrix's row at every product: after
three layers of a network the bound is as large as what it bounds, though the result itself is nearly exact, and says
nothing.  Such bounds are measured.  Probes go through the program beside the exact values, each moved at every operation by as
much as that alone may err: one always up, one always down, others up and down at random, since the roundings of different
elements are not aligned but where the numbers repeat.

Probes know little of what a rounding may decide.  A comparison, an integer or a function that jumps is told how far its
operands may be off, and where they may decide otherwise, both answers count.  Where this leaves a number open, nothing is
measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from portakern.check import accuracy
from portakern.dtypes import DTYPES
from portakern.ir import tensor as t
from portakern.ir.core import Block, Op, Result, Yield, yielded
from portakern.ir.tensor import tensor_type

from . import together
from .blocks import bounded, contraction_only
from .rules import dtype_of
from .slabs import in_slabs
from .value import Val

SIGNS = (1.0, -1.0, None, None)
"""How each probe is moved: up, down, or (``None``) either way."""

ONE_WAY = 2
"""The first probes, which are moved one way."""

FARTHEST = 4.0
"""How much farther than the farthest probe, and than one operation errs, a correct kernel may be: an explicit rounding to a
narrow dtype goes by whole units, to the next one or not, and probes are few."""

ELSEWHERE = 2.0
"""The same of what the probes were off at any other element."""

LITTLE = 1 / 16
"""A bound says little if it is more than this part of what is usual in the result."""

ALIKE = 1 / 16
"""Of how far what is computed twice may be from itself: probes that are nearer have errors that cancel."""

MANY = 1 / 8
"""Of the elements."""

BENDS = {"max", "min", "abs", "sigmoid", "tanh", "erf"}
"""Functions of floats, and reductions by them, that have a kink, as those have that are flat on both sides when one looks
at them from large numbers: on its other side is what no probe may have seen."""

JUMPS = {"floor", "ceil", "trunc", "round", "sign", "floordiv", "rem"}
"""Functions of floats that jump."""

_SMOOTH = (t.Literal, t.DimSize, t.Iota, t.Map, t.Convert, t.Expand, t.Reshape, t.Transpose, t.Slice, t.PadWith, t.Concat,
           t.Flip, t.Windows, t.Assemble, t.Fold, t.SegmentFold, t.Cumulate, t.WindowFold, t.Contract, t.SegmentContract,
           t.Convolve, t.Gather, t.Recur, Result)  # fmt: skip
"""What a small error of floats changes a little, but for the functions in ``JUMPS``."""


_ONCE = (t.Contract, t.SegmentContract, t.Convolve, t.Recur, t.Fold, t.SegmentFold, t.WindowFold, t.Cumulate)
"""What is computed once, or from what is stored; elementwise work is computed anew wherever that is cheap."""


# ---- probes ----------------------------------------------------------------------------------------------------------


class Signs:
    """The signs of the errors of one probe."""

    def __init__(self, sign: float | None, seed: int) -> None:
        self._sign, self._random = sign, np.random.default_rng(seed)

    def moved(self, x: np.ndarray, by: Val) -> np.ndarray:
        """``x``, moved as far as the bound of ``by``."""
        if by.exact or x.dtype.kind != "f":
            return x
        bound = by.bound()
        bound = bound if np.isfinite(bound).all() else np.where(np.isfinite(bound), bound, 0.0)
        return x + bound * (self._either_way(x.shape) if self._sign is None else self._sign)

    def _either_way(self, shape: tuple[int, ...]) -> np.ndarray:
        return self._random.integers(0, 2, shape, dtype=np.int8) * 2.0 - 1.0


def every_sign() -> list[Signs]:
    return [Signs(sign, seed) for seed, sign in enumerate(SIGNS)]


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if b.dtype.kind != "f":
        return np.zeros(b.shape)
    apart = np.abs(a - b)
    if np.isfinite(apart).all():
        return apart
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isfinite(apart), apart, np.inf))


def nearer(v: Val, own: Val, farthest: np.ndarray, dtype: str) -> Val:
    """``v``, of ``dtype``, with the smaller bound: the one at its worst, or the one that was measured.  No measure says
    anything of what may be too large for ``dtype``."""
    if v.exact or v.x.dtype.kind != "f":
        return v
    measured = FARTHEST * (farthest + own.bound())
    measured = np.maximum(measured, ELSEWHERE * _elsewhere(v.x, farthest, DTYPES[dtype].rounding))
    measured = np.where(np.abs(v.x) + measured < accuracy.largest(dtype), measured, np.inf)
    return Val(v.x, np.where(~np.isfinite(v.x), v.bound(), np.minimum(v.bound(), measured)))


def _elsewhere(x: np.ndarray, farthest: np.ndarray, rounding: float) -> np.ndarray:
    """How far the probes would be if they were everywhere as many roundings off as where they are farthest.

    An explicit rounding hides most errors, and now and then makes a whole unit of one: not where it did so for the probes.
    Units are those of an element or of what is usual along its last dim, since results near 0 come of larger ones, and none
    is smaller than those of the smallest normal number of f32: what cancels, or underflows in f32, may be 1e-300 here.
    """
    magnitude = np.where(np.isfinite(x), np.abs(x), 0.0)
    usual = np.sqrt(np.mean(np.square(magnitude), axis=-1, keepdims=True)) if x.ndim else 0.0
    size = np.maximum(magnitude, usual)
    unit = 2 * rounding * np.maximum(size, accuracy.smallest_normal("f32"))
    telling = (size > 0) & np.isfinite(farthest)
    with np.errstate(over="ignore"):  # of f64
        most = float(np.max(farthest[telling] / unit[telling], initial=0.0))
        return max(most, 1.0) * unit if most else np.zeros_like(unit)


# ---- whole programs --------------------------------------------------------------------------------------------------


def says_little(v: Any) -> bool:
    """Whether the bound of many elements of a float result is more than a small part of what is usual in it."""
    if not isinstance(v, Val) or v.exact or v.x.dtype.kind != "f":
        return False
    finite = np.isfinite(v.x)
    usual = float(np.sqrt(np.mean(np.square(v.x[finite])))) if finite.any() else 0.0
    return bool(np.mean(v.bound()[finite] > LITTLE * usual) > MANY) if finite.any() else False


def measured(block: Block, args: Sequence[Val], made: Sequence[Val]) -> tuple[Val, ...]:
    """``made``, which ``block`` gives for ``args``, with the bounds that probes show where those at their worst say little."""
    if len(block.ops) <= 2 or not any(map(says_little, made)):
        return tuple(made)
    try:
        found = _Walk(block, args).results()
    except _Open:
        return tuple(made)
    dtypes = [tensor_type(op).dtype for op in yielded(block)]
    return tuple(nearer(v, n.own, n.farthest, d) if says_little(v) else v
                 for v, n, d in zip(made, found, dtypes, strict=True))  # fmt: skip


class _Open(Exception):
    """That errors as large as the probes' leave a number open."""


@dataclass(frozen=True)
class _Near:
    """An exact value, what the operation itself may err, where the probes are, and how far the farthest of them is.

    ``anew`` is how far two kernels may be apart that compute it from the same sums and products, ``doubt`` how far it may be
    off at its worst for what was decided otherwise on the way.
    """

    own: Val
    probes: tuple[np.ndarray, ...]
    farthest: Any
    anew: Val
    doubt: Any = 0.0

    @property
    def alone(self) -> Val:
        """The exact value, for what an operation on it may err by itself.  What is not decided stays so."""
        return self.own if self.own.x.dtype.kind != "f" else replace(self.own, e=0.0)

    @property
    def is_lost(self) -> bool:
        """Whether some number is no larger than its error: what is rounded there is the error, which may be alike in all
        elements and cancel later on, as the errors of a mean do, but for its roundings."""
        lost = (np.abs(self.own.x) <= self.farthest) & (np.asarray(self.farthest) > 0)
        return self.own.x.dtype.kind == "f" and bool(lost.any())

    @property
    def moved_up(self) -> Val:
        """Where the first probe is, for what an operation on it may err by itself."""
        return self.own if self.own.x.dtype.kind != "f" else replace(self.own, x=self.probes[0], e=0.0)

    @property
    def doubtful(self) -> Val:
        """The value as far as what was decided otherwise may move it."""
        return self.own if self.own.x.dtype.kind != "f" else replace(self.own, e=self.doubt)

    def off(self, factor: float = FARTHEST) -> Val:
        """The value as far as it may be off, by so many times what probes are."""
        if self.own.x.dtype.kind != "f":
            return self.own
        e = factor * (np.asarray(self.farthest) + self.own.bound())
        return replace(self.own, e=e if np.any(e) else 0.0)


class _Walk:
    """``block`` with probes, which are forgotten after their last use."""

    def __init__(self, block: Block, args: Sequence[Val]) -> None:
        self._block, self._signs, self._loose = block, every_sign(), contraction_only(block)
        self._known: dict[Op, Any] = {a: self._near(v, [v.x] * len(SIGNS)) for a, v in zip(block.args, args, strict=True)}
        self._last = {o: op for op in block.ops for o in op.operands}

    def results(self) -> list[_Near]:
        for op in self._block.ops:
            if isinstance(op, Yield):
                break
            given = [self._known[o] for o in op.operands]
            self._known[op] = self._step(op, given)
            for o in op.operands:
                if self._last[o] is op:
                    self._known.pop(o, None)
        return [self._known[v] for v in yielded(self._block)]

    def _step(self, op: Op, given: Sequence[Any]) -> Any:
        if isinstance(op, t.Map | t.Convert):
            return in_slabs(lambda *slab: self._of(op, slab), given, np.broadcast_shapes(*(n.own.x.shape for n in given)))
        return self._of(op, given)

    def _of(self, op: Op, given: Sequence[Any]) -> Any:
        if isinstance(op, Result):
            return given[0][op.index]
        own, probes = self._made(op, given)
        if isinstance(own, tuple):
            return tuple(self._near(_bounded(v), [p[k] for p in probes]) for k, v in enumerate(own))
        if getattr(op, "fn", "") in BENDS and own.x.dtype.kind == "f":
            own = self._behind_the_kink(op, own, given, probes)
        if isinstance(op, t.Map) and op.fn == "mul" and own.x.dtype.kind == "f":
            own = _of_both(own, *given)
        doubt = self._doubt(op, own, given)
        if isinstance(op, _ONCE) and np.any(doubt):
            own, doubt = replace(own, e=own.e + doubt / FARTHEST), 0.0
        near = replace(self._near(_bounded(own), probes), doubt=doubt)
        if isinstance(op, _ONCE) or own.x.dtype.kind != "f" or not given:
            return near
        near = replace(near, anew=_on(near.own, bounded(op, [n.anew for n in given], False)))
        if not isinstance(op, t.Map):
            return near
        _bounded(bounded(op, [n.off(ELSEWHERE) for n in given], False))
        return self._apart(near, probes)

    def _made(self, op: Op, given: Sequence[_Near]) -> tuple[Any, list[Any]]:
        """What ``op`` gives and may err by itself, and gives for the probes before they are moved."""
        off = [n.off() for n in given]
        if op in self._loose and not off[0].exact and off[0].x.dtype.kind == "f":  # probes do not know what is not decided
            scaled = bounded(op, off, True)
            return replace(scaled, e=scaled.bound() - off[0].bound()), list(given[0].probes)
        if _decides(op, given):  # where its operands are off it may decide otherwise, and that it does by itself
            own = bounded(op, off, False)
            return own, [tuple(v.x for v in own) if isinstance(own, tuple) else own.x] * len(SIGNS)
        own = bounded(op, [n.alone for n in given], False)
        if isinstance(own, Val) and own.x.dtype.kind == "f" and any(n.is_lost for n in given):
            there = bounded(op, [n.moved_up for n in given], False).bound()
            own = replace(own, e=np.maximum(own.bound(), np.where(np.isfinite(there), there, 0.0)))
        return own, together.apply(op, [[n.probes[i] for n in given] for i in range(len(SIGNS))])

    def _near(self, own: Val, probes: Sequence[np.ndarray]) -> _Near:
        return in_slabs(self._near_in_slab, (own, *probes), own.x.shape)

    def _near_in_slab(self, own: Val, *probes: np.ndarray) -> _Near:
        moved = tuple(s.moved(p, own) for s, p in zip(self._signs, probes, strict=True))
        farthest = np.maximum.reduce([distance(p, own.x) for p in moved]) if own.x.dtype.kind == "f" else 0.0
        return _Near(own, moved, farthest, own)

    def _behind_the_kink(self, op: Op, own: Val, given: Sequence[_Near], probes: Sequence[np.ndarray]) -> Val:
        """``own``, off as much more as its operands make it where they are ``FARTHEST`` as far off as the probes'."""
        reach = bounded(op, [replace(n.own, e=FARTHEST * np.asarray(n.farthest)) for n in given], False).bound() / FARTHEST
        more = reach - np.maximum.reduce([distance(p, own.x) for p in probes])
        more = np.where(np.isfinite(more) & (more > accuracy.unit("f32") * reach), more, 0.0)
        return replace(own, e=own.e + more) if more.any() else own

    def _doubt(self, op: Op, own: Val, given: Sequence[_Near]) -> Any:
        """How far the result is off at its worst for what was decided otherwise before.  Probes see too little of it: what is
        decided is one thing or the other, and of many such any may be together in a sum, in which those of a probe cancel."""
        if own.x.dtype.kind != "f" or _decides(op, given):
            return own.e
        if not any(np.any(n.doubtful.e) for n in given):
            return 0.0
        most = bounded(op, [n.doubtful for n in given], False)
        least = bounded(op, [replace(n.own, e=0.0) for n in given], False)
        doubt = most.bound() - least.bound()
        if isinstance(op, t.Map) and op.fn == "select":  # two ways that meet, as at a kink, are apart by what probes see
            _, yes, no = given
            doubt = np.where(doubt > yes.off().bound() + no.off().bound(), doubt, 0.0)
        return np.where(np.isfinite(doubt), doubt, 0.0)

    def _apart(self, near: _Near, probes: Sequence[np.ndarray]) -> _Near:
        """``near``, as far off at least as what is computed twice is from itself.  Where that meets itself again the errors
        of a probe that is moved one way cancel, and those of a kernel that has computed it anew do not."""
        anew = np.where(np.isfinite(near.own.x), near.anew.bound(), 0.0)
        same = np.maximum(*(distance(p, near.own.x) for p in near.probes[:ONE_WAY])) < ALIKE * anew
        if not same.any():
            return near
        more = self._near(replace(near.own, e=np.where(same, anew, near.own.bound())), probes)
        return replace(more, anew=near.anew, doubt=near.doubt)


def _of_both(own: Val, a: _Near, b: _Near) -> Val:
    """``own`` of a product, and what the errors of both factors make together: nothing beside the numbers themselves, unless
    the errors are as large.  Then probes may show one that is off where the other happens to be zero."""
    both = FARTHEST * np.asarray(a.farthest) * b.farthest
    both = np.where(np.isfinite(both) & (both > accuracy.unit("f32") * np.abs(own.x)), both, 0.0)
    return replace(own, e=own.e + both) if both.any() else own


def _on(own: Val, anew: Val) -> Val:
    """``anew`` with the same array of exact values as ``own``, where it has the same numbers."""
    return replace(anew, x=own.x) if np.array_equal(own.x, anew.x, equal_nan=own.x.dtype.kind == "f") else anew


def _decides(op: Op, given: Sequence[_Near]) -> bool:
    """Whether the result changes at once where floats change a little."""
    if not any(isinstance(n, _Near) and n.own.x.dtype.kind == "f" for n in given):
        return False
    if not isinstance(op, _SMOOTH) or (isinstance(op, t.Map) and op.fn in JUMPS):
        return True
    return not isinstance(op, Result | t.Recur) and not DTYPES[dtype_of(op)].is_float


def _bounded(v: Val) -> Val:
    """``v``, whose numbers all have a bound.  Raises :class:`_Open` where one has none."""
    if v.choice is None and bool(np.any(v.open() & np.isfinite(v.x.astype(np.float64)))):
        raise _Open
    return v
