"""scatter_add for triton:sm_90, written by portakern."""

import torch
import triton
import triton.language as tl


@triton.jit
def sorted_order(key, N: tl.constexpr, K: tl.constexpr):
    """Where the K smallest of N keys lie, in ascending order, equal ones in theirs: pairs of key and place are sorted."""
    pairs = key.to(tl.int64) << 32 | tl.arange(0, N)
    if K < N:
        pairs = ~tl.topk(~pairs, K)  # the largest of what is turned round, the largest first
    else:
        pairs = tl.sort(pairs)
    return (pairs & 0xFFFFFFFF).to(tl.int32)


@triton.jit
def scatter_add_1_kernel(ids_ptr, t0_ptr, t2_ptr, I: tl.constexpr, BLOCK_I: tl.constexpr):
    i = tl.arange(0, BLOCK_I)
    ids = tl.load(ids_ptr + i, mask=i < I)
    order = sorted_order(
        tl.where(i < I, tl.where((ids >= 0) & (ids < 1000), ids.to(tl.int32), 1000), 2147483647), BLOCK_I,
        BLOCK_I,
    )
    sorted_masked_ids = tl.gather(
        tl.where(i < I, tl.where((ids >= 0) & (ids < 1000), ids.to(tl.int32), 1000), 2147483647), order, 0,
    )
    tl.store(t0_ptr + i, sorted_masked_ids, mask=i < I)
    tl.store(t2_ptr + i, order, mask=i < I)


@triton.jit
def scatter_add_2_kernel(t0_ptr, t1_ptr, I: tl.constexpr, BLOCK_I: tl.constexpr):
    i = tl.arange(0, BLOCK_I)
    mask = (tl.full((), 1023, tl.int32) < 2000) & (tl.full((), 1023, tl.int32) >= 0)
    masked = tl.where(mask, tl.full((), 1023, tl.int32), -1)
    t0 = tl.load(t0_ptr + masked, mask=(masked >= 0) & (masked < 2000), other=0, eviction_policy="evict_last")
    total = i + -1
    masked2 = tl.where(mask & (t0 <= total), tl.full((), 1024, tl.int32), 0)
    total2 = masked2 + 511
    mask2 = (total2 < 2000) & (total2 >= 0)
    masked3 = tl.where(mask2, total2, -1)
    t0_tile = tl.load(
        t0_ptr + masked3, mask=(masked3 >= 0) & (masked3 < 2000), other=0, eviction_policy="evict_last",
    )
    selected = tl.where(mask2 & (t0_tile <= total), masked2 + 512, masked2)
    total3 = selected + 255
    mask3 = (total3 < 2000) & (total3 >= 0)
    masked4 = tl.where(mask3, total3, -1)
    t0_tile2 = tl.load(
        t0_ptr + masked4, mask=(masked4 >= 0) & (masked4 < 2000), other=0, eviction_policy="evict_last",
    )
    selected2 = tl.where(mask3 & (t0_tile2 <= total), selected + 256, selected)
    total4 = selected2 + 127
    mask4 = (total4 < 2000) & (total4 >= 0)
    masked5 = tl.where(mask4, total4, -1)
    t0_tile3 = tl.load(
        t0_ptr + masked5, mask=(masked5 >= 0) & (masked5 < 2000), other=0, eviction_policy="evict_last",
    )
    selected3 = tl.where(mask4 & (t0_tile3 <= total), selected2 + 128, selected2)
    total5 = selected3 + 63
    mask5 = (total5 < 2000) & (total5 >= 0)
    masked6 = tl.where(mask5, total5, -1)
    t0_tile4 = tl.load(
        t0_ptr + masked6, mask=(masked6 >= 0) & (masked6 < 2000), other=0, eviction_policy="evict_last",
    )
    selected4 = tl.where(mask5 & (t0_tile4 <= total), selected3 + 64, selected3)
    total6 = selected4 + 31
    mask6 = (total6 < 2000) & (total6 >= 0)
    masked7 = tl.where(mask6, total6, -1)
    t0_tile5 = tl.load(
        t0_ptr + masked7, mask=(masked7 >= 0) & (masked7 < 2000), other=0, eviction_policy="evict_last",
    )
    selected5 = tl.where(mask6 & (t0_tile5 <= total), selected4 + 32, selected4)
    total7 = selected5 + 15
    mask7 = (total7 < 2000) & (total7 >= 0)
    masked8 = tl.where(mask7, total7, -1)
    t0_tile6 = tl.load(
        t0_ptr + masked8, mask=(masked8 >= 0) & (masked8 < 2000), other=0, eviction_policy="evict_last",
    )
    selected6 = tl.where(mask7 & (t0_tile6 <= total), selected5 + 16, selected5)
    total8 = selected6 + 7
    mask8 = (total8 < 2000) & (total8 >= 0)
    masked9 = tl.where(mask8, total8, -1)
    t0_tile7 = tl.load(
        t0_ptr + masked9, mask=(masked9 >= 0) & (masked9 < 2000), other=0, eviction_policy="evict_last",
    )
    selected7 = tl.where(mask8 & (t0_tile7 <= total), selected6 + 8, selected6)
    total9 = selected7 + 3
    mask9 = (total9 < 2000) & (total9 >= 0)
    masked10 = tl.where(mask9, total9, -1)
    t0_tile8 = tl.load(
        t0_ptr + masked10, mask=(masked10 >= 0) & (masked10 < 2000), other=0, eviction_policy="evict_last",
    )
    selected8 = tl.where(mask9 & (t0_tile8 <= total), selected7 + 4, selected7)
    total10 = selected8 + 1
    mask10 = (total10 < 2000) & (total10 >= 0)
    masked11 = tl.where(mask10, total10, -1)
    t0_tile9 = tl.load(
        t0_ptr + masked11, mask=(masked11 >= 0) & (masked11 < 2000), other=0, eviction_policy="evict_last",
    )
    selected9 = tl.where(mask10 & (t0_tile9 <= total), selected8 + 2, selected8)
    mask11 = (selected9 < 2000) & (selected9 >= 0)
    masked12 = tl.where(mask11, selected9, -1)
    t0_tile10 = tl.load(
        t0_ptr + masked12, mask=(masked12 >= 0) & (masked12 < 2000), other=0, eviction_policy="evict_last",
    )
    t1 = tl.where(mask11 & (t0_tile10 <= total), selected9 + 1, selected9)
    tl.store(t1_ptr + i, t1, mask=i < I, eviction_policy="evict_last")


@triton.jit
def scatter_add_3_kernel(
    table_ptr, rows_ptr, t2_ptr, t1_ptr, out_ptr, I: tl.constexpr, I2: tl.constexpr, BLOCK_I: tl.constexpr,
):
    i = tl.arange(0, BLOCK_I)
    j = tl.program_id(0)
    t1 = tl.load(t1_ptr + j)
    t1_tile = tl.load(t1_ptr + (j + 1))
    total = tl.zeros((BLOCK_I,), tl.float32)
    for i2 in range(tl.minimum(tl.maximum(t1, 0), I2), tl.minimum(tl.maximum(t1_tile, 0), I2)):
        t2 = tl.load(t2_ptr + i2)
        rows = tl.load(rows_ptr + t2 * I + i, mask=(t2 >= 0) & (t2 < 2000), other=0.0)
        total = total + rows
    table = tl.load(table_ptr + j * I + i)
    tl.store(out_ptr + j * I + i, table + total)


def scatter_add(table, ids, rows, out):
    """table[1000, 128] f32, ids[2000] i64, rows[2000, 128] f32 -> out[1000, 128] f32"""
    t0 = torch.empty((2000,), dtype=torch.int32, device=table.device)
    t2 = torch.empty((2000,), dtype=torch.int32, device=table.device)
    t1 = torch.empty((1001,), dtype=torch.int32, device=table.device)
    scatter_add_1_kernel[(1,)](
        ids, t0, t2, I=2000, BLOCK_I=2048, num_warps=16, num_stages=1, enable_fp_fusion=False,
    )
    scatter_add_2_kernel[(1,)](
        t0, t1, I=1001, BLOCK_I=1024, num_warps=2, num_stages=1, enable_fp_fusion=False,
    )
    scatter_add_3_kernel[(1000,)](
        table, rows, t2, t1, out, I=128, I2=2000, BLOCK_I=128, num_warps=4, num_stages=1,
        enable_fp_fusion=False,
    )
