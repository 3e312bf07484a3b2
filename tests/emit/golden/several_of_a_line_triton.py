"""several_of_a_line for triton:sm_90, written by portakern."""

import triton
import triton.language as tl


@triton.jit
def max_nan(a, b):
    """The larger value; NaN if either is NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def several_of_a_line_kernel(
    x_ptr, ids_ptr, out_ptr, K: tl.constexpr, BLOCK_I_J: tl.constexpr, BLOCK_K: tl.constexpr,
):
    i_j = tl.program_id(0) * BLOCK_I_J + tl.arange(0, BLOCK_I_J)
    k = tl.arange(0, BLOCK_K)
    ids = tl.load(
        ids_ptr + i_j[:, None] * K + k[None, :], mask=(k < K)[None, :], eviction_policy="evict_last",
    )
    x = tl.load(
        x_ptr + i_j[:, None] * 4096 + ids, mask=(ids >= 0) & (ids < 4096), other=0.0,
        eviction_policy="evict_last",
    )
    tl.store(
        out_ptr + i_j[:, None] * K + k[None, :], max_nan(x, 0.0), mask=(k < K)[None, :],
        eviction_policy="evict_last",
    )


def several_of_a_line(x, ids, out):
    """x[8, 100, 4096] f32, ids[8, 100, 100] i32 -> out[8, 100, 100] f32"""
    several_of_a_line_kernel[(triton.cdiv(800, 32),)](
        x, ids, out, K=100, BLOCK_I_J=32, BLOCK_K=128, num_warps=8, num_stages=1, enable_fp_fusion=False,
    )
