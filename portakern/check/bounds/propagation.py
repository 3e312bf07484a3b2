"""From the bounds of a program's inputs to those of its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from portakern.check import accuracy
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Arg, Op, Yield
from portakern.ir.tensor import TensorProgram, tensor_type

# Importing these fills RULES.
from . import contractions, elementwise, moves, recurrences, reductions, segments  # noqa: F401
from .conversion import rounded_at_some_scale
from .rules import RULES
from .value import Val


def propagate(program: TensorProgram, inputs: Mapping[str, np.ndarray]) -> dict[str, Val]:
    """Each output of ``program``, whose dims are bound, with its bound; evaluated in float64."""
    values: dict[Op, Any] = {a: _input(a, inputs) for a in program.args}
    loose = _contraction_only(program)
    with np.errstate(all="ignore"):
        for op in program.body.ops:
            if isinstance(op, Yield):
                continue
            args = [values[o] for o in op.operands]
            if isinstance(op, t.Convert) and op in loose:
                values[op] = rounded_at_some_scale(op, args[0])
            else:
                values[op] = RULES[type(op)](op, *args)
    return {name: values[op] for name, op in zip(program.outputs, program.results, strict=True)}


def _input(arg: Arg, inputs: Mapping[str, np.ndarray]) -> Val:
    x = oracle.read_input(arg, inputs)
    dtype = tensor_type(arg).dtype
    if x.dtype.kind != "f" or not x.size:
        return Val(x)
    size = np.abs(x)
    flushed = (size < accuracy.smallest_normal(dtype)) & (size > 0)
    return Val(x, np.where(flushed, size, 0.0)) if flushed.any() else Val(x)


_PRODUCTS = (t.Contract, t.SegmentContract, t.Convolve)
_VIEWS = (t.Transpose, t.Reshape, t.Expand, t.Slice)


def _contraction_only(program: TensorProgram) -> set[Op]:
    """Narrowing conversions whose every use, seen through views, is as the operand of a contraction."""
    users: dict[Op, list[Op]] = {}
    for op in program.body.ops:
        for o in op.operands:
            users.setdefault(o, []).append(op)

    def only(op: Op) -> bool:
        return all(isinstance(u, _PRODUCTS) or (isinstance(u, _VIEWS) and only(u)) for u in users[op])

    return {op for op in program.body.ops if isinstance(op, t.Convert) and users.get(op) and only(op)}
