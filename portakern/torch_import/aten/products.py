"""Products of matrices, distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portakern.spec import contractions, pieces, reductions, segments, views
from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.aten.reductions import vector_norm
from portakern.torch_import.rules import Call, is_float, number, rule, value, wide
from portakern.torch_import.types import NotImported


def multiplied(call: Call, a: Traced, b: Traced) -> Traced:
    """``a @ b`` in the dtype of the result; integers keep their width."""
    a, b = value(a, call.dtype), value(b, call.dtype)
    if is_float(call.dtype):
        return contractions.matmul(a, b)
    if a.ndim == 1 or b.ndim == 1:
        both = ew.multiply(a, b)  # matrix by vector, or vectors
        return reductions.sum(both, axis=-1)
    return reductions.sum(ew.multiply(views.expand_dims(a, -1), views.expand_dims(b, -3)), axis=-2)


@rule("aten.mm", "aten.bmm", "aten.mv", "aten.dot", "aten.vdot", "aten.matmul")
def _(call: Call, a: Traced, b: Traced, out_dtype: Any = None) -> Traced:
    return multiplied(call, a, b)


@rule("aten.addmm", "aten.baddbmm", "aten.addmv")
def _(call: Call, bias: Traced, a: Traced, b: Traced, beta: Any = 1, alpha: Any = 1) -> Traced:
    made = multiplied(call, a, b)
    made = made if alpha == 1 else ew.multiply(made, value(alpha, call.dtype))
    if beta == 0:
        return made
    return ew.add(made, value(bias, call.dtype) if beta == 1 else ew.multiply(bias, value(beta, call.dtype)))


@rule("aten.addbmm")
def _(call: Call, bias: Traced, a: Traced, b: Traced, beta: Any = 1, alpha: Any = 1) -> Traced:
    made = ew.multiply(reductions.sum(multiplied(call, a, b), 0), value(alpha, call.dtype))
    return made if beta == 0 else ew.add(made, ew.multiply(value(bias, call.dtype), value(beta, call.dtype)))


@rule("aten.linear")
def _(call: Call, x: Traced, w: Traced, bias: Traced | None = None) -> Traced:
    made = multiplied(call, x, views.transpose(w))
    return made if bias is None else ew.add(made, bias)


@rule("aten._grouped_mm", "transformers.grouped_mm_fallback")
def _(call: Call, a: Traced, b: Traced, offs: Traced | None = None, bias: Any = None, out_dtype: Any = None) -> Traced:
    """Rows, columns or contracted elements are sorted by group, of which ``offs`` says where they end: rows [P, K] by matrices
    [G, K, N], matrices [G, M, K] by columns [K, P], or [M, P] by [P, N] for each group alone."""
    if bias is not None:
        raise NotImported("grouped products with a bias")
    a, b = value(a, call.dtype), value(b, call.dtype)
    if offs is None:
        return multiplied(call, a, b)
    if a.ndim == 2 and b.ndim == 3:
        return segments.grouped_matmul(a, b, _offsets(offs))
    if a.ndim == 3:
        return views.transpose(segments.grouped_matmul(views.transpose(b), views.swapaxes(a, 1, 2), _offsets(offs)))
    return _of_each_group(views.transpose(a), b, offs)


@rule("transformers.grouped_mm_fallback_backward")
def _(call: Call, x: Traced, w: Traced, offs: Traced, g: Traced) -> tuple[Traced, Traced]:
    return segments.grouped_matmul(g, views.swapaxes(w, 1, 2), _offsets(offs)), _of_each_group(x, g, offs)


def _offsets(ends: Traced) -> Traced:
    """Where groups begin, and where the last one ends."""
    ends = value(ends, "i64" if ends.type.dtype == "i64" else "i32")
    return pieces.concat([ew.expand(value(0, ends.type.dtype), (1,)), ends], 0)


def _of_each_group(a: Traced, b: Traced, ends: Traced) -> Traced:
    """a.T @ b of the rows [P, M] and [P, N] of each group: [G, M, N]."""
    inner = wide(a.type.dtype)
    both = ew.multiply(views.expand_dims(ew.cast(a, inner), 2), views.expand_dims(ew.cast(b, inner), 1))
    return segments.segment_sum(both, _offsets(ends))


@rule("aten._trilinear")
def _(call: Call, a: Traced, b: Traced, c: Traced, of_a: Sequence[int], of_b: Sequence[int], of_c: Sequence[int],
      summed: Sequence[int], unroll_dim: int = 1) -> Traced:  # fmt: skip
    """The sum over ``summed`` of a * b * c, each with dims of 1 put in first.  What the middle one has of its own is summed
    with one of the others before the third comes, as two products of matrices."""
    arrays = [(x, _labels(x, gone)) for x, gone in ((a, of_a), (b, of_b), (c, of_c))]
    kept = "".join(letter for n, letter in enumerate(_LETTERS[: a.ndim + len(of_a)]) if n not in summed)
    (a, la), (b, lb), (c, lc) = arrays
    between = "".join(sorted({*la, *lc} & {*lb, *kept}))
    part = contractions.einsum(f"{la},{lc}->{between}", a, c)
    return contractions.einsum(f"{between},{lb}->{kept}", part, b)


_LETTERS = "abcdefghijklm"


def _labels(x: Traced, gone: Sequence[int]) -> str:
    """The letters of the dims of ``x`` among those of all, of which it lacks ``gone``."""
    return "".join(letter for n, letter in enumerate(_LETTERS[: x.ndim + len(gone)]) if n not in gone)


# ---- distances ------------------------------------------------------------------------------------------------------


@rule("aten._cdist_forward")
def _(call: Call, a: Traced, b: Traced, p: float, compute_mode: Any = None) -> Traced:
    apart = ew.subtract(views.expand_dims(a, a.ndim - 1), views.expand_dims(b, b.ndim - 2))
    return vector_norm(apart, float(p), -1, False)


@rule("aten.dist")
def _(call: Call, a: Traced, b: Traced, p: float = 2) -> Traced:
    return vector_norm(ew.subtract(a, b), float(p), None, False)


@rule("aten._pdist_forward")
def _(call: Call, x: Traced, p: float = 2.0) -> Traced:
    rows = number(x.shape[0], "distances between pairs of rows")
    if rows < 2:
        return views.zeros((0,), call.dtype)
    found = [vector_norm(ew.subtract(x[i + 1 :], x[i : i + 1]), float(p), -1, False) for i in range(rows - 1)]
    return pieces.concat(found, 0) if len(found) > 1 else found[0]
