"""embedding_norm for numba:cpu, written by portakern."""

import math

import numpy as np
from numba import njit

f32 = np.float32


@njit(fastmath={"reassoc"})
def add(a, b):
    """a + b in a sum whose order is free, so that it runs in vector lanes."""
    return a + b


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


@njit(error_model="numpy")
def embedding_norm_kernel(table, ids, w, out):
    I, J = 4000, 512
    BLOCK_J = 512
    table_tile = np.empty(BLOCK_J, np.float32)
    for i in range(I):
        ids2 = ids[i]
        sum_j = f32(0.0)
        for j in range(J):
            table2 = from_bf16(table[ids2, j]) if 0 <= ids2 < 32000 else f32(0.0)
            table_tile[j] = table2
            sum_j = add(sum_j, table2 * table2)
        rsqrt_table = f32(1.0) / math.sqrt(sum_j / f32(512.0) + f32(1e-06))
        for j in range(J):
            out[i, j] = to_bf16(round_bf16(table_tile[j] * rsqrt_table) * from_bf16(w[j]))


def embedding_norm(table, ids, w, out):
    """table[32000, 512] bf16, ids[4000] i32, w[512] bf16 -> out[4000, 512] bf16"""
    embedding_norm_kernel(table, ids, w, out)
