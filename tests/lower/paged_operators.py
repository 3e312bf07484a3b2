"""Attention of few queries over keys in pages, in the ways people write it."""

from __future__ import annotations

import math
from typing import Any

import portakern as pk

T = pk.Tensor
Q, TABLE, LENGTH = T["B", "H", "G", "D"], T["B", "N", pk.i32], T["B", pk.i32]
PAGES = T["P", "page", "H", "D"]


def below(scores: Any, length: Any) -> Any:
    return pk.where(pk.iota(scores.shape, -1) < length[:, None, None, None], scores, -math.inf)


def attended(q: Any, k: Any, v: Any, length: Any) -> Any:
    """Keys and values ``[B, S, H, D]``."""
    scores = below(pk.einsum("bhgd,bshd->bhgs", q, k, dtype=pk.f32) * 0.3, length)
    return pk.einsum("bhgs,bshd->bhgd", pk.cast(pk.softmax(scores), v.dtype), v)


def in_a_row(pages: Any, table: Any) -> Any:
    (batch, count), (_, size, *rest) = table.shape, pages.shape
    return pk.reshape(pk.take(pages, table, axis=0), (batch, count * size, *rest))


@pk.operator
def of_pages(q: Q, k: PAGES, v: PAGES, table: TABLE, length: LENGTH):
    return attended(q, in_a_row(k, table), in_a_row(v, table), length)


@pk.operator
def of_tokens(q: Q, k: T["P", "H", "D"], v: T["P", "H", "D"], table: TABLE, length: LENGTH):
    return attended(q, pk.take(k, table), pk.take(v, table), length)


@pk.operator
def of_joined_indices(q: Q, k: PAGES, v: PAGES, table: TABLE, length: LENGTH):
    """The table as one line, as ``index_select`` wants it."""
    batch, count = table.shape
    shape = (batch, count * k.shape[1], *k.shape[2:])
    keys, values = (pk.reshape(pk.take(x, pk.reshape(table, (batch * count,))), shape) for x in (k, v))
    return attended(q, keys, values, length)


@pk.operator
def of_slots(q: Q, k: PAGES, v: PAGES, table: TABLE, length: LENGTH):
    """Where each key lies is computed."""
    (batch, count), (pages, size, *rest) = table.shape, k.shape
    slots = pk.reshape(table[:, :, None] * size + pk.arange(size)[None, None], (batch, count * size))
    keys, values = (pk.take(pk.reshape(x, (pages * size, *rest)), slots) for x in (k, v))
    return attended(q, keys, values, length)


@pk.operator
def of_one_cache(q: Q, kv: T["P", 2, "page", "H", "D"], table: TABLE, length: LENGTH):
    (batch, count), (_, _, size, *rest) = table.shape, kv.shape
    picked = pk.take(kv, table)
    keys, values = (pk.reshape(picked[:, :, n], (batch, count * size, *rest)) for n in (0, 1))
    return attended(q, keys, values, length)


@pk.operator
def scored_by_page(q: Q, k: PAGES, v: PAGES, table: TABLE, length: LENGTH):
    scores = pk.einsum("bhgd,bnphd->bhgnp", q, pk.take(k, table), dtype=pk.f32) * 0.3
    scores = below(pk.reshape(scores, (*scores.shape[:3], -1)), length)
    return pk.einsum("bhgs,bshd->bhgd", pk.cast(pk.softmax(scores), v.dtype), in_a_row(v, table))


@pk.operator
def of_narrow_pages(q: Q, k: T["P", "page", "H", "D", pk.i8], v: PAGES, scale: T["P", "page", "H"], table: TABLE,
                    length: LENGTH):  # fmt: skip
    """Keys of eight bits with scales that are picked as well."""
    keys = pk.cast(in_a_row(k, table), q.dtype) * in_a_row(scale, table)[:, :, :, None]
    return attended(q, keys, in_a_row(v, table), length)


def repeated(x: Any, times: int) -> Any:
    """``[B, S, H, D]`` with every head ``times`` times, heads first."""
    batch, rows, heads, width = x.shape
    wide = pk.broadcast_to(x[:, :, :, None], (batch, rows, heads, times, width))
    return pk.transpose(pk.reshape(wide, (batch, rows, heads * times, width)), (0, 2, 1, 3))


@pk.operator
def of_repeated_heads(q: T["B", "3*H", "D"], k: PAGES, v: PAGES, table: TABLE, length: LENGTH):
    keys, values = (repeated(in_a_row(x, table), 3) for x in (k, v))
    scores = pk.einsum("bhd,bhsd->bhs", q, keys, dtype=pk.f32) * 0.3
    scores = pk.where(pk.iota(scores.shape, -1) < length[:, None, None], scores, -math.inf)
    return pk.einsum("bhs,bhsd->bhd", pk.cast(pk.softmax(scores), v.dtype), values)


@pk.operator
def of_last_queries(q: T["B", "H", "G", "M", "D"], k: T["P", "H", "page", "D"], v: T["P", "H", "page", "D"], table: TABLE,
                    length: LENGTH):  # fmt: skip
    """Heads first in a page; the queries are the last of their sequence and see what comes before."""
    (batch, count), (_, heads, size, width) = table.shape, k.shape
    keys, values = (pk.reshape(pk.transpose(pk.take(x, table), (0, 2, 1, 3, 4)), (batch, heads, count * size, width))
                    for x in (k, v))  # fmt: skip
    scores = pk.einsum("bhgmd,bhsd->bhgms", q, keys, dtype=pk.f32) * 0.3
    row = pk.iota(scores.shape, -2) + length[:, None, None, None, None] - q.shape[3]
    scores = pk.where(pk.iota(scores.shape, -1) <= row, scores, -math.inf)
    return pk.einsum("bhgms,bhsd->bhgmd", pk.cast(pk.softmax(scores), v.dtype), values)
