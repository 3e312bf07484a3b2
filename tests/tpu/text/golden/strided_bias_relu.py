"""strided_bias_relu for TPU v6e in Pallas, written by portakern.

Schedule: n=1,oh=1,ow=16,o=256,kh=1,kw_c=256,stages=2,warps=1,rows=14
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def strided_bias_relu_2_kernel(w_ref, b_ref, x_ref, out_ref):
    t0 = jnp.pad(x_ref[...], ((0, 2), (1, 1), (0, 0))).reshape(15, 2, 10, 384)
    windows = jnp.concatenate(
        [
            t0[
                tap // 2 : tap // 2 + 14,
                tap % 2,
                column // 3 : column // 3 + 10,
                (column % 3) * 128 : (column % 3) * 128 + 128,
            ]
            for tap in range(3)
            for column in range(2)
        ],
        axis=-1,
    ).reshape(140, 768)
    product = jnp.dot(windows, w_ref[...].reshape(768, 256), preferred_element_type=jnp.float32)
    total = product.astype(jnp.bfloat16).astype(jnp.float32) + b_ref[...].astype(jnp.float32)[None, :]
    out_ref[...] = jnp.maximum(total, 0.0).astype(jnp.bfloat16).reshape(14, 10, 256)


def strided_bias_relu(x, w, b):
    out = pl.pallas_call(
        strided_bias_relu_2_kernel,
        out_shape=jax.ShapeDtypeStruct((8, 14, 10, 256), jnp.bfloat16),
        grid=(8,),
        in_specs=[
            pl.BlockSpec((3, 256, 256), lambda i_n: (0, 0, 0)),
            pl.BlockSpec((256,), lambda i_n: (0,)),
            pl.BlockSpec((None, 28, 28, 128), lambda i_n: (i_n, 0, 0, 0)),
        ],
        out_specs=pl.BlockSpec((None, 14, 10, 256), lambda i_n: (i_n, 0, 0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="strided_bias_relu_2",
    )(w.reshape(3, 256, 256), b, x)
    return out
