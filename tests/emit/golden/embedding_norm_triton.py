"""embedding_norm for triton:sm_90, written by portakern."""

import triton
import triton.language as tl


@triton.jit
def embedding_norm_kernel(
    table_ptr, ids_ptr, w_ptr, out_ptr, J: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr,
):
    i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
    j = tl.arange(0, BLOCK_J)
    ids = tl.load(ids_ptr + i, eviction_policy="evict_last")
    table = tl.load(
        table_ptr + ids[:, None] * J + j[None, :], mask=((ids >= 0) & (ids < 32000))[:, None], other=0.0,
        eviction_policy="evict_last",
    ).to(tl.float32)
    sum_j = tl.sum(table * table, axis=1)
    w = tl.load(w_ptr + j, eviction_policy="evict_last").to(tl.float32)
    out = ((table * tl.rsqrt(sum_j / 512.0 + 1e-06)[:, None]).to(tl.bfloat16).to(tl.float32) * w[None, :]).to(tl.bfloat16)
    tl.store(out_ptr + i[:, None] * J + j[None, :], out, eviction_policy="evict_last")


def embedding_norm(table, ids, w, out):
    """table[32000, 512] bf16, ids[4000] i32, w[512] bf16 -> out[4000, 512] bf16"""
    embedding_norm_kernel[(triton.cdiv(4000, 4),)](
        table, ids, w, out, J=512, BLOCK_I=4, BLOCK_J=512, num_warps=8, num_stages=1, enable_fp_fusion=False,
    )
