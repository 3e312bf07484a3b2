"""Operators made up for their gradients: what they use of an operation, or how, is in no operator of the library."""

from __future__ import annotations

from typing import Literal

import portakern as pk

T = pk.Tensor


@pk.operator
def unary(x: T["M", "N"]):
    p = pk.abs(x) + 0.3
    plain = (-x, pk.abs(x), pk.exp(x), pk.exp2(x), pk.expm1(x), pk.tanh(x), pk.sigmoid(x), pk.erf(x), pk.sin(x), pk.cos(x))
    positive = (pk.log(p), pk.log2(p), pk.log1p(p), pk.sqrt(p), pk.rsqrt(p), pk.reciprocal(p))
    return *plain, *positive, *(f(x) * x for f in (pk.floor, pk.ceil, pk.round, pk.trunc, pk.sign))


@pk.operator
def binary(x: T["M", "N"], y: T["M", "N"]):
    p = pk.abs(x) + 0.3
    plain = (x + y, x - y, x * y, x / (y * y + 1.0), pk.maximum(x, y), pk.minimum(x, y), p**y, x % p)
    return *plain, pk.where(x > y, x * y, x - y), pk.relu(x), pk.clip(x, -0.5, 0.5), pk.gelu(x), pk.softplus(y)


@pk.operator
def broadcast(x: T["M", "N"], b: T["N"], c: T["M", 1], s: T[()]):
    return (x + b) * c * s, pk.sum(x * b) * s


@pk.operator
def shared(x: T["M", "N"], w: T["N"]):
    h = pk.tanh(x * w)  # two outputs share it, and x is used twice
    return {"y": h * x, "z": pk.sum(h, 1), "same": x}


@pk.operator
def moves(x: T["M", "N"]):
    made = (x.T.reshape(-1) * 2.0, pk.flip(x, 1) * x, x[1:, ::2], pk.pad(x, [(1, 2), (0, 1)], 3.0), pk.concat([x, x * x], 1))
    more = (pk.roll(x, 2, 1), pk.repeat(x, 3, 0), pk.stack([x, x], 1)[:, 1], pk.interleave([x, x * 2.0]), pk.tril(x))
    return *made, *more, pk.update(x, x[:2, :3] * 2.0, (1, 2))


@pk.operator
def windows(x: T["M", "N"]):
    return pk.windows(x, 3) * 2.0, pk.windows(x, (2, 2), (0, 1), stride=(2, 1), dilation=(1, 2))


@pk.operator
def folds(x: T["M", "N"]):
    plain = (pk.sum(x, 0), pk.max(x, 1), pk.min(x), pk.prod(x, 1), pk.prod(x), pk.mean(x, 1), pk.var(x, 0), pk.std(x, 1))
    return *plain, pk.logsumexp(x, 1), pk.logsumexp(x), pk.softmax(x, 0), pk.log_softmax(x, 1)


@pk.operator
def running(x: T["M", "N"]):
    sums = (pk.cumsum(x, 1), pk.cumsum(x, 0, reverse=True), pk.cumsum(x, 1, exclusive=True))
    products = (pk.cumprod(x, 1), pk.cumprod(x, 0, reverse=True), pk.cumprod(x, 1, exclusive=True))
    return *sums, *products, pk.cumprod(x, 1, reverse=True, exclusive=True), pk.cummax(x, 1), pk.cummin(x, 0, reverse=True)


@pk.operator
def state_space(a: T["M", "N"], x: T["M", "N"]):
    def after(first, second):
        return first[0] * second[0], second[0] * first[1] + second[1]

    decay, h = pk.associative_scan(after, (pk.sigmoid(a), x), axis=-1)
    return h * x, decay, *pk.associative_scan(after, (a, x), axis=0, reverse=True)


@pk.operator(inputs={"i": pk.Integers(-1, "N+1"), "k": pk.Integers(0, "M")})
def gathers(x: T["M", "N"], i: T["M", 3, pk.i32], k: T[4, 2, pk.i32]):
    return pk.take_along(x, i, 1), pk.take_along(x, i[:, :1], 1), pk.take(x, k, 1), pk.take(x, k, 0, fill=2.0)


@pk.operator(inputs={"i": pk.Integers(0, "N")})
def scatters(x: T["M", "N"], i: T["M", 9, pk.i32], u: T["M", 9], mode: Literal["add", "max", "min", "mul"] = "add"):
    return pk.scatter(x, i, u, 1, mode)


@pk.operator(inputs={"i": pk.Integers(0, "N")})
def last_set(x: T["M", "N"], i: T["M", 9, pk.i32], u: T["M", 9]):
    return pk.scatter(x, i, u, 1, "set")


@pk.operator
def sorts(x: T["M", "N"]):
    return pk.sort(x), pk.sort(x, 0, descending=True), pk.topk(x, 3)[0], pk.kthvalue(x, 2)[0]


@pk.operator
def products(x: T["B", "M", "K"], y: T["K", "N", "B"], z: T["K"]):
    plain = (pk.einsum("bmk,knb->bnm", x, y), pk.einsum("bmk,knb->m", x, y), pk.einsum("bmk,k->bm", x, z), pk.dot(z, z))
    return *plain, pk.einsum("bmk,bnk->bmn", x, x), pk.einsum("bmk,knb,k->nk", x, y, z)


@pk.operator
def parts(x: T["P", 3], o: T["S+1", pk.i32]):
    return pk.segment_sum(x, o), pk.segment_max(x, o), pk.segment_mean(x * x, o)


@pk.operator
def grouped(x: T["P", "K"], w: T["G", "K", "N"], o: T["G+1", pk.i32]):
    return pk.grouped_matmul(x, w, o)


@pk.operator
def convolution(x: T[2, 11, 10, 4], w: T[3, 2, 4, 6], stride: int = 1, low: int = 0, high: int = 0, dilation: int = 1,
                transposed: bool = False):  # fmt: skip
    return pk.conv(x, w, stride, [(low, high)] * 2, dilation, 1, transposed, layout="NHWC")


@pk.operator
def in_groups(x: T[2, 7, 8, 4], w: T[3, 2, 2, 6], stride: int = 1, transposed: bool = False):
    return pk.conv(x, w, stride, 1, 1, 2, transposed, layout="NHWC")


@pk.operator
def pools(x: T[2, "H", "W", 3]):
    largest = (pk.max_pool(x, 2), pk.max_pool(x, 3, stride=1), pk.max_pool(x, 3, stride=2, padding=1),
               pk.max_pool(x, 2, dilation=2, stride=1), pk.min_pool(x, (2, 3), stride=(1, 2)))  # fmt: skip
    means = (pk.avg_pool(x, 2), pk.avg_pool(x, 3, stride=2, padding=1), pk.avg_pool(x, 3, 2, 1, count_pads=False))
    return *largest, *means, pk.lp_pool(x, 2.0, 2), pk.local_response_norm(x, 3)


@pk.operator
def rnn(x: T["S", "B", "I"], w: T["I", "H"], u: T["H", "H"], b: T["H"], h0: T["B", "H"]):
    def step(h, x_t):
        h = pk.tanh(x_t @ w + h @ u + b)
        return h, (h * h, pk.sum(h, 1))

    last, (squares, totals) = pk.scan(step, h0, x)
    return last, squares, totals


@pk.operator
def walked(x: T["B", "S"], a: T["B"], n: T[()]):
    def step(carry, x_t):
        h, k = carry
        h = pk.where(x_t > 0, a * h + x_t, h * x_t) * n
        return (h, k + 1), h * pk.cast(k, pk.f32)

    (h, _), y = pk.scan(step, (a * 2.0, 0), x, axis=1, reverse=True)
    return h, y


@pk.operator
def factored(a: T[5, 5], b: T[5, 3]):
    s = a @ a.T + 5.0 * pk.cast(pk.iota(a.shape, 0) == pk.iota(a.shape, 1), pk.f32)
    return pk.cholesky(s), pk.solve_triangular(s, b), pk.det(s)


@pk.operator
def masked(x: T["M", "N"]):
    return pk.where(x > 0, pk.log(x) * pk.sqrt(x) / x, 0.0), pk.where(x > 0, pk.exp(x * 1e3 * (x > 0).astype(pk.f32)), 0.0) * 0
