"""Trigonometric and hyperbolic functions and their inverses, of what the tensor level has.

They are exact to float64's own rounding, and written so that nothing cancels.
"""

from __future__ import annotations

import math

from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.aten.pointwise import is_negative
from portakern.torch_import.rules import Call, rule, value


@rule("aten.tan")
def _(call: Call, x: Traced) -> Traced:
    x = value(x, call.dtype)
    return ew.divide(ew.sin(x), ew.cos(x))


@rule("aten.sinh")
def _(call: Call, x: Traced) -> Traced:
    """With e = expm1(|x|): (e + e / (e + 1)) / 2, of infinity itself."""
    x = value(x, call.dtype)
    e = ew.expm1(ew.abs(x))
    part = ew.subtract(1.0, ew.divide(1.0, ew.add(e, 1.0)))
    return _signed(ew.multiply(ew.add(e, part), 0.5), x)


@rule("aten.cosh")
def _(call: Call, x: Traced) -> Traced:
    e = ew.exp(ew.abs(value(x, call.dtype)))
    return ew.add(ew.multiply(e, 0.5), ew.divide(0.5, e))


@rule("aten.asinh")
def _(call: Call, x: Traced) -> Traced:
    """log1p(a + a^2 / (1 + sqrt(a^2 + 1))) of a = |x|; log(2 a) where a^2 is all there is."""
    x = value(x, call.dtype)
    a = ew.abs(x)
    near = ew.minimum(a, 1e8)
    square = ew.multiply(near, near)
    small = ew.log1p(ew.add(near, ew.divide(square, ew.add(ew.sqrt(ew.add(square, 1.0)), 1.0))))
    return _signed(ew.where(ew.greater(a, 1e8), ew.add(ew.log(a), math.log(2)), small), x)


@rule("aten.acosh")
def _(call: Call, x: Traced) -> Traced:
    """log1p(t + sqrt(2 t + t^2)) of t = x - 1; log(2 x) where t^2 is all there is."""
    x = value(x, call.dtype)
    t = ew.subtract(ew.minimum(x, 1e8), 1.0)
    small = ew.log1p(ew.add(t, ew.sqrt(ew.add(ew.multiply(t, 2.0), ew.multiply(t, t)))))
    return ew.where(ew.greater(x, 1e8), ew.add(ew.log(x), math.log(2)), small)


@rule("aten.atanh")
def _(call: Call, x: Traced) -> Traced:
    x = value(x, call.dtype)
    a = ew.abs(x)
    return _signed(ew.multiply(ew.log1p(ew.divide(ew.multiply(a, 2.0), ew.subtract(1.0, a))), 0.5), x)


@rule("aten.atan")
def _(call: Call, x: Traced) -> Traced:
    return arctangent(value(x, call.dtype))


@rule("aten.asin")
def _(call: Call, x: Traced) -> Traced:
    """atan(x / sqrt(1 - x^2)), which of 1 is atan of infinity."""
    x = value(x, call.dtype)
    return arctangent(ew.divide(x, ew.sqrt(ew.multiply(ew.subtract(1.0, x), ew.add(x, 1.0)))))


@rule("aten.acos")
def _(call: Call, x: Traced) -> Traced:
    """2 atan(sqrt((1 - x) / (1 + x)))."""
    x = value(x, call.dtype)
    return ew.multiply(arctangent(ew.sqrt(ew.divide(ew.subtract(1.0, x), ew.add(x, 1.0)))), 2.0)


@rule("aten.atan2")
def _(call: Call, y: Traced, x: Traced) -> Traced:
    return angle(value(y, call.dtype), value(x, call.dtype))


def angle(y: Traced, x: Traced) -> Traced:
    """Of the point (x, y), from the first axis; zeros and infinities have signs, too."""
    alike = ew.equal(ew.abs(y), ew.abs(x))
    share = ew.where(alike, 1.0, ew.divide(ew.abs(y), ew.abs(x)))
    base = ew.where(ew.logical_and(alike, ew.equal(y, 0.0)), 0.0, arctangent(share))
    made = ew.where(is_negative(x), ew.subtract(math.pi, base), base)
    return ew.where(is_negative(y), ew.negative(made), made)


def arctangent(x: Traced) -> Traced:
    """Beyond 1 a right angle less that of 1 / x; halved twice, to below 0.2; then the series."""
    a = ew.abs(x)
    over = ew.greater(a, 1.0)
    t = ew.where(over, ew.reciprocal(a), a)
    for _ in range(2):
        t = ew.divide(t, ew.add(ew.sqrt(ew.add(ew.multiply(t, t), 1.0)), 1.0))
    square = ew.multiply(t, t)
    total = ew.multiply(square, (-1.0) ** 11 / 23)
    for n in range(10, 0, -1):
        total = ew.multiply(ew.add(total, (-1.0) ** n / (2 * n + 1)), square)
    angle = ew.multiply(ew.add(ew.multiply(t, total), t), 4.0)
    return _signed(ew.where(over, ew.subtract(math.pi / 2, angle), angle), x)


def _signed(size: Traced, like: Traced) -> Traced:
    return ew.where(ew.less(like, 0.0), ew.negative(size), size)
