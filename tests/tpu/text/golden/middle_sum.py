"""middle_sum for TPU v5e in Pallas, written by portakern.

Schedule: c=8,a=1,b=1,d=128,stages=1,warps=4
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BC, BD = 8, 128  # elements per block


def middle_sum_kernel(x_ref, y_ref, total_ref):
    # The last block along c, d reaches past the array, where it holds garbage.
    i_b = pl.program_id(2)
    i_d = pl.program_id(3)

    @pl.when((i_b == 0) & (i_d == 0))
    def start():
        total_ref[...] = jnp.zeros_like(total_ref)

    cols = i_d * BD + jax.lax.broadcasted_iota(jnp.int32, (1, BD), 1)
    row_sum = jnp.sum(jnp.where(cols < 300, x_ref[...], 0.0), axis=1, keepdims=True)
    total_ref[...] += row_sum

    @pl.when((i_b == pl.num_programs(2) - 1) & (i_d == pl.num_programs(3) - 1))
    def finish():
        y_ref[...] = total_ref[:, :1]


def middle_sum(x):
    y = pl.pallas_call(
        middle_sum_kernel,
        out_shape=jax.ShapeDtypeStruct((3, 20, 1), jnp.float32),
        grid=(3, 3, 5, 3),
        in_specs=[pl.BlockSpec((None, None, BC, BD), lambda i_c, i_a, i_b, i_d: (i_a, i_b, i_c, i_d))],
        out_specs=pl.BlockSpec((None, BC, 1), lambda i_c, i_a, i_b, i_d: (i_a, i_c, 0)),
        scratch_shapes=[pltpu.VMEM((BC, 128), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary", "arbitrary")
        ),
        name="middle_sum",
    )(x)
    y = y.reshape(3, 20)
    return y
