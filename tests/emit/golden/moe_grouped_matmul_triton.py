"""moe_grouped_matmul for triton:sm_90, written by portakern."""

import torch
import triton
import triton.language as tl


@triton.jit
def moe_grouped_matmul_1_kernel(
    offsets_ptr, t0_ptr, J: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr,
):
    i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
    j = tl.arange(0, BLOCK_J)
    offsets = tl.load(offsets_ptr + j, mask=j < J, eviction_policy="evict_last")
    sum_j = tl.sum(tl.where((j < J)[None, :], (offsets[None, :] <= i[:, None]).to(tl.int32), 0), axis=1)
    tl.store(t0_ptr + i, sum_j - 1, eviction_policy="evict_last")


@triton.jit
def moe_grouped_matmul_2_kernel(
    x_ptr, w_ptr, t0_ptr, out_ptr, I: tl.constexpr, I2: tl.constexpr, K: tl.constexpr, J: tl.constexpr,
    BLOCK_I: tl.constexpr, BLOCK_I2: tl.constexpr, BLOCK_J: tl.constexpr,
):
    pid = tl.program_id(0)
    i2_block = pid % tl.cdiv(I2, BLOCK_I2)
    i_block = pid // tl.cdiv(I2, BLOCK_I2)
    i0 = i_block * BLOCK_I
    i = i0 + tl.arange(0, BLOCK_I)
    i2 = i2_block * BLOCK_I2 + tl.arange(0, BLOCK_I2)
    t0 = tl.load(t0_ptr + i)
    diff = tl.minimum(i0 + 64, I) - 1
    t0_tile = tl.load(t0_ptr + i0, mask=(i0 >= 0) & (i0 < 2048), other=-1)
    t0_tile2 = tl.load(t0_ptr + diff, mask=(diff >= 0) & (diff < 2048), other=-1)
    acc = tl.zeros((BLOCK_I, BLOCK_I2), tl.float32)
    for k in range(tl.maximum(t0_tile, 0), tl.minimum(t0_tile2 + 1, K)):
        part = tl.zeros((BLOCK_I, BLOCK_I2), tl.float32)
        for j0 in range(0, J, BLOCK_J):
            j = j0 + tl.arange(0, BLOCK_J)
            x = tl.load(x_ptr + i[:, None] * J + j[None, :])
            w = tl.load(w_ptr + k * J * I2 + j[:, None] * I2 + i2[None, :])
            part = tl.dot(x, w, part)
        acc = tl.where((t0 == k)[:, None], part, acc)
    tl.store(out_ptr + i[:, None] * I2 + i2[None, :], acc.to(tl.bfloat16))


def moe_grouped_matmul(x, w, offsets, out):
    """x[2048, 512] bf16, w[8, 512, 1024] bf16, offsets[9] i32 -> out[2048, 1024] bf16"""
    t0 = torch.empty((2048,), dtype=torch.int32, device=x.device)
    moe_grouped_matmul_1_kernel[(triton.cdiv(2048, 128),)](
        offsets, t0, J=9, BLOCK_I=128, BLOCK_J=16, num_warps=8, num_stages=1, enable_fp_fusion=False,
    )
    moe_grouped_matmul_2_kernel[(triton.cdiv(2048, 64) * triton.cdiv(1024, 128),)](
        x, w, t0, out, I=2048, I2=1024, K=8, J=512, BLOCK_I=64, BLOCK_I2=128, BLOCK_J=128, num_warps=4,
        num_stages=3, enable_fp_fusion=False,
    )
