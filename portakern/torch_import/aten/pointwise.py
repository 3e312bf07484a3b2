"""Arithmetic of single elements."""

from __future__ import annotations

import math
from typing import Any

from portakern.dtypes import DTYPES
from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.rules import RULES, Call, Rule, is_float, rule, spread, truth, value

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
        return _whole_power(call, value(a, call.dtype), value(b, call.dtype))
    return ew.elementwise("pow", value(a, call.dtype), value(b, call.dtype), dtype=call.dtype)


def _whole_power(call: Call, a: Traced, b: Traced) -> Traced:
    """By squares for the bits of the exponent; of negative exponents all but powers of 1 and -1 are 0."""
    bits = DTYPES[call.dtype].bits.bit_length() - 1  # more than all bits overflow, but for 0, 1 and -1
    result, square = spread(value(1, call.dtype), call.shape), a
    for bit in range(bits):
        set_ = ew.not_equal(_and(b, 1 << bit), 0)
        result = ew.where(set_, ew.multiply(result, square), result)
        square = ew.multiply(square, square)
    large = ew.greater_equal(b, 1 << bits)
    unit, odd = ew.equal(ew.abs(a), 1), ew.not_equal(_and(b, 1), 0)
    sign = ew.where(ew.logical_and(odd, ew.less(a, 0)), -1, 1)
    result = ew.where(large, ew.where(unit, sign, 0), result)
    return ew.where(ew.less(b, 0), ew.where(unit, sign, 0), result)


def _and(a: Traced, mask: int) -> Traced:
    return ew.elementwise("and", a, value(mask, a.type.dtype), dtype=a.type.dtype)


@rule("aten.gcd")
def _(call: Call, a: Traced, b: Traced) -> Traced:
    return _divisor(value(a, call.dtype), value(b, call.dtype))


@rule("aten.lcm")
def _(call: Call, a: Traced, b: Traced) -> Traced:
    a, b = value(a, call.dtype), value(b, call.dtype)
    common = _divisor(a, b)
    return ew.abs(ew.multiply(ew.floor_divide(a, ew.maximum(common, 1)), b))


def _divisor(a: Traced, b: Traced) -> Traced:
    """Euclid's algorithm, with as many steps as two neighbouring Fibonacci numbers of these bits take."""
    a, b = ew.abs(a), ew.abs(b)
    for _ in range({8: 12, 16: 23, 32: 46, 64: 92}[DTYPES[a.type.dtype].bits]):
        done = ew.equal(b, 0)
        a, b = ew.where(done, a, b), ew.where(done, 0, ew.remainder(a, ew.where(done, 1, b)))
    return a


@rule("aten.copysign")
def _(call: Call, a: Traced, b: Any) -> Traced:
    size = ew.abs(value(a, call.dtype))
    return spread(ew.where(is_negative(value(b, call.dtype)), ew.negative(size), size), call.shape)


def is_negative(x: Traced) -> Traced:
    """Whether a number has a sign, as -0 has: its reciprocal is below 0."""
    if not is_float(x.type.dtype):
        return ew.less(x, 0)
    return ew.less(ew.where(ew.equal(x, 0.0), ew.divide(1.0, x), x), 0.0)


@rule("aten.nextafter")
def _(call: Call, a: Traced, b: Traced) -> Traced:
    """The bits of the number, as an integer, one more or less; of 0 the least number with the other's sign."""
    a, b = (spread(value(v, call.dtype), call.shape) for v in (a, b))
    whole = {16: "i16", 32: "i32", 64: "i64"}[DTYPES[call.dtype].bits]
    away = ew.equal(ew.greater(b, a), ew.greater(a, 0.0))
    moved = ew.bitcast(ew.add(ew.bitcast(a, whole), ew.where(away, value(1, whole), value(-1, whole))), call.dtype)
    least = ew.bitcast(spread(value(1, whole), call.shape), call.dtype)
    moved = ew.where(ew.equal(a, 0.0), ew.where(ew.less(b, 0.0), ew.negative(least), least), moved)
    unordered = ew.logical_or(ew.isnan(a), ew.isnan(b))
    return ew.where(unordered, math.nan, ew.where(ew.equal(a, b), b, moved))


@rule("aten.fmax")
def _(call: Call, a: Traced, b: Traced) -> Traced:
    return _without_nan(call, "max", a, b)


@rule("aten.fmin")
def _(call: Call, a: Traced, b: Traced) -> Traced:
    return _without_nan(call, "min", a, b)


def _without_nan(call: Call, fn: str, a: Traced, b: Traced) -> Traced:
    a, b = value(a, call.dtype), value(b, call.dtype)
    both = arithmetic(call, fn, a, b)
    return ew.where(ew.isnan(a), b, ew.where(ew.isnan(b), a, both)) if is_float(call.dtype) else both


@rule("aten.frexp")
def _(call: Call, x: Traced) -> tuple[Traced, Traced]:
    """A number from 1/2 to below 1, and the power of 2: by its logarithm, which is put right where it was rounded."""
    x = value(x, call.dtype)
    plain = ew.logical_and(ew.not_equal(x, 0.0), ew.less(ew.abs(x), math.inf))
    size = ew.where(plain, ew.abs(x), 0.5)
    power = ew.add(ew.floor(ew.log2(size)), 1.0)
    half = ew.multiply(power, 0.5)
    down = ew.floor(half)
    part = ew.multiply(ew.multiply(size, ew.exp2(ew.negative(down))), ew.exp2(ew.subtract(down, power)))
    for wrong, factor, step in ((ew.greater_equal(part, 1.0), 0.5, 1.0), (ew.less(part, 0.5), 2.0, -1.0)):
        part, power = ew.where(wrong, ew.multiply(part, factor), part), ew.where(wrong, ew.add(power, step), power)
    part = ew.where(ew.less(x, 0.0), ew.negative(part), part)
    return ew.where(plain, part, x), ew.cast(ew.where(plain, power, 0.0), "i32")


@rule("aten.hypot")
def _(call: Call, a: Traced, b: Traced) -> Traced:
    """By the larger of both, so that squares do not overflow."""
    a, b = ew.abs(value(a, call.dtype)), ew.abs(value(b, call.dtype))
    large, small = ew.maximum(a, b), ew.minimum(a, b)
    share = ew.where(ew.greater(large, 0), ew.divide(small, large), 0.0)
    infinite = ew.logical_or(ew.equal(a, math.inf), ew.equal(b, math.inf))
    return ew.where(infinite, math.inf, ew.multiply(large, ew.sqrt(ew.add(1.0, ew.square(share)))))


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
