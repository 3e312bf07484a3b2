"""each_channel for triton:sm_90, written by portakern."""

import triton
import triton.language as tl


@triton.jit
def each_channel_kernel(
    x_ptr, w_ptr, out_ptr, J: tl.constexpr, K: tl.constexpr, L: tl.constexpr, S: tl.constexpr,
    R: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_L: tl.constexpr,
):
    pid = tl.program_id(0)
    k_block = pid % tl.cdiv(K, BLOCK_K)
    pid //= tl.cdiv(K, BLOCK_K)
    j = pid % J
    i = pid // J
    k = k_block * BLOCK_K + tl.arange(0, BLOCK_K)
    l = tl.arange(0, BLOCK_L)
    total0 = tl.zeros((BLOCK_K, BLOCK_L), tl.float32)
    total1 = tl.zeros((BLOCK_K, BLOCK_L), tl.float32)
    total2 = tl.zeros((BLOCK_K, BLOCK_L), tl.float32)
    total3 = tl.zeros((BLOCK_K, BLOCK_L), tl.float32)
    for s in tl.static_range(S):
        x = tl.load(
            x_ptr + i * 401408 + (j * 4 - 1) * 7168 + (k[:, None] + s - 1) * L + l[None, :],
            mask=(j * 4 - 1 >= 0) & (j * 4 - 1 < 56) & (k[:, None] + s - 1 >= 0) & (k[:, None] + s - 1 < 56),
            other=0.0, eviction_policy="evict_last",
        ).to(tl.float32)
        x_tile = tl.load(
            x_ptr + i * 401408 + j * 4 * 7168 + (k[:, None] + s - 1) * L + l[None, :],
            mask=(k[:, None] + s - 1 >= 0) & (k[:, None] + s - 1 < 56), other=0.0,
            eviction_policy="evict_last",
        ).to(tl.float32)
        x_tile2 = tl.load(
            x_ptr + i * 401408 + (j * 4 + 1) * 7168 + (k[:, None] + s - 1) * L + l[None, :],
            mask=(k[:, None] + s - 1 >= 0) & (k[:, None] + s - 1 < 56), other=0.0,
            eviction_policy="evict_last",
        ).to(tl.float32)
        total0_2 = total0
        total1_2 = total1
        total2_2 = total2
        total3_2 = total3
        seen0 = x
        seen1 = x_tile
        seen2 = x_tile2
        for r in tl.static_range(R):
            new_seen2 = tl.load(
                x_ptr + i * 401408 + (j * 4 + r + 2) * 7168 + (k[:, None] + s - 1) * L + l[None, :],
                mask=(j * 4 + r + 2 < 56) & (k[:, None] + s - 1 >= 0) & (k[:, None] + s - 1 < 56), other=0.0,
                eviction_policy="evict_last",
            ).to(tl.float32)
            w = tl.load(w_ptr + r * S * L + s * L + l, eviction_policy="evict_last").to(tl.float32)
            total0_2 = tl.fma(seen0, w[None, :], total0_2)
            total1_2 = tl.fma(seen1, w[None, :], total1_2)
            total2_2 = tl.fma(seen2, w[None, :], total2_2)
            total3_2 = tl.fma(new_seen2, w[None, :], total3_2)
            seen0 = seen1
            seen1 = seen2
            seen2 = new_seen2
        total0 = total0_2
        total1 = total1_2
        total2 = total2_2
        total3 = total3_2
    tl.store(
        out_ptr + i * 401408 + j * 4 * K * L + k[:, None] * L + l[None, :], total0.to(tl.bfloat16),
        mask=(k < K)[:, None], eviction_policy="evict_last",
    )
    tl.store(
        out_ptr + i * 401408 + (j * 4 + 1) * K * L + k[:, None] * L + l[None, :], total1.to(tl.bfloat16),
        mask=(k < K)[:, None], eviction_policy="evict_last",
    )
    tl.store(
        out_ptr + i * 401408 + (j * 4 + 2) * K * L + k[:, None] * L + l[None, :], total2.to(tl.bfloat16),
        mask=(k < K)[:, None], eviction_policy="evict_last",
    )
    tl.store(
        out_ptr + i * 401408 + (j * 4 + 3) * K * L + k[:, None] * L + l[None, :], total3.to(tl.bfloat16),
        mask=(k < K)[:, None], eviction_policy="evict_last",
    )


def each_channel(x, w, out):
    """x[32, 56, 56, 128] bf16, w[3, 3, 1, 128] bf16 -> out[32, 56, 56, 128] bf16"""
    each_channel_kernel[(32 * 14 * triton.cdiv(56, 16),)](
        x, w, out, J=14, K=56, L=128, S=3, R=3, BLOCK_K=16, BLOCK_L=128, num_warps=8, num_stages=1,
        enable_fp_fusion=False,
    )
