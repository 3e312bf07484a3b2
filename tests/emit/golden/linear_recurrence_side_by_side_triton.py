"""linear_recurrence for triton:sm_90, written by portakern."""

import triton
import triton.language as tl


@triton.jit
def linear_recurrence_kernel(a_ptr, b_ptr, out_ptr, K: tl.constexpr, J: tl.constexpr, BLOCK_K: tl.constexpr):
    pid = tl.program_id(0)
    k_block = pid % tl.cdiv(K, BLOCK_K)
    i = pid // tl.cdiv(K, BLOCK_K)
    k = k_block * BLOCK_K + tl.arange(0, BLOCK_K)
    b_so_far = tl.zeros((BLOCK_K,), tl.float32)
    for j in range(0, J):
        a = tl.load(a_ptr + i * J * K + j * K + k).to(tl.float32)
        b = tl.load(b_ptr + i * J * K + j * K + k).to(tl.float32)
        b_so_far = tl.where(j == 0, b, a * b_so_far + b)
        tl.store(out_ptr + i * J * K + j * K + k, b_so_far.to(tl.bfloat16))


def linear_recurrence(a, b, out):
    """a[4, 512, 1024] bf16, b[4, 512, 1024] bf16 -> out[4, 512, 1024] bf16"""
    linear_recurrence_kernel[(4 * triton.cdiv(1024, 128),)](
        a, b, out, K=1024, J=512, BLOCK_K=128, num_warps=4, num_stages=1, enable_fp_fusion=False,
    )
