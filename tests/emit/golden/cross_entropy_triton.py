"""cross_entropy for triton:sm_90, written by portakern."""

import torch
import triton
import triton.language as tl


@triton.jit
def max_nan(a, b):
    """The larger value; NaN if either is NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def cross_entropy_1_kernel(logits_ptr, labels_ptr, t0_ptr, J: tl.constexpr, BLOCK_J: tl.constexpr):
    i = tl.program_id(0)
    labels = tl.load(labels_ptr + i)
    mask = (labels >= 0) & (labels < J)
    masked_labels = tl.cast(tl.where(mask, labels, -1), tl.int32)
    top = tl.full((), float("-inf"), tl.float32)
    total1 = tl.full((), 0.0, tl.float32)
    total2 = tl.full((), 0.0, tl.float32)
    for j0 in range(0, J, BLOCK_J):
        j = j0 + tl.arange(0, BLOCK_J)
        logits = tl.load(logits_ptr + i * J + j)
        new_top = max_nan(top, tl.reduce(logits, 0, max_nan))
        total2 = tl.where(
            top == float("-inf"), 0.0, total2 * tl.exp(top - new_top),
        ) + tl.sum(tl.exp(logits - new_top), axis=0)
        top = new_top
        total1 = total1 + tl.sum(tl.where(j == masked_labels, logits, 0.0), axis=0)
    t0 = tl.log(total2) - (tl.where(mask, total1, float("nan")) - top)
    tl.store(t0_ptr + i, t0)


@triton.jit
def cross_entropy_2_kernel(labels_ptr, t0_ptr, out_ptr, BLOCK_I: tl.constexpr):
    i = tl.arange(0, BLOCK_I)
    labels = tl.load(labels_ptr + i, eviction_policy="evict_last")
    mask = labels != -100
    t0 = tl.load(t0_ptr + i, eviction_policy="evict_last")
    sum_i = tl.sum(tl.where(mask, t0, 0.0), axis=0)
    tl.store(out_ptr, sum_i / tl.sum(mask.to(tl.float32), axis=0), eviction_policy="evict_last")


def cross_entropy(logits, labels, out):
    """logits[4096, 32768] f32, labels[4096] i64 -> out[] f32"""
    t0 = torch.empty((4096,), dtype=torch.float32, device=logits.device)
    cross_entropy_1_kernel[(4096,)](
        logits, labels, t0, J=32768, BLOCK_J=4096, num_warps=8, num_stages=2, enable_fp_fusion=False,
    )
    cross_entropy_2_kernel[(1,)](
        labels, t0, out, BLOCK_I=4096, num_warps=8, num_stages=1, enable_fp_fusion=False,
    )
