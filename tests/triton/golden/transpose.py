"""transpose for triton:sm_90, written by portakern."""

import triton
import triton.language as tl


@triton.jit
def transpose_kernel(
    x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    pid = tl.program_id(0)
    n_block = pid % tl.cdiv(N, BLOCK_N)
    m_block = pid // tl.cdiv(N, BLOCK_N)
    m = m_block * BLOCK_M + tl.arange(0, BLOCK_M)
    n = n_block * BLOCK_N + tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=(m < M)[:, None] & (n < N)[None, :])
    tl.store(y_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=(n < N)[:, None] & (m < M)[None, :])


def transpose(x, y):
    """x[70, 45] f32 -> y[45, 70] f32"""
    transpose_kernel[(triton.cdiv(70, 32) * triton.cdiv(45, 32),)](
        x, y, M=70, N=45, BLOCK_M=32, BLOCK_N=32, num_warps=4, num_stages=1, enable_fp_fusion=False,
    )
