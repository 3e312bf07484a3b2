"""Small systems of equations: factors, substitution, determinants, of matrices that are far from singular."""

from __future__ import annotations

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.ranges import NORMAL, Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.table import production
from portakern.ir.size import Size

ORDERS = (4, 3, 7, 2, 1, 16, 17, 33)


def _square(s: FuzzScope, n: int) -> Var:
    lead = () if chance(s.draw, 30) else s.shape((1, 2), (80, 20))
    return s.input((*lead, n, n), "f32" if s.dtype != "f64" else "", "a")


def _diagonal(a: Var) -> str:
    return f"pk.iota({a}.shape, -1) == pk.iota({a}.shape, -2)"


@production(0.8)
def factored(s: FuzzScope) -> Var:
    """The Cholesky factor of a covariance."""
    n = pick(s.draw, ORDERS)
    a = _square(s, n)
    bump = s.let(f"pk.cast({_diagonal(a)}, {a}.dtype) * 2.0", Range(0.0, 2.0))
    c = s.let(f"{a} @ pk.swapaxes({a}, -1, -2) + {bump}", Range(-1e3, 1e3), "c")
    f = s.let(f"pk.cholesky({c})", Range(-100.0, 100.0))
    if chance(s.draw, 30):
        return s.let(f"pk.sum(pk.log(pk.where({_diagonal(a)}, {f}, 1.0)), axis=(-2, -1))", Range(-100.0, 100.0))
    return f


@production(1.0)
def substituted(s: FuzzScope) -> Var:
    """A triangular system, whose diagonal is given, or all ones."""
    n = pick(s.draw, ORDERS)
    a = _square(s, n)
    unit = chance(s.draw, 40)
    off = f"{a} * 0.2"
    m = s.let(off if unit else f"pk.where({_diagonal(a)}, pk.abs({a}) + 1.0, {off})", a.range, "m")
    columns: Size = s.dim(a.shape)
    b = s.input((*a.shape[:-1], columns), a.dtype, "b")
    how = pick(s.draw, ("", ", lower=False")) + (", unit=True" if unit else "")
    return s.let(f"pk.solve_triangular({m}, {b}{how})", Range(-1e4, 1e4))


@production(0.5)
def determinant(s: FuzzScope) -> Var:
    a = _square(s, pick(s.draw, (3, 2, 4, 1, 5)))
    return s.let(f"pk.det(pk.tanh({a}))" if chance(s.draw, 40) else f"pk.det({a})", NORMAL * Range(100.0, 100.0))
