"""Operators for the tests of tracing."""

from typing import Literal, NamedTuple

import portakern as pk


@pk.operator
def everything(x: pk.Tensor["*B", "M", "N"], y: pk.Tensor["N", "M"], alpha: pk.Scalar[pk.f32]):
    return {
        "z": (x @ y) * alpha,
        "a": x[..., 1:, None, 2],
        "m": x.max(axis=(0, -1)),
        "t": x[..., ::2, ::-1],
        "v": x.var(-1),
        "r": x.reshape(-1, x.shape[-1]),
    }


@pk.operator
def typed(ids: pk.Tensor["B", pk.i64], table: pk.Tensor["V", "D"], bias: pk.Tensor["D", pk.f32]):
    return pk.take(table, ids) + bias


@pk.operator
def with_params(
    x: pk.Tensor["M", "N"], eps: float = 1e-6, mode: Literal["a", "b"] = "a", scale: float | None = None, n: int = 2
):
    factor = 1.0 if scale is None else scale
    return (x + eps) * factor * n if mode == "a" else x


@pk.operator
def several(x: pk.Tensor["M", "N"]):
    return x.sum(-1), x * 2


class Stats(NamedTuple):
    mean: object
    var: object


@pk.operator
def named(x: pk.Tensor["M", "N"]):
    return Stats(x.mean(-1), x.var(-1))


@pk.operator
def calls_another(x: pk.Tensor["M", "N"]):
    first, doubled = several(x)
    return doubled + first[:, None]


@pk.operator
def halves(x: pk.Tensor["M", "2*H"]):
    h = x.shape[-1] // 2
    return x[:, :h] * x[:, h:]
