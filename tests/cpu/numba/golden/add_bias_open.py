"""add_bias for numba:cpu, written by portakern."""

import numpy as np
from llvmlite import ir
from numba import njit
from numba.extending import intrinsic

f32 = np.float32


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


@njit(error_model="numpy")
def add_bias_kernel(x, b, y, M):
    N = 1000
    BLOCK_M = 8
    for m0 in range(0, M, BLOCK_M):
        m1 = min(m0 + BLOCK_M, M)
        for m in range(m0, m1):
            for n in range(N):
                y[m, n] = to_bf16(maximum(from_bf16(x[m, n]) + from_bf16(b[n]), f32(0.0)))


def add_bias(x, b, y):
    """x[M, 1000] bf16, b[1000] bf16 -> y[M, 1000] bf16"""
    M = x.shape[0]
    add_bias_kernel(x, b, y, M)
