"""Results of 64-bit integers that devices without such compute as pairs of words: bits, shifts, sums, what is moved."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.ir.core import Arg, Op
from portakern.ir.tensor import (
    Assemble,
    Concat,
    Convert,
    DimSize,
    Expand,
    Flip,
    Gather,
    Iota,
    Literal,
    Map,
    PadWith,
    Reshape,
    Slice,
    Transpose,
    tensor_type,
)

FUNCTIONS = frozenset({"and", "or", "xor", "not", "neg", "add", "sub", "max", "min"})
"""Functions of pairs of words that give a pair."""


def has_words(op: Op) -> bool:
    """Whether ``op``, an i64, is made of inputs and of shorter integers by what pairs of words can say."""
    waiting, seen = [op], set()
    while waiting:
        op = waiting.pop()
        if op in seen or tensor_type(op).dtype != "i64":
            continue
        seen.add(op)
        if (sources := _sources(op)) is None:
            return False
        waiting += sources
    return True


def _sources(op: Op) -> Sequence[Op] | None:
    """What has to have words, too; ``None`` where ``op`` has none."""
    match op:
        case Arg() | Literal() | DimSize() | Iota():
            return ()
        case Convert():
            return () if tensor_type(op.x).dtype in ("i32", "i16", "i8", "u8", "bool") else None
        case Expand() | Reshape() | Transpose() | Slice() | Flip() | PadWith() | Gather():
            return (op.x,)
        case Concat() | Assemble():
            return op.parts
        case Map(fn="select"):
            return op.args[1:]
        case Map(fn="shl" | "shr"):
            return op.args[:1] if isinstance(_number(op.args[1]), Literal) else None
        case Map() if op.fn in FUNCTIONS:
            return op.args
    return None


def _number(op: Op) -> Op:
    return _number(op.x) if isinstance(op, Expand) else op
