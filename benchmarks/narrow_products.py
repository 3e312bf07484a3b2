# ruff: noqa: F821  (dims are strings)
# pyright: reportUndefinedVariable=false
"""Products of 8-bit numbers, which no operator of the library has: for measurements of what matrix cores make of them."""

from __future__ import annotations

import portakern as pk


@pk.operator(dtypes=("f8e4m3", "f8e5m2"), cases={"typical": {"M": 75, "N": 93, "K": 205}})
def product_f8(a: pk.Tensor["M", "K"], b: pk.Tensor["K", "N"]):
    return pk.matmul(a, b, pk.f32)


@pk.operator(dtypes=("i8",), cases={"typical": {"M": 75, "N": 93, "K": 205}})
def product_i8(a: pk.Tensor["M", "K"], b: pk.Tensor["K", "N"]):
    return pk.matmul(a, b, pk.i32)
