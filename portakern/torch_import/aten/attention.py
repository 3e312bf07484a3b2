"""Attention, and its backward as PyTorch's autograd asks for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from portakern.spec import contractions, pieces, reductions, views
from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, rule, wide
from portakern.torch_import.types import NotImported


@dataclass(frozen=True)
class Scores:
    """Scores [.., queries, keys], -inf where a key is masked, and the factor that the products of queries and keys have.

    ``reached`` [.., queries, 1] says which queries reach any key; ``None`` where all do.
    """

    scaled: Traced
    factor: float
    reached: Traced | None

    @staticmethod
    def of(q: Traced, k: Traced, mask: Traced | None, causal: bool, scale: float | None) -> Scores:
        inner = wide(q.type.dtype)
        factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None and isinstance(q.shape[-1], int) else scale
        if factor is None:
            raise NotImported(f"attention over heads of {q.shape[-1]} elements, which is open")
        scores = ew.multiply(contractions.matmul(q, views.swapaxes(k, -1, -2), dtype=inner), float(factor))
        if causal:
            scores = ew.where(views.tri(q.shape[-2], k.shape[-2]), scores, -math.inf)
        if mask is None:
            return Scores(scores, float(factor), None)
        if mask.type.dtype == "bool":
            return Scores(ew.where(mask, scores, -math.inf), float(factor), reductions.any(mask, -1, True))
        reached = ew.greater(reductions.max(mask, -1, True), -math.inf)
        return Scores(ew.add(scores, ew.cast(mask, inner)), float(factor), reached)

    def or_zero(self, of_queries: Traced) -> Traced:
        """Zeros for queries that reach no key, as PyTorch has them."""
        return of_queries if self.reached is None else ew.where(self.reached, of_queries, 0)


def attended(scores: Scores, v: Traced, call: Call, dropout_p: float = 0.0) -> Traced:
    from portakern.spec import random

    weights = reductions.softmax(scores.scaled, -1)
    if dropout_p:
        weights = random.dropout(weights, call.seed(), dropout_p)
    return scores.or_zero(contractions.matmul(ew.cast(weights, v.type.dtype), v))


@rule("aten.scaled_dot_product_attention")
def _(call: Call, q: Traced, k: Traced, v: Traced, attn_mask: Traced | None = None, dropout_p: float = 0.0,
      is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Traced:  # fmt: skip
    """Scores, softmax and values, with scores and softmax in f32."""
    if enable_gqa:
        k, v = (_per_query_head(x, q) for x in (k, v))
    return attended(Scores.of(q, k, attn_mask, is_causal, scale), v, call, dropout_p)


def _per_query_head(x: Traced, q: Traced) -> Traced:
    """Heads of keys or values as often as queries have them."""
    heads, have = q.shape[-3], x.shape[-3]
    if not isinstance(heads, int) or not isinstance(have, int):
        raise NotImported(f"grouped attention of {heads} heads over {have}")
    return x if heads == have else pieces.repeat(x, heads // have, -3)


@rule("aten._scaled_dot_product_flash_attention_for_cpu")
def _(call: Call, q: Traced, k: Traced, v: Traced, dropout_p: float = 0.0, is_causal: bool = False,
      attn_mask: Traced | None = None, scale: float | None = None) -> tuple[Traced, Traced | None]:  # fmt: skip
    """With it the logarithm of the sum of exponentials of each query's scores, from which the backward makes weights again."""
    scores = Scores.of(q, k, attn_mask, is_causal, scale)
    out = attended(scores, v, call, dropout_p)
    if 1 not in call.used:
        return out, None
    most = reductions.max(scores.scaled, -1, True)
    total = reductions.sum(ew.exp(ew.subtract(scores.scaled, most)), -1, True)
    return out, views.squeeze(scores.or_zero(ew.add(most, ew.log(total))), -1)


@rule("aten._scaled_dot_product_flash_attention_for_cpu_backward")
def _(call: Call, dout: Traced, q: Traced, k: Traced, v: Traced, out: Traced, logsumexp: Traced, dropout_p: float,
      is_causal: bool, attn_mask: Traced | None = None, scale: float | None = None) -> tuple[Traced, ...]:  # fmt: skip
    if dropout_p:
        raise NotImported("the backward of attention with dropout, whose random numbers PyTorch has drawn")
    inner = wide(q.type.dtype)
    scores = Scores.of(q, k, attn_mask, is_causal, scale)
    weights = ew.exp(ew.subtract(scores.scaled, ew.cast(views.expand_dims(logsumexp, -1), inner)))
    weights = scores.or_zero(weights)
    delta = reductions.sum(ew.multiply(ew.cast(dout, inner), ew.cast(out, inner)), -1, True)
    dweights = contractions.matmul(dout, views.swapaxes(v, -1, -2), dtype=inner)
    dscores = ew.multiply(ew.multiply(weights, ew.subtract(dweights, delta)), scores.factor)
    weights, dscores = ew.cast(weights, q.type.dtype), ew.cast(dscores, q.type.dtype)
    return (contractions.matmul(dscores, k), contractions.matmul(views.swapaxes(dscores, -1, -2), q),
            contractions.matmul(views.swapaxes(weights, -1, -2), dout))  # fmt: skip
