"""attention for triton:sm_90, written by portakern."""

import triton
import triton.language as tl


@triton.jit
def max_nan(a, b):
    """The larger value; NaN if either is NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, H: tl.constexpr, G: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    K: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    pid = tl.program_id(0)
    # Blocks that walk farthest start first.
    m_block = tl.cdiv(M, BLOCK_M) - 1 - pid % tl.cdiv(M, BLOCK_M)
    pid //= tl.cdiv(M, BLOCK_M)
    g = pid % G
    pid //= G
    h = pid % H
    b = pid // H
    m0 = m_block * BLOCK_M
    m = m0 + tl.arange(0, BLOCK_M)
    k = tl.arange(0, BLOCK_K)
    d = tl.arange(0, BLOCK_D)
    q = tl.load(
        q_ptr + b * H * G * M * K + h * G * M * K + g * M * K + m[:, None] * K + k[None, :],
        mask=(m < M)[:, None], other=0.0,
    )
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for n0 in range(0, tl.minimum(m0 + 32, N), BLOCK_N):
        n = n0 + tl.arange(0, BLOCK_N)
        k_tile = tl.load(
            k_ptr + b * H * N * K + h * N * K + n[:, None] * K + k[None, :], mask=(n < N)[:, None], other=0.0,
        )
        product = tl.dot(q, tl.trans(k_tile))
        masked = tl.where(
            (n < N)[None, :], tl.where(n[None, :] <= m[:, None], product, float("-inf")), float("-inf"),
        )
        max_n = tl.reduce(masked, 1, max_nan)
        new_top = max_nan(top, max_n * 0.125)
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        exp2_product = tl.exp2(tl.fma(masked, 0.1803368777036667, (shift * -1.4426950216293335)[:, None]))
        exp2_top = tl.exp2((top - shift) * 1.4426950216293335)
        v = tl.load(
            v_ptr + b * H * N * D + h * N * D + n[:, None] * D + d[None, :], mask=(n < N)[:, None], other=0.0,
        )
        acc = tl.dot(exp2_product.to(tl.bfloat16), v, acc * exp2_top[:, None])
        top = new_top
        total = total * exp2_top + tl.sum(exp2_product, axis=1)
    tl.store(
        o_ptr + b * H * G * M * D + h * G * M * D + g * M * D + m[:, None] * D + d[None, :],
        (acc / total[:, None]).to(tl.bfloat16), mask=(m < M)[:, None],
    )


def attention(q, k, v, o):
    """q[2, 2, 2, 50, 64] bf16, k[2, 2, 50, 64] bf16, v[2, 2, 50, 64] bf16 -> o[2, 2, 2, 50, 64] bf16"""
    attention_kernel[(2 * 2 * 2 * triton.cdiv(50, 32),)](
        q, k, v, o, H=2, G=2, M=50, N=50, K=64, D=64, BLOCK_M=32, BLOCK_N=32, BLOCK_K=64, BLOCK_D=64,
        num_warps=4, num_stages=1, enable_fp_fusion=False,
    )
