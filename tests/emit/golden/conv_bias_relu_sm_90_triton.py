"""conv_bias_relu for triton:sm_90, written by portakern."""

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def max_nan(a, b):
    """The larger value; NaN if either is NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def conv_bias_relu_kernel(
    x_ptr, w_desc, b_ptr, out_desc, L: tl.constexpr, BLOCK_I_J_K: tl.constexpr, BLOCK_V: tl.constexpr,
    BLOCK_L: tl.constexpr,
):
    i_j_k0 = tl.program_id(0) * BLOCK_I_J_K
    i_j_k = i_j_k0 + tl.arange(0, BLOCK_I_J_K)
    v = tl.arange(0, BLOCK_V)
    acc = tl.zeros((BLOCK_I_J_K, BLOCK_V), tl.float32)
    # every step: 3 along r, 3 along s, 2 along l
    for step in range(18):
        r = step // 6
        s = step // 2 % 3
        l0 = step % 2 * BLOCK_L
        l = l0 + tl.arange(0, BLOCK_L)
        x = tl.load(
            x_ptr + i_j_k[:, None] // 3136 * 401408 + (i_j_k[:, None] // 56 % 56 + r - 1) * 7168 + (i_j_k[:, None] % 56 + s - 1) * L + l[None, :],
            mask=(i_j_k[:, None] // 3136 < 32) & (i_j_k[:, None] // 56 % 56 + r - 1 >= 0) & (i_j_k[:, None] // 56 % 56 + r - 1 < 56) & (i_j_k[:, None] % 56 + s - 1 >= 0) & (i_j_k[:, None] % 56 + s - 1 < 56),
            other=0.0,
        )
        w = w_desc.load([r, s, l0, 0]).reshape(BLOCK_L, BLOCK_V)
        acc = tl.dot(x, w, acc)
    b = tl.load(b_ptr + v).to(tl.float32)
    out = max_nan(acc.to(tl.bfloat16).to(tl.float32) + b[None, :], 0.0).to(tl.bfloat16)
    out_desc.store([i_j_k0, 0], out)


def conv_bias_relu(x, w, b, out):
    """x[32, 56, 56, 128] bf16, w[3, 3, 128, 256] bf16, b[256] bf16 -> out[32, 56, 56, 256] bf16"""
    w_desc = TensorDescriptor.from_tensor(w, [1, 1, 64, 256])
    out_desc = TensorDescriptor(out, [100352, 256], [256, 1], [128, 256])
    conv_bias_relu_kernel[(triton.cdiv(100352, 128),)](
        x, w_desc, b, out_desc, L=128, BLOCK_I_J_K=128, BLOCK_V=256, BLOCK_L=64, num_warps=8, num_stages=3,
        enable_fp_fusion=False,
    )
