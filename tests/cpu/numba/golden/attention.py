"""attention for numba:cpu, written by portakern."""

import numpy as np
from llvmlite import ir
from numba import njit
from numba.extending import intrinsic

f32 = np.float32


@njit(fastmath={"reassoc"})
def add(a, b):
    """a + b in a sum whose order is free, so that it runs in vector lanes."""
    return a + b


@njit(fastmath={"contract"})
def mad(a, b, c):
    """a * b + c, fused where the processor can."""
    return a * b + c


@intrinsic
def maximum(typing, a, b):
    """The larger of two floats; NaN if either is NaN. (LLVM's maximum, which vectorises also as a reduction.)"""
    def lower(context, builder, signature, arguments):
        kind = arguments[0].type
        function = builder.module.declare_intrinsic("llvm.maximum", [kind], ir.FunctionType(kind, [kind, kind]))
        return builder.call(function, arguments)
    return (a(a, a), lower) if a == b else None


@njit
def from_bf16(bits):
    """bf16 is the upper half of a float32."""
    return np.uint32(np.uint32(bits) << 16).view(np.float32)


@njit
def to_bf16(x):
    """The bits of x as bf16, rounded to nearest even; a NaN becomes a quiet one of its sign."""
    bits = np.float32(x).view(np.uint32)
    rounded = np.uint16(np.uint32(bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
    return np.uint16((bits >> 16) | 0x40) if x != x else rounded


@njit
def round_bf16(x):
    """x rounded to bf16, as a float32."""
    return from_bf16(to_bf16(x))


@njit
def power_of_two(n):
    """2 ** n for n from -126 to 127."""
    return np.int32(np.int32(n + 127) << 23).view(np.float32)


@njit
def exp(x):
    """e ** x for float32 within 2 ulp: 2 ** n times the polynomial of Cephes expf on [-ln 2 / 2, ln 2 / 2].

    2 ** n is applied in two steps, so that results down to the subnormals are right.
    """
    c = min(max(x, f32(-104.0)), f32(89.0))
    n = np.floor(mad(c, f32(1.44269504088896341), f32(0.5)))
    r = mad(n, f32(2.12194440e-4), mad(n, f32(-0.693359375), c))
    p = mad(f32(1.9875691500e-4), r, f32(1.3981999507e-3))
    p = mad(p, r, f32(8.3334519073e-3))
    p = mad(p, r, f32(4.1665795894e-2))
    p = mad(p, r, f32(1.6666665459e-1))
    p = mad(p, r, f32(5.0000001201e-1))
    p = mad(p, r * r, r) + f32(1.0)
    k = np.int32(n)
    half = k >> 1
    y = p * power_of_two(half) * power_of_two(k - half)
    return x if x != x else y


@njit(fastmath={"contract"}, error_model="numpy")
def dot(acc, a, b, rows, cols, depth):
    """acc[:rows, :cols] += a[:rows, :depth] @ b[:depth, :cols].

    Four rows and four steps at a time: a vector of acc is loaded and stored once for 16 products.
    """
    whole = rows - rows % 4
    deep = depth - depth % 4
    for i in range(0, whole, 4):
        c0, c1, c2, c3 = acc[i], acc[i + 1], acc[i + 2], acc[i + 3]
        a0, a1, a2, a3 = a[i], a[i + 1], a[i + 2], a[i + 3]
        for k in range(0, deep, 4):
            a00, a01, a02, a03 = a0[k], a0[k + 1], a0[k + 2], a0[k + 3]
            a10, a11, a12, a13 = a1[k], a1[k + 1], a1[k + 2], a1[k + 3]
            a20, a21, a22, a23 = a2[k], a2[k + 1], a2[k + 2], a2[k + 3]
            a30, a31, a32, a33 = a3[k], a3[k + 1], a3[k + 2], a3[k + 3]
            b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
            for j in range(cols):
                x0, x1, x2, x3 = b0[j], b1[j], b2[j], b3[j]
                c0[j] = c0[j] + a00 * x0 + a01 * x1 + a02 * x2 + a03 * x3
                c1[j] = c1[j] + a10 * x0 + a11 * x1 + a12 * x2 + a13 * x3
                c2[j] = c2[j] + a20 * x0 + a21 * x1 + a22 * x2 + a23 * x3
                c3[j] = c3[j] + a30 * x0 + a31 * x1 + a32 * x2 + a33 * x3
    # What four by four leaves over: the last columns of a, then the last rows.
    for i in range(rows):
        c, left = acc[i], a[i]
        for k in range(deep if i < whole else 0, depth):
            right, factor = b[k], left[k]
            for j in range(cols):
                c[j] = c[j] + factor * right[j]


@njit(error_model="numpy")
def attention_kernel(q, k, v, o):
    B, H, G, M, N, K, D = 2, 2, 2, 50, 50, 64, 64
    BLOCK_M, BLOCK_N, BLOCK_K, BLOCK_D = 32, 32, 64, 64
    q_pack = np.empty((BLOCK_M, BLOCK_K), np.float32)
    top = np.empty(BLOCK_M, np.float32)
    total = np.empty(BLOCK_M, np.float32)
    acc = np.empty((BLOCK_M, BLOCK_D), np.float32)
    k_pack = np.empty((BLOCK_K, BLOCK_N), np.float32)
    product = np.empty((BLOCK_M, BLOCK_N), np.float32)
    v_pack = np.empty((BLOCK_N, BLOCK_D), np.float32)
    e_pack = np.empty((BLOCK_M, BLOCK_N), np.float32)
    for b in range(B):
        for h in range(H):
            for g in range(G):
                for m0 in range(0, M, BLOCK_M):
                    m1 = min(m0 + BLOCK_M, M)
                    for m in range(m0, m1):
                        for i_k in range(K):
                            q_pack[m - m0, i_k] = from_bf16(q[b, h, g, m, i_k])
                    for m in range(m0, m1):
                        top[m - m0] = f32(-np.inf)
                    for m in range(m0, m1):
                        total[m - m0] = f32(0.0)
                    for m in range(m0, m1):
                        for d in range(D):
                            acc[m - m0, d] = f32(0.0)
                    for n0 in range(0, min(m0 + 32, N), BLOCK_N):
                        n1 = min(n0 + BLOCK_N, N)
                        for i_k in range(K):
                            for n in range(n0, n1):
                                k_pack[i_k, n - n0] = from_bf16(k[b, h, n, i_k])
                        for m in range(m0, m1):
                            for n in range(n0, n1):
                                product[m - m0, n - n0] = f32(0.0)
                        dot(product, q_pack, k_pack, m1 - m0, n1 - n0, np.int64(K))
                        for m in range(m0, m1):
                            max_n = f32(-np.inf)
                            for n in range(n0, n1):
                                max_n = maximum(
                                    max_n, product[m - m0, n - n0] * f32(0.125) if n <= m else f32(-np.inf),
                                )
                            new_top = maximum(top[m - m0], max_n)
                            t = f32(0.0) if new_top == f32(-np.inf) else new_top
                            sum_n = f32(0.0)
                            for n in range(n0, n1):
                                exp_t = exp((product[m - m0, n - n0] * f32(0.125) if n <= m else f32(-np.inf)) - t)
                                e_pack[m - m0, n - n0] = round_bf16(exp_t)
                                sum_n = add(sum_n, exp_t)
                            exp_top = exp(top[m - m0] - t)
                            top[m - m0] = new_top
                            total[m - m0] = total[m - m0] * exp_top + sum_n
                            for d in range(D):
                                acc[m - m0, d] = acc[m - m0, d] * exp_top
                        for n in range(n0, n1):
                            for d in range(D):
                                v_pack[n - n0, d] = from_bf16(v[b, h, n, d])
                        dot(acc, e_pack, v_pack, m1 - m0, np.int64(D), n1 - n0)
                    for m in range(m0, m1):
                        for d in range(D):
                            o[b, h, g, m, d] = to_bf16(acc[m - m0, d] / total[m - m0])


def attention(q, k, v, o):
    """q[2, 2, 2, 50, 64] bf16, k[2, 2, 50, 64] bf16, v[2, 2, 50, 64] bf16 -> o[2, 2, 2, 50, 64] bf16"""
    attention_kernel(q, k, v, o)
