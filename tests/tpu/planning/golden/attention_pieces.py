"""attention for TPU v5e in Pallas, written by portakern.

Schedule: sq=512,sk=512,d=128,d2=128,stages=2,warps=1,piece=256,split=1
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BSQ, BSK = 512, 512  # elements per block


def attention_kernel(q_ref, k_ref, v_ref, out_ref, top_ref, total_ref, acc_ref):
    i_sq = pl.program_id(0)
    i_sk = pl.program_id(1)

    @pl.when(i_sk == 0)
    def start():
        top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
        total_ref[...] = jnp.zeros_like(total_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(i_sk * BSK < i_sq * BSQ)
    def inside():
        def product_of(at):
            q = q_ref[at : at + 256]
            return jax.lax.dot_general(
                q, k_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
            )

        # The product of the next piece is under way while the rest of this one is computed.
        following = product_of(0)
        for at in range(0, BSQ, 256):
            part = slice(at, at + 256)
            product, following = following, product_of(at + 256) if at + 256 < BSQ else None
            top = top_ref[part]
            larger = jnp.maximum(top, jnp.max(product, axis=1, keepdims=True) * 0.125)
            shift = jnp.where(larger == -jnp.inf, 0.0, larger)
            scale = jnp.exp2((top - shift) * 1.4426950216293335)
            diff = product * 0.1803368777036667 - jnp.tile(shift * 1.4426950216293335, (1, BSK // 128))
            e = jnp.exp2(diff)
            top_ref[part] = larger
            total_ref[part] = total_ref[part] * scale + jnp.sum(e, axis=1, keepdims=True)
            acc_ref[part] = acc_ref[part] * scale[:, :64] + jnp.dot(
                e.astype(jnp.bfloat16), v_ref[...], preferred_element_type=jnp.float32
            )

    @pl.when((i_sk >= i_sq * BSQ // BSK) & (i_sk * BSK < i_sq * BSQ + 512))
    def edge():
        def product_of(at):
            seen = at + 256
            q = q_ref[at : at + 256]
            return jax.lax.dot_general(
                q, k_ref[:seen], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
            )

        # The product of the next piece is under way while the rest of this one is computed.
        following = product_of(0)
        for at in range(0, BSQ, 256):
            part = slice(at, at + 256)
            seen = at + 256
            product, following = following, product_of(at + 256) if at + 256 < BSQ else None
            top = top_ref[part]
            rows = i_sq * BSQ + at + jax.lax.broadcasted_iota(jnp.int32, (256, 1), 0)
            cols = i_sk * BSK + jax.lax.broadcasted_iota(jnp.int32, (1, seen), 1)
            masked = jnp.where(rows >= cols, product, -jnp.inf)
            larger = jnp.maximum(top, jnp.max(masked, axis=1, keepdims=True) * 0.125)
            shift = jnp.where(larger == -jnp.inf, 0.0, larger)
            scale = jnp.exp2((top - shift) * 1.4426950216293335)
            diff = masked * 0.1803368777036667 - jnp.tile(shift * 1.4426950216293335, (1, seen // 128))
            e = jnp.exp2(diff)
            top_ref[part] = larger
            total_ref[part] = total_ref[part] * scale + jnp.sum(e, axis=1, keepdims=True)
            acc_ref[part] = acc_ref[part] * scale[:, :64] + jnp.dot(
                e.astype(jnp.bfloat16), v_ref[:seen], preferred_element_type=jnp.float32
            )

    @pl.when(i_sk == pl.num_programs(1) - 1)
    def finish():
        out_ref[...] = (acc_ref[...] / total_ref[:, :64]).astype(jnp.bfloat16)


def attention(q, k, v):
    out = pl.pallas_call(
        attention_kernel,
        out_shape=jax.ShapeDtypeStruct((1024, 64), jnp.bfloat16),
        grid=(2, 2),
        in_specs=[
            pl.BlockSpec((BSQ, 64), lambda i_sq, i_sk: (i_sq, 0)),
            pl.BlockSpec(
                (BSK, 64),
                lambda i_sq, i_sk: (jnp.minimum(i_sk, jnp.maximum(i_sq * BSQ + 511, 0) // BSK), 0),
            ),
            pl.BlockSpec(
                (BSK, 64),
                lambda i_sq, i_sk: (jnp.minimum(i_sk, jnp.maximum(i_sq * BSQ + 511, 0) // BSK), 0),
            ),
        ],
        out_specs=pl.BlockSpec((BSQ, 64), lambda i_sq, i_sk: (i_sq, 0)),
        scratch_shapes=[
            pltpu.VMEM((BSQ, 128), jnp.float32),
            pltpu.VMEM((BSQ, 128), jnp.float32),
            pltpu.VMEM((BSQ, 64), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        name="attention",
    )(q.reshape(1024, 64), k.reshape(1024, 64), v.reshape(1024, 64))
    out = out.reshape(1, 1, 1, 1024, 64)
    return out
