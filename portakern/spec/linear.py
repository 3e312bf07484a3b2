"""Linear algebra on batches of small matrices: triangular systems, Cholesky factors, determinants.

Matrices have a known size.  One of at most :data:`UNROLLED` rows is worked on element by element, which makes one elementwise
kernel over the batch, one matrix a lane; one of at most :data:`WALKED` rows by a loop over them; a larger one by halves, whose
work is mostly products of matrices.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

from portakern.dtypes import DTYPES
from portakern.spec import contractions, pieces, reductions, views
from portakern.spec import elementwise as ew
from portakern.spec.location import located, spec_error
from portakern.spec.recurrences import steps
from portakern.spec.traced import Traced

UNROLLED = 8
"""Rows of a matrix that is worked on element by element: n ** 3 / 3 operations and n ** 2 values in one kernel."""

WALKED = 32
"""Rows of a matrix that is worked on row by row in one kernel.  A step goes over the whole matrix, of which only a part is left
to do: three times the work of a factorisation, which halves keep small."""

CHOLESKY, SUBSTITUTION = "cholesky", "substitution"
"""The loops whose gradients have a form of their own (:mod:`portakern.gradients.linear`)."""

LARGEST = 128
"""Rows of the largest matrix, which is four of those that are walked, and products."""


@located
def solve_triangular(a: Traced, b: Traced, lower: bool = True, unit: bool = False) -> Traced:
    """x of ``a @ x = b`` for triangular matrices a [..., n, n] and b [..., n, m], by substitution; in f32, or in f64 for f64.

    Only the lower (or upper) triangle of ``a`` is read, without its diagonal if ``unit`` says that this is ones.  A zero on
    the diagonal gives infinities or NaN.  n is a number of at most 128.
    """
    n = _size(a, "solve_triangular")
    if b.ndim != a.ndim or b.shape[:-1] != a.shape[:-1]:
        raise spec_error(f"solve_triangular of {a.type} and {b.type}",
                         "they take [..., n, n] and [..., n, m]; of one right side make a column: b[..., None]")  # fmt: skip
    a, b = contractions.pair(a, b)
    result = a.type.dtype
    a, b = _wide(a), _wide(b)
    if lower:
        return ew.cast(_forwards(a, b, n, unit), result)
    # From the last row to the first an upper triangle is a lower one.
    rows = (a.ndim - 2, a.ndim - 1)
    turned = _forwards(views.flip(a, rows), views.flip(b, rows[:1]), n, unit)
    return ew.cast(views.flip(turned, rows[:1]), result)


@located
def cholesky(a: Traced) -> Traced:
    """The lower triangular l of ``l @ l.T = a`` for symmetric positive definite matrices [..., n, n], of which the lower
    triangle is read; in f32, or in f64 for f64.  NaN if ``a`` is not positive definite.  n is a number of at most 128."""
    n = _size(a, "cholesky")
    return ew.cast(_factor(_wide(a), n), a.type.dtype)


@located
def det(a: Traced) -> Traced:
    """The determinants of matrices [..., n, n], n at most 8; in f32, or in f64 for f64.

    They are sums of products of minors, two rows at a time larger: n * 2 ** (n - 1) multiplications, no division and no pivot,
    so whole numbers give whole numbers, and the determinant of a singular matrix is 0 to within rounding.
    """
    n = _size(a, "det")
    if n > UNROLLED:
        raise spec_error(f"det of {n} rows", f"it takes at most {UNROLLED}; of a positive definite matrix it is the square of "
                         "pk.prod(pk.diag(pk.cholesky(a)), axis=-1)")  # fmt: skip
    wide = _wide(a)

    @cache
    def minor(columns: tuple[int, ...]) -> Traced:
        """Of the last rows and these columns."""
        row = n - len(columns)
        if len(columns) == 1:
            return wide[..., row, columns[0]]
        total: Traced | None = None
        for place, column in enumerate(columns):
            part = wide[..., row, column] * minor((*columns[:place], *columns[place + 1 :]))
            total = part if total is None else total - part if place % 2 else total + part
        assert total is not None
        return total

    for size in range(1, n):  # smaller ones first, so that none is traced inside of another
        for columns in combinations(range(n), size):
            minor(columns)
    return ew.cast(minor(tuple(range(n))), a.type.dtype)


def _size(a: Traced, what: str) -> int:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise spec_error(f"{what} of {a.type}", "it takes square matrices: [..., n, n]")
    n = a.shape[-1]
    if not isinstance(n, int):
        raise spec_error(f"{what} of matrices of open size {n}", "build it for given sizes")
    if not 1 <= n <= LARGEST:
        raise spec_error(f"{what} of {n} rows", f"it takes 1 to {LARGEST}")
    if not DTYPES[a.type.dtype].is_float:
        raise spec_error(f"{what} of {a.type.dtype}", "cast it to a float: pk.cast(a, pk.f32)")
    return n


def _wide(x: Traced) -> Traced:
    return ew.cast(x, "f64" if x.type.dtype == "f64" else "f32")


def _half(n: int) -> int:
    """Rows of the upper part: whole pieces of what is worked on element by element."""
    return -(-n // (2 * UNROLLED)) * UNROLLED


# ---- triangular systems --------------------------------------------------------------------------------------------------


def _forwards(a: Traced, b: Traced, n: int, unit: bool) -> Traced:
    if UNROLLED < n <= WALKED:
        return _row_by_row(a, b, n, unit)
    if n > UNROLLED:
        h = _half(n)
        upper = _forwards(a[..., :h, :h], b[..., :h, :], h, unit)
        rest = b[..., h:, :] - contractions.matmul(a[..., h:, :h], upper)
        return pieces.concat([upper, _forwards(a[..., h:, h:], rest, n - h, unit)], -2)
    rows: list[Traced] = []
    for i in range(n):
        row = b[..., i, :]
        for j in range(i):
            row = row - a[..., i, j, None] * rows[j]
        rows.append(row if unit else row / a[..., i, i, None])
    return pieces.stack(rows, -2)


def _row_by_row(a: Traced, b: Traced, n: int, unit: bool) -> Traced:
    """The rows of x one after the other, of what is left of b when those before are taken off."""
    k = views.arange(n)
    diagonal = () if unit else (by_rows(pieces.diag(a)[..., None]),)

    def step(x: Traced, of_row: tuple[Traced, ...]) -> tuple[Traced, None]:
        i, row, rest, *pivot = of_row
        rest = rest - reductions.sum(ew.where(k < i, row, 0.0)[..., None] * x, axis=-2)
        return ew.where(k[:, None] == i, (rest / pivot[0] if pivot else rest)[..., None, :], x), None

    given = (k, by_rows(a), by_rows(b), *diagonal)
    return steps(step, views.zeros(b.shape, b.dtype), given, adjoint=SUBSTITUTION)[0]


def by_rows(x: Traced) -> Traced:
    """``x`` [..., n, m] with its rows in front."""
    return views.transpose(x, x.ndim - 2, *range(x.ndim - 2), x.ndim - 1)


# ---- Cholesky ------------------------------------------------------------------------------------------------------------


def _factor(a: Traced, n: int) -> Traced:
    if n <= UNROLLED:
        return _by_elements(a, n)
    if n <= WALKED:
        return _column_by_column(a, n)
    h = _half(n)
    upper = _factor(a[..., :h, :h], h)
    left = views.swapaxes(_forwards(upper, views.swapaxes(a[..., h:, :h], -1, -2), h, False), -1, -2)
    lower = _factor(a[..., h:, h:] - contractions.matmul(left, views.swapaxes(left, -1, -2)), n - h)
    around = [(0, 0)] * (a.ndim - 1)
    return pieces.concat([pieces.pad(upper, [*around, (0, n - h)]), pieces.concat([left, lower], -1)], -2)


def _column_by_column(a: Traced, n: int) -> Traced:
    """The columns of l one after the other; the product of each with itself is taken off what is right of it and below."""
    k = views.arange(n)
    r, c = k[:, None], k[None, :]

    def step(rest: Traced, j: Traced) -> tuple[Traced, None]:
        row = reductions.sum(ew.where(r == j, rest, 0.0), axis=-2, keepdims=True)
        column = reductions.sum(ew.where(c == j, rest, 0.0), axis=-1, keepdims=True)
        pivot = ew.sqrt(reductions.sum(ew.where(c == j, row, 0.0), axis=-1, keepdims=True))
        column = column / pivot
        rest = ew.where((r > j) & (c > j), rest - column * (row / pivot), rest)
        return ew.where((c == j) & (r >= j), column, rest), None

    whole = ew.where(r >= c, a, views.swapaxes(a, -1, -2))
    return views.tril(steps(step, whole, k, adjoint=CHOLESKY)[0])


def _by_elements(a: Traced, n: int) -> Traced:
    found: dict[tuple[int, int], Traced] = {}
    for j in range(n):
        for i in range(j, n):
            rest = a[..., i, j]
            for k in range(j):
                rest = rest - found[i, k] * found[j, k]
            found[i, j] = rest / found[j, j] if i > j else ew.sqrt(rest)
    around = [(0, 0)] * (a.ndim - 2)
    rows = (pieces.stack([found[i, j] for j in range(i + 1)], -1) for i in range(n))
    return pieces.stack([pieces.pad(row, [*around, (0, n - 1 - i)]) for i, row in enumerate(rows)], -2)
