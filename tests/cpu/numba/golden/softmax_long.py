"""softmax_long for numba:cpu, written by portakern."""

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


@njit(error_model="numpy")
def softmax_long_kernel(x, y):
    M, N = 3, 2500
    BLOCK_N = 1024
    for m in range(M):
        top = f32(-np.inf)
        total = f32(0.0)
        for n0 in range(0, N, BLOCK_N):
            n1 = min(n0 + BLOCK_N, N)
            max_n = f32(-np.inf)
            for n in range(n0, n1):
                max_n = maximum(max_n, x[m, n])
            new_top = maximum(top, max_n)
            t = f32(0.0) if new_top == f32(-np.inf) else new_top
            sum_n = f32(0.0)
            for n in range(n0, n1):
                sum_n = add(sum_n, exp(x[m, n] - t))
            total = total * exp(top - t) + sum_n
            top = new_top
        t2 = f32(0.0) if top == f32(-np.inf) else top
        for n0 in range(0, N, BLOCK_N):
            n1 = min(n0 + BLOCK_N, N)
            for n in range(n0, n1):
                y[m, n] = exp(x[m, n] - t2) / total


def softmax_long(x, y):
    """x[3, 2500] f32 -> y[3, 2500] f32"""
    softmax_long_kernel(x, y)
