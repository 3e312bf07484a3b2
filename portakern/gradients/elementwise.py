"""Elementwise functions: the gradient of the result times the derivative.

Where the gradient comes through a selection (``pk.where(x > 0, pk.log(x), 0)``), elements that were not selected have a
gradient of 0, and stay 0 whatever the derivative is there: 0 times infinity would be NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from portakern.dtypes import DTYPES
from portakern.gradients.rules import Contributions, Walk, rule
from portakern.ir import tensor as t
from portakern.ir.core import Op
from portakern.ir.tensor import tensor_type
from portakern.spec import elementwise as ew
from portakern.spec import reductions
from portakern.spec.elementwise import exp, log, where
from portakern.spec.traced import Traced

Derivative = Callable[..., Traced]  # of the gradient of the result, the operands, and the result

LN2 = math.log(2)

UNARY: dict[str, Derivative] = {
    "neg": lambda g, x, y: -g,
    "abs": lambda g, x, y: g * ew.sign(x),
    "exp": lambda g, x, y: g * y,
    "exp2": lambda g, x, y: g * y * LN2,
    "expm1": lambda g, x, y: g * (y + 1),
    "log": lambda g, x, y: g / x,
    "log2": lambda g, x, y: g / (x * LN2),
    "log1p": lambda g, x, y: g / (x + 1),
    "sqrt": lambda g, x, y: g * 0.5 / y,
    "rsqrt": lambda g, x, y: g * -0.5 * y * y * y,
    "reciprocal": lambda g, x, y: -g * y * y,
    "tanh": lambda g, x, y: g * (1 - y * y),
    "sigmoid": lambda g, x, y: g * y * (1 - y),
    "erf": lambda g, x, y: g * (2 / math.sqrt(math.pi)) * exp(-x * x),
    "sin": lambda g, x, y: g * ew.cos(x),
    "cos": lambda g, x, y: -g * ew.sin(x),
}
"""Functions of one element."""

BINARY: dict[str, tuple[Derivative, Derivative]] = {
    "add": (lambda g, a, b, y: g, lambda g, a, b, y: g),
    "sub": (lambda g, a, b, y: g, lambda g, a, b, y: -g),
    "mul": (lambda g, a, b, y: g * b, lambda g, a, b, y: g * a),
    "div": (lambda g, a, b, y: g / b, lambda g, a, b, y: -g * y / b),
    "max": (lambda g, a, b, y: _of_extreme(g, a > b, a, b), lambda g, a, b, y: _of_extreme(g, b > a, b, a)),
    "min": (lambda g, a, b, y: _of_extreme(g, a < b, a, b), lambda g, a, b, y: _of_extreme(g, b < a, b, a)),
    "pow": (lambda g, a, b, y: where(b == 0, 0.0, g * b * ew.pow(a, b - 1)),
            lambda g, a, b, y: where((a == 0) & (b >= 0), 0.0, g * y * log(a))),
    "rem": (lambda g, a, b, y: g, lambda g, a, b, y: -g * ew.floor(a / b)),
}  # fmt: skip
"""Functions of two: the gradients of both operands."""

STEPS = frozenset({"floor", "ceil", "trunc", "round", "sign", "floordiv", "isnan", "not", "and", "or", "xor", "shl", "shr"})
"""Functions that change in steps alone: their derivative is zero.  So is that of comparisons."""

LINEAR = frozenset({"neg", "add", "sub"})
"""Functions whose derivative is a number, which times 0 is 0."""


def _of_extreme(g: Traced, wins: Traced, mine: Traced, other: Traced) -> Traced:
    """Of equal numbers each has half of it, as in PyTorch; nothing where the other one is a constant, as in ``relu`` at 0."""
    if is_constant(other.op):
        return where(wins, g, 0.0)
    return where(wins, g, where(mine == other, g * 0.5, 0.0))


def is_constant(op: Op) -> bool:
    """Whether ``op`` is made of numbers and sizes alone, elementwise."""
    return isinstance(op, t.Literal | t.DimSize | t.Map | t.Convert | t.Expand) and all(map(is_constant, op.operands))


@rule(t.Map)
def _(op: t.Map, g: Traced, walk: Walk) -> Contributions:
    y, args = Traced(op), [Traced(a) for a in op.args]
    if op.fn == "select":
        condition, yes, no = args
        yield yes.op, fitted(where(condition, g, 0.0), yes)
        yield no.op, fitted(where(condition, 0.0, g), no)
        return
    rules = (UNARY[op.fn],) if op.fn in UNARY else BINARY.get(op.fn, ())
    for x, of in zip(args, rules, strict=True):
        if walk.active(x.op):
            made = of(g, *args, y)
            yield x.op, fitted(_guarded(made, g) if walk.masked(op) and not _is_scaling(op, x.op) else made, x)


def _is_scaling(op: t.Map, x: Op) -> bool:
    """Whether the derivative for ``x`` is a number."""
    others = [a for a in op.args if a is not x]
    return op.fn in LINEAR or (op.fn in ("mul", "div") and len(others) == 1 and is_constant(others[0]) and x is op.args[0])


def _guarded(made: Traced, g: Traced) -> Traced:
    return where(g == 0, 0.0, made)


def fitted(g: Traced, x: Traced) -> Traced:
    """``g`` as the gradient of ``x``, which is a scalar where ``g`` may have dims."""
    return reductions.sum(g) if g.shape and not x.shape else g


@rule(t.Convert)
def _(op: t.Convert, g: Traced, walk: Walk) -> Contributions:
    yield op.x, ew.cast(g, tensor_type(op.x).dtype)


def changes_in_steps(op: Op) -> bool:
    """Whether the derivative of ``op`` is zero because it changes in steps alone, as conversions to integers do."""
    if isinstance(op, t.Map):
        return op.fn in STEPS or not DTYPES[tensor_type(op).dtype].is_float
    return isinstance(op, t.Convert) and not DTYPES[op.dtype].is_float
