"""spmm for TPU v6e in Pallas, written by portakern.

Schedule: l=1,i=1,j=256,stages=2,warps=1
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def spmm_kernel(columns_smem, offsets_smem, values_ref, b_ref, out_ref, total_ref, *, P):
    i_l = pl.program_id(0)
    i_i = pl.program_id(1)

    @pl.when(i_i == 0)
    def start():
        total_ref[...] = jnp.zeros_like(total_ref)

    @pl.when(
        (i_i >= jnp.minimum(jnp.maximum(offsets_smem[i_l], 0), P)) & (
            i_i < jnp.minimum(jnp.maximum(offsets_smem[i_l + 1], 0), P)
        ) & (i_i < P)
    )
    def step():
        b = jnp.where((columns_smem[i_i] >= 0) & (columns_smem[i_i] < 900), b_ref[...], 0.0)
        total_ref[...] += values_ref[...] * b

    @pl.when(i_i == pl.num_programs(1) - 1)
    def finish():
        out_ref[...] = total_ref[...]


def spmm(values, columns, offsets, b):
    P = values.shape[0]
    out = pl.pallas_call(
        functools.partial(spmm_kernel, P=P),
        out_shape=jax.ShapeDtypeStruct((1000, 1, 256), jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(1000, max(P, 1)),
            in_specs=[
                pl.BlockSpec(
                    (None, 1, 1),
                    lambda i_l, i_i, columns_smem, offsets_smem: (
                        jnp.minimum(
                            jnp.maximum(i_i, jnp.minimum(jnp.maximum(offsets_smem[i_l], 0), P)),
                            jnp.maximum(jnp.minimum(jnp.maximum(offsets_smem[i_l + 1], 0), P) - 1, 0),
                        ),
                        0,
                        0,
                    ),
                ),
                pl.BlockSpec(
                    (None, 1, 256),
                    lambda i_l, i_i, columns_smem, offsets_smem: (
                        jnp.clip(
                            columns_smem[
                                jnp.minimum(jnp.maximum(i_i, jnp.minimum(jnp.maximum(offsets_smem[i_l], 0), P)), jnp.maximum(jnp.minimum(jnp.maximum(offsets_smem[i_l + 1], 0), P) - 1, 0)),
                            ],
                            0,
                            899,
                        ),
                        0,
                        0,
                    ),
                ),
            ],
            out_specs=pl.BlockSpec((None, 1, 256), lambda i_l, i_i, columns_smem, offsets_smem: (i_l, 0, 0)),
            scratch_shapes=[pltpu.VMEM((1, 256), jnp.float32)],
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        name="spmm",
    )(columns if P else jnp.zeros(1, jnp.int32), offsets, values.reshape(P, 1, 1) if P else jnp.zeros(
        (max(P, 1), 1, 1), jnp.float32
    ), b.reshape(900, 1, 256))
    out = out.reshape(1000, 256)
    return out
