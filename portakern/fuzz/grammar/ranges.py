"""What values an array may be expected to hold, so that most programs stay where numbers are finite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from portakern.dtypes import DTYPES


@dataclass(frozen=True)
class Range:
    """Values from ``lo`` to ``hi``; a guess made from the usual inputs, not a bound."""

    lo: float
    hi: float

    @property
    def reach(self) -> float:
        return max(abs(self.lo), abs(self.hi))

    def within(self, other: Range) -> bool:
        return other.lo <= self.lo and self.hi <= other.hi

    def __add__(self, other: Range) -> Range:
        return Range(self.lo + other.lo, self.hi + other.hi)

    def __neg__(self) -> Range:
        return Range(-self.hi, -self.lo)

    def __sub__(self, other: Range) -> Range:
        return self + -other

    def __mul__(self, other: Range) -> Range:
        ends = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return Range(min(ends), max(ends))

    def __or__(self, other: Range) -> Range:
        return Range(min(self.lo, other.lo), max(self.hi, other.hi))

    def through(self, f: Callable[[float], float]) -> Range:
        """The image under a monotone function."""
        ends = (f(self.lo), f(self.hi))
        return Range(min(ends), max(ends))

    def inverse(self) -> Range:
        """1 / x of values of one sign."""
        return self.through(lambda x: 1 / x)

    def magnitude(self) -> Range:
        low = 0.0 if self.lo <= 0 <= self.hi else min(abs(self.lo), abs(self.hi))
        return Range(low, self.reach)

    def summed(self) -> Range:
        """Sums of a few hundred: of values of both signs they grow with the root of the count."""
        most = 32.0 if self.lo < 0 < self.hi else 256.0
        return Range(min(self.lo, self.lo * most), max(self.hi, self.hi * most))


UNIT = Range(0.0, 1.0)
NORMAL = Range(-5.0, 5.0)
ANY = Range(-1e30, 1e30)
FOUR_BITS = {"i4": Range(-8.0, 7.0), "u4": Range(0.0, 15.0)}


def of_input(dtype: str) -> Range:
    """What arrays are filled with where nothing is said: see :func:`portakern.spec.inputs.default_family`."""
    kind = DTYPES[dtype].kind
    if kind == "float":
        return NORMAL
    if dtype in FOUR_BITS:
        return FOUR_BITS[dtype]
    return UNIT if kind == "bool" else Range(0.0 if kind == "uint" else -100.0, 100.0)


def limits(dtype: str) -> Range:
    """What an array of ``dtype`` may hold without coming near to what it cannot."""
    kind = DTYPES[dtype]
    if kind.is_float:
        return Range(-min(kind.largest / 2, 1e30), min(kind.largest / 2, 1e30))
    if kind.kind == "bool":
        return UNIT
    return Range(0.0 if kind.kind == "uint" else -(2.0 ** (kind.bits - 1)), 2.0 ** (kind.bits - (kind.kind == "int")) - 1)
