"""Linear algebra on batches of square matrices, and factors of any."""

from __future__ import annotations

import math
from typing import Any

from portakern.ir.size import Size
from portakern.spec import contractions, linear, recurrences, reductions, views
from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced, broadcast_shapes
from portakern.torch_import.aten import factors
from portakern.torch_import.aten.factors import mT
from portakern.torch_import.rules import Call, number, rule, spread, value, wide

# ---- triangular systems and Cholesky factors --------------------------------------------------------------------------


@rule("aten.linalg_solve_triangular")
def _(call: Call, a: Traced, b: Traced, upper: bool = True, left: bool = True, unitriangular: bool = False) -> Traced:
    batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    a, b = (spread(v, (*batch, *v.shape[-2:])) for v in (a, b))
    if left:
        return factors.triangular(a, b, not upper, unitriangular)
    return mT(factors.triangular(mT(a), mT(b), upper, unitriangular))


@rule("aten.triangular_solve")
def _(call: Call, b: Traced, a: Traced, upper: bool = True, transpose: bool = False, unitriangular: bool = False
      ) -> tuple[Traced, Traced]:  # fmt: skip
    batch = call.shape[:-2]
    a, b = (spread(v, (*batch, *v.shape[-2:])) for v in (a, b))
    return factors.triangular(mT(a) if transpose else a, b, upper == transpose, unitriangular), a


@rule("aten.linalg_cholesky_ex")
def _(call: Call, a: Traced, upper: bool = False, check_errors: bool = False) -> tuple[Traced, Traced | None]:
    """And the number of the first pivot that is not above 0, counted from 1."""
    made = factors.cholesky(mT(a) if upper else a)
    wrong = None if 1 not in call.used else factors.first_place(ew.logical_not(ew.greater(factors.diagonal(made), 0.0)))
    return (mT(made) if upper else made), wrong


@rule("aten.cholesky")
def _(call: Call, a: Traced, upper: bool = False) -> Traced:
    made = factors.cholesky(mT(a) if upper else a)
    return mT(made) if upper else made


@rule("aten.cholesky_solve")
def _(call: Call, b: Traced, factor: Traced, upper: bool = False) -> Traced:
    batch = call.shape[:-2]
    b, factor = (spread(v, (*batch, *v.shape[-2:])) for v in (b, factor))
    lower = mT(factor) if upper else factor
    return factors.triangular(mT(lower), factors.triangular(lower, b, lower=True), lower=False)


@rule("aten.cholesky_inverse")
def _(call: Call, factor: Traced, upper: bool = False) -> Traced:
    """Of ``l @ l.T``: the inverse of l, transposed, times itself."""
    lower = mT(factor) if upper else factor
    inverse = factors.triangular(lower, _one(lower), lower=True)
    return contractions.matmul(mT(inverse), inverse)


def _one(a: Traced) -> Traced:
    return factors.spread_eye(a.shape[:-2], a.shape[-2], a.shape[-1], a.type.dtype)


# ---- systems of equations ---------------------------------------------------------------------------------------------


def _factored(call: Call, a: Traced) -> tuple[factors.LU, bool]:
    """The factors of ``a`` as PyTorch makes them: of its transpose where it lies in rows, and whether that is so."""
    return factors.lu(mT(a) if call.contiguous else a), call.contiguous


@rule("aten.linalg_inv_ex")
def _(call: Call, a: Traced, check_errors: bool = False) -> tuple[Traced, Traced | None]:
    if not number(a.shape[-1], "an inverse"):
        return a, None
    made = factors.lu(a)
    return factors.lu_solved(made.packed, made.rows, _one(a)), made.info if 1 in call.used else None


@rule("aten._linalg_solve_ex")
def _(call: Call, a: Traced, b: Traced, left: bool = True, check_errors: bool = False) -> tuple[Traced | None, ...]:
    line = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    b = views.expand_dims(b, b.ndim) if line else b
    b = b if left or line else mT(b)
    made, turned = _factored(call, a)
    batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    packed, rows, b = _spread(batch, made.packed, 2), _spread(batch, made.rows, 1), _spread(batch, b, 2)
    solved = factors.lu_solved(packed, rows, ew.cast(b, packed.type.dtype), turned == (left or line))
    solved = solved if left or line else mT(solved)
    return views.reshape(solved, call.shape), made.packed, made.pivots, made.info if 3 in call.used else None


def _spread(batch: tuple[Size, ...], x: Traced, own: int) -> Traced:
    return spread(x, (*batch, *x.shape[x.ndim - own :]))


@rule("aten._linalg_det")
def _(call: Call, a: Traced) -> tuple[Traced, Traced | None, Traced | None]:
    rows = number(a.shape[-1], "a determinant")
    if not rows:
        return spread(value(1, call.dtype), call.shape), None, None
    if rows <= linear.UNROLLED and not call.used & {1, 2}:
        return linear.det(a), None, None
    made, _ = _factored(call, a)
    total = reductions.prod(made.diagonal, -1)
    return ew.where(made.odd, ew.negative(total), total), made.packed, made.pivots


@rule("aten._linalg_slogdet")
def _(call: Call, a: Traced) -> tuple[Traced | None, ...]:
    if not number(a.shape[-1], "a determinant"):
        return spread(value(1, call.dtype), call.shape), spread(value(0, call.dtype), call.shape), None, None
    made, _ = _factored(call, a)
    signs = reductions.prod(ew.sign(made.diagonal), -1)
    total = reductions.sum(ew.log(ew.abs(made.diagonal)), -1)
    return ew.where(made.odd, ew.negative(signs), signs), total, made.packed, made.pivots


# ---- LU ---------------------------------------------------------------------------------------------------------------


@rule("aten.linalg_lu_factor_ex")
def _(call: Call, a: Traced, pivot: bool = True, check_errors: bool = False) -> tuple[Traced, Traced, Traced | None]:
    made = factors.lu(a, pivot)
    return made.packed, made.pivots, made.info if 2 in call.used else None


@rule("aten.linalg_lu")
def _(call: Call, a: Traced, pivot: bool = True) -> tuple[Traced, Traced, Traced]:
    made = factors.lu(a, pivot)
    p = _permutation(made.rows, made.packed.type.dtype) if pivot else views.zeros((0,), call.dtype)
    return p, *_unpacked(made.packed)


@rule("aten.lu_unpack")
def _(call: Call, packed: Traced, pivots: Traced, data: bool = True, of_pivots: bool = True) -> tuple[Traced, ...]:
    none = views.zeros((0,), call.dtype)
    p = _permutation(factors.rows_of(pivots, packed.shape[-2]), call.dtype) if of_pivots else none
    return p, *(_unpacked(packed) if data else (none, none))


def _permutation(rows: Traced, dtype: str) -> Traced:
    """The matrix p of ``a = p @ l @ u``."""
    size = rows.shape[-1]
    row = views.iota((*rows.shape[:-1], size, size), rows.ndim - 1, "i32")
    return ew.cast(ew.equal(row, views.expand_dims(rows, rows.ndim - 1)), dtype)


def _unpacked(packed: Traced) -> tuple[Traced, Traced]:
    m, n = packed.shape[-2:]
    k = factors.least(m, n)
    low, one = packed[..., :k], factors.eye(m, k, packed.type.dtype)
    return ew.add(views.tril(low, -1), one), views.triu(packed[..., :k, :])


@rule("aten.linalg_lu_solve")
def _(call: Call, packed: Traced, pivots: Traced, b: Traced, left: bool = True, adjoint: bool = False) -> Traced:
    batch = call.shape[:-2]
    rows = factors.rows_of(pivots, packed.shape[-2])
    b = b if left else mT(b)
    packed, rows, b = _spread(batch, packed, 2), _spread(batch, rows, 1), _spread(batch, b, 2)
    solved = factors.lu_solved(packed, rows, b, adjoint == left)
    return solved if left else mT(solved)


# ---- QR ---------------------------------------------------------------------------------------------------------------


@rule("aten.linalg_qr")
def _(call: Call, a: Traced, mode: str = "reduced") -> tuple[Traced, Traced]:
    m, n = a.shape[-2:]
    packed, taus = factors.reflections(a)
    if mode == "r":
        return views.zeros((0,), call.dtype), views.triu(packed[..., : factors.least(m, n), :])
    columns = m if mode == "complete" else factors.least(m, n)
    return factors.of_orthogonal(packed, taus, columns), views.triu(packed[..., :columns, :])


@rule("aten.geqrf")
def _(call: Call, a: Traced) -> tuple[Traced, Traced]:
    return factors.reflections(a)


@rule("aten.linalg_householder_product", "aten.orgqr")
def _(call: Call, packed: Traced, taus: Traced) -> Traced:
    return factors.of_orthogonal(packed, taus, packed.shape[-1])


@rule("aten.ormqr")
def _(call: Call, packed: Traced, taus: Traced, c: Traced, left: bool = True, transpose: bool = False) -> Traced:
    if left:
        return factors.reflected(packed, taus, c, transpose)
    return mT(factors.reflected(packed, taus, mT(c), not transpose))


# ---- the exponential --------------------------------------------------------------------------------------------------

_SQUARINGS = 32
"""At most: of a matrix with a norm of 2e9."""


@rule("aten.linalg_matrix_exp")
def _(call: Call, a: Traced) -> Traced:
    """By scaling and squaring (Higham, Functions of Matrices, 10.3): the Taylor polynomial of degree 15 of the matrix over a
    power of 2 that makes its norm at most 1/2, to 3e-17, by Paterson and Stockmeyer's scheme; then as many squares."""
    if not number(a.shape[-1], "the exponential of a matrix"):
        return a
    a = ew.cast(a, wide(a.type.dtype))
    dtype = a.type.dtype
    norm = reductions.max(reductions.sum(ew.abs(a), -2, True), -1, True)
    times = ew.maximum(ew.ceil(ew.add(ew.log2(ew.maximum(norm, 0.25)), 1.0)), 0.0)
    scaled = ew.multiply(a, ew.exp2(ew.negative(times)))
    powers: list[Any] = [_one(a), scaled]
    for _ in range(3):
        powers.append(contractions.matmul(powers[-1], scaled))
    *low, fourth = powers

    def block(n: int) -> Traced:
        total = ew.multiply(low[0], 1 / math.factorial(4 * n))
        for k in range(1, 4):
            total = ew.add(total, ew.multiply(low[k], 1 / math.factorial(4 * n + k)))
        return total

    total = block(3)
    for n in (2, 1, 0):
        total = ew.add(contractions.matmul(total, fourth), block(n))

    def squared(x: Traced, k: Traced) -> tuple[Traced, None]:
        return ew.where(ew.less(ew.cast(k, dtype), times), contractions.matmul(x, x), x), None

    total = recurrences.scan(squared, total, views.arange(_SQUARINGS))[0]
    return ew.where(ew.less_equal(times, float(_SQUARINGS)), total, math.nan)
