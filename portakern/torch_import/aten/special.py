"""Special functions of what the tensor level has: gamma and error functions.

They are series whose errors are known, and computed in at least f32; ``erfcx`` is exact to f32 only, and refused in f64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, rule, value, wide
from portakern.torch_import.types import NotImported


def given(call: Call, x: Any) -> Traced:
    """An argument in the dtype that functions are computed in."""
    return value(x, wide(call.dtype))


def polynomial(x: Traced, coefficients: Sequence[float]) -> Traced:
    """By Horner's rule; the coefficient of the highest power comes first."""
    total: Any = coefficients[0]
    for c in coefficients[1:]:
        total = ew.add(ew.multiply(total, x), c)
    return total


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


_ERFCX = (0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368,
          -1.26551223)  # fmt: skip
"""Press et al., Numerical Recipes (erfcc): the logarithm of erfcx(x) / t in t = 1 / (1 + x / 2), to 1.2e-7."""


def scaled_erfc(a: Traced) -> Traced:
    """exp(a^2) erfc(a) of a >= 0, to 1.2e-7."""
    t = ew.reciprocal(ew.add(ew.multiply(a, 0.5), 1.0))
    return ew.multiply(t, ew.exp(polynomial(t, _ERFCX)))


@rule("aten.erfc")
def _(call: Call, x: Traced) -> Traced:
    x = given(call, x)
    plain = ew.subtract(1.0, ew.erf(x))
    if x.type.dtype == "f64":
        return plain
    far = ew.multiply(scaled_erfc(ew.maximum(x, 0.0)), ew.exp(ew.negative(ew.square(x))))
    return ew.where(ew.greater(x, 0.5), far, plain)  # 1 - erf would keep few of its digits


@rule("aten.special_erfcx")
def _(call: Call, x: Traced) -> Traced:
    x = _single(call, x, "erfcx")
    found = scaled_erfc(ew.abs(x))
    return ew.where(ew.less(x, 0.0), ew.subtract(ew.multiply(ew.exp(ew.square(x)), 2.0), found), found)


def _single(call: Call, x: Traced, name: str) -> Traced:
    if call.dtype == "f64":
        raise NotImported(f"{name} in f64")
    return given(call, x)
