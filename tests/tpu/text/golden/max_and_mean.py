"""pooled for TPU v6e in Pallas, written by portakern.

Schedule of pooled_1: n=1,oh=1,ow=16,c=128,kh=1,kw=1,stages=2,warps=1,rows=14
Schedule of pooled_3: n=1,oh=1,ow=16,c=128,kh=1,kw=1,stages=2,warps=1,rows=14
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def pooled_1_kernel(x_ref, out1_ref):
    total = jnp.zeros((196, 128), jnp.float32)
    x = x_ref[...].reshape(14, 2, 14, 256)
    for tap in range(2):
        for tap_2 in range(2):
            x_2 = x[
                tap // 2 : tap // 2 + 14,
                tap % 2,
                tap_2 // 2 : tap_2 // 2 + 14,
                (tap_2 % 2) * 128 : (tap_2 % 2) * 128 + 128,
            ].reshape(196, 128)
            total += x_2.astype(jnp.float32)
    out1_ref[...] = (total / 4.0).astype(jnp.bfloat16).reshape(14, 14, 128)


def pooled_3_kernel(x_ref, out0_ref):
    top = jnp.full((196, 128), -jnp.inf, jnp.float32)
    t0 = jnp.pad(x_ref[...], ((1, 1), (1, 1), (0, 0)), constant_values=float("-inf")).reshape(15, 2, 15, 256)
    for tap in range(3):
        for tap_2 in range(3):
            t0_2 = t0[
                tap // 2 : tap // 2 + 14,
                tap % 2,
                tap_2 // 2 : tap_2 // 2 + 14,
                (tap_2 % 2) * 128 : (tap_2 % 2) * 128 + 128,
            ].reshape(196, 128)
            top = jnp.maximum(top, t0_2.astype(jnp.float32))
    out0_ref[...] = top.astype(jnp.bfloat16).reshape(14, 14, 128)


def pooled(x):
    out1 = pl.pallas_call(
        pooled_1_kernel,
        out_shape=jax.ShapeDtypeStruct((8, 14, 14, 128), jnp.bfloat16),
        grid=(8,),
        in_specs=[pl.BlockSpec((None, 28, 28, 128), lambda i_n: (i_n, 0, 0, 0))],
        out_specs=pl.BlockSpec((None, 14, 14, 128), lambda i_n: (i_n, 0, 0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="pooled_1",
    )(x)
    out0 = pl.pallas_call(
        pooled_3_kernel,
        out_shape=jax.ShapeDtypeStruct((8, 14, 14, 128), jnp.bfloat16),
        grid=(8,),
        in_specs=[pl.BlockSpec((None, 28, 28, 128), lambda i_n: (i_n, 0, 0, 0))],
        out_specs=pl.BlockSpec((None, 14, 14, 128), lambda i_n: (i_n, 0, 0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="pooled_3",
    )(x)
    return out0, out1
