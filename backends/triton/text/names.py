"""What a value is called that neither an array, a reduction nor a product gives its name to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from portakern.emit.python_like import hint_of
from portakern.ir.core import Arg, Op, Result
from portakern.ir.tile import (
    Binary,
    Bitcast,
    Broadcast,
    Cast,
    Compare,
    Const,
    Dot,
    Fma,
    For,
    Load,
    Mask,
    Permute,
    Reduce,
    Select,
    Unary,
    tile_type,
)

_RESULTS = {
    "add": "total", "sub": "diff", "mul": "scaled", "div": "ratio", "max": "larger", "min": "smaller", "rem": "remainder",
    "floordiv": "quotient", "pow": "power", "and": "bits", "or": "bits", "xor": "bits", "shl": "bits", "shr": "bits",
}  # fmt: skip
"""What the result of a function of two values is called."""

_NAMELESS = "t"
"""What :func:`hint_of` calls a value that it knows nothing of."""


def name_hint(op: Op, users: Callable[[Op], Sequence[Op]]) -> str:
    """A telling name: what :func:`hint_of` gives, and where that knows none what was done to what."""
    inner = op.x if isinstance(op, Cast) else op
    if isinstance(inner, Unary):
        return f"{inner.fn}_{_leaf(inner.x) or 'value'}"
    found = hint_of(op, users)
    return _result(op) if found == _NAMELESS else found


def _result(op: Op) -> str:
    """What was done; casts and moves keep the name of what they take."""
    match op:
        case Compare():
            return "mask"
        case Binary(fn="and" | "or" | "xor") if tile_type(op).dtype == "bool":
            return "mask"
        case Mask(x=x, value=value):
            return _masked(x, value)
        case Select() if tile_type(op).dtype == "bool":
            return "mask"
        case Select(yes=yes, no=no) if (fill := _fill(no)) is not None:
            return _masked(yes, fill)
        case Select(condition=Compare(fn="eq", lhs=x)) if x in op.operands:
            return "shift"  # what is subtracted before an exponential, where that is no infinity
        case Select():
            return "selected"
        case Cast(x=x) | Bitcast(x=x) | Broadcast(x=x) | Permute(x=x):
            return _leaf(x) if isinstance(x, Arg | Result) else _result(x)
        case Binary(fn=fn):
            return _RESULTS.get(fn, fn)
        case Fma():
            return "total"
    return "value"


def _masked(x: Op, fill: float | int | bool) -> str:
    """``x`` with a constant in some places; what is masked with -inf are scores, of which a kernel has one kind."""
    leaf = _leaf(x)
    return f"masked_{leaf}" if leaf and fill != -math.inf else "masked"


def _fill(op: Op) -> float | int | bool | None:
    """The constant that every element is, if it is one."""
    while isinstance(op, Broadcast | Cast):
        op = op.x
    return op.value if isinstance(op, Const) else None


def _leaf(op: Op) -> str:
    """The name of what a value is computed from first: an array, a carried value, a reduction; empty where it has none."""
    seen: set[Op] = set()  # a search in an array uses each step twice in the next: 2^30 ways through thirty steps
    left = [op]
    while left:
        op = left.pop()
        if op in seen:
            continue
        seen.add(op)
        match op:
            case Load(buffer=Arg(name=name)) | Arg(name=name):
                return name
            case Result(source=For() as loop, index=index) if isinstance(arg := loop.body.args[index], Arg):
                return arg.name
            case Dot():
                return "product"
            case Reduce(fn=fn, axis=axis):
                return f"{fn}_{axis}"
            case Select():
                left += (op.no, op.yes)
            case _:
                left += reversed(op.operands)
    return ""
