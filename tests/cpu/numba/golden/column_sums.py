"""column_sums for numba:cpu, written by portakern."""

import numpy as np
from numba import njit

f32 = np.float32


@njit(fastmath={"reassoc"})
def add(a, b):
    """a + b in a sum whose order is free, so that it runs in vector lanes."""
    return a + b


@njit(error_model="numpy")
def column_sums_kernel(x, y):
    N, M = 70, 33
    BLOCK_N, BLOCK_M = 32, 16
    total = np.empty(BLOCK_N, np.float32)
    sum_m = np.empty(BLOCK_N, np.float32)
    for n0 in range(0, N, BLOCK_N):
        n1 = min(n0 + BLOCK_N, N)
        for n in range(n0, n1):
            total[n - n0] = f32(0.0)
        for m0 in range(0, M, BLOCK_M):
            m1 = min(m0 + BLOCK_M, M)
            for n in range(n0, n1):
                sum_m[n - n0] = f32(0.0)
            for m in range(m0, m1):
                for n in range(n0, n1):
                    sum_m[n - n0] = add(sum_m[n - n0], x[m, n])
            for n in range(n0, n1):
                total[n - n0] = total[n - n0] + sum_m[n - n0]
        for n in range(n0, n1):
            y[n] = total[n - n0]


def column_sums(x, y):
    """x[33, 70] f32 -> y[70] f32"""
    column_sums_kernel(x, y)
