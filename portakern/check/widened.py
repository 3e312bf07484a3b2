"""A tensor program in float64: what an array library computes of it is as good as exact beside a kernel in fewer bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from portakern.dtypes import DTYPES, numpy_dtype
from portakern.ir.core import Arg, Block, ManyType, Op
from portakern.ir.tensor import BitConvert, Literal, TensorProgram, TensorType


def widened(program: TensorProgram) -> TensorProgram | None:
    """``program`` with f64 wherever it has f32; ``None`` where it has no f32, rounds to a narrower dtype on its way, or looks
    at the bits of a number: wider, it would be another computation."""
    ops = (*program.args, *program.body.walk())
    dtypes = {t.dtype for op in ops for t in _types(op) if DTYPES[t.dtype].is_float}
    bits = {t.dtype for op in ops if isinstance(op, BitConvert) for o in (op, op.x) for t in _types(o)}
    if "f32" not in dtypes - bits or not dtypes <= {"f32", "f64"}:
        return None
    return replace(program, body=_block(program.body))


def unrounded(program: TensorProgram) -> TensorProgram | None:
    """``program`` with f64 for every float, so that nothing is rounded on its way; ``None`` where it has no narrower floats, or
    looks at the bits of one.  What it computes is no reference, but says which of two results is nearer (:mod:`nearer`)."""
    ops = (*program.args, *program.body.walk())
    narrow = any(DTYPES[t.dtype].is_float and t.dtype != "f64" for op in ops for t in _types(op))
    bits = any(isinstance(op, BitConvert) and DTYPES[t.dtype].is_float for op in ops for o in op.operands for t in _types(o))
    return replace(program, body=_block(program.body)) if narrow and not bits else None


def _block(block: Block) -> Block:
    new: dict[Op, Op] = {}
    for arg in block.args:
        assert isinstance(arg, Arg)
        (have,) = _types(arg)
        new[arg] = replace(arg, of=replace(have, dtype=_wider(have.dtype)))
    for op in block.ops:
        new[op] = _op(op, new)
    return Block(tuple(new[a] for a in block.args), tuple(new[op] for op in block.ops))


def _op(op: Op, new: dict[Op, Op]) -> Op:
    """``op`` of widened operands, and of a wider dtype where it names one, at once: one without the other is no operation."""
    changed: dict[str, Any] = {}
    for name, role in op.roles.items():
        old = getattr(op, name)
        if role == "operand" or (role == "optional" and old):
            changed[name] = new.get(old, old)
        elif role == "operands":
            changed[name] = tuple(new.get(o, o) for o in old)
        elif role == "region":
            changed[name] = _block(old)
        elif name == "dtype":
            changed[name] = _wider(old)
    if isinstance(op, Literal) and DTYPES[op.dtype].is_float:
        with np.errstate(over="ignore"):
            changed["value"] = float(numpy_dtype(op.dtype).type(op.value))  # the constant that the program has
    return replace(op, **changed)


def _wider(dtype: str) -> str:
    return "f64" if DTYPES[dtype].is_float else dtype


def _types(op: Op) -> tuple[TensorType, ...]:
    kinds = op.type.types if isinstance(op.type, ManyType) else (op.type,)
    return tuple(t for t in kinds if isinstance(t, TensorType))
