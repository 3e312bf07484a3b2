"""Singular values and eigenvalues of batches of matrices, by Jacobi's rotations.

In each step the columns are paired, every pair is turned until it is orthogonal, and the pairs change as in a tournament, so
that all have met after one sweep (Brent and Luk, 1985).  A fixed number of sweeps brings f64 to its rounding.  What only has a
direction up to its sign, as a singular vector, has another sign than LAPACK's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from portakern.spec import contractions, pieces, recurrences, reductions, views
from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.aten import factors
from portakern.torch_import.aten.factors import mT
from portakern.torch_import.aten.orders import ordered
from portakern.torch_import.rules import Call, number, rule, value, wide
from portakern.torch_import.types import NotImported

SWEEPS = 10
"""Each squares what is left, once it is small."""

LARGEST = 256
"""Columns of the largest matrix: it takes some 2500 steps."""


def _check(columns: int, what: str) -> None:
    if columns > LARGEST:
        raise NotImported(f"{what} of {columns} columns: at most {LARGEST}")


def _turn(a: Traced, b: Traced, both: Traced) -> tuple[Traced, Traced]:
    """(cosine, sine) that make a pair orthogonal whose squares are ``a`` and ``b`` and whose product is ``both``."""
    none = ew.equal(both, 0.0)
    slope = ew.divide(ew.subtract(b, a), ew.multiply(ew.where(none, 1.0, both), 2.0))
    size = ew.abs(slope)
    large = ew.greater(size, 1e15)  # its square would overflow
    near = ew.where(large, 1.0, size)
    t = ew.reciprocal(ew.add(near, ew.sqrt(ew.add(ew.square(near), 1.0))))
    t = ew.where(large, ew.divide(0.5, ew.where(large, size, 1.0)), t)
    t = ew.where(none, 0.0, ew.where(ew.less(slope, 0.0), ew.negative(t), t))
    cosine = ew.rsqrt(ew.add(ew.square(t), 1.0))
    return cosine, ew.multiply(cosine, t)


def _rotated(x: Traced, cosine: Traced, sine: Traced) -> Traced:
    """The columns of ``x``, each of the first half turned with its partner in the second half, in the order of the next round:
    the first stays, the others of the first half move to the right, those of the second half to the left."""
    columns = number(x.shape[-1], "pairs of columns")
    half = columns // 2
    at = views.arange(columns)
    if half > 1:
        low = ew.where(ew.equal(at, 0), 0, ew.where(ew.equal(at, 1), half, ew.subtract(at, 1)))
        high = ew.where(ew.equal(at, columns - 1), half - 1, ew.add(at, 1))
        at = ew.where(ew.less(at, half), low, high)
    first = ew.less(at, half)
    partner = ew.where(first, ew.add(at, half), ew.subtract(at, half))
    pair = ew.where(first, at, ew.subtract(at, half))
    own, other = (views.take(x, k, x.ndim - 1) for k in (at, partner))
    cosine, sine = (views.take(v, pair, v.ndim - 1) for v in (cosine, sine))
    sine = ew.multiply(sine, ew.where(first, -1.0, 1.0))
    return ew.add(ew.multiply(own, cosine), ew.multiply(other, sine))


def _even(n: int) -> int:
    return n + n % 2


def _padded(x: Traced, rows: int, columns: int) -> Traced:
    """With zeros behind."""
    if x.shape[-2:] == (rows, columns):
        return x
    more = ((0, rows - number(x.shape[-2], "rows")), (0, columns - number(x.shape[-1], "columns")))
    return pieces.pad(x, [*[(0, 0)] * (x.ndim - 2), *more])


def _rounds(columns: int) -> Traced:
    return views.arange(SWEEPS * (columns - 1))


# ---- singular values --------------------------------------------------------------------------------------------------


def _singular(a: Traced, right: bool) -> tuple[Traced, Traced, Traced]:
    """(u times the singular values [.., m, n], singular values [.., n], v [.., n, n]) of a [.., m, n] with m >= n, the largest
    first; v only means something with ``right``."""
    m, n = (number(s, "singular values") for s in a.shape[-2:])
    _check(n, "singular values")
    columns = _even(n)
    # Below a the identity, which becomes v; its last row marks a column of zeros that was put in.
    one = factors.spread_eye(a.shape[:-2], columns, columns, a.type.dtype)
    both = pieces.concat([_padded(a, m, columns), one], -2)

    def step(x: Traced, k: Traced) -> tuple[Traced, None]:
        top, half = x[..., :m, :], columns // 2
        left, right_ = top[..., :half], top[..., half:]
        sums = (reductions.sum(ew.multiply(p, q), -2, True) for p, q in ((left, left), (right_, right_), (left, right_)))
        return _rotated(x, *_turn(*sums)), None

    if columns > 1:
        both = recurrences.scan(step, both, _rounds(columns))[0]
    top, below = both[..., :m, :], both[..., m:, :]
    most = reductions.max(ew.abs(top), -2, True)
    scale = ew.where(ew.equal(most, 0.0), 1.0, most)
    sizes = views.squeeze(ew.multiply(ew.sqrt(reductions.sum(ew.square(ew.divide(top, scale)), -2, True)), scale), -2)
    key = ew.where(ew.greater(below[..., n, :], 0.5), -1.0, sizes) if columns > n else sizes
    values, order = ordered(key, key.ndim - 1, True, n)
    order = ew.cast(order, "i32")
    return _chosen(top, order), values, _chosen(below[..., :n, :], order) if right else below


def _chosen(x: Traced, order: Traced) -> Traced:
    """Columns in an order."""
    shape = (*x.shape[:-1], order.shape[-1])
    return views.take_along(x, ew.expand_at(order, shape, (*range(x.ndim - 2), x.ndim - 1)), x.ndim - 1)


def _tall(a: Traced) -> tuple[Traced, bool]:
    """``a`` with at least as many rows as columns, and whether it was turned for that."""
    a = ew.cast(a, wide(a.type.dtype))
    m, n = (number(s, "singular values") for s in a.shape[-2:])
    if not min(m, n):
        raise NotImported("singular values of a matrix of nothing")
    return (mT(a), True) if m < n else (a, False)


def _orthonormal(scaled: Traced, values: Traced, columns: int) -> Traced:
    """Columns of the length 1 in the directions of ``scaled``, and others orthogonal to them where these have no length."""
    m, n = scaled.shape[-2:]
    least = ew.multiply(values[..., :1], _rounding(values) * max(number(m, "rows"), number(n, "columns")))
    known = ew.logical_and(ew.greater(values, least), ew.greater(values, 0.0))
    over = ew.where(known, values, 1.0)
    directions = ew.divide(scaled, views.expand_dims(over, over.ndim - 1))
    directions = ew.where(views.expand_dims(known, known.ndim - 1), directions, value(0.0, scaled.type.dtype))
    packed, taus = factors.reflections(directions)
    sign = ew.where(ew.less(factors.diagonal(packed), 0.0), -1.0, 1.0)
    sign = pieces.pad(sign, [*[(0, 0)] * (sign.ndim - 1), (0, columns - number(n, "columns"))], 1.0)
    return ew.multiply(factors.of_orthogonal(packed, taus, columns), views.expand_dims(sign, sign.ndim - 1))


def _rounding(x: Traced) -> float:
    return float(np.finfo(np.float64 if x.type.dtype == "f64" else np.float32).eps)


@rule("aten._linalg_svd")
def _(call: Call, a: Traced, full_matrices: bool = False, compute_uv: bool = True, driver: Any = None
      ) -> tuple[Traced | None, Traced, Traced | None]:  # fmt: skip
    a, turned = _tall(a)
    asked = bool(call.used & {0, 2})
    scaled, values, right = _singular(a, asked)
    if not asked:
        return None, values, None
    rows = number(a.shape[-2] if full_matrices else a.shape[-1], "singular vectors")
    left = _orthonormal(scaled, values, rows)
    return (right, values, mT(left)) if turned else (left, values, mT(right))


@rule("aten.linalg_svdvals")
def _(call: Call, a: Traced, driver: Any = None) -> Traced:
    return _singular(_tall(a)[0], False)[1]


@rule("aten.linalg_pinv")
def _(call: Call, a: Traced, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Traced:
    """v / s times the transpose of u; singular values of less than ``rtol`` of the largest, or ``atol``, count as 0."""
    if not min(number(s, "an inverse") for s in a.shape[-2:]):
        return views.zeros(call.shape, call.dtype)
    a, turned = _tall(_symmetric(a, "L") if hermitian else a)
    scaled, values, right = _singular(a, True)
    given = rtol if rtol is not None else rcond
    default = _rounding(values) * max(number(s, "an inverse") for s in a.shape[-2:])
    share = given if given is not None else default
    if atol is not None and given is None:
        share = ew.where(ew.greater(value(atol, values.type.dtype), 0.0), 0.0, default)
    share = value(share, values.type.dtype)
    share = views.expand_dims(share, -1) if share.ndim else share
    least = ew.multiply(values[..., :1], share)
    if atol is not None:
        level = value(atol, values.type.dtype)
        least = ew.maximum(least, views.expand_dims(level, -1) if level.ndim else level)
    known = ew.greater(values, least)
    over = ew.where(known, ew.reciprocal(ew.square(ew.where(known, values, 1.0))), value(0.0, values.type.dtype))
    made = contractions.matmul(ew.multiply(right, views.expand_dims(over, over.ndim - 1)), mT(scaled))
    return mT(made) if turned else made


# ---- eigenvalues ------------------------------------------------------------------------------------------------------


def _symmetric(a: Traced, side: str) -> Traced:
    """The matrix of which one triangle is read."""
    low = a if side.upper() == "L" else mT(a)
    return ew.add(views.tril(low), mT(views.tril(low, -1)))


@rule("aten._linalg_eigh")
def _(call: Call, a: Traced, side: str = "L", compute_v: bool = True) -> tuple[Traced, Traced | None]:
    """Rotations from both sides, which bring what is beside the diagonal to 0."""
    n = number(a.shape[-1], "eigenvalues")
    _check(n, "eigenvalues")
    a = _symmetric(ew.cast(a, wide(a.type.dtype)), side)
    columns = _even(n)
    half = columns // 2
    asked = 1 in call.used

    def step(carry: tuple[Traced, Traced], k: Traced) -> tuple[tuple[Traced, Traced], None]:
        x, v = carry
        high, low, beside = x[..., :half, :half], x[..., half:, half:], x[..., :half, half:]
        turn = _turn(*(views.expand_dims(factors.diagonal(p), p.ndim - 2) for p in (high, low, beside)))
        turned = mT(_rotated(mT(_rotated(x, *turn)), *turn))
        return (turned, _rotated(v, *turn) if asked else v), None

    one = factors.spread_eye(a.shape[:-2], columns, columns, a.type.dtype)
    found, vectors = _padded(a, columns, columns), one if asked else one[..., :1, :1]
    if columns > n:  # what was put in is larger than all eigenvalues, and so comes last
        most = ew.add(ew.multiply(reductions.max(reductions.sum(ew.abs(a), -1, True), -2, True), 2.0), 1.0)
        found = ew.add(found, ew.multiply(_padded_one(n, a.type.dtype), most))
    if columns > 1:
        (found, vectors), _ = recurrences.scan(step, (found, vectors), _rounds(columns))
    values, order = ordered(factors.diagonal(found), found.ndim - 2, False, n)
    return values, _chosen(vectors[..., :n, :], ew.cast(order, "i32")) if asked else None


def _padded_one(n: int, dtype: str) -> Traced:
    """Zeros, and one at the end of the diagonal."""
    last = (ew.equal(views.iota((n + 1, n + 1), d, "i32"), n) for d in (0, 1))
    return ew.cast(ew.logical_and(*last), dtype)
