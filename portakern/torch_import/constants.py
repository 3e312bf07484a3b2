"""What follows from no input: tables of indices and masks that a module makes of nothing at every call.

PyTorch exports how it makes them.  Integers and truths are evaluated here, once, and are constants of the graph like those that
PyTorch lifts out of the code; what is a few comparisons of coordinates, as a causal mask, stays what it is, since a kernel
computes it faster than it reads it.  Floats stay too: they are rounded as the kernels round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from portakern.dtypes import DTYPES
from portakern.ir import oracle
from portakern.ir.core import Arg, Block, ManyType, Op, Yield
from portakern.ir.rewrite import canonicalise
from portakern.ir.size import Size, Sym
from portakern.ir.tensor import (
    BitConvert,
    Convert,
    DimSize,
    Expand,
    Iota,
    Literal,
    Map,
    RandomBits,
    Reshape,
    Slice,
    TensorProgram,
    TensorType,
    Transpose,
    tensor_type,
)

INLINE = (Literal, Iota, Map, Convert, BitConvert, Expand, Reshape, Transpose, Slice)
"""Operations that a kernel does where it reads their result."""

FEW = 12
"""How many operations on elements are computed anew rather than read."""

LARGEST = 1 << 24
"""Elements of a constant that is kept."""


def with_constants(program: TensorProgram, known: Mapping[str, np.ndarray], named: str = "constant"
                   ) -> tuple[TensorProgram, dict[str, np.ndarray]]:  # fmt: skip
    """``program`` with constants as further inputs in place of what computes them, and their values by name.

    ``known`` are values of inputs that never change.
    """
    constant = _Constants(program, known)
    taken = {a.name for a in program.args} | set(program.dims)
    names = (n for n in (f"{named}_{i}" for i in count()) if n not in taken)
    found: dict[str, np.ndarray] = {}
    made: dict[Op, Op] = {}
    for op in constant.worth_keeping():
        name = next(names)
        found[name] = constant.value(op)
        made[op] = Arg(name, tensor_type(op), loc=op.loc)
    if not made:
        return program, {}
    new: dict[Op, Op] = dict(made)
    ops = [new.setdefault(op, op.remap(lambda o: new.get(o, o))) for op in program.body.ops if op not in made]
    args = (*program.args, *(a for a in made.values() if isinstance(a, Arg)))
    return canonicalise(replace(program, body=Block(args, tuple(ops)))), found


class _Constants:
    """The operations of a program that follow from no input, and their values."""

    def __init__(self, program: TensorProgram, known: Mapping[str, np.ndarray]) -> None:
        self.program = program
        self.values: dict[Op, Any] = {a: oracle.read_input(a, known) for a in program.args if a.name in known}
        self.work: dict[Op, frozenset[Op]] = {a: frozenset() for a in self.values}  # what is to be done for each
        for op in program.body.ops:
            if not isinstance(op, Yield | RandomBits) and not _is_open(op) and all(o in self.work for o in op.operands):
                self.work[op] = frozenset({op}).union(*(self.work[o] for o in op.operands))

    def worth_keeping(self) -> list[Op]:
        """The last ones that are worth it: of what reads them nothing is constant, or it is of floats."""
        found: dict[Op, None] = {}
        waiting = [o for op in self.program.body.ops if op not in self.work for o in op.operands if o in self.work]
        seen: set[Op] = set()
        while waiting:
            op = waiting.pop()
            if op in seen:
                continue
            seen.add(op)
            if not isinstance(op, Expand) and self._is_worth_it(op):
                found[op] = None
            else:
                waiting += op.operands
        return [op for op in self.program.body.ops if op in found]

    def _is_worth_it(self, op: Op) -> bool:
        if isinstance(op.type, ManyType) or DTYPES[tensor_type(op).dtype].is_float:
            return False
        if math.prod(oracle.static(tensor_type(op).shape)) > LARGEST:
            return False
        return sum(isinstance(o, Map) for o in self.work[op]) > FEW or any(not isinstance(o, INLINE) for o in self.work[op])

    def value(self, op: Op) -> np.ndarray:
        with np.errstate(all="ignore"):
            for o in self.program.body.ops:
                if (o in self.work[op] or o is op) and o not in self.values:
                    self.values[o] = oracle.apply(o, [self.values[x] for x in o.operands])
        return self.values[op]


def _is_open(op: Op) -> bool:
    """Whether an operation has a value only where open dims have one, or is a loop."""
    types = op.type.types if isinstance(op.type, ManyType) else (op.type,)
    sizes: list[Size] = [s for of in types if isinstance(of, TensorType) for s in of.shape]
    sizes += [op.size] if isinstance(op, DimSize) else []
    return any(isinstance(s, Sym) for s in sizes) or bool(op.regions)
