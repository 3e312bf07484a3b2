"""Hurwitz' zeta function, the derivatives of the logarithm of gamma, and the incomplete gamma functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from portakern.spec import elementwise as ew
from portakern.spec import recurrences, views
from portakern.spec.traced import Traced
from portakern.torch_import.aten.special import BERNOULLI, digamma, given, lgamma, mirrored, polynomial
from portakern.torch_import.rules import Call, rule, spread

# ---- zeta -------------------------------------------------------------------------------------------------------------

_TERMS = 16
"""Added one by one; what follows is Euler and Maclaurin's series, whose terms are exact to 1e-16 from 9 on."""

_TAIL = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
         -3617 / 10670622842880000)  # fmt: skip
"""Bernoulli numbers over factorials, B(2 k) / (2 k)!."""


def _zeta(x: Any, q: Traced, power: Callable[[Traced], Traced]) -> Traced:
    """The sum of ``power(q + k)``, which is (q + k) ** -x, over all k (Abramowitz and Stegun 23.2.23)."""
    total: Any = 0.0
    for k in range(_TERMS):
        total = ew.add(total, power(ew.add(q, float(k)) if k else q))
    end = ew.add(q, float(_TERMS))
    last = power(end)
    inverse = ew.reciprocal(end)
    rest = ew.add(ew.divide(end, ew.subtract(x, 1.0)), 0.5)
    square, factor = ew.multiply(inverse, inverse), ew.multiply(x, inverse)
    for k, term in enumerate(_TAIL):
        rest = ew.add(rest, ew.multiply(factor, term))
        rising = ew.multiply(ew.add(x, 2.0 * k + 1), ew.add(x, 2.0 * k + 2))
        factor = ew.multiply(ew.multiply(factor, square), rising)
    return ew.add(total, ew.multiply(last, rest))


@rule("aten.special_zeta")
def _(call: Call, x: Any, q: Any) -> Traced:
    """Below 0 a power of whole numbers has a sign and others are none; NaN below -7, where too many terms are needed."""
    x, q = (spread(given(call, v), call.shape) for v in (x, q))
    odd = ew.not_equal(ew.remainder(x, 2.0), 0.0)

    def power(base: Traced) -> Traced:
        size = ew.pow(ew.abs(base), ew.negative(x))
        return ew.where(ew.logical_and(odd, ew.less(base, 0.0)), ew.negative(size), size)

    whole = ew.equal(x, ew.round(x))
    made = ew.where(ew.logical_and(ew.less(q, 0.0), ew.logical_not(whole)), math.nan, _zeta(x, q, power))
    made = ew.where(ew.less(q, float(9 - _TERMS)), math.nan, made)
    made = ew.where(ew.logical_and(ew.less_equal(q, 0.0), ew.equal(q, ew.round(q))), math.inf, made)
    return ew.where(ew.equal(x, 1.0), math.inf, ew.where(ew.less(x, 1.0), math.nan, made))


# ---- polygamma --------------------------------------------------------------------------------------------------------


@rule("aten.polygamma")
def _(call: Call, n: int, x: Traced) -> Traced:
    """(-1) ** (n + 1) n! zeta(n + 1, x), mirrored below 1/2 by the derivatives of the cotangent."""
    x = given(call, x)
    if n == 0:
        return digamma(x)
    below, t, off = mirrored(x)
    sign = 1.0 if n % 2 else -1.0
    sum_ = _zeta(float(n + 1), t, lambda base: ew.pow(base, -(n + 1)))
    whole = ew.multiply(sum_, sign * math.factorial(n))
    turn = ew.multiply(off, math.pi)
    slope = polynomial(ew.divide(ew.cos(turn), ew.sin(turn)), _cotangent(n))
    other = ew.subtract(ew.multiply(whole, -sign), ew.multiply(slope, math.pi ** (n + 1)))
    pole = ew.logical_and(ew.less_equal(x, 0.0), ew.equal(off, 0.0))
    return ew.where(pole, math.inf if n % 2 else math.nan, ew.where(below, other, whole))


def _cotangent(n: int) -> list[float]:
    """The n-th derivative of the cotangent as a polynomial of the cotangent c, whose derivative is -(1 + c ** 2)."""
    found = np.array([1.0, 0.0])
    for _ in range(n):
        found = np.polymul(np.polyder(found), [-1.0, 0.0, -1.0])
    return [float(c) for c in found]


# ---- incomplete gamma functions ---------------------------------------------------------------------------------------

_STEPS = 100
"""Of the power series below a + 1, and of the continued fraction above it: for a up to :data:`_LARGE`."""

_LARGE = 100.0
"""From here on an integral over the peak is exact: Gauss' quadrature at 24 places."""


@rule("aten.igamma", "aten.special_gammainc")
def _(call: Call, a: Traced, x: Traced) -> Traced:
    return _incomplete(call, a, x, lower=True)


@rule("aten.igammac", "aten.special_gammaincc")
def _(call: Call, a: Traced, x: Traced) -> Traced:
    return _incomplete(call, a, x, lower=False)


def _incomplete(call: Call, a: Traced, x: Traced, lower: bool) -> Traced:
    a, x = (spread(given(call, v), call.shape) for v in (a, x))
    plain = ew.logical_and(ew.logical_and(ew.greater(a, 0.0), ew.less(a, math.inf)),
                           ew.logical_and(ew.greater(x, 0.0), ew.less(x, math.inf)))  # fmt: skip
    inner_a, inner_x = ew.where(plain, a, 1.0), ew.where(plain, x, 1.0)
    near = ew.minimum(inner_a, _LARGE)
    p, q = _by_steps(near, inner_x)
    far_p, far_q = _by_quadrature(ew.maximum(inner_a, _LARGE), inner_x)
    far = ew.greater(inner_a, _LARGE)
    made = ew.where(far, far_p, p) if lower else ew.where(far, far_q, q)
    at_zero, at_end = (0.0, 1.0) if lower else (1.0, 0.0)
    # At the borders of the domain, as PyTorch has it.
    both = ew.logical_or(ew.logical_and(ew.equal(a, 0.0), ew.equal(x, 0.0)),
                         ew.logical_and(ew.equal(a, math.inf), ew.equal(x, math.inf)))
    begins = ew.logical_or(ew.equal(x, 0.0), ew.equal(a, math.inf))
    wrong = ew.logical_or(ew.logical_or(ew.less(a, 0.0), ew.less(x, 0.0)), ew.logical_or(ew.isnan(a), ew.isnan(x)))
    edge = ew.where(begins, at_zero, at_end)
    return ew.where(ew.logical_or(wrong, both), math.nan, ew.where(plain, made, edge))


def _by_steps(a: Traced, x: Traced) -> tuple[Traced, Traced]:
    """P and Q of a up to :data:`_LARGE` (Press et al., Numerical Recipes, 6.2: gser, and gcf by Lentz' method)."""
    small = ew.less(x, ew.add(a, 1.0))
    low, high = ew.where(small, x, a), ew.where(small, ew.add(a, 1.0), x)
    one = ew.add(ew.multiply(x, 0.0), 1.0)
    begin = ew.add(ew.subtract(high, a), 1.0)
    tiny = 1e-30

    def step(carry: tuple[Traced, ...], k: Traced) -> tuple[tuple[Traced, ...], None]:
        term, total, b, c, d, h = carry
        k = ew.cast(k, x.type.dtype)
        term = ew.divide(ew.multiply(term, low), ew.add(a, k))
        b = ew.add(b, 2.0)
        part = ew.multiply(ew.negative(k), ew.subtract(k, a))
        d = _not_zero(ew.add(ew.multiply(part, d), b), tiny)
        c = _not_zero(ew.add(b, ew.divide(part, c)), tiny)
        d = ew.reciprocal(d)
        return (term, ew.add(total, term), b, c, d, ew.multiply(h, ew.multiply(d, c))), None

    first = ew.reciprocal(begin)
    carry = (one, one, begin, ew.multiply(one, 1 / tiny), first, first)
    steps = ew.add(views.arange(_STEPS), 1)
    (_, total, _, _, _, h), _ = recurrences.scan(step, carry, steps)
    share = _share(a, x)
    p, q = ew.divide(ew.multiply(share, total), a), ew.multiply(share, h)
    return ew.where(small, p, ew.subtract(1.0, q)), ew.where(small, ew.subtract(1.0, p), q)


def _not_zero(x: Traced, tiny: float) -> Traced:
    return ew.where(ew.less(ew.abs(x), tiny), tiny, x)


_STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1))


def _share(a: Traced, x: Traced) -> Traced:
    """x ** a exp(-x) / gamma(a).  Of larger numbers by the distance of both, so that no large exponents cancel."""
    a_low, a_high = ew.minimum(a, 8.0), ew.maximum(a, 8.0)
    direct = ew.exp(ew.subtract(ew.subtract(ew.multiply(a_low, ew.log(x)), x), lgamma(a_low)))
    return ew.where(ew.less(a, 8.0), direct, ew.multiply(_peak(a_high, x), ew.multiply(_of_gamma(a_high), ew.sqrt(a_high))))


def _peak(a: Traced, x: Traced) -> Traced:
    """(x / a) ** a exp(a - x)."""
    d = ew.divide(ew.subtract(x, a), a)
    near = ew.log1p(ew.maximum(d, -0.5))
    grows = ew.subtract(ew.where(ew.less(ew.abs(d), 0.5), near, ew.log(ew.divide(x, a))), d)
    return ew.exp(ew.multiply(a, grows))


def _of_gamma(a: Traced) -> Traced:
    """(a / e) ** a sqrt(2 pi / a) / gamma(a) over sqrt(2 pi), by Stirling's series."""
    inverse = ew.reciprocal(a)
    tail = ew.multiply(polynomial(ew.multiply(inverse, inverse), _STIRLING[::-1]), inverse)
    return ew.multiply(ew.exp(ew.negative(tail)), 1 / math.sqrt(2 * math.pi))


def _by_quadrature(a: Traced, x: Traced) -> tuple[Traced, Traced]:
    """P and Q of a from :data:`_LARGE` on: the integral of t ** (a - 1) exp(-t) from x to where nothing is left, away from the
    peak (Press et al., Numerical Recipes, 6.2: gammpapprox)."""
    top = ew.subtract(a, 1.0)
    root = ew.sqrt(top)
    above = ew.greater(x, top)
    end_up = ew.maximum(ew.add(top, ew.multiply(root, 11.5)), ew.add(x, ew.multiply(root, 6.0)))
    end_down = ew.maximum(ew.minimum(ew.subtract(top, ew.multiply(root, 7.5)), ew.subtract(x, ew.multiply(root, 5.0))), 0.0)
    length = ew.subtract(ew.where(above, end_up, end_down), x)
    total: Any = 0.0
    for place, weight in zip(*np.polynomial.legendre.leggauss(24), strict=True):
        t = ew.add(x, ew.multiply(length, float(place + 1) / 2))
        total = ew.add(total, ew.multiply(_peak(top, t), float(weight) / 2))
    inverse = ew.multiply(_of_gamma(top), ew.rsqrt(top))
    part = ew.multiply(ew.multiply(total, ew.abs(length)), inverse)
    other = ew.subtract(1.0, part)
    return ew.where(above, other, part), ew.where(above, part, other)
