"""Values known while emitting: integers of loop bounds, and numbers computed from constants alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from portakern.ir.core import Op
from portakern.ir.tile import Axis, Binary, Broadcast, Cast, Const, Extent, Start, TileType, Unary

_UNARY: Mapping[str, Callable[[float], float]] = {
    "neg": lambda x: -x, "abs": abs, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "exp": math.exp,
    "log": math.log, "reciprocal": lambda x: 1 / x,
}  # fmt: skip

_BINARY: Mapping[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "max": max, "min": min,
}  # fmt: skip


def integer(op: Op | None, axes: Mapping[str, Axis]) -> int | None:
    """The value of an integer scalar that depends on no grid index and no open dim."""
    match op:
        case Const(value=int() as value) if not isinstance(value, bool):
            return value
        case Extent(size=int() as size):
            return size
        case Start(axis=axis) if axes[axis].steps == 1:
            return 0
        case Cast(x=x, dtype="i32" | "i64"):
            return integer(x, axes)
        case Binary(fn="add" | "sub" | "mul" | "max" | "min" as fn, lhs=lhs, rhs=rhs):
            a, b = integer(lhs, axes), integer(rhs, axes)
            return None if a is None or b is None else int(_BINARY[fn](a, b))
    return None


def number(op: Op) -> float | None:
    """The value of an f32 scalar that is computed from constants alone."""
    if not isinstance(op.type, TileType) or op.type.dims or op.type.dtype != "f32":
        return None
    return _number(op)


def _number(op: Op) -> float | None:
    match op:
        case Const(value=value) if not isinstance(value, bool):
            return float(value)
        case Extent(size=int() as size):
            return float(size)
        case Cast(x=x):
            return _number(x)
        case Unary(fn=fn, x=x) if fn in _UNARY and (value := _number(x)) is not None:
            return _defined(lambda: _UNARY[fn](value))
        case Binary(fn=fn, lhs=lhs, rhs=rhs) if fn in _BINARY:
            a, b = _number(lhs), _number(rhs)
            return None if a is None or b is None else _defined(lambda: _BINARY[fn](a, b))
    return None


def _defined(compute: Callable[[], float]) -> float | None:
    try:
        return compute()
    except (ArithmeticError, ValueError):
        return None


def filled_with(op: Op) -> Const | None:
    """The constant that every element of a tile is, if it is one."""
    while isinstance(op, Broadcast):
        op = op.x
    return op if isinstance(op, Const) else None
