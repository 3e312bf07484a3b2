"""Products of matrices, distances, attention."""

from __future__ import annotations

import math
from typing import Any

from portakern.spec import contractions, linear, pieces, reductions, segments, views
from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.aten.reductions import vector_norm
from portakern.torch_import.rules import Call, is_float, rule, value, wide
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


@rule("aten.linear")
def _(call: Call, x: Traced, w: Traced, bias: Traced | None = None) -> Traced:
    made = multiplied(call, x, views.transpose(w))
    return made if bias is None else ew.add(made, bias)


@rule("aten._grouped_mm", "transformers.grouped_mm_fallback")
def _(call: Call, a: Traced, b: Traced, offs: Traced | None = None, bias: Any = None, out_dtype: Any = None) -> Traced:
    """Rows of a matrix that are sorted by group, each times its group's matrix; ``offs`` says where groups end."""
    if bias is not None:
        raise NotImported("grouped products with a bias")
    if offs is None:
        return multiplied(call, a, b)
    if a.ndim != 2 or b.ndim != 3:
        raise NotImported(f"grouped products of {a.ndim} and {b.ndim} dims, whose groups are of columns or of contracted elements")
    ends = value(offs, "i64" if offs.type.dtype == "i64" else "i32")
    begins = pieces.concat([ew.expand(value(0, ends.type.dtype), (1,)), ends], 0)
    return segments.grouped_matmul(value(a, call.dtype), value(b, call.dtype), begins)


@rule("aten.scaled_dot_product_attention")
def _(call: Call, q: Traced, k: Traced, v: Traced, attn_mask: Traced | None = None, dropout_p: float = 0.0,
      is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Traced:  # fmt: skip
    """Scores, softmax and values, with scores and softmax in f32."""
    from portakern.spec import random

    inner = wide(q.type.dtype)
    factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None and isinstance(q.shape[-1], int) else scale
    if factor is None:
        raise NotImported(f"attention over heads of {q.shape[-1]} elements, which is open")
    if enable_gqa:
        k, v = (_per_query_head(x, q) for x in (k, v))
    scores = ew.multiply(contractions.matmul(q, views.swapaxes(k, -1, -2), dtype=inner), float(factor))
    if is_causal:
        scores = ew.where(views.tri(q.shape[-2], k.shape[-2]), scores, -math.inf)
    if attn_mask is not None:
        truths = attn_mask.type.dtype == "bool"
        scores = ew.where(attn_mask, scores, -math.inf) if truths else ew.add(scores, ew.cast(attn_mask, inner))
    weights = reductions.softmax(scores, -1)
    if dropout_p:
        weights = random.dropout(weights, call.seed(), dropout_p)
    return contractions.matmul(ew.cast(weights, v.type.dtype), v)


def _per_query_head(x: Traced, q: Traced) -> Traced:
    """Heads of keys or values as often as queries have them."""
    heads, have = q.shape[-3], x.shape[-3]
    if not isinstance(heads, int) or not isinstance(have, int):
        raise NotImported(f"grouped attention of {heads} heads over {have}")
    return x if heads == have else pieces.repeat(x, heads // have, -3)


# ---- distances ------------------------------------------------------------------------------------------------------


@rule("aten._cdist_forward")
def _(call: Call, a: Traced, b: Traced, p: float, compute_mode: Any = None) -> Traced:
    apart = ew.subtract(views.expand_dims(a, a.ndim - 1), views.expand_dims(b, b.ndim - 2))
    return vector_norm(apart, float(p), -1, False)


@rule("aten._pdist_forward")
def _(call: Call, x: Traced, p: float = 2.0) -> Traced:
    rows = x.shape[0]
    if not isinstance(rows, int) or rows < 2:
        raise NotImported(f"distances between pairs of {rows} rows")
    found = [vector_norm(ew.subtract(x[i + 1 :], x[i : i + 1]), float(p), -1, False) for i in range(rows - 1)]
    return pieces.concat(found, 0) if len(found) > 1 else found[0]


# ---- linear algebra -------------------------------------------------------------------------------------------------


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
