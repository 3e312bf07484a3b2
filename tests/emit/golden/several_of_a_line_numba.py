"""several_of_a_line for numba:cpu, written by portakern."""

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


@njit(error_model="numpy")
def several_of_a_line_kernel(x, ids, out):
    I_J, K = 800, 100
    BLOCK_I_J = 163
    for i_j0 in range(0, I_J, BLOCK_I_J):
        i_j1 = min(i_j0 + BLOCK_I_J, I_J)
        for i_j in range(i_j0, i_j1):
            for k in range(K):
                out[i_j, k] = maximum(x[i_j, ids[i_j, k]] if 0 <= ids[i_j, k] < 4096 else f32(0.0), f32(0.0))


def several_of_a_line(x, ids, out):
    """x[8, 100, 4096] f32, ids[8, 100, 100] i32 -> out[8, 100, 100] f32"""
    several_of_a_line_kernel(x.reshape(800, 4096), ids.reshape(800, 100), out.reshape(800, 100))
