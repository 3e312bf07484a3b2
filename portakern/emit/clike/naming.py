"""Names and comments for values, from what they are made of: ``exp_x``, ``row_mean``, ``masked_q_k``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from portakern.emit.clike.layouts import dims_of, floating
from portakern.ir import tile as t
from portakern.ir.core import Op

_SHORT = {"add": "sum", "sub": "difference", "mul": "product", "div": "quotient", "max": "larger", "min": "smaller",
          "pow": "power", "and": "both", "or": "either"}  # fmt: skip


def wishes(op: Op, variable: Mapping[Op, str]) -> list[str]:
    """Names for the value of a region, best first; ``variable`` gives those of earlier values."""
    stem = base(op, variable)
    match op:
        case t.Unary(fn=fn):
            return [f"{fn}_{stem}"]
        case t.Binary(fn="div", lhs=t.Reduce(fn="sum") as x, rhs=n) if (floating(n) or _counted(n)) and x in variable:
            return [variable[x].replace("sum", "mean"), f"{stem}_mean"]  # a sum over a count
        case t.Binary(fn="mul", lhs=x, rhs=y) if x is y:
            return [f"{stem}_squared"]
        case t.Binary(fn=fn):
            return [f"{stem}_{_SHORT.get(fn, fn)}"]
        case t.Cast(dtype=dtype):
            return [f"{stem}_{dtype}"]
        case t.Mask():
            return [f"masked_{stem}"]
        case t.Compare(fn=fn):
            return [f"{stem}_{fn}"]
        case t.Select(yes=t.Const(value=value)) | t.Select(no=t.Const(value=value)) if abs(value) == math.inf:
            return [f"masked_{stem}"]
        case t.Select(yes=t.Const(value=value)) | t.Select(no=t.Const(value=value)):
            return [f"{stem}_or_{str(value).removesuffix('.0').replace('-', 'minus_')}"]
    return [f"{stem}_value"]


def base(op: Op, variable: Mapping[Op, str]) -> str:
    """The short word for what ``op`` was made from."""
    while True:
        if isinstance(op, t.Load):
            return variable.get(op.buffer, "value")
        if op in variable:
            name = re.sub(r"^(masked|new)_|_(f64|f32|f16|bf16|tile)$", "", variable[op])
            return name if len(name) <= 12 else name.split("_")[-1]
        shaped = [x for x in op.operands if not floating(x)]
        if isinstance(op, t.Select):
            shaped = [x for x in (op.yes, op.no, op.condition) if not floating(x)]
        if not shaped:
            return _leaf(op)
        op = max(shaped, key=lambda x: len(dims_of(x)))


def _leaf(op: Op) -> str:
    """A word for a value made of constants."""
    for x in (op, *op.operands):
        if isinstance(x, t.Cast):
            x = x.x
        if isinstance(x, t.Extent | t.Const):
            return str(x.size if isinstance(x, t.Extent) else x.value).removesuffix(".0").replace("-", "minus_")
    return "value"


def local_wishes(op: Op, variable: Mapping[Op, str]) -> list[str]:
    """Names for a value inside a map, best first."""
    match op:
        case t.Unary(fn=fn):
            return [fn if fn not in ("neg", "not") else "negated", fn + "_value"]
        case t.Binary(fn=fn):
            return [_SHORT.get(fn, fn), _SHORT.get(fn, fn) + "_value"]
        case t.Cast(x=x, dtype=dtype):
            return [f"{base(x, variable)}_{dtype}"]
        case t.Compare():
            return ["condition"]
        case t.Select():
            return ["chosen"]
    return ["value"]


def note(root: Op, members: frozenset[Op]) -> str:
    """What the author of a kernel would say about a map: why it masks, why it guards."""
    match root:
        case t.Select(condition=t.Compare(fn="eq", lhs=x, rhs=bound), yes=zero, no=same) if x is same:
            if _constant(bound) == -math.inf and _constant(zero) == 0:
                return "nothing but -inf so far: shift by 0, since -inf - -inf would be NaN"
        case t.Binary(fn="sub", lhs=x, rhs=y) if x is y and t.tile_type(x).dtype in ("f32", "f64"):
            return "0 where it is finite, else NaN"
    masks = {(op.axis, op.value) for op in members if isinstance(op, t.Mask)}
    return "; ".join(f"beyond the end of {axis}: {value:g}" for axis, value in sorted(masks))


def ones(op: Op) -> bool:
    """Whether ``op`` is 1 for every element there is, so that its sum counts them."""
    return _constant(op.x if isinstance(op, t.Mask) else op) == 1


def _counted(op: Op) -> bool:
    """Whether ``op`` is how many elements there are, at least one."""
    return isinstance(op, t.Binary) and op.fn == "max" and any(isinstance(x, t.Reduce) and ones(x.x) for x in op.operands)


def _constant(op: Op) -> float | None:
    while isinstance(op, t.Broadcast):
        op = op.x
    return float(op.value) if isinstance(op, t.Const) else None
