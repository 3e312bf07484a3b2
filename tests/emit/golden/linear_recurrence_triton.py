"""linear_recurrence for triton:sm_90, written by portakern."""

import triton
import triton.language as tl


@triton.jit
def last_of(x, place, N: tl.constexpr, axis: tl.constexpr):
    """The element of x, N long along an axis, whose `place` along it is the last."""
    return tl.sum(tl.where(place == N - 1, x, 0), axis)


@triton.jit
def linear_recurrence_join(a_left, b_left, a_right, b_right):
    return a_left * a_right, a_right * b_left + b_right


@triton.jit
def linear_recurrence_kernel(a_ptr, b_ptr, out_ptr, J: tl.constexpr, BLOCK_J: tl.constexpr):
    i = tl.program_id(0)
    b_so_far = tl.full((), 0.0, tl.float32)
    for j0 in range(0, J, BLOCK_J):
        j = j0 + tl.arange(0, BLOCK_J)
        mask = j0 == 0
        a = tl.load(a_ptr + i * J + j, mask=j < J).to(tl.float32)
        b = tl.load(b_ptr + i * J + j, mask=j < J).to(tl.float32)
        running_a, running_b = tl.associative_scan((a, b), 0, linear_recurrence_join)
        last_a = last_of(running_a, tl.arange(0, BLOCK_J), BLOCK_J, 0)
        last_b = last_of(running_b, tl.arange(0, BLOCK_J), BLOCK_J, 0)
        out = tl.where(mask, running_b, running_a * b_so_far + running_b).to(tl.bfloat16)
        tl.store(out_ptr + i * J + j, out, mask=j < J)
        b_so_far = tl.where(mask, last_b, last_a * b_so_far + last_b)


def linear_recurrence(a, b, out):
    """a[16, 20000, 1] bf16, b[16, 20000, 1] bf16 -> out[16, 20000, 1] bf16"""
    linear_recurrence_kernel[(16,)](
        a, b, out, J=20000, BLOCK_J=4096, num_warps=8, num_stages=2, enable_fp_fusion=False,
    )
