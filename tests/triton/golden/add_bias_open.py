"""add_bias for triton:sm_90, written by portakern."""

import triton
import triton.language as tl


@triton.jit
def max_nan(a, b):
    """The larger value; NaN if either is NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def add_bias_kernel(
    x_ptr, b_ptr, y_ptr, M: tl.int64, N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=(m < M)[:, None] & (n < N)[None, :]).to(tl.float32)
    b = tl.load(b_ptr + n, mask=n < N).to(tl.float32)
    tl.store(
        y_ptr + m[:, None] * N + n[None, :], max_nan(x + b[None, :], 0.0).to(tl.bfloat16),
        mask=(m < M)[:, None] & (n < N)[None, :],
    )


def add_bias(x, b, y):
    """x[M, 1000] bf16, b[1000] bf16 -> y[M, 1000] bf16"""
    M = x.shape[0]
    blocks = triton.cdiv(M, 8)
    if blocks > 0:
        add_bias_kernel[(blocks,)](
            x, b, y, M, N=1000, BLOCK_M=8, BLOCK_N=1024, num_warps=4, num_stages=1, enable_fp_fusion=False,
        )
