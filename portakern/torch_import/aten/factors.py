"""Factors of batches of matrices: LU with pivots, QR by Householder's reflections, triangular systems of any size.

A matrix of a few rows is worked on element by element, in one kernel over the batch; a larger one in a loop over its columns,
whose step is some kernels whatever the size is.  Signs and pivots are LAPACK's (getrf, geqrf), which PyTorch calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portakern.ir.size import Size
from portakern.spec import contractions, linear, orders, pieces, recurrences, reductions, views
from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.rules import number, value, wide

SMALL = 4
"""Rows and columns of a matrix that is factorised element by element."""

HALVED = 32
"""Rows of a triangle that is halved until it is worked on element by element.  Kernels grow with the size then, to 400 for a
Cholesky factor of 128 rows; a loop has some for all sizes."""


def eye(rows: Size, columns: Size, dtype: str) -> Traced:
    at = (views.iota((rows, columns), d, "i32") for d in (0, 1))
    return ew.cast(ew.equal(*at), dtype)


def spread_eye(batch: tuple[Size, ...], rows: Size, columns: Size, dtype: str) -> Traced:
    return ew.expand_at(eye(rows, columns, dtype), (*batch, rows, columns), (len(batch), len(batch) + 1))


def mT(x: Traced) -> Traced:
    return views.swapaxes(x, -1, -2)


def _picked(x: Traced, k: Traced, dim: int) -> Traced:
    """Row or column ``k`` of matrices, which stays as a dim of 1."""
    return views.take(x, views.reshape(k, (1,)), x.ndim + dim)


def _numbers(x: Traced, dim: int) -> Traced:
    """The number of each element's row (-2) or column (-1)."""
    return views.iota(x.shape, x.ndim + dim, "i32")


def least(a: Size, b: Size) -> int:
    return min(number(a, "a factor of a matrix"), number(b, "a factor of a matrix"))


# ---- LU -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LU:
    """``a[rows] = l @ u``.

    Args:
        packed: [..., m, n], u on and above the diagonal, below it l, whose diagonal is ones.
        rows: [..., m], which row of the matrix each row is (i32).
        pivots: [..., min(m, n)], which row was exchanged with each, counted from 1 (i32).
    """

    packed: Traced
    rows: Traced
    pivots: Traced

    @property
    def diagonal(self) -> Traced:
        """Of u, [..., n] of a square matrix."""
        return diagonal(self.packed)

    @property
    def odd(self) -> Traced:
        """Whether an odd number of rows were exchanged."""
        own = ew.add(views.iota(self.pivots.shape, self.pivots.ndim - 1, "i32"), 1)
        moved = reductions.sum(ew.cast(ew.not_equal(self.pivots, own), "i32"), -1)
        return ew.not_equal(ew.remainder(moved, 2), 0)

    @property
    def info(self) -> Traced:
        """The number of the first pivot that is 0, counted from 1, or 0."""
        return first_place(ew.equal(self.diagonal, 0.0))


def first_place(holds: Traced) -> Traced:
    """The number of the first element along the last dim that holds, counted from 1, or 0."""
    at = ew.add(views.iota(holds.shape, holds.ndim - 1, "i32"), 1)
    none = number(holds.shape[-1], "a factor of a matrix") + 1
    first = reductions.min(ew.where(holds, at, none), -1)
    return ew.where(ew.equal(first, none), 0, first)


def diagonal(a: Traced) -> Traced:
    """The main diagonal of matrices."""
    k = least(*a.shape[-2:])
    at = views.iota((*a.shape[:-2], k, 1), a.ndim - 2, "i32")
    return views.reshape(views.take_along(a[..., :k, :], at, a.ndim - 1), (*a.shape[:-2], k))


def lu(a: Traced, pivot: bool = True) -> LU:
    """By columns; the largest element of each on or below the diagonal comes to the diagonal."""
    a = ew.cast(a, wide(a.type.dtype))
    m, n = (number(s, "the factors of a matrix") for s in a.shape[-2:])
    return _lu_by_elements(a, m, n, pivot) if max(m, n) <= SMALL else _lu_by_columns(a, m, n, pivot)


def _lu_by_columns(a: Traced, m: int, n: int, pivot: bool) -> LU:
    def step(carry: tuple[Traced, Traced], k: Traced) -> tuple[tuple[Traced, Traced], Traced]:
        a, rows = carry
        line, dtype = views.iota(rows.shape, rows.ndim - 1, "i32"), a.type.dtype
        column = views.squeeze(_picked(a, k, -1), -1)
        if pivot:
            found = reductions.argmax(ew.where(ew.greater_equal(line, k), ew.abs(column), -1.0), -1)
            place = views.expand_dims(ew.cast(found, "i32"), found.ndim)
            order = ew.where(ew.equal(line, k), place, ew.where(ew.equal(line, place), k, line))
            rows = views.take_along(rows, order, rows.ndim - 1)
            a = views.take_along(a, ew.expand_at(order, a.shape, range(a.ndim - 1)), a.ndim - 2)
        else:
            found = ew.expand(k, rows.shape[:-1])
        row, column = _picked(a, k, -2), _picked(a, k, -1)
        top = _picked(row, k, -1)
        share = ew.where(ew.equal(top, 0.0), value(0.0, dtype), ew.divide(column, top))
        right = ew.subtract(a, ew.multiply(share, row))
        below = ew.greater(_numbers(a, -2), k)
        at = _numbers(a, -1)
        made = ew.where(ew.equal(at, k), ew.expand(share, a.shape), ew.where(ew.greater(at, k), right, a))
        return (ew.where(below, made, a), rows), ew.add(ew.cast(found, "i32"), 1)

    rows = views.iota((*a.shape[:-2], m), a.ndim - 2, "i32")
    (packed, rows), pivots = recurrences.scan(step, (a, rows), views.arange(min(m, n)), axis=0)
    return LU(packed, rows, views.transpose(pivots, (*range(1, pivots.ndim), 0)))


def _lu_by_elements(a: Traced, m: int, n: int, pivot: bool) -> LU:
    zero = views.zeros(a.shape[:-2], "i32")
    lines = [[a[..., i, j] for j in range(n)] for i in range(m)]
    rows: list[Any] = [ew.add(zero, i) for i in range(m)]
    pivots = []
    for k in range(min(m, n)):
        place: Any = ew.add(zero, k)
        if pivot:
            most = ew.abs(lines[k][k])
            for i in range(k + 1, m):
                size = ew.abs(lines[i][k])
                more = ew.greater(size, most)
                most, place = ew.where(more, size, most), ew.where(more, i, place)
            for i in range(k + 1, m):
                here = ew.equal(place, i)
                pairs = [*zip(lines[k], lines[i], strict=True), (rows[k], rows[i])]
                changed = [(ew.where(here, low, top), ew.where(here, top, low)) for top, low in pairs]
                *up, up_row = (c[0] for c in changed)
                *down, down_row = (c[1] for c in changed)
                lines[k], lines[i], rows[k], rows[i] = up, down, up_row, down_row
        pivots.append(ew.add(place, 1))
        for i in range(k + 1, m):
            share = ew.where(ew.equal(lines[k][k], 0.0), 0.0, ew.divide(lines[i][k], lines[k][k]))
            pairs = zip(lines[i][k + 1 :], lines[k][k + 1 :], strict=True)
            lines[i][k:] = [share, *(ew.subtract(low, ew.multiply(share, top)) for low, top in pairs)]
    packed = pieces.stack([pieces.stack(line, -1) for line in lines], -2)
    return LU(packed, pieces.stack(rows, -1), pieces.stack(pivots, -1))


def rows_of(pivots: Traced, rows: Size) -> Traced:
    """Which row of the matrix each row is [..., rows], of the exchanges [..., k] that were made one after the other."""
    def step(order: Traced, both: tuple[Traced, Traced]) -> tuple[Traced, None]:
        k, other = both
        line = views.iota(order.shape, order.ndim - 1, "i32")
        other = views.expand_dims(other, other.ndim)
        source = ew.where(ew.equal(line, k), other, ew.where(ew.equal(line, other), k, line))
        return views.take_along(order, source, order.ndim - 1), None

    count, batch = pivots.shape[-1], pivots.shape[:-1]
    first = views.iota((*batch, rows), len(batch), "i32")
    turned = views.transpose(ew.subtract(ew.cast(pivots, "i32"), 1), (len(batch), *range(len(batch))))
    return recurrences.scan(step, first, (views.arange(count), turned))[0]


def inverse_order(rows: Traced) -> Traced:
    """Where each number stands among ``rows`` [..., m]."""
    at = views.iota(rows.shape, rows.ndim - 1, "i32")
    return orders.scatter(views.zeros(rows.shape, "i32"), rows, at, rows.ndim - 1, "set")


def permuted(x: Traced, rows: Traced) -> Traced:
    """Rows of x [..., m, n] in the order of ``rows`` [..., m]."""
    return views.take_along(x, ew.expand_at(rows, x.shape, range(x.ndim - 1)), x.ndim - 2)


def lu_solved(packed: Traced, rows: Traced, b: Traced, adjoint: bool = False) -> Traced:
    """x of ``a @ x = b``, or of ``a.mT @ x = b``, where ``a[rows]`` has the factors ``packed``."""
    if not adjoint:
        return triangular(packed, triangular(packed, permuted(b, rows), lower=True, unit=True), lower=False)
    turned = mT(packed)
    inner = triangular(turned, triangular(turned, b, lower=True), lower=False, unit=True)
    return permuted(inner, inverse_order(rows))


# ---- Cholesky ---------------------------------------------------------------------------------------------------------


def cholesky(a: Traced) -> Traced:
    """The lower factor of a positive definite matrix, NaN where it is none; of large ones column by column."""
    rows = number(a.shape[-1], "a factor of a matrix")
    if rows <= HALVED:
        return linear.cholesky(a) if rows else a
    a = ew.cast(a, wide(a.type.dtype))

    def step(low: Traced, k: Traced) -> tuple[Traced, None]:
        """Of columns that are not there yet ``low`` has zeros."""
        rest = ew.subtract(_picked(a, k, -1), contractions.matmul(low, mT(_picked(low, k, -2))))
        column = ew.divide(rest, ew.sqrt(_picked(rest, k, -2)))
        column = ew.where(ew.less(_numbers(column, -2), k), value(0.0, a.type.dtype), column)
        return ew.where(ew.equal(_numbers(low, -1), k), ew.expand(column, low.shape), low), None

    return recurrences.scan(step, ew.multiply(a, 0.0), views.arange(rows))[0]


# ---- triangular systems ---------------------------------------------------------------------------------------------


def triangular(a: Traced, b: Traced, lower: bool, unit: bool = False) -> Traced:
    """x of ``a @ x = b``, of which only one triangle of ``a`` is read; batches are the same."""
    rows = number(a.shape[-1], "a triangular system")
    if rows <= HALVED:
        return linear.solve_triangular(a, b, lower=lower, unit=unit)
    a, b = (ew.cast(v, wide(v.type.dtype)) for v in (a, b))

    def step(x: Traced, k: Traced) -> tuple[Traced, None]:
        """Of rows that are not there yet ``x`` has zeros."""
        row = _picked(a, k, -2)
        rest = ew.subtract(_picked(b, k, -2), contractions.matmul(row, x))
        found = rest if unit else ew.divide(rest, _picked(row, k, -1))
        return ew.where(ew.equal(_numbers(x, -2), k), ew.expand(found, x.shape), x), None

    return recurrences.scan(step, ew.multiply(b, 0.0), views.arange(rows), reverse=not lower)[0]


# ---- QR -------------------------------------------------------------------------------------------------------------


def reflections(a: Traced) -> tuple[Traced, Traced]:
    """Householder's reflections [..., m, n], r above the diagonal and on it, and their factors [..., min(m, n)]."""
    a = ew.cast(a, wide(a.type.dtype))
    if not least(*a.shape[-2:]):
        return a, views.zeros((*a.shape[:-2], 0), a.type.dtype)

    def step(a: Traced, k: Traced) -> tuple[Traced, Traced]:
        column = _picked(a, k, -1)
        line, dtype = _numbers(column, -2), a.type.dtype
        top = _picked(column, k, -2)
        below = ew.where(ew.greater(line, k), column, value(0.0, dtype))
        most = reductions.max(ew.abs(below), -2, True)
        scale = ew.where(ew.equal(most, 0.0), value(1.0, dtype), most)  # squares of small numbers vanish
        size = reductions.sum(ew.square(ew.divide(below, scale)), -2, True)
        length = ew.multiply(ew.sqrt(ew.add(size, ew.square(ew.divide(top, scale)))), scale)
        beta = ew.where(ew.less(top, 0.0), length, ew.negative(length))
        done = ew.equal(most, 0.0)
        beta = ew.where(done, top, beta)
        tau = ew.where(done, value(0.0, dtype), ew.divide(ew.subtract(beta, top), beta))
        over = ew.where(done, value(1.0, dtype), ew.subtract(top, beta))
        v = ew.where(ew.equal(line, k), value(1.0, dtype), ew.divide(below, over))
        moved = ew.subtract(a, ew.multiply(ew.multiply(v, tau), contractions.matmul(mT(v), a)))
        at, here = _numbers(a, -1), _numbers(a, -2)
        own = ew.where(ew.greater(here, k), ew.expand(v, a.shape), ew.where(ew.equal(here, k), ew.expand(beta, a.shape), a))
        made = ew.where(ew.equal(at, k), own, ew.where(ew.greater(at, k), moved, a))
        return made, views.reshape(tau, a.shape[:-2])

    packed, taus = recurrences.scan(step, a, views.arange(least(*a.shape[-2:])))
    return packed, views.transpose(taus, (*range(1, taus.ndim), 0))


def reflected(packed: Traced, taus: Traced, c: Traced, first_to_last: bool = False) -> Traced:
    """The product of reflections [..., m, k], whose factors are ``taus`` [..., j], times c [..., m, n]; of their transpose
    with ``first_to_last``."""
    def step(c: Traced, both: tuple[Traced, Traced]) -> tuple[Traced, None]:
        k, tau = both
        column = _picked(packed, k, -1)
        line, dtype = _numbers(column, -2), c.type.dtype
        v = ew.where(ew.greater(line, k), column, ew.where(ew.equal(line, k), value(1.0, dtype), value(0.0, dtype)))
        tau = views.reshape(tau, (*tau.shape, 1, 1))
        return ew.subtract(c, ew.multiply(ew.multiply(v, tau), contractions.matmul(mT(v), c))), None

    packed, taus, c = (ew.cast(x, wide(c.type.dtype)) for x in (packed, taus, c))
    batch = len(taus.shape) - 1
    turned = views.transpose(taus, (batch, *range(batch)))
    if not turned.shape[0]:
        return c
    return recurrences.scan(step, c, (views.arange(turned.shape[0]), turned), reverse=not first_to_last)[0]


def of_orthogonal(packed: Traced, taus: Traced, columns: Size) -> Traced:
    """The first ``columns`` of the product of reflections."""
    return reflected(packed, taus, spread_eye(packed.shape[:-2], packed.shape[-2], columns, packed.type.dtype))
