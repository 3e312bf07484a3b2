"""matmul_bias_gelu for triton:sm_90, written by portakern."""

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def matmul_bias_gelu_kernel(
    x_desc, w_desc, bias_ptr, out_desc, I: tl.constexpr, J: tl.constexpr, K: tl.constexpr,
    BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):
    pid = tl.program_id(0)
    j_block = pid % tl.cdiv(J, BLOCK_J)
    i_block = pid // tl.cdiv(J, BLOCK_J)
    # Walk the output in groups of GROUP block rows, so that both operands stay in the last-level cache.
    i_block, j_block = tl.swizzle2d(i_block, j_block, tl.cdiv(I, BLOCK_I), tl.cdiv(J, BLOCK_J), GROUP)
    i0 = i_block * BLOCK_I
    j0 = j_block * BLOCK_J
    j = j0 + tl.arange(0, BLOCK_J)
    acc = tl.zeros((BLOCK_I, BLOCK_J), tl.float32)
    for k0 in range(0, K, BLOCK_K):
        x = x_desc.load([i0, k0])
        w = w_desc.load([k0, j0])
        acc = tl.dot(x, w, acc)
    bias = tl.load(bias_ptr + j)
    total = acc + bias[None, :]
    out = (total * tl.sigmoid((total + total * total * total * 0.044715) * 1.5957691216057308)).to(tl.bfloat16)
    out_desc.store([i0, j0], out)


def matmul_bias_gelu(x, w, bias, out):
    """x[4096, 4096] bf16, w[4096, 4096] bf16, bias[4096] f32 -> out[4096, 4096] bf16"""
    x_desc = TensorDescriptor.from_tensor(x, [128, 64])
    w_desc = TensorDescriptor.from_tensor(w, [64, 256])
    out_desc = TensorDescriptor.from_tensor(out, [128, 256])
    matmul_bias_gelu_kernel[(triton.cdiv(4096, 128) * triton.cdiv(4096, 256),)](
        x_desc, w_desc, bias, out_desc, I=4096, J=4096, K=4096, BLOCK_I=128, BLOCK_J=256, BLOCK_K=64, GROUP=8,
        num_warps=8, num_stages=3, enable_fp_fusion=False,
    )
