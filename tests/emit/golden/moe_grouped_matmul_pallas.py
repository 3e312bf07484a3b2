"""moe_grouped_matmul for TPU v6e in Pallas, written by portakern.

Schedule of moe_grouped_matmul_1: i=512,j=128,stages=2,warps=1
Schedule of moe_grouped_matmul_2: i=256,i2=1024,k=1,j=512,stages=2,warps=1
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BI, BI_2 = 512, 256  # elements per block


def moe_grouped_matmul_1_kernel(offsets_ref, t0_ref):
    i_i = pl.program_id(0)
    rows = i_i * BI + jax.lax.broadcasted_iota(jnp.int32, (BI, 1), 0)
    row_sum = jnp.sum((offsets_ref[...][None, :] <= rows).astype(jnp.int32), axis=1, keepdims=True)
    t0_ref[...] = (row_sum - 1)[:, 0]


def moe_grouped_matmul_2_kernel(t0_smem, x_ref, w_ref, t0_ref, out_ref, acc_ref):
    i_i = pl.program_id(0)
    i_k = pl.program_id(1)

    @pl.when(i_k == 0)
    def start():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(
        (i_k >= jnp.maximum(t0_smem[i_i * BI_2], 0)) & (
            i_k < jnp.minimum(t0_smem[jnp.minimum(i_i * BI_2 + 256, 2048) - 1] + 1, 8)
        )
    )
    def step():
        product = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)
        acc_ref[...] = jnp.where(t0_ref[...][:, None] == i_k, product, acc_ref[...])

    @pl.when(i_k == pl.num_programs(1) - 1)
    def finish():
        out_ref[...] = acc_ref[...].astype(jnp.bfloat16)


def moe_grouped_matmul(x, w, offsets):
    t0 = pl.pallas_call(
        moe_grouped_matmul_1_kernel,
        out_shape=jax.ShapeDtypeStruct((2048,), jnp.int32),
        grid=(4,),
        in_specs=[pl.BlockSpec((9,), lambda i_i: (0,))],
        out_specs=pl.BlockSpec((BI,), lambda i_i: (i_i,)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="moe_grouped_matmul_1",
    )(offsets)
    out = pl.pallas_call(
        moe_grouped_matmul_2_kernel,
        out_shape=jax.ShapeDtypeStruct((2048, 1024), jnp.bfloat16),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(8, 8),
            in_specs=[
                pl.BlockSpec((BI_2, 512), lambda i_i, i_k, t0_smem: (i_i, 0)),
                pl.BlockSpec(
                    (None, 512, 1024),
                    lambda i_i, i_k, t0_smem: (
                        jnp.minimum(
                            jnp.maximum(i_k, jnp.maximum(t0_smem[i_i * BI_2], 0)),
                            jnp.maximum(
                                jnp.minimum(t0_smem[jnp.minimum(i_i * BI_2 + 256, 2048) - 1] + 1, 8) - 1, 0
                            ),
                        ),
                        0,
                        0,
                    ),
                ),
                pl.BlockSpec((BI_2,), lambda i_i, i_k, t0_smem: (i_i,)),
            ],
            out_specs=pl.BlockSpec((BI_2, 1024), lambda i_i, i_k, t0_smem: (i_i, 0)),
            scratch_shapes=[pltpu.VMEM((BI_2, 1024), jnp.float32)],
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        name="moe_grouped_matmul_2",
    )(t0, x, w, t0)
    return out
