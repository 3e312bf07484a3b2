"""spmm for triton:sm_90, written by portakern."""

import triton
import triton.language as tl


@triton.jit
def spmm_kernel(
    values_ptr, columns_ptr, offsets_ptr, b_ptr, out_ptr, P: tl.int64, J: tl.constexpr, BLOCK_J: tl.constexpr,
):
    pid = tl.program_id(0)
    j_block = pid % tl.cdiv(J, BLOCK_J)
    l = pid // tl.cdiv(J, BLOCK_J)
    j = j_block * BLOCK_J + tl.arange(0, BLOCK_J)
    offsets = tl.load(offsets_ptr + l)
    offsets_tile = tl.load(offsets_ptr + (l + 1))
    total = tl.zeros((BLOCK_J,), tl.float32)
    for i_step in range(
        tl.minimum(tl.maximum(offsets, 0), tl.cast(P, tl.int32)),
        tl.minimum(tl.maximum(offsets_tile, 0), tl.cast(P, tl.int32)),
    ):
        i = tl.full((), 0, tl.int64) + i_step
        values = tl.load(values_ptr + i)
        columns = tl.load(columns_ptr + i)
        b = tl.load(b_ptr + columns * J + j, mask=(columns >= 0) & (columns < 900), other=0.0)
        total = total + values * b
    tl.store(out_ptr + l * J + j, total)


def spmm(values, columns, offsets, b, out):
    """values[P] f32, columns[P] i32, offsets[1001] i32, b[900, 256] f32 -> out[1000, 256] f32"""
    P = values.shape[0]
    spmm_kernel[(1000 * triton.cdiv(256, 128),)](
        values, columns, offsets, b, out, P, J=256, BLOCK_J=128, num_warps=4, num_stages=1,
        enable_fp_fusion=False,
    )
