"""attention for TPU v5e in Pallas, written by portakern.

Schedule: b=1,h=1,g=1,m=128,n=128,k=64,d=64,stages=1,warps=4
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BM, BN = 128, 128  # elements per block


def attention_kernel(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref, acc_ref):
    # The last block along m, n reaches past the array, where it holds garbage.
    i_m = pl.program_id(3)
    i_n = pl.program_id(4)

    @pl.when(i_n == 0)
    def start():
        top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
        total_ref[...] = jnp.zeros_like(total_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(i_n * BN < i_m * BM + 128)
    def step():
        top = top_ref[...]
        cols = i_n * BN + jax.lax.broadcasted_iota(jnp.int32, (1, BN), 1)
        rows = i_m * BM + jax.lax.broadcasted_iota(jnp.int32, (BM, 1), 0)
        rows_2 = i_n * BN + jax.lax.broadcasted_iota(jnp.int32, (BN, 1), 0)
        k = jnp.where(rows_2 < 300, k_ref[...], 0.0)
        product = jax.lax.dot_general(
            q_ref[...], k, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        masked = jnp.where(cols < 300, jnp.where(cols <= rows, product, -jnp.inf), -jnp.inf)
        larger = jnp.maximum(top, jnp.max(masked, axis=1, keepdims=True) * 0.125)
        shift = jnp.where(larger == -jnp.inf, 0.0, larger)
        scale = jnp.exp2((top - shift) * 1.4426950216293335)
        e = jnp.exp2(masked * 0.1803368777036667 - shift * 1.4426950216293335)
        v = jnp.where(rows_2 < 300, v_ref[...], 0.0)
        top_ref[...] = larger
        total_ref[...] = total_ref[...] * scale + jnp.sum(e, axis=1, keepdims=True)
        acc_ref[...] = acc_ref[...] * scale[:, :64] + jnp.dot(
            e.astype(jnp.bfloat16), v, preferred_element_type=jnp.float32
        )

    @pl.when(i_n == pl.num_programs(4) - 1)
    def finish():
        o_ref[...] = (acc_ref[...] / total_ref[:, :64]).astype(jnp.bfloat16)


def attention(q, k, v):
    o = pl.pallas_call(
        attention_kernel,
        out_shape=jax.ShapeDtypeStruct((2, 2, 2, 300, 64), jnp.bfloat16),
        grid=(2, 2, 2, 3, 3),
        in_specs=[
            pl.BlockSpec((None, None, None, BM, 64), lambda i_b, i_h, i_g, i_m, i_n: (i_b, i_h, i_g, i_m, 0)),
            pl.BlockSpec(
                (None, None, BN, 64),
                lambda i_b, i_h, i_g, i_m, i_n: (
                    i_b, i_h, jnp.minimum(i_n, jnp.maximum(i_m * BM + 127, 0) // BN), 0
                ),
            ),
            pl.BlockSpec(
                (None, None, BN, 64),
                lambda i_b, i_h, i_g, i_m, i_n: (
                    i_b, i_h, jnp.minimum(i_n, jnp.maximum(i_m * BM + 127, 0) // BN), 0
                ),
            ),
        ],
        out_specs=pl.BlockSpec(
            (None, None, None, BM, 64),
            lambda i_b, i_h, i_g, i_m, i_n: (i_b, i_h, i_g, i_m, 0),
        ),
        scratch_shapes=[
            pltpu.VMEM((BM, 128), jnp.float32),
            pltpu.VMEM((BM, 128), jnp.float32),
            pltpu.VMEM((BM, 64), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "parallel", "arbitrary")
        ),
        name="attention",
    )(q, k, v)
    return o
