# ruff: noqa: F821  (dims are strings)
# pyright: reportUndefinedVariable=false, reportInvalidTypeForm=false
"""Parts of language models that are several operations in PyTorch and one kernel here: ``benchmarks/nvidia.py --grid layers``.

Gated layers whose two products meet elementwise, rotary embeddings behind the projection that they turn, and one token that
attends to keys in pages.  PyTorch's form is a function beside each; ``torch.compile`` fuses of it what it can.
"""

from __future__ import annotations

import math
from typing import Any

import portakern as pk
from portakern import Tensor as T

# ---- gated layers


def gated_torch(x: Any, gate: Any, up: Any) -> Any:
    import torch.nn.functional as F

    return F.silu(F.linear(x, gate)) * F.linear(x, up)


@pk.operator(dtypes=("bf16",), torch="bar_layers:gated_torch")
def gated(x: T["M", "K"], gate: T["N", "K"], up: T["N", "K"]):
    """silu(x gate^T) * (x up^T), as in Llama."""
    return pk.cast(pk.silu(pk.matmul(x, gate.T, dtype=pk.f32)) * pk.matmul(x, up.T, dtype=pk.f32), x.dtype)


def normed_torch(x: Any, weight: Any, gate: Any, up: Any) -> Any:
    import torch.nn.functional as F

    y = F.rms_norm(x, x.shape[-1:], weight, 1e-6)
    return F.gelu(y @ gate, approximate="tanh") * (y @ up)


@pk.operator(dtypes=("bf16",), torch="bar_layers:normed_torch")
def normed_gated(x: T["M", "K"], weight: T["K"], gate: T["K", "N"], up: T["K", "N"]):
    """The norm before it too, and weights the other way round, as in Gemma."""
    xf = pk.cast(x, pk.f32)
    y = pk.cast(xf * pk.rsqrt(pk.mean(xf * xf, axis=-1, keepdims=True) + 1e-6) * weight, x.dtype)
    g, u = pk.matmul(y, gate, dtype=pk.f32), pk.matmul(y, up, dtype=pk.f32)
    return pk.cast(pk.gelu(g, approximate="tanh") * u, x.dtype)


# ---- rotations


def rotated_torch(x: Any, w: Any, cos: Any, sin: Any) -> Any:
    import torch
    import torch.nn.functional as F

    half = cos.shape[-1]
    y = F.linear(x, w.flatten(0, 1)).view(x.shape[0], -1, 2 * half)
    a, b, c, s = y[..., :half], y[..., half:], cos[:, None], sin[:, None]
    return torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype)


@pk.operator(dtypes=("bf16",), torch="bar_layers:rotated_torch")
def rotated(x: T["S", "K"], w: T["H", "2*D", "K"], cos: T["S", "D", pk.f32], sin: T["S", "D", pk.f32]):
    """Queries made and turned: heads of 2 D features, of which an element goes with that in the other half."""
    half = cos.shape[-1]
    y = pk.einsum("sk,hdk->shd", x, w, dtype=pk.f32)
    a, b, c, s = y[..., :half], y[..., half:], cos[:, None], sin[:, None]
    return pk.cast(pk.concat([a * c - b * s, b * c + a * s], -1), x.dtype)


# ---- keys in pages


def paged_torch(q: Any, k: Any, v: Any, table: Any, length: Any) -> Any:
    import torch
    import torch.nn.functional as F

    keys, values = (x[table].flatten(1, 2).transpose(1, 2) for x in (k, v))  # [B, H, S, D]
    seen = torch.arange(keys.shape[2], device=q.device)[None, None, None] < length[:, None, None, None]
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)


@pk.operator(dtypes=("bf16",), torch="bar_layers:paged_torch")
def paged(q: T["B", "H", "G", "D"], k: T["P", "page", "H", "D"], v: T["P", "page", "H", "D"], table: T["B", "N", pk.i32],
          length: T["B", pk.i32]):  # fmt: skip
    """One token of each sequence attends to the first ``length`` of its keys, which lie in the pages that ``table`` names."""
    (batch, count), (_, size, *rest) = table.shape, k.shape
    keys, values = (pk.reshape(pk.take(x, table, axis=0), (batch, count * size, *rest)) for x in (k, v))
    scores = pk.einsum("bhgd,bshd->bhgs", q, keys, dtype=pk.f32) * pk.rsqrt(pk.size(q.shape[-1], pk.f32))
    scores = pk.where(pk.iota(scores.shape, -1) < length[:, None, None, None], scores, -math.inf)
    return pk.einsum("bhgs,bshd->bhgd", pk.cast(pk.softmax(scores), v.dtype), values)
