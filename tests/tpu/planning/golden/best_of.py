"""best_of for TPU v5e in Pallas, written by portakern.

Schedule of best_of_1: m=1,n=256,stages=2,warps=1
Schedule of best_of_2: m=1,n=256,stages=2,warps=1
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def running(join, x, axis, nothing, reverse=False, exclusive=False):
    """Running values along an axis, in log2 steps that join what stands 1, 2, 4, ... places before; Mosaic has no cumsum."""
    n = x.shape[axis]
    place = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis)
    place = n - 1 - place if reverse else place

    def before(x, step):
        return jnp.where(place >= step, pltpu.roll(x, n - step if reverse else step, axis), nothing)

    step = 1
    while step < n:
        x, step = join(before(x, step), x), 2 * step
    return before(x, 1) if exclusive else x


def best_of_1_kernel(ids_smem, table_ref, out0_ref):
    i_m = pl.program_id(0)
    table = jnp.where(
        (
            jnp.where(ids_smem[i_m] < 0, ids_smem[i_m] + 40, ids_smem[i_m]) >= 0
        ) & (jnp.where(ids_smem[i_m] < 0, ids_smem[i_m] + 40, ids_smem[i_m]) < 40),
        table_ref[...],
        0.0,
    )
    mask = (table == jnp.max(table, axis=1, keepdims=True)) | jnp.isnan(table)
    cols = jax.lax.broadcasted_iota(jnp.int32, (1, 130), 1)
    out0_ref[...] = jnp.min(jnp.where(mask, cols, 2147483647), axis=1, keepdims=True)


def best_of_2_kernel(ids_smem, table_ref, out1_ref):
    i_m = pl.program_id(0)
    table = jnp.where(
        (
            jnp.where(ids_smem[i_m] < 0, ids_smem[i_m] + 40, ids_smem[i_m]) >= 0
        ) & (jnp.where(ids_smem[i_m] < 0, ids_smem[i_m] + 40, ids_smem[i_m]) < 40),
        table_ref[...],
        0.0,
    )
    out1_ref[...] = running(jnp.add, (table > 0.0).astype(jnp.int32), 1, 0)


def best_of(table, ids):
    # Without jax_enable_x64 jax itself drops the upper half of int64 before it comes here.
    ids = jnp.clip(ids, -(2**30), 2**30).astype(jnp.int32)
    out0 = pl.pallas_call(
        best_of_1_kernel,
        out_shape=jax.ShapeDtypeStruct((9, 1, 1), jnp.int32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(9,),
            in_specs=[pl.BlockSpec((None, 1, 130), lambda i_m, ids_smem: (jnp.clip(jnp.where(ids_smem[i_m] < 0, ids_smem[i_m] + 40, ids_smem[i_m]), 0, 39), 0, 0))],
            out_specs=pl.BlockSpec((None, 1, 1), lambda i_m, ids_smem: (i_m, 0, 0)),
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="best_of_1",
    )(ids, table.reshape(40, 1, 130))
    out0 = out0.reshape(9)
    out1 = pl.pallas_call(
        best_of_2_kernel,
        out_shape=jax.ShapeDtypeStruct((9, 1, 130), jnp.int32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(9,),
            in_specs=[pl.BlockSpec((None, 1, 130), lambda i_m, ids_smem: (jnp.clip(jnp.where(ids_smem[i_m] < 0, ids_smem[i_m] + 40, ids_smem[i_m]), 0, 39), 0, 0))],
            out_specs=pl.BlockSpec((None, 1, 130), lambda i_m, ids_smem: (i_m, 0, 0)),
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="best_of_2",
    )(ids, table.reshape(40, 1, 130))
    out1 = out1.reshape(9, 130)
    # int is int64 where jax has such numbers (jax_enable_x64), else int32; all of these fit.
    return out0.astype(int), out1.astype(int)
