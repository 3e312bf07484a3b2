"""matmul_bias for triton:sm_90, written by portakern."""

import triton
import triton.language as tl


@triton.jit
def tanh(x):
    """Hyperbolic tangent: the odd polynomial of Cephes tanhf where 1 - e would cancel, (1 - e) / (1 + e) elsewhere."""
    e = tl.exp(-2.0 * tl.abs(x))
    far = (1.0 - e) / (1.0 + e)
    s = x * x
    p = (-5.70498872745e-3 * s + 2.06390887954e-2) * s - 5.37397155531e-2
    p = (p * s + 1.33314422036e-1) * s - 3.33332819422e-1
    return tl.where(tl.abs(x) < 0.625, x + x * s * p, tl.where(x < 0.0, -far, far))


@triton.jit
def matmul_bias_kernel(
    a_ptr, w_ptr, bias_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    n_block = pid % tl.cdiv(N, BLOCK_N)
    pid //= tl.cdiv(N, BLOCK_N)
    m_block = pid % tl.cdiv(M, BLOCK_M)
    b = pid // tl.cdiv(M, BLOCK_M)
    m = m_block * BLOCK_M + tl.arange(0, BLOCK_M)
    n = n_block * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        a = tl.load(
            a_ptr + b * M * K + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :],
            other=0.0,
        )
        w = tl.load(
            w_ptr + b * K * N + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :],
            other=0.0,
        )
        acc = tl.dot(a, w, acc)
    bias = tl.load(bias_ptr + n, mask=n < N)
    total = acc + bias[None, :]
    c = 0.5 * total * (1.0 + tanh(0.7978845608028654 * (total + 0.044715 * (total * total * total))))
    tl.store(
        c_ptr + b * M * N + m[:, None] * N + n[None, :], c.to(tl.bfloat16),
        mask=(m < M)[:, None] & (n < N)[None, :],
    )


def matmul_bias(a, w, bias, c):
    """a[3, 100, 50] bf16, w[3, 50, 72] bf16, bias[72] f32 -> c[3, 100, 72] bf16"""
    matmul_bias_kernel[(3 * triton.cdiv(100, 64) * triton.cdiv(72, 64),)](
        a, w, bias, c, M=100, N=72, K=50, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=2,
        enable_fp_fusion=False,
    )
