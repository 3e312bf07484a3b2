"""Functions of single elements: what each is in float64, and how far from it a correct kernel may be.

The one place where such a function is defined.  Both levels of the IR, the oracle, the bounds of the check and what emitters
think of its cost follow from here; beside it stand its rule in each language and the name that operators call it by.

Accuracies are those of the loosest implementation that a good kernel may use, in units in the last place (ulp) of the dtype
computed in: hardware approximations refined once, ``exp`` by way of ``exp2``, division by multiplying with the reciprocal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

EXACT = 0.5
"""Ulp of what is rounded correctly."""

Kind = Literal["sign", "steps", "curve", "wave", "test"]
"""How a function takes an error of its argument: by its size alone (``sign``), by a jump (``steps``), by what lies at both ends
(``curve``), by no more than its own amplitude (``wave``); or as a truth (``test``)."""


@dataclass(frozen=True)
class Unary:
    """A function of one element.

    Args:
        exact: what it is, on arrays of float64 (or of integers, for those that take them).
        kind: see :data:`Kind`.
        ulps: relative error.
        floor: absolute error that implementations in f32 may have besides, near the zero of the function.
        argument: roundings of the argument on the way, each of ``u * |x|`` (for exp, the product with log2(e)).
        slope: ``|x f'(x)|`` from ``f(x)`` and ``x``: what a relative error of the argument does.
        edge: where its domain begins.
        pole: where it is infinite.
        costly: worth keeping the result of, rather than computing it again.
        mistaken: the function that is written in its place by mistake (see :mod:`portakern.check.mutants`).
    """

    exact: Callable[[Any], Any]
    kind: Kind = "curve"
    ulps: float = EXACT
    floor: float = 0.0
    argument: float = 0.0
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    edge: float | None = None
    pole: float | None = None
    costly: bool = False
    mistaken: str = ""


@dataclass(frozen=True)
class Binary:
    """A function of two elements: what it is, its relative error in ulp, and whether its result is worth keeping."""

    exact: Callable[[Any, Any], Any]
    ulps: float = EXACT
    costly: bool = False


def erf(x: np.ndarray) -> np.ndarray:
    """The error function: series below 2.5 and continued fraction above (Abramowitz and Stegun 7.1.6, 7.1.14)."""
    a = np.minimum(np.abs(x), 6.5)  # erf(6.5) is 1 in float64
    term = total = 2 / math.sqrt(math.pi) * a * np.exp(-a * a)
    for n in range(1, 60):
        term = term * (2 * a * a / (2 * n + 1))
        total = total + term
    b = np.maximum(a, 1.0)
    tail = np.zeros_like(b)
    for n in range(60, 0, -1):
        tail = (n / 2) / (b + tail)
    far = 1 - np.exp(-b * b) / ((b + tail) * math.sqrt(math.pi))
    return np.where(np.isnan(x), x, np.copysign(np.where(a < 2.5, total, far), x))


def sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _grows(r: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The slope of exponentials."""
    return np.where(r == 0, 0.0, np.abs(x) * r)


_NEAR_ZERO = 2.0**-21

UNARY: dict[str, Unary] = {
    "neg": Unary(np.negative, "sign"),
    "abs": Unary(np.abs, "sign"),
    "exp": Unary(np.exp, ulps=4, argument=2, slope=_grows, costly=True, mistaken="exp2"),
    "exp2": Unary(np.exp2, ulps=4, argument=1, slope=_grows, costly=True, mistaken="exp"),
    "expm1": Unary(np.expm1, ulps=4, argument=2, costly=True,
                   slope=lambda r, x: np.where(r == -1, 0.0, np.abs(x) * (r + 1))),
    "log": Unary(np.log, ulps=4, floor=_NEAR_ZERO, edge=0, pole=0, costly=True, mistaken="log2"),
    "log2": Unary(np.log2, ulps=4, floor=_NEAR_ZERO, edge=0, pole=0, costly=True),
    "log1p": Unary(np.log1p, ulps=4, edge=-1, pole=-1, costly=True),
    "sqrt": Unary(np.sqrt, ulps=1.5, edge=0, mistaken="abs"),
    "rsqrt": Unary(lambda x: 1 / np.sqrt(x), ulps=2.5, edge=0, pole=0, mistaken="reciprocal"),
    "reciprocal": Unary(lambda x: 1 / x, ulps=1.5, pole=0),
    "tanh": Unary(np.tanh, ulps=4, floor=_NEAR_ZERO, costly=True, mistaken="erf"),
    "sigmoid": Unary(sigmoid, ulps=8, argument=2, costly=True, mistaken="tanh",
                     slope=lambda r, x: np.where(r * (1 - r) == 0, 0.0, np.abs(x) * r * (1 - r))),
    "erf": Unary(erf, ulps=4, floor=_NEAR_ZERO, costly=True, mistaken="tanh"),
    "sin": Unary(np.sin, "wave", ulps=4, floor=_NEAR_ZERO, argument=1, slope=lambda r, x: np.abs(x), costly=True),
    "cos": Unary(np.cos, "wave", ulps=4, floor=_NEAR_ZERO, argument=1, slope=lambda r, x: np.abs(x), costly=True),
    "floor": Unary(np.floor, "steps", mistaken="ceil"),
    "ceil": Unary(np.ceil, "steps", mistaken="floor"),
    "trunc": Unary(np.trunc, "steps", mistaken="floor"),
    "round": Unary(np.rint, "steps", mistaken="trunc"),
    "sign": Unary(np.sign, "steps"),
    "not": Unary(np.invert, "test"),
    "isnan": Unary(np.isnan, "test"),
}  # fmt: skip
"""``round`` rounds halves to even; ``trunc`` leaves off what is behind the point."""

BINARY: dict[str, Binary] = {
    "add": Binary(np.add), "sub": Binary(np.subtract), "mul": Binary(np.multiply),
    "div": Binary(lambda a, b: a / b if a.dtype.kind == "f" else np.trunc(a / b), ulps=2.5),
    "max": Binary(np.maximum), "min": Binary(np.minimum),
    "pow": Binary(np.power, ulps=16, costly=True),
    "rem": Binary(np.remainder, ulps=2), "floordiv": Binary(np.floor_divide),
    "and": Binary(np.bitwise_and), "or": Binary(np.bitwise_or), "xor": Binary(np.bitwise_xor),
    "shl": Binary(np.left_shift), "shr": Binary(np.right_shift),
}  # fmt: skip
"""``max`` and ``min`` hand on NaN; ``rem`` has the sign of the divisor; ``div`` of integers rounds towards zero."""

COMPARE: dict[str, Binary] = {
    "eq": Binary(np.equal), "ne": Binary(np.not_equal), "lt": Binary(np.less), "le": Binary(np.less_equal),
    "gt": Binary(np.greater), "ge": Binary(np.greater_equal),
}  # fmt: skip

COSTLY = frozenset(name for name, f in {**UNARY, **BINARY}.items() if f.costly)
"""Functions worth keeping the result of, rather than computing it again."""
