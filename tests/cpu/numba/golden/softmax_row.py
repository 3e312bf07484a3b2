"""softmax for numba:cpu, written by portakern."""

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
def softmax_kernel(x, y):
    M, N = 5, 1000
    BLOCK_N = 1024
    exp_x_tile = np.empty(BLOCK_N, np.float32)
    for m in range(M):
        max_n = f32(-np.inf)
        for n in range(N):
            max_n = maximum(max_n, from_bf16(x[m, n]))
        sum_n = f32(0.0)
        for n in range(N):
            exp_x = exp(from_bf16(x[m, n]) - max_n)
            exp_x_tile[n] = exp_x
            sum_n = add(sum_n, exp_x)
        for n in range(N):
            y[m, n] = to_bf16(exp_x_tile[n] / sum_n)


def softmax(x, y):
    """x[5, 1000] bf16 -> y[5, 1000] bf16"""
    softmax_kernel(x, y)
