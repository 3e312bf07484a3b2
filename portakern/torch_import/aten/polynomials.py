"""Orthogonal polynomials of a given degree, by their recurrences (Abramowitz and Stegun 22.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.aten.special import given
from portakern.torch_import.rules import RULES, Call, Rule, spread, value
from portakern.torch_import.types import NotImported

LARGEST = 64
"""The highest degree: every one is some more operations."""

First = Callable[[Traced], Traced]
Factors = Callable[[int], tuple[float, float, float]]
"""Of degree n: factors (a, b, c) of p(n + 1) = (a x + b) p(n) - c p(n - 1)."""


def _chebyshev(n: int) -> tuple[float, float, float]:
    return 2.0, 0.0, 1.0


def _twice(plus: float) -> First:
    return lambda x: ew.add(ew.multiply(x, 2.0), plus)


OF: dict[str, tuple[First, Factors]] = {
    "chebyshev_polynomial_t": (lambda x: x, _chebyshev),
    "chebyshev_polynomial_u": (_twice(0.0), _chebyshev),
    "chebyshev_polynomial_v": (_twice(-1.0), _chebyshev),
    "chebyshev_polynomial_w": (_twice(1.0), _chebyshev),
    "hermite_polynomial_h": (_twice(0.0), lambda n: (2.0, 0.0, 2.0 * n)),
    "hermite_polynomial_he": (lambda x: x, lambda n: (1.0, 0.0, float(n))),
    "laguerre_polynomial_l": (lambda x: ew.subtract(1.0, x), lambda n: (-1 / (n + 1), (2 * n + 1) / (n + 1), n / (n + 1))),
    "legendre_polynomial_p": (lambda x: x, lambda n: ((2 * n + 1) / (n + 1), 0.0, n / (n + 1))),
}


def _polynomial(first: First, factors: Factors, shifted: bool) -> Rule:
    def apply(call: Call, x: Any, n: Any) -> Traced:
        if isinstance(n, Traced) or not -1 < n <= LARGEST or int(n) != n:
            raise NotImported(f"a polynomial of another degree than a number from 0 to {LARGEST}")
        x = given(call, x)
        x = ew.subtract(ew.multiply(x, 2.0), 1.0) if shifted else x
        before, last = spread(value(1, x.type.dtype), x.shape), first(x)
        if n == 0:
            return before
        for k in range(1, int(n)):
            a, b, c = factors(k)
            slope = ew.multiply(x, a) if b == 0 else ew.add(ew.multiply(x, a), b)
            before, last = last, ew.subtract(ew.multiply(slope, last), ew.multiply(before, c))
        return last

    return apply


RULES.update({f"aten.special_{name}": _polynomial(*of, False) for name, of in OF.items()})
RULES.update({f"aten.special_shifted_{name}": _polynomial(*of, True) for name, of in OF.items() if "chebyshev" in name})
