"""scaled_and_turned for TPU v5e in Pallas, written by portakern.

Schedule: i=8,j=128,stages=1,warps=4
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BI = 8  # elements per block


def scaled_and_turned_kernel(x_ref, alpha_ref, y_ref):
    # The last block along i reaches past the array, where it holds garbage.
    y_ref[...] = x_ref[...].astype(jnp.float32) * alpha_ref[0, 0]


def scaled_and_turned(x, alpha):
    y = pl.pallas_call(
        scaled_and_turned_kernel,
        out_shape=jax.ShapeDtypeStruct((20, 50), jnp.float32),
        grid=(3,),
        in_specs=[
            pl.BlockSpec((BI, 50), lambda i_i: (i_i, 0)),
            pl.BlockSpec(memory_space=pltpu.SMEM),
        ],
        out_specs=pl.BlockSpec((BI, 50), lambda i_i: (i_i, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="scaled_and_turned",
    )(jnp.flip(x[0:39:2, :], (1,)), jnp.asarray(alpha, jnp.float32).reshape(1, 1))
    return y
