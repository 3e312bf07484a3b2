"""Operators that pick elements of arrays by computed coordinates, as users write them."""


from typing import Any

import portakern as pk


def gathers(**cases: Any):
    """An operator with these cases."""
    return pk.operator(cases=cases)


@gathers(ragged=dict(V=11, D=70, B=5, T=7), tiny=dict(V=2, D=3, B=1, T=1), one=dict(V=1, D=5, B=2, T=3))
def embedding(table: pk.Tensor["V", "D"], ids: pk.Tensor["B", "T", pk.i32]):
    return pk.take(table, ids)


@gathers(ragged=dict(V=11, D=70, T=37), tiny=dict(V=2, D=3, T=1))
def embedding_i64(table: pk.Tensor["V", "D"], ids: pk.Tensor["T", pk.i64]):
    return table[ids] * 2 + 1


@gathers(ragged=dict(V=11, D=70, T=37), long=dict(V=5, D=9000, T=3), tiny=dict(V=2, D=1, T=1))
def embedding_norm(table: pk.Tensor["V", "D"], ids: pk.Tensor["T", pk.i32], w: pk.Tensor["D"]):
    x = pk.cast(pk.take(table, ids), pk.f32)
    return pk.cast(x * pk.rsqrt(pk.mean(x * x, axis=-1, keepdims=True) + 1e-6), w.dtype) * w


@gathers(ragged=dict(V=11, D=37, T=9), tiny=dict(V=2, D=1, T=1))
def two_gathers(table: pk.Tensor["V", "D"], other: pk.Tensor["V", "D"], ids: pk.Tensor["T", pk.i32],
                more: pk.Tensor["T", pk.i64]):
    return pk.take(table, ids) + pk.take(other, more, fill=1.5)


@gathers(ragged=dict(A=3, V=11, D=37, K=5), tiny=dict(A=1, V=2, D=3, K=1))
def along_the_middle(x: pk.Tensor["A", "V", "D"], ids: pk.Tensor["A", "K", "D", pk.i32]):
    return pk.take_along(x, ids, axis=1, fill=7)


@gathers(ragged=dict(A=3, V=11, D=37, K=5), tiny=dict(A=1, V=2, D=3, K=1))
def lines_along_the_middle(x: pk.Tensor["A", "V", "D"], ids: pk.Tensor["A", "K", pk.i32], line: pk.Tensor[1, "V", "D"]):
    """Dims of 1 go with all of the other's."""
    return pk.take_along(x, ids[:, :, None], axis=1, fill=7), pk.take_along(line, ids[:, :, None], axis=1)


@gathers(ragged=dict(A=3, B=4, V=11, K=5), tiny=dict(A=1, B=2, V=2, K=2))
def several_of_a_line(x: pk.Tensor["A", "B", "V"], ids: pk.Tensor["A", "B", "K", pk.i32]):
    return pk.relu(pk.take_along(x, ids, axis=-1))


@gathers(ragged=dict(A=13, V=40, K=37), tiny=dict(A=1, V=2, K=1))
def columns(x: pk.Tensor["A", "V"], ids: pk.Tensor["K", pk.i32]):
    return pk.take(x, ids, axis=1, fill=-1)


@gathers(ragged=dict(V=40, K=700), tiny=dict(V=2, K=1))
def from_a_vector(x: pk.Tensor["V"], ids: pk.Tensor["K", pk.i32], y: pk.Tensor["K"]):
    return x[ids] * y


@gathers(ragged=dict(A=6, V=9, D=37, K=5), tiny=dict(A=1, V=3, D=2, K=2))
def of_computed(x: pk.Tensor["A", "V", "D"], ids: pk.Tensor["K", pk.i32]):
    return pk.take(pk.softmax(x, axis=-1), ids, axis=1)


@gathers(ragged=dict(H=5, W=7, C=10), tiny=dict(H=1, W=2, C=1))
def nearest(x: pk.Tensor["H", "W", "C"]):
    h, w, _ = x.shape
    return pk.take(pk.take(x, pk.arange(2 * h) // 2, axis=0), pk.arange(2 * w) // 2, axis=1)


@gathers(ragged=dict(V=20, D=33, T=37, N=40), tiny=dict(V=2, D=3, T=1, N=2))
def into_a_product(table: pk.Tensor["V", "D"], ids: pk.Tensor["T", pk.i32], w: pk.Tensor["D", "N"]):
    return pk.take(table, ids) @ w


@gathers(ragged=dict(V=20, T=37, D=18), tiny=dict(V=2, T=1, D=2))
def of_booleans(x: pk.Tensor["V", "D", pk.boolean], ids: pk.Tensor["T", pk.i32], y: pk.Tensor["T", "D"]):
    return pk.where(pk.take(x, ids), y, 0)


@gathers(ragged=dict(V=20, T=37, D=18), tiny=dict(V=3, T=1, D=2))
def of_integers(x: pk.Tensor["V", "D", pk.i32], ids: pk.Tensor["T", pk.i32]):
    return x[ids, :] + 1


@gathers(ragged=dict(V=20, T=9, D=18), tiny=dict(V=4, T=1, D=2))
def through_views(x: pk.Tensor["V", "D"], ids: pk.Tensor["T", pk.i32]):
    return pk.take(x.T, ids, axis=1) + pk.take(pk.flip(x, 0), ids).T + pk.take(x[1::2], ids, fill=3).T


@gathers(ragged=dict(V=20, T=9, L=6, D=18), tiny=dict(V=4, T=1, L=1, D=2))
def bags(x: pk.Tensor["V", "D"], ids: pk.Tensor["T", "L", pk.i32]):
    return pk.sum(pk.take(pk.cast(x, pk.f32), ids), axis=1)


@gathers(ragged=dict(V=20, A=4, B=8, T=9), tiny=dict(V=4, A=1, B=2, T=1))
def rows_of_planes(x: pk.Tensor["V", "A", "B"], ids: pk.Tensor["T", pk.i32]):
    return pk.exp(pk.take(x, ids))


@gathers(ragged=dict(V=20, D=18), tiny=dict(V=4, D=2))
def one_row(x: pk.Tensor["V", "D"], ids: pk.Scalar[pk.i32]):
    return pk.take(x, ids, fill=2)


@gathers(ragged=dict(V=20, D=18), tiny=dict(V=4, D=2))
def own_rows(x: pk.Tensor["V", "D"], ids: pk.Tensor["V", pk.i32]):
    return x + x[ids]


@gathers(ragged=dict(V=20, N=18), tiny=dict(V=4, N=2))
def square(x: pk.Tensor["N", "V"], ids: pk.Tensor["N", pk.i32]):
    return pk.take(x + pk.cast(ids, x.dtype)[:, None], ids, axis=1)


@gathers(ragged=dict(V=20, N=18, D=9), tiny=dict(V=4, N=2, D=1))
def best_rows(scores: pk.Tensor["N", "V"], table: pk.Tensor["V", "D"]):
    return pk.take(table, pk.argmax(scores, axis=-1))


@gathers(ragged=dict(V=20, K=18, M=9), tiny=dict(V=4, K=2, M=1))
def running(x: pk.Tensor["M", "V"], ids: pk.Tensor["M", "K", pk.i32]):
    return pk.cumsum(pk.take_along(x, ids, axis=1), axis=1)


@pk.operator(cases={"ragged": dict(M=9, K=4), "tiny": dict(M=1, K=2)})
def of_nothing(x: pk.Tensor["M", 0], ids: pk.Tensor["M", "K", pk.i32]):
    return pk.take_along(x, pk.minimum(ids, 5), axis=1, fill=4)


@gathers(ragged=dict(V=20, K=18, M=9), tiny=dict(V=4, K=2, M=1))
def sampled(x: pk.Tensor["M", "V"], at: pk.Tensor["M", "K"]):
    place = pk.cast(pk.floor(pk.abs(at) * 3.0), pk.i32)
    return pk.take_along(x, place, axis=1) * at
