"""Operators of users: what lowering must take without having seen it."""

import math

import portakern as pk

T = pk.Tensor


@pk.operator
def chain(x: T["M", "N"], y: T["M", "N"], z: T["N"]):
    return pk.sigmoid(x * 2.0 + y) * pk.exp(-abs(z)) - pk.maximum(x, y) ** 2


@pk.operator
def colsum(x: T["M", "N"]):
    return pk.sum(pk.cast(x, pk.f32), axis=0)


@pk.operator
def midmax(x: T["A", "B", "C"]):
    return pk.max(x, axis=1)


@pk.operator
def outer_mean(x: T["A", "B", "C"]):
    return pk.mean(pk.cast(x, pk.f32), axis=(0, 2))


@pk.operator
def total(x: T["M", "N"]):
    return pk.sum(pk.cast(x, pk.f32))


@pk.operator
def l2norm(x: T["M", "N"]):
    xf = pk.cast(x, pk.f32)
    return pk.cast(xf / pk.sqrt(pk.sum(xf * xf, axis=-1, keepdims=True) + 1e-12), x.dtype)


@pk.operator
def group_norm(x: T["B", "C", "L"], w: T["C"], b: T["C"], groups: int = 4):
    n, c, length = x.shape
    g = pk.cast(pk.reshape(x, (n, groups, c // groups, length)), pk.f32)
    m = pk.mean(g, axis=(2, 3), keepdims=True)
    v = pk.mean((g - m) * (g - m), axis=(2, 3), keepdims=True)
    y = pk.reshape((g - m) * pk.rsqrt(v + 1e-5), (n, c, length))
    return pk.cast(y * w[:, None] + b[:, None], x.dtype)


@pk.operator
def strange(a: T["M", "K"], b: T["K", "N"], r: T["M", "N"], s: T["M", pk.f32]):
    acc = pk.matmul(a, b, dtype=pk.f32)
    t = pk.maximum(acc * s[:, None], 0.0)
    return pk.cast(t * t + pk.cast(r, pk.f32), a.dtype), pk.cast(pk.tanh(acc), pk.f32)


@pk.operator
def mm_softmax(a: T["M", "K"], b: T["K", "N"]):
    return pk.softmax(pk.matmul(a, b, dtype=pk.f32))


@pk.operator
def norm_mm(x: T["M", "K"], g: T["K"], w: T["K", "N"]):
    xf = pk.cast(x, pk.f32)
    y = pk.cast(xf * pk.rsqrt(pk.mean(xf * xf, axis=-1, keepdims=True) + 1e-6), x.dtype) * g
    return y @ w


@pk.operator
def swiglu(x: T["M", "K"], w: T["K", "N"], v: T["K", "N"]):
    return pk.silu(x @ w) * (x @ v)


@pk.operator
def gram(x: T["M", "K"]):
    return x @ x.T


@pk.operator
def relu_gram(x: T["M", "K"]):
    y = pk.relu(x)
    return y @ y.T


@pk.operator
def attn_bias(q: T["B", "H", "S", "D"], k: T["B", "H", "S", "D"], v: T["B", "H", "S", "D"], bias: T["H", "S", "S"]):
    s = pk.einsum("bhqd,bhkd->bhqk", q, k, dtype=pk.f32) * (1 / 8) + pk.cast(bias, pk.f32)
    return pk.einsum("bhqk,bhkd->bhqd", pk.cast(pk.softmax(s), v.dtype), v)


@pk.operator
def attn_window(q: T["S", "D"], k: T["S", "D"], v: T["S", "D"], window: int = 20):
    s = pk.matmul(q, k.T, dtype=pk.f32)
    i = pk.arange(q.shape[0])[:, None]
    j = pk.arange(k.shape[0])[None, :]
    s = pk.where((j <= i) & (j > i - window), s, -math.inf)
    return pk.cast(pk.softmax(s), v.dtype) @ v


@pk.operator
def attn_lse(q: T["S", "D"], k: T["T", "D"], v: T["T", "D"]):
    s = pk.matmul(q, k.T, dtype=pk.f32) * 0.1
    m = pk.max(s, axis=-1, keepdims=True)
    e = pk.exp(s - m)
    total = pk.sum(e, axis=-1, keepdims=True)
    return pk.matmul(pk.cast(e, v.dtype), v, dtype=pk.f32) / total, (m + pk.log(total))[:, 0]


@pk.operator
def two_out(x: T["M", "N"]):
    xf = pk.cast(x, pk.f32)
    return {"mean": pk.mean(xf, axis=-1), "centred": pk.cast(xf - pk.mean(xf, axis=-1, keepdims=True), x.dtype)}


@pk.operator
def softmax0(x: T["M", "N"]):
    return pk.softmax(x, axis=0)


@pk.operator
def lse(x: T["M", "N"]):
    xf = pk.cast(x, pk.f32)
    m = pk.max(xf, axis=-1, keepdims=True)
    return (pk.log(pk.sum(pk.exp(xf - m), axis=-1, keepdims=True)) + m)[:, 0]


@pk.operator
def perm3(x: T["A", "B", "C"]):
    return pk.transpose(x, (2, 0, 1)) * 2.0


@pk.operator
def addT(x: T["M", "M"]):
    return x + x.T


@pk.operator
def shift(x: T["M", "N"]):
    return x[:, 1:] - x[:, :-1]


@pk.operator
def strided(x: T["M", "N"]):
    return x[::2, 1::3]


@pk.operator
def flipit(x: T["M", "N"]):
    return pk.flip(x, axis=-1) + 1.0


@pk.operator
def minmax(x: T["M", "N"]):
    lo = pk.min(x, axis=-1, keepdims=True)
    hi = pk.max(x, axis=-1, keepdims=True)
    return (x - lo) / (hi - lo + 1e-3)


@pk.operator
def ints(x: T["M", "N", pk.i32], y: T["N", pk.i32]):
    return pk.where(x > y, x - y, x * 2), pk.sum(x, axis=-1)


@pk.operator
def conv1x1(x: T["B", "C", "H", "W"], w: T["O", "C"]):
    return pk.einsum("bchw,oc->bohw", x, w)


@pk.operator
def bmv(a: T["M", "K"], x: T["K"]):
    return a @ x


@pk.operator
def scal(x: T["M", "N"], alpha: pk.Scalar[pk.f32]):
    return pk.cast(x, pk.f32) * alpha


@pk.operator
def addmul2(a: T["M", "K"], b: T["K", "N"], c: T["M", "L"], d: T["L", "N"]):
    return a @ b + c @ d


@pk.operator
def lincum(x: T["M", "N"]):
    return pk.cumsum(x, axis=-1)


@pk.operator
def cum0(x: T["M", "N"]):
    return pk.cumsum(pk.cast(x, pk.f32), axis=0) * 2.0


@pk.operator
def cum_middle(x: T["A", "B", "C"]):
    return pk.cumsum(x, axis=1, reverse=True, exclusive=True)


@pk.operator
def cum_chain(x: T["M", "N"], w: T["N"]):
    xf = pk.exp(pk.cast(x, pk.f32) * 0.1)
    return pk.sqrt(pk.cumsum(pk.cumsum(xf * w, axis=1) ** 2 + 1.0, axis=1)), pk.cummax(xf, axis=1)


@pk.operator
def cum_reverse(x: T["M", "N"]):
    xf = pk.cast(x, pk.f32)
    return pk.cumsum(xf, reverse=True) + xf, pk.cumsum(xf, exclusive=True), pk.cummin(x, reverse=True)


@pk.operator
def cum_products(x: T["M", "N"]):
    return pk.cumprod(1.0 + pk.cast(x, pk.f32) * 0.01), pk.cumprod(pk.cast(x, pk.f32) * 0.1 + 1.0, exclusive=True)


@pk.operator
def cum_softmax(x: T["M", "N"]):
    return pk.cumsum(pk.softmax(pk.cast(x, pk.f32)))


@pk.operator
def cum_total(x: T["M", "N"]):
    return pk.max(pk.cumsum(pk.cast(x, pk.f32)), axis=-1)


@pk.operator
def cum_ints(x: T["M", "N", pk.i32], y: T["M", "N", pk.i64]):
    return pk.cumsum(x), pk.cumsum(y, axis=1), pk.cummax(x, axis=-1)


@pk.operator
def cum_vector(x: T["N"]):
    return pk.cumsum(x, exclusive=True)


@pk.operator
def pick(x: T["M", "N"], i: T["M", pk.i32]):
    xf = pk.cast(x, pk.f32)
    return pk.take_along(x, i[:, None], axis=1, fill=2.5)[:, 0], pk.max(xf, axis=1)


@pk.operator
def pick_columns(x: T["M", "N", pk.i32], i: T["N", pk.i64]):
    return pk.take_along(x, i[None, :], axis=0, fill=-7)


@pk.operator
def sorted_rows(x: T["M", "N"]):
    return pk.sort(x)


@pk.operator
def largest_places(x: T["M", "N"]):
    return pk.argmax(x, axis=1)


@pk.operator
def bytes_product(a: T["M", "K", pk.i8], b: T["K", "N", pk.i8]):
    return pk.matmul(a, b, dtype=pk.i32)


@pk.operator
def taps(x: T["M", "N"], w: T[2]):  # pyright: ignore[reportGeneralTypeIssues]
    m = x.shape[0]
    return pk.cast(x[: m - 1] * w[0] + x[1:] * w[1], pk.f32)


@pk.operator
def rowmaxofmm(a: T["M", "K"], b: T["K", "N"]):
    return pk.max(a @ b, axis=-1)


@pk.operator
def mean_mm(a: T["B", "S", "K"], w: T["K", "N"], bias: T["N"]):
    return pk.relu(a @ w + bias)


@pk.operator
def best(x: T["M", "N"]):
    return pk.argmax(x, axis=-1), pk.argmin(x, axis=0)


@pk.operator
def largest_and_place(x: T["M", "N"]):
    return pk.max(x, axis=1), pk.argmax(x, axis=1)


@pk.operator
def place_of_nan(x: T["A", "B", "C"]):
    """Columns, in each of which the second of two NaN comes after a larger number."""
    at = pk.arange(x.shape[1])[None, :, None]
    return pk.argmin(pk.where(at % 17 == 13, float("nan"), x), axis=1)


CASES = dict(
    largest_and_place=dict(M=9, N=70),
    place_of_nan=dict(A=3, B=50, C=7),
    best=dict(M=20, N=70),
    chain=dict(M=37, N=70),
    colsum=dict(M=100, N=45),
    midmax=dict(A=3, B=50, C=37),
    outer_mean=dict(A=5, B=6, C=70),
    total=dict(M=9, N=40),
    l2norm=dict(M=7, N=100),
    group_norm=dict(B=2, C=8, L=33),
    strange=dict(M=40, K=50, N=70),
    mm_softmax=dict(M=20, K=30, N=70),
    norm_mm=dict(M=40, K=70, N=33),
    swiglu=dict(M=20, K=40, N=50),
    gram=dict(M=40, K=30),
    relu_gram=dict(M=40, K=30),
    attn_bias=dict(B=2, H=2, S=70, D=16),
    attn_window=dict(S=100, D=16),
    attn_lse=dict(S=50, T=70, D=24),
    two_out=dict(M=10, N=77),
    softmax0=dict(M=50, N=20),
    lse=dict(M=10, N=90),
    perm3=dict(A=20, B=7, C=33),
    addT=dict(M=45),
    shift=dict(M=5, N=50),
    strided=dict(M=9, N=50),
    flipit=dict(M=5, N=50),
    minmax=dict(M=6, N=80),
    ints=dict(M=7, N=50),
    conv1x1=dict(B=2, C=9, H=5, W=7, O=20),
    bmv=dict(M=30, K=70),
    scal=dict(M=5, N=50),
    addmul2=dict(M=20, K=30, N=40, L=50),
    lincum=dict(M=3, N=50),
    cum0=dict(M=30, N=45),
    cum_middle=dict(A=3, B=20, C=17),
    cum_chain=dict(M=5, N=90),
    cum_reverse=dict(M=6, N=77),
    cum_products=dict(M=6, N=70),
    cum_softmax=dict(M=7, N=60),
    cum_total=dict(M=7, N=60),
    cum_ints=dict(M=5, N=70),
    cum_vector=dict(N=130),
    pick=dict(M=9, N=5),
    pick_columns=dict(M=4, N=30),
    taps=dict(M=9, N=40),
    rowmaxofmm=dict(M=20, K=30, N=50),
    mean_mm=dict(B=3, S=20, K=30, N=50),
)
