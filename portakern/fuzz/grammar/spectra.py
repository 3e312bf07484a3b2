"""Transforms between a line and its frequencies, of lengths that are powers, products of primes, and primes."""

from __future__ import annotations

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.ranges import Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.table import production
from portakern.ir.size import Size

LENGTHS = (8, 12, 16, 7, 30, 64, 2, 1, 31, 45, 100, 128)


def _line(s: FuzzScope) -> tuple[Var, int, int]:
    """An array, one of its axes, and how long that is."""

    def fits(v: Var) -> bool:
        return v.dtype in ("f32", "f64") and v.rank in (1, 2, 3) and v.range.reach < 1e3 and _known(v) != []

    def fresh() -> Var:
        shape: list[Size] = [*s.shape((1, 2), (70, 30)), pick(s.draw, LENGTHS)]
        return s.input(shape[::-1] if chance(s.draw, 25) else shape)

    x = s.operand(fits, fresh)
    axis, n = pick(s.draw, _known(x)[::-1])
    return x, axis, n


def _known(v: Var) -> list[tuple[int, int]]:
    return [(i, n) for i, n in enumerate(v.shape) if isinstance(n, int) and n <= max(LENGTHS)]


def _along(x: Var, axis: int) -> str:
    return f", axis={axis}" if axis < x.rank - 1 else ""


def _grown(r: Range, n: int) -> Range:
    return Range(-r.reach * n, r.reach * n)


@production(1.0)
def spectrum(s: FuzzScope) -> Var:
    """One part of the frequencies, or how strong each is."""
    x, axis, n = _line(s)
    fn = pick(s.draw, ("rfft", "fft"))
    place = f"pk.{fn}({x}{_along(x, axis)})"
    grown = _grown(x.range, n)
    if chance(s.draw, 50):
        return s.let(f"{place}[{pick(s.draw, (0, 1))}]", grown)
    re, im = s.let(f"{place}[0]", grown, "re"), s.let(f"{place}[1]", grown, "im")
    return s.let(f"pk.sqrt({re} * {re} + {im} * {im} + 1e-6)", Range(0.0, 2.0 * grown.reach))


@production(0.7)
def filtered(s: FuzzScope) -> Var:
    """Frequencies weighted and turned back: a convolution around the ends."""
    x, axis, n = _line(s)
    along = _along(x, axis)
    re, im = (s.let(f"pk.rfft({x}{along})[{i}]", _grown(x.range, n), h) for i, h in enumerate(("re", "im")))
    weight = s.input([d if i == axis else 1 for i, d in enumerate(re.shape)], re.dtype, "weight")
    back = s.let(f"pk.irfft({re} * {weight}, {im} * {weight}, {n}{along})", _grown(x.range, 4 * n))
    return s.let(f"{back} + {x}", back.range + x.range) if chance(s.draw, 30) else back


@production(0.5)
def there_and_back(s: FuzzScope) -> Var:
    """Two real arrays as one complex one, or the inverse of such."""
    x, axis, n = _line(s)
    y = s.like(x.shape, x.dtype, within=Range(-1e3, 1e3))
    fn = pick(s.draw, ("fft", "ifft"))
    return s.let(f"pk.{fn}({x}, {y}{_along(x, axis)})[{pick(s.draw, (0, 1))}]", _grown(x.range | y.range, 2 * n))
