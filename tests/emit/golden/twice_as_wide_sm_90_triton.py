"""twice_as_wide for triton:sm_90, written by portakern."""

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def twice_as_wide_1_kernel(
    x_ptr, w_desc, out_ptr, Z: tl.constexpr, K: tl.constexpr, BLOCK_I_J: tl.constexpr, BLOCK_Z: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    i_j = tl.program_id(0) * BLOCK_I_J + tl.arange(0, BLOCK_I_J)
    z = tl.arange(0, BLOCK_Z)
    acc = tl.zeros((BLOCK_I_J, BLOCK_Z), tl.float32)
    # every step: 2 along l, 2 along k
    for step in range(4):
        l = step // 2
        k0 = step % 2 * BLOCK_K
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(
            x_ptr + i_j[:, None] // 1000 * 128000 + (i_j[:, None] % 1000 + l) * K + k[None, :],
            mask=(i_j[:, None] // 1000 < 32) & (i_j[:, None] % 1000 + l < 1000), other=0.0,
        )
        w = w_desc.load([l * -2 + 2, k0, 0]).reshape(BLOCK_K, BLOCK_Z)
        acc = tl.dot(x, w, acc)
    tl.store(
        out_ptr + i_j[:, None] // 1000 * 512000 + (i_j[:, None] % 1000 * 2 + 1) * Z + z[None, :],
        acc.to(tl.bfloat16),
    )


@triton.jit
def twice_as_wide_2_kernel(
    x_ptr, w_desc, out_ptr, Z: tl.constexpr, K: tl.constexpr, BLOCK_I_J: tl.constexpr, BLOCK_Z: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    i_j = tl.program_id(0) * BLOCK_I_J + tl.arange(0, BLOCK_I_J)
    z = tl.arange(0, BLOCK_Z)
    acc = tl.zeros((BLOCK_I_J, BLOCK_Z), tl.float32)
    # every step: 2 along l, 2 along k
    for step in range(4):
        l = step // 2
        k0 = step % 2 * BLOCK_K
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(
            x_ptr + i_j[:, None] // 1000 * 128000 + (i_j[:, None] % 1000 + l - 1) * K + k[None, :],
            mask=(i_j[:, None] // 1000 < 32) & (i_j[:, None] % 1000 + l - 1 >= 0) & (i_j[:, None] % 1000 + l - 1 < 1000),
            other=0.0,
        )
        w = w_desc.load([l * -2 + 3, k0, 0]).reshape(BLOCK_K, BLOCK_Z)
        acc = tl.dot(x, w, acc)
    tl.store(
        out_ptr + i_j[:, None] // 1000 * 512000 + i_j[:, None] % 1000 * 2 * Z + z[None, :],
        acc.to(tl.bfloat16),
    )


def twice_as_wide(x, w, out):
    """x[32, 1000, 128] bf16, w[4, 128, 256] bf16 -> out[32, 2000, 256] bf16"""
    w_desc = TensorDescriptor.from_tensor(w, [1, 64, 256])
    twice_as_wide_1_kernel[(triton.cdiv(32000, 128),)](
        x, w_desc, out, Z=256, K=128, BLOCK_I_J=128, BLOCK_Z=256, BLOCK_K=64, num_warps=8, num_stages=3,
        enable_fp_fusion=False,
    )
    w_desc = TensorDescriptor.from_tensor(w, [1, 64, 256])
    twice_as_wide_2_kernel[(triton.cdiv(32000, 128),)](
        x, w_desc, out, Z=256, K=128, BLOCK_I_J=128, BLOCK_Z=256, BLOCK_K=64, num_warps=8, num_stages=3,
        enable_fp_fusion=False,
    )
