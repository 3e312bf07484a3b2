"""attention for triton:sm_90, written by portakern."""

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def max_nan(a, b):
    """The larger value; NaN if either is NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def attention_kernel(
    q_desc, k_desc, v_desc, out_desc, L: tl.constexpr, R: tl.constexpr, I: tl.constexpr, J: tl.constexpr,
    BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_T: tl.constexpr,
    HEADS: tl.constexpr,
):
    pid = tl.program_id(0)
    # HEADS heads at a time, whose keys and values stay in the last-level cache; the longest walks first.
    pid, i_block = tl.swizzle2d(
        pid // tl.cdiv(I, BLOCK_I), pid % tl.cdiv(I, BLOCK_I), L * R, tl.cdiv(I, BLOCK_I), HEADS,
    )
    i_block = tl.cdiv(I, BLOCK_I) - 1 - i_block
    r = pid % R
    l = pid // R
    i0 = i_block * BLOCK_I
    i = i0 + tl.arange(0, BLOCK_I)
    q = q_desc.load([0, l, r, i0, 0]).reshape(BLOCK_I, BLOCK_S)
    top = tl.full((BLOCK_I,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_I,), tl.float32)
    acc = tl.zeros((BLOCK_I, BLOCK_T), tl.float32)
    end = i0 + 128
    k = k_desc.load([0, l, 0, 0]).reshape(BLOCK_J, BLOCK_S)
    product = tl.dot(q, tl.trans(k))
    for j0 in range(0, end - BLOCK_J, BLOCK_J):
        j = j0 + tl.arange(0, BLOCK_J)
        masked = product
        if j0 >= i0:
            masked = tl.where(i[:, None] >= j[None, :], masked, float("-inf"))
        max_j = tl.reduce(masked, 1, max_nan)
        new_top = max_nan(top, max_j * 0.0883883461356163)
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        exp2_product = tl.exp2(tl.fma(masked, 0.127517431974411, (shift * -1.4426950216293335)[:, None]))
        exp2_top = tl.exp2((top - shift) * 1.4426950216293335)
        total = total * exp2_top + tl.sum(exp2_product, axis=1)
        weights = exp2_product.to(tl.bfloat16)
        kept = acc * exp2_top[:, None]
        # The scores of the next tile, before the product of these weights.
        next_j0 = j0 + BLOCK_J
        k = k_desc.load([0, l, next_j0, 0]).reshape(BLOCK_J, BLOCK_S)
        product = tl.dot(q, tl.trans(k))
        v = v_desc.load([0, l, j0, 0]).reshape(BLOCK_J, BLOCK_T)
        acc = tl.dot(weights, v, kept)
        top = new_top
    j0 = tl.cdiv(end, BLOCK_J) * BLOCK_J - BLOCK_J
    j = j0 + tl.arange(0, BLOCK_J)
    masked = tl.where(i[:, None] >= j[None, :], product, float("-inf"))
    max_j = tl.reduce(masked, 1, max_nan)
    new_top = max_nan(top, max_j * 0.0883883461356163)
    shift = tl.where(new_top == float("-inf"), 0.0, new_top)
    exp2_product = tl.exp2(tl.fma(masked, 0.127517431974411, (shift * -1.4426950216293335)[:, None]))
    exp2_top = tl.exp2((top - shift) * 1.4426950216293335)
    total = total * exp2_top + tl.sum(exp2_product, axis=1)
    weights = exp2_product.to(tl.bfloat16)
    kept = acc * exp2_top[:, None]
    v = v_desc.load([0, l, j0, 0]).reshape(BLOCK_J, BLOCK_T)
    acc = tl.dot(weights, v, kept)
    out = (acc * (1.0 / total)[:, None]).to(tl.bfloat16).reshape(1, 1, 1, BLOCK_I, BLOCK_T)
    out_desc.store([0, l, r, i0, 0], out)


def attention(q, k, v, out):
    """q[1, 2, 2, 1024, 128] bf16, k[1, 2, 1024, 128] bf16, v[1, 2, 1024, 128] bf16 -> out[1, 2, 2, 1024, 128] bf16"""
    q_desc = TensorDescriptor(q, [1, 2, 2, 1024, 128], [524288, 262144, 131072, 128, 1], [1, 1, 1, 128, 128])
    k_desc = TensorDescriptor(k, [1, 2, 1024, 128], [262144, 131072, 128, 1], [1, 1, 64, 128])
    v_desc = TensorDescriptor(v, [1, 2, 1024, 128], [262144, 131072, 128, 1], [1, 1, 64, 128])
    out_desc = TensorDescriptor(
        out, [1, 2, 2, 1024, 128], [524288, 262144, 131072, 128, 1], [1, 1, 1, 128, 128],
    )
    attention_kernel[(2 * 2 * triton.cdiv(1024, 128),)](
        q_desc, k_desc, v_desc, out_desc, L=2, R=2, I=1024, J=1024, BLOCK_I=128, BLOCK_J=64, BLOCK_S=128,
        BLOCK_T=128, HEADS=32, num_warps=4, num_stages=2, enable_fp_fusion=False,
    )
