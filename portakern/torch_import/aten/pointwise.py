"""Arithmetic of single elements."""

from __future__ import annotations

import math
from typing import Any

from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.rules import RULES, Call, Rule, is_float, rule, spread, truth, value
from portakern.torch_import.types import NotImported

UNARY = {
    "aten.abs": "abs", "aten.ceil": "ceil", "aten.cos": "cos", "aten.erf": "erf", "aten.exp": "exp", "aten.exp2": "exp2",
    "aten.expm1": "expm1", "aten.floor": "floor", "aten.log": "log", "aten.log1p": "log1p", "aten.log2": "log2",
    "aten.neg": "neg", "aten.reciprocal": "reciprocal", "aten.round": "round", "aten.rsqrt": "rsqrt",
    "aten.sigmoid": "sigmoid", "aten.sign": "sign", "aten.sin": "sin", "aten.sqrt": "sqrt", "aten.tanh": "tanh",
    "aten.trunc": "trunc",
}  # fmt: skip
"""Functions of one element that both have."""

WHOLE = ("floor", "ceil", "round", "trunc")
"""What leaves integers as they are."""


def _unary(fn: str) -> Rule:
    def apply(call: Call, x: Traced) -> Traced:
        if not is_float(call.dtype) and (fn in WHOLE or x.type.dtype == "bool"):
            return x
        return ew.elementwise(fn, x, dtype=call.dtype)

    return apply


RULES.update({name: _unary(fn) for name, fn in UNARY.items()})


@rule("aten.round.decimals")
def _(call: Call, x: Traced, decimals: int = 0) -> Traced:
    if not is_float(call.dtype):
        return x
    scale = 10.0 ** abs(decimals)
    up, down = (ew.multiply, ew.divide) if decimals >= 0 else (ew.divide, ew.multiply)
    return down(ew.round(up(x, scale)), scale)


@rule("aten.log10")
def _(call: Call, x: Traced) -> Traced:
    return ew.multiply(ew.log(value(x, call.dtype)), 1 / math.log(10))


@rule("aten.square")
def _(call: Call, x: Traced) -> Traced:
    return ew.square(value(x, call.dtype))


@rule("aten.erfc")
def _(call: Call, x: Traced) -> Traced:
    return ew.subtract(1.0, ew.erf(value(x, call.dtype)))


@rule("aten.frac")
def _(call: Call, x: Traced) -> Traced:
    return ew.subtract(x, ew.trunc(x))


# ---- two elements ---------------------------------------------------------------------------------------------------

_OF_TRUTHS = {"add": "or", "mul": "and", "max": "or", "min": "and"}


def arithmetic(call: Call, fn: str, a: Any, b: Any) -> Traced:
    """``fn`` in the dtype of the result; of truths as logic."""
    fn = _OF_TRUTHS.get(fn, fn) if call.dtype == "bool" else fn
    return ew.elementwise(fn, value(a, call.dtype), value(b, call.dtype), dtype=call.dtype)


def _scaled(call: Call, b: Any, alpha: Any) -> Any:
    return b if alpha == 1 else ew.multiply(value(b, call.dtype), value(alpha, call.dtype))


@rule("aten.add")
def _(call: Call, a: Any, b: Any, alpha: Any = 1) -> Traced:
    return arithmetic(call, "add", a, _scaled(call, b, alpha))


@rule("aten.sub")
def _(call: Call, a: Any, b: Any, alpha: Any = 1) -> Traced:
    return arithmetic(call, "sub", a, _scaled(call, b, alpha))


@rule("aten.rsub")
def _(call: Call, a: Any, b: Any, alpha: Any = 1) -> Traced:
    return arithmetic(call, "sub", b, _scaled(call, a, alpha))


@rule("aten.mul")
def _(call: Call, a: Any, b: Any) -> Traced:
    return arithmetic(call, "mul", a, b)


@rule("aten.maximum")
def _(call: Call, a: Any, b: Any) -> Traced:
    return arithmetic(call, "max", a, b)


@rule("aten.minimum")
def _(call: Call, a: Any, b: Any) -> Traced:
    return arithmetic(call, "min", a, b)


@rule("aten.div")
def _(call: Call, a: Any, b: Any, rounding_mode: str | None = None) -> Traced:
    a, b = value(a, call.dtype), value(b, call.dtype)
    if rounding_mode == "floor":
        return ew.floor_divide(a, b)
    quotient = ew.elementwise("div", a, b, dtype=call.dtype)  # of integers towards zero
    return ew.trunc(quotient) if rounding_mode == "trunc" and is_float(call.dtype) else quotient


@rule("aten.floor_divide")
def _(call: Call, a: Any, b: Any) -> Traced:
    return ew.floor_divide(value(a, call.dtype), value(b, call.dtype))


@rule("aten.remainder")
def _(call: Call, a: Any, b: Any) -> Traced:
    return arithmetic(call, "rem", a, b)


@rule("aten.fmod")
def _(call: Call, a: Any, b: Any) -> Traced:
    """With the sign of ``a``: the remainder of absolute values."""
    a, b = value(a, call.dtype), value(b, call.dtype)
    size = ew.remainder(ew.abs(a), ew.abs(b))
    return ew.where(ew.less(a, 0), ew.negative(size), size)


@rule("aten.pow")
def _(call: Call, a: Any, b: Any) -> Traced:
    if isinstance(b, int | float) and not isinstance(b, bool):
        x = value(a, call.dtype)
        if b == 0:
            return spread(value(1, call.dtype), x.shape)
        return ew.pow(x, b)
    if not is_float(call.dtype):
        raise NotImported("powers of integers by arrays of integers")
    return ew.elementwise("pow", value(a, call.dtype), value(b, call.dtype), dtype=call.dtype)


@rule("aten.hypot")
def _(call: Call, a: Traced, b: Traced) -> Traced:
    """By the larger of both, so that squares do not overflow."""
    a, b = ew.abs(value(a, call.dtype)), ew.abs(value(b, call.dtype))
    large, small = ew.maximum(a, b), ew.minimum(a, b)
    share = ew.where(ew.greater(large, 0), ew.divide(small, large), 0.0)
    infinite = ew.equal(small, math.inf)
    return ew.where(infinite, small, ew.multiply(large, ew.sqrt(ew.add(1.0, ew.square(share)))))


@rule("aten.ldexp")
def _(call: Call, x: Traced, exponent: Traced) -> Traced:
    return ew.multiply(value(x, call.dtype), ew.exp2(value(exponent, call.dtype)))


# ---- limits and choices ---------------------------------------------------------------------------------------------


@rule("aten.clamp", "aten.clamp_min")
def _(call: Call, x: Traced, min: Any = None, max: Any = None) -> Traced:
    x = value(x, call.dtype)
    x = arithmetic(call, "max", x, min) if min is not None else x
    return arithmetic(call, "min", x, max) if max is not None else x


@rule("aten.clamp_max")
def _(call: Call, x: Traced, max: Any) -> Traced:
    return arithmetic(call, "min", x, max)


@rule("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def _(call: Call, condition: Traced, yes: Any, no: Any) -> Traced:
    chosen = ew.where(truth(condition), value(yes, call.dtype), value(no, call.dtype))
    return spread(chosen, call.shape)


@rule("aten.masked_fill")
def _(call: Call, x: Traced, mask: Traced, fill: Any) -> Traced:
    return spread(ew.where(mask, value(fill, call.dtype), x), call.shape)


@rule("aten._to_copy", "prims.convert_element_type")
def _(call: Call, x: Traced, *args: Any, **kwargs: Any) -> Traced:
    if call.dtype == "bool":
        return truth(x)
    return ew.cast(x, call.dtype)


SAME = ("aten.alias", "aten.clone", "aten.contiguous", "aten.detach", "aten.lift_fresh", "aten.lift_fresh_copy",
        "aten.positive")
"""What copies, or nothing at all."""


@rule(*SAME)
def _(call: Call, x: Traced, **kwargs: Any) -> Traced:
    return x


@rule("aten.copy")
def _(call: Call, x: Traced, source: Traced, non_blocking: bool = False) -> Traced:
    return spread(value(source, call.dtype), call.shape)


# ---- bits -----------------------------------------------------------------------------------------------------------


def _bitwise(fn: str) -> Rule:
    return lambda call, a, b: ew.elementwise(fn, value(a, call.dtype), value(b, call.dtype), dtype=call.dtype)


RULES.update({f"aten.bitwise_{fn}": _bitwise(fn) for fn in ("and", "or", "xor")})
RULES.update(dict.fromkeys(("aten.bitwise_left_shift", "aten.__lshift__"), _bitwise("shl")))
RULES.update(dict.fromkeys(("aten.bitwise_right_shift", "aten.__rshift__"), _bitwise("shr")))


@rule("aten.bitwise_not")
def _(call: Call, x: Traced) -> Traced:
    return ew.logical_not(x)
