"""segment_sum for TPU v6e in Pallas, written by portakern.

Schedule: i=1,k=1024,stages=2,warps=1
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BK = 1024  # elements per block


def segment_sum_kernel(offsets_smem, x_ref, out_ref, total_ref):
    # The last block along k reaches past the array, where it holds garbage.
    i_i = pl.program_id(0)
    i_k = pl.program_id(1)

    @pl.when(i_k == 0)
    def start():
        total_ref[...] = jnp.zeros_like(total_ref)

    @pl.when(
        (i_k >= jnp.minimum(jnp.maximum(offsets_smem[i_i], 0), 5000) // BK) & (
            i_k * BK < jnp.minimum(jnp.maximum(offsets_smem[i_i + 1], 0), 5000)
        )
    )
    def step():
        cols = i_k * BK + jax.lax.broadcasted_iota(jnp.int32, (1, BK), 1)
        mask = (cols >= jnp.minimum(jnp.maximum(offsets_smem[i_i], 0), 5000)) & (
            cols < jnp.minimum(jnp.maximum(offsets_smem[i_i + 1], 0), 5000)
        )
        row_sum = jnp.sum(jnp.where(mask, x_ref[...][None, :], 0.0), axis=1, keepdims=True)
        total_ref[...] += row_sum

    @pl.when(i_k == pl.num_programs(1) - 1)
    def finish():
        out_ref[...] = total_ref[...]


def segment_sum(x, offsets):
    out = pl.pallas_call(
        segment_sum_kernel,
        out_shape=jax.ShapeDtypeStruct((300, 1, 1), jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(300, 5),
            in_specs=[pl.BlockSpec((BK,), lambda i_i, i_k, offsets_smem: (jnp.minimum(jnp.maximum(i_k, jnp.minimum(jnp.maximum(offsets_smem[i_i], 0), 5000) // BK), jnp.maximum(jnp.minimum(jnp.maximum(offsets_smem[i_i + 1], 0), 5000) - 1, 0) // BK),))],
            out_specs=pl.BlockSpec((None, 1, 1), lambda i_i, i_k, offsets_smem: (i_i, 0, 0)),
            scratch_shapes=[pltpu.VMEM((1, 1), jnp.float32)],
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        name="segment_sum",
    )(offsets, x.reshape(5000))
    out = out.reshape(300, 1)
    return out
