"""Linear algebra on batches of small square matrices."""

from __future__ import annotations

from dataclasses import dataclass

from portakern.spec import elementwise as ew
from portakern.spec import linear, pieces, reductions, views
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, number, rule, value, wide
from portakern.torch_import.types import NotImported

LARGEST = 32
"""Rows of the largest matrix that is eliminated: some kernels for each."""


@rule("aten.linalg_solve_triangular", "aten.triangular_solve")
def _(call: Call, a: Traced, b: Traced, upper: bool = True, left: bool = True, unitriangular: bool = False) -> Traced:
    if call.base != "aten.linalg_solve_triangular" or not left or unitriangular:
        raise NotImported("triangular systems from the right, or with a diagonal of ones that is not read")
    return linear.solve_triangular(a, b, lower=not upper)


@rule("aten.linalg_cholesky_ex")
def _(call: Call, a: Traced, upper: bool = False, check_errors: bool = False) -> tuple[Traced, Traced | None]:
    if 1 in call.used:
        raise NotImported("whether a matrix has a Cholesky factor")
    made = linear.cholesky(a)
    return (views.swapaxes(made, -1, -2) if upper else made), None


@rule("aten.cholesky_solve")
def _(call: Call, b: Traced, factor: Traced, upper: bool = False) -> Traced:
    lower = views.swapaxes(factor, -1, -2) if upper else factor
    inner = linear.solve_triangular(lower, b, lower=True)
    return linear.solve_triangular(views.swapaxes(lower, -1, -2), inner, lower=False)


# ---- elimination ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Eliminated:
    """A matrix [..., n, n + m] whose first n columns are those of the identity, and what its determinant was made of."""

    matrix: Traced
    pivots: tuple[Traced, ...]
    swaps: tuple[Traced, ...]

    @property
    def sign(self) -> Traced:
        """Of the determinant [...]."""
        total = value(1.0, self.matrix.type.dtype)
        for pivot, swapped in zip(self.pivots, self.swaps, strict=True):
            total = ew.multiply(total, ew.where(swapped, ew.negative(ew.sign(pivot)), ew.sign(pivot)))
        return total


def _eliminated(a: Traced, rows: int, what: str) -> _Eliminated:
    """By Gauss and Jordan; in each column the largest element below is the pivot."""
    if not 1 <= rows <= LARGEST:
        raise NotImported(f"{what} of {rows} rows: at most {LARGEST}")
    a = ew.cast(a, wide(a.type.dtype))
    pivots, swaps = [], []
    for k in range(rows):
        line = views.iota((*a.shape[:-2], rows), a.ndim - 2, "i32")
        place = reductions.argmax(ew.where(line >= k, ew.abs(a[..., k]), -1.0), -1)
        swaps.append(ew.not_equal(place, k))
        other = views.expand_dims(ew.cast(place, "i32"), place.ndim)
        order = ew.where(ew.equal(line, k), other, ew.where(ew.equal(line, other), k, line))
        a = views.take_along(a, ew.expand_at(order, a.shape, range(a.ndim - 1)), a.ndim - 2)
        pivots.append(a[..., k, k])
        row = ew.divide(a[..., k : k + 1, :], a[..., k : k + 1, k : k + 1])
        here = views.expand_dims(ew.equal(line, k), line.ndim)
        a = ew.where(here, row, ew.subtract(a, ew.multiply(a[..., k : k + 1], row)))
    return _Eliminated(a, tuple(pivots), tuple(swaps))


def _solved(a: Traced, b: Traced, what: str) -> tuple[Traced, _Eliminated]:
    rows = number(a.shape[-1], what)
    made = _eliminated(pieces.concat([a, value(b, a.type.dtype)], -1), rows, what)
    return made.matrix[..., rows:], made


@rule("aten.linalg_inv_ex")
def _(call: Call, a: Traced, check_errors: bool = False) -> tuple[Traced, None]:
    _no_report(call, 1)
    rows = a.shape[-1]
    one = ew.equal(views.iota(a.shape, a.ndim - 2, "i32"), views.iota(a.shape, a.ndim - 1, "i32"))
    number(rows, "an inverse")
    return _solved(a, ew.cast(one, a.type.dtype), "the inverse of a matrix")[0], None


@rule("aten._linalg_solve_ex")
def _(call: Call, a: Traced, b: Traced, left: bool = True, check_errors: bool = False) -> tuple[Traced, None, None, None]:
    _no_report(call, 1, 2, 3)
    if not left:
        a, b = views.swapaxes(a, -1, -2), views.swapaxes(b, -1, -2)
    line = b.ndim == a.ndim - 1
    made = _solved(a, views.expand_dims(b, b.ndim) if line else b, "a system of equations")[0]
    made = views.reshape(made, call.shape) if line else made
    return (made if left else views.swapaxes(made, -1, -2)), None, None, None


@rule("aten._linalg_det")
def _(call: Call, a: Traced) -> tuple[Traced, None, None]:
    _no_report(call, 1, 2)
    rows = number(a.shape[-1], "a determinant")
    if rows <= linear.UNROLLED:
        return linear.det(a), None, None
    made = _eliminated(a, rows, "the determinant")
    total = made.sign
    for pivot in made.pivots:
        total = ew.multiply(total, ew.abs(pivot))
    return total, None, None


@rule("aten._linalg_slogdet")
def _(call: Call, a: Traced) -> tuple[Traced, Traced, None, None]:
    _no_report(call, 2, 3)
    made = _eliminated(a, number(a.shape[-1], "a determinant"), "the determinant")
    total = ew.log(ew.abs(made.pivots[0]))
    for pivot in made.pivots[1:]:
        total = ew.add(total, ew.log(ew.abs(pivot)))
    return made.sign, total, None, None


def _no_report(call: Call, *results: int) -> None:
    if call.used & set(results):
        raise NotImported("factors of a matrix, or whether it has some")
