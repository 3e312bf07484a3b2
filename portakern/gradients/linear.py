"""Loops of linear algebra, whose gradients have forms of their own: they need the result, and no state on the way to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from portakern.gradients.rules import Contributions
from portakern.ir import tensor as t
from portakern.ir.core import Result
from portakern.spec import contractions, views
from portakern.spec.linear import CHOLESKY, SUBSTITUTION, by_rows, solve_triangular
from portakern.spec.traced import Traced, make


def _cholesky(op: t.Recur, g: tuple[Traced | None, ...]) -> Contributions:
    """Of the symmetric matrix: (X + X.T) / 2 for X = l^-T p(l.T @ g) l^-1, where p takes the lower triangle and half of the
    diagonal (Murray 2016, Differentiation of the Cholesky decomposition, equation 10)."""
    if g[0] is None:
        return
    factor = views.tril(make(Result(op, 0)))
    product = views.tril(contractions.matmul(_turned(factor), views.tril(g[0])))
    product = product - views.triu(product) * 0.5
    left = solve_triangular(_turned(factor), product, lower=False)
    whole = _turned(solve_triangular(_turned(factor), _turned(left), lower=False))
    yield op.init[0], (whole + _turned(whole)) * 0.5


def _substitution(op: t.Recur, g: tuple[Traced | None, ...]) -> Contributions:
    """Of b: a^-T g; of a, whose diagonal is what rows are divided by: the lower triangle of minus that times x.T."""
    if g[0] is None:
        return
    x, rows, unit = make(Result(op, 0)), op.xs[1], len(op.xs) == 3
    a = _from_rows(Traced(rows))
    of_b = solve_triangular(_turned(a), g[0], lower=False, unit=unit)
    of_a = views.tril(-contractions.matmul(of_b, _turned(x)), -1 if unit else 0)
    yield rows, by_rows(of_a)
    yield op.xs[2], by_rows(of_b)


def _turned(x: Traced) -> Traced:
    return views.swapaxes(x, -1, -2)


def _from_rows(x: Traced) -> Traced:
    return views.transpose(x, *range(1, x.ndim - 1), 0, x.ndim - 1)


ADJOINTS: Mapping[str, Callable[[t.Recur, tuple[Traced | None, ...]], Contributions]] = {
    CHOLESKY: _cholesky, SUBSTITUTION: _substitution,
}  # fmt: skip
"""By what :class:`portakern.ir.tensor.Recur` calls them."""
