"""shuffled for TPU v5e in Pallas, written by portakern.

Schedule: a=1,m=64,n=128,stages=1,warps=4
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BN = 128  # elements per block


def shuffled_kernel(x_ref, s_ref, y_ref):
    # The last block along n reaches past the array, where it holds garbage.
    y_ref[...] = (x_ref[...] * s_ref[...]).T


def shuffled(x, s):
    y = pl.pallas_call(
        shuffled_kernel,
        out_shape=pltpu.HBM((4, 200, 40), jnp.float32),
        grid=(4, 2),
        in_specs=[
            pl.BlockSpec((None, 40, BN), lambda i_a, i_n: (i_a, 0, i_n)),
            pl.BlockSpec((None, 1, 1), lambda i_a, i_n: (i_a, 0, 0)),
        ],
        out_specs=pl.BlockSpec((None, BN, 40), lambda i_a, i_n: (i_a, i_n, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name="shuffled",
    )(x.transpose(1, 0, 2), s.reshape(4, 1, 1))
    y = y.transpose(1, 0, 2)
    return y
