"""Reverse mode: from the gradients of results back to those of what they were computed from, one operation at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from portakern.dtypes import DTYPES
from portakern.gradients import elementwise, moves, picks, products, reductions, running, steps
from portakern.gradients.normalisers import Normaliser, normaliser, of_normaliser
from portakern.gradients.rules import CONSTANT, Contributions, Piece, rule_of
from portakern.gradients.summing import summed
from portakern.ir import tensor as t
from portakern.ir.core import Block, ManyType, Op, Result, Yield, yielded
from portakern.ir.tensor import TensorType
from portakern.spec.location import on_behalf_of
from portakern.spec.traced import Traced, record

TABLES = (elementwise, moves, picks, products, reductions, running, steps)
"""The modules that hold the rules."""


class Reverse:
    """One walk back over ``ops``, which stand in order; ``wrt`` is what gradients are wanted of."""

    def __init__(self, ops: Sequence[Op], wrt: Iterable[Op]) -> None:
        self.ops, self.wrt = ops, tuple(wrt)
        self._active: set[Op] = set(self.wrt)
        for op in ops:
            if _has_derivative(op) and any(o in self._active for o in op.operands):
                self._active.add(op)
        self._shares: dict[Op, list[Traced | Piece]] = {}
        self._consumers: dict[Op, list[tuple[Op | None, Traced | None]]] = {}
        self._masked: set[Op] = set()

    def active(self, op: Op) -> bool:
        return op in self._active

    def masked(self, op: Op) -> bool:
        return op in self._masked

    def consumers(self, op: Op) -> Sequence[tuple[Op | None, Traced | None]]:
        return self._consumers.get(op, ())

    def seed(self, op: Op, gradient: Traced) -> None:
        """``gradient`` is one of those of ``op``."""
        self._shares.setdefault(op, []).append(gradient)
        self._consumers.setdefault(op, []).append((None, gradient))

    def run(self) -> None:
        for op in reversed(self.ops):
            if op not in self._active or op in self.wrt or isinstance(op, Result):
                continue
            with on_behalf_of(op.loc):
                self._back(op)

    def gradient(self, op: Op) -> Traced | None:
        """The whole gradient of ``op``, or ``None`` where no result depends on it."""
        shares = self._shares.get(op)
        if not shares:
            return None
        if len(shares) > 1 or isinstance(shares[0], Piece):
            with on_behalf_of(op.loc):
                shares[:] = [summed(shares, cast(TensorType, op.type))]
        return cast(Traced, shares[0])

    def shares(self, op: Op) -> list[Traced]:
        """The gradients whose sum is that of ``op``."""
        found = self._shares.get(op, [])
        return [summed([s], cast(TensorType, op.type)) for s in found]

    def _back(self, op: Op) -> None:
        if isinstance(op.type, ManyType):
            results = {r.index: self.gradient(r) for r in self.ops if isinstance(r, Result) and r.source is op}
            given = tuple(results.get(i) for i in range(len(op.type.types)))
            if any(g is not None for g in given):
                self._take(op, None, rule_of(op)(op, given, self))
            return
        g = self.gradient(op)
        if g is None:
            return
        found = normaliser(op)
        self._take(op, g, of_normaliser(found, g, self) if self._is_whole(found) else rule_of(op)(op, g, self))  # type: ignore

    def _is_whole(self, found: Normaliser | None) -> bool:
        """Whether what is normalised is what gradients go to: not where one is wanted of its parts."""
        return found is not None and self.active(found.s) and not self._between(found)

    def _between(self, found: Normaliser) -> bool:
        return any(op in self.wrt and op is not found.s for op in (found.total, *found.total.operands))

    def _take(self, op: Op, g: Traced | None, made: Contributions) -> None:
        masks = isinstance(op, t.Map) and op.fn == "select"
        for operand, share in made:
            if operand not in self._active:
                continue
            self._shares.setdefault(operand, []).append(share)
            self._consumers.setdefault(operand, []).append((op, g))
            if masks or (op in self._masked and not isinstance(op, t.Contract | t.Fold)):
                self._masked.add(operand)


def _has_derivative(op: Op) -> bool:
    if type(op) in CONSTANT or elementwise.changes_in_steps(op):
        return False
    types = op.type.types if isinstance(op.type, ManyType) else (op.type,)
    return any(isinstance(of, TensorType) and DTYPES[of.dtype].is_float for of in types)


def gradients(ops: Sequence[Op], results: Iterable[tuple[Op, Traced]], wrt: Sequence[Op]) -> list[Traced | None]:
    """The gradients of ``wrt`` for those of ``results`` that are given; ``None`` where no result depends on it."""
    walk = _walked(ops, results, wrt)
    return [walk.gradient(op) for op in wrt]


def _walked(ops: Sequence[Op], results: Iterable[tuple[Op, Traced]], wrt: Sequence[Op]) -> Reverse:
    walk = Reverse(ops, wrt)
    for op, gradient in results:
        if walk.active(op):
            walk.seed(op, gradient)
    walk.run()
    return walk


# ---- blocks ----------------------------------------------------------------------------------------------------------------


def replay(block: Block, args: Sequence[Traced]) -> tuple[list[Op], list[Op]]:
    """The operations of ``block`` once more, on ``args``, recorded; and what it gives."""
    new: dict[Op, Op] = dict(zip(block.args, (a.op for a in args), strict=True))
    made: list[Op] = []
    for op in block.ops:
        if not isinstance(op, Yield):
            new[op] = record(op.remap(lambda o: new.get(o, o)))
            made.append(new[op])
    return made, [new[v] for v in yielded(block)]


def replayed(block: Block, args: Sequence[Traced]) -> list[Traced]:
    return [Traced(v) for v in replay(block, args)[1]]


def shares_of_block(block: Block, args: Sequence[Traced], given: Sequence[Traced | None]) -> list[list[Traced]]:
    """For every argument of ``block`` at ``args`` the gradients whose sum is its own, for ``given`` ones of the results."""
    own = [Traced(op) for op in _apart(args)]
    ops, results = replay(block, own)
    floats = [a.op for a in own if DTYPES[a.type.dtype].is_float]
    walk = _walked(ops, [(r, g) for r, g in zip(results, given, strict=True) if g is not None], floats)
    return [walk.shares(a.op) if a.op in floats else [] for a in own]


def of_block(block: Block, args: Sequence[Traced], given: Sequence[Traced | None]) -> list[Traced | None]:
    """The gradients of the arguments of ``block`` at ``args`` for those of its results."""
    found: list[Traced | None] = []
    for shares in shares_of_block(block, args, given):
        total: Traced | None = None
        for share in shares:
            total = share if total is None else total + share
        found.append(total)
    return found


def _apart(args: Sequence[Traced]) -> list[Op]:
    """The arguments, each an operation of its own: one value given twice has two gradients."""
    seen: set[Op] = set()
    out: list[Op] = []
    for a in args:
        op = a.op
        if op in seen:
            op = record(t.Convert(op, a.type.dtype))
        seen.add(op)
        out.append(op)
    return out
