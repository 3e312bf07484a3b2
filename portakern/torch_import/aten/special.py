"""Special functions of what the tensor level has: gamma and error functions.

They are series whose errors are known, and computed in at least f32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, rule, value, wide


def given(call: Call, x: Any) -> Traced:
    """An argument in the dtype that functions are computed in."""
    return value(x, wide(call.dtype))


def polynomial(x: Traced, coefficients: Sequence[float]) -> Traced:
    """By Horner's rule; the coefficient of the highest power comes first."""
    total: Any = coefficients[0]
    for c in coefficients[1:]:
        total = ew.add(ew.multiply(total, x), c)
    return total


def chebyshev(t: Traced, coefficients: Sequence[float]) -> Traced:
    """The sum of c[k] T_k(t), by Clenshaw's recurrence."""
    twice = ew.multiply(t, 2.0)
    later: Any = 0.0
    last: Any = coefficients[-1]
    for c in coefficients[-2:0:-1]:
        last, later = ew.subtract(ew.add(ew.multiply(twice, last), c), later), last
    return ew.subtract(ew.add(ew.multiply(t, last), coefficients[0]), later)


# ---- gamma ----------------------------------------------------------------------------------------------------------

_SHIFT = 8
"""Stirling's series is used from here on, where its terms below are exact to 2e-13; smaller arguments are shifted."""

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)


def mirrored(x: Traced) -> tuple[Traced, Traced, Traced]:
    """Whether ``x`` is below 1/2, then 1 - x (else x), and the distance of ``x`` from the next integer, for sines of pi x."""
    below = ew.less(x, 0.5)
    return below, ew.where(below, ew.subtract(1.0, x), x), ew.subtract(x, ew.round(x))


@rule("aten.lgamma")
def _(call: Call, x: Traced) -> Traced:
    return lgamma(given(call, x))


def lgamma(x: Traced) -> Traced:
    below, t, off = mirrored(x)
    small = ew.less(t, float(_SHIFT))
    z = ew.where(small, ew.add(t, float(_SHIFT)), t)
    steps = ew.where(small, t, 1.0)
    for k in range(1, _SHIFT):
        steps = ew.multiply(steps, ew.where(small, ew.add(t, float(k)), 1.0))
    inverse = ew.reciprocal(z)
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)]
    tail = ew.multiply(polynomial(ew.multiply(inverse, inverse), terms[::-1]), inverse)
    main = ew.subtract(ew.multiply(ew.subtract(z, 0.5), ew.log(z)), z)
    whole = ew.add(ew.subtract(ew.add(main, tail), ew.log(steps)), 0.5 * math.log(2 * math.pi))
    other = ew.subtract(ew.subtract(math.log(math.pi), ew.log(ew.abs(ew.sin(ew.multiply(off, math.pi))))), whole)
    return ew.where(ew.equal(ew.abs(x), math.inf), math.inf, ew.where(below, other, whole))


@rule("aten.digamma")
def _(call: Call, x: Traced) -> Traced:
    return digamma(given(call, x))


def digamma(x: Traced) -> Traced:
    below, t, off = mirrored(x)
    z, steps = _shifted(t, lambda k: ew.reciprocal(k))
    inverse = ew.reciprocal(z)
    square = ew.multiply(inverse, inverse)
    terms = [b / (2 * k) for k, b in enumerate(BERNOULLI, 1)]
    tail = ew.multiply(polynomial(square, terms[::-1]), square)
    whole = ew.subtract(ew.subtract(ew.subtract(ew.log(z), ew.multiply(inverse, 0.5)), tail), steps)
    turn = ew.multiply(off, math.pi)
    other = ew.subtract(whole, ew.divide(ew.multiply(ew.cos(turn), math.pi), ew.sin(turn)))
    pole = ew.where(ew.equal(x, 0.0), -math.inf, math.nan)
    at_pole = ew.logical_and(ew.less_equal(x, 0.0), ew.equal(off, 0.0))
    return ew.where(at_pole, pole, ew.where(below, other, whole))


def _shifted(t: Traced, term: Any) -> tuple[Traced, Traced]:
    """An argument of at least :data:`_SHIFT`, and the sum of ``term`` over the steps to it."""
    small = ew.less(t, float(_SHIFT))
    total: Any = 0.0
    for k in range(_SHIFT):
        total = ew.add(total, term(ew.add(t, float(k))))
    return ew.where(small, ew.add(t, float(_SHIFT)), t), ew.where(small, total, 0.0)


# ---- error functions ------------------------------------------------------------------------------------------------

_NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
         0.246640727, 1.50140941)  # fmt: skip
_FAR = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
        1.00167406, 2.83297682)  # fmt: skip
"""Giles, Approximating the erfinv function (GPU Computing Gems 2, 2011): of w = -log(1 - x^2) - 2.5, and of sqrt(w) - 3."""


def _inverted(x: Traced, w: Traced) -> Traced:
    """The inverse of erf at ``x``, of which ``w`` is -log(1 - x^2): to 4e-7; one step of Newton's in f64."""
    near = polynomial(ew.subtract(w, 2.5), _NEAR)
    far = polynomial(ew.subtract(ew.sqrt(ew.maximum(w, 5.0)), 3.0), _FAR)
    found = ew.multiply(ew.where(ew.less(w, 5.0), near, far), x)
    if x.type.dtype == "f64":
        for _ in range(2):
            slope = ew.multiply(ew.exp(ew.negative(ew.square(found))), 2 / math.sqrt(math.pi))
            found = ew.subtract(found, ew.divide(ew.subtract(ew.erf(found), x), slope))
    return ew.where(ew.equal(w, math.inf), ew.multiply(x, math.inf), found)


@rule("aten.erfinv")
def _(call: Call, x: Traced) -> Traced:
    x = given(call, x)
    return _inverted(x, ew.negative(ew.log(ew.multiply(ew.subtract(1.0, x), ew.add(x, 1.0)))))


@rule("aten.special_ndtri")
def _(call: Call, p: Traced) -> Traced:
    """sqrt(2) erfinv(2 p - 1), with 1 - (2 p - 1)^2 as 4 p (1 - p), in which nothing cancels."""
    p = given(call, p)
    w = ew.negative(ew.log(ew.multiply(ew.multiply(p, 4.0), ew.subtract(1.0, p))))
    return ew.multiply(_inverted(ew.subtract(ew.multiply(p, 2.0), 1.0), w), math.sqrt(2))


_ERFCX = (1.1775789345674017, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189,
          -0.026658668435305753, 0.009074997670705265, -0.002413163540417608, 0.0004907758365258085,
          -6.916973302501218e-05, 4.139027986072891e-06, 7.740383066197302e-07, -2.1886401049246191e-07,
          1.0764999465553909e-08, 4.52195981110232e-09, -7.754400209979873e-10, -6.318088352252557e-11,
          2.868794999691931e-11, 1.945585744187426e-13, -9.654697844579173e-13, 3.252537336649572e-14,
          3.3478012941554764e-14, -1.864667775036118e-15, -1.2508982290996545e-15)  # fmt: skip
"""Of (1 + 2 x) erfcx(x) in (x - 3.75) / (x + 3.75): the Chebyshev series of Shepherd and Laframboise (Math. Comp. 36, 1981)."""

_SINGLE = 15
"""So many terms are exact to 3e-11 of it, and enough for f32."""


def scaled_erfc(a: Traced) -> Traced:
    """exp(a^2) erfc(a) of a >= 0."""
    near = ew.minimum(a, 1e15)
    t = ew.divide(ew.subtract(near, 3.75), ew.add(near, 3.75))
    made = chebyshev(t, _ERFCX if a.type.dtype == "f64" else _ERFCX[:_SINGLE])
    return ew.divide(made, ew.add(ew.multiply(a, 2.0), 1.0))


@rule("aten.erfc")
def _(call: Call, x: Traced) -> Traced:
    x = given(call, x)
    plain = ew.subtract(1.0, ew.erf(x))
    far = ew.multiply(scaled_erfc(ew.maximum(x, 0.0)), ew.exp(ew.negative(ew.square(x))))
    return ew.where(ew.greater(x, 0.5), far, plain)  # 1 - erf would keep few of its digits


@rule("aten.special_erfcx")
def _(call: Call, x: Traced) -> Traced:
    x = given(call, x)
    found = scaled_erfc(ew.abs(x))
    return ew.where(ew.less(x, 0.0), ew.subtract(ew.multiply(ew.exp(ew.square(x)), 2.0), found), found)
