"""joined for TPU v6e in Pallas, written by portakern.

Schedule of joined_1: m=16,n=128,stages=2,warps=1
Schedule of joined_2: m=16,k=128,stages=2,warps=1
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def joined_1_kernel(x_ref, b_ref, out_part0_ref, out_part1_ref):
    x = x_ref[...].astype(jnp.float32)
    out_part0_ref[...] = (x * b_ref[...].astype(jnp.float32)[:, None]).astype(jnp.bfloat16)
    out_part1_ref[...] = (x * 2.0 * b_ref[...].astype(jnp.float32)[:, None]).astype(jnp.bfloat16)


def joined_2_kernel(y_ref, b_ref, out_part2_ref):
    scaled = jnp.exp(y_ref[...].astype(jnp.float32)) * b_ref[...].astype(jnp.float32)[:, None]
    out_part2_ref[...] = scaled.astype(jnp.bfloat16)


def joined(x, y, b):
    out_part0, out_part1 = pl.pallas_call(
        joined_1_kernel,
        out_shape=[jax.ShapeDtypeStruct((5, 19), jnp.bfloat16), jax.ShapeDtypeStruct((5, 19), jnp.bfloat16)],
        grid=(),
        in_specs=[
            pl.BlockSpec((5, 19), lambda: (0, 0)),
            pl.BlockSpec((5,), lambda: (0,)),
        ],
        out_specs=[
            pl.BlockSpec((5, 19), lambda: (0, 0)),
            pl.BlockSpec((5, 19), lambda: (0, 0)),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=()),
        name="joined_1",
    )(x, b)
    out_part2 = pl.pallas_call(
        joined_2_kernel,
        out_shape=jax.ShapeDtypeStruct((5, 7), jnp.bfloat16),
        grid=(),
        in_specs=[
            pl.BlockSpec((5, 7), lambda: (0, 0)),
            pl.BlockSpec((5,), lambda: (0,)),
        ],
        out_specs=pl.BlockSpec((5, 7), lambda: (0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=()),
        name="joined_2",
    )(y, b)
    out = jnp.concatenate([out_part0, out_part2, out_part1], axis=1)
    return out
