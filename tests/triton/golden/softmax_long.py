"""softmax_long for triton:sm_90, written by portakern."""

import triton
import triton.language as tl


@triton.jit
def max_nan(a, b):
    """The larger value; NaN if either is NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def softmax_long_kernel(x_ptr, y_ptr, N: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0)
    top = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for n0 in range(0, N, BLOCK_N):
        n = n0 + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + m * N + n, mask=n < N, other=float("-inf"))
        new_top = max_nan(top, tl.reduce(x, 0, max_nan))
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        total = total * tl.exp(top - shift) + tl.sum(tl.where(n < N, tl.exp(x - shift), 0.0), axis=0)
        top = new_top
    shift = tl.where(top == float("-inf"), 0.0, top)
    for n0 in range(0, N, BLOCK_N):
        n = n0 + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + m * N + n, mask=n < N, other=float("-inf"))
        tl.store(y_ptr + m * N + n, tl.exp(x - shift) / total, mask=n < N)


def softmax_long(x, y):
    """x[3, 2500] f32 -> y[3, 2500] f32"""
    softmax_long_kernel[(3,)](x, y, N=2500, BLOCK_N=1024, num_warps=4, num_stages=1, enable_fp_fusion=False)
