"""transposed for TPU v6e in Pallas, written by portakern.

Schedule of transposed_2: r=1,s=1,t=16,u=128,stages=2,warps=1
Schedule of transposed_3: r=1,s=1,t=16,u=128,stages=2,warps=1
Schedule of transposed_4: i=1,l=1,r=16,u=128,r2=1,s_t=128,stages=2,warps=1,rows=9
Schedule of transposed_5: i=1,r=1,k=16,o2=128,s=1,l=128,stages=2,warps=1,rows=9
Schedule of transposed_6: i=1,l=1,r=16,u=128,r2=1,s_t=128,stages=2,warps=1,rows=9
Schedule of transposed_7: i=1,r=1,k=16,o2=128,s=1,l=128,stages=2,warps=1,rows=9
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def transposed_2_kernel(w_ref, t1_ref):
    t1_ref[...] = w_ref[...]


def transposed_3_kernel(w_ref, t2_ref):
    t2_ref[...] = w_ref[...]


def transposed_4_kernel(b_ref, x_ref, t1_ref, out_part0_ref):
    t0 = jnp.pad(x_ref[...], ((1, 1), (0, 0), (0, 0)))
    windows = jnp.concatenate(
        [t0[tap + 1 : tap + 1 + 9, column : column + 6] for tap in range(2) for column in range(2)], axis=-1
    ).reshape(54, 24)
    product = jnp.dot(windows, t1_ref[...].reshape(24, 10), preferred_element_type=jnp.float32)
    total = product.astype(jnp.bfloat16).astype(jnp.float32) + b_ref[...].astype(jnp.float32)[None, :]
    out_part0_ref[...] = jnp.tanh(total).astype(jnp.bfloat16).reshape(9, 6, 10)


def transposed_5_kernel(w_ref, b_ref, x_ref, out_part1_ref):
    acc = jnp.zeros((63, 10), jnp.float32)
    t0 = jnp.pad(x_ref[...], ((1, 1), (0, 0), (0, 0)))
    for tap in range(2):
        t0_2 = t0[tap + 1 : tap + 1 + 9].reshape(63, 6)
        acc += jnp.dot(t0_2, w_ref[2 - 2 * tap], preferred_element_type=jnp.float32)
    total = acc.astype(jnp.bfloat16).astype(jnp.float32) + b_ref[...].astype(jnp.float32)[None, :]
    out_part1_ref[...] = jnp.tanh(total).astype(jnp.bfloat16).reshape(9, 7, 10)


def transposed_6_kernel(b_ref, x_ref, t2_ref, out_part2_ref):
    t0 = jnp.pad(x_ref[...], ((1, 1), (0, 0), (0, 0)))
    windows = jnp.concatenate(
        [t0[tap : tap + 9, column : column + 6] for tap in range(2) for column in range(2)], axis=-1
    ).reshape(54, 24)
    product = jnp.dot(windows, t2_ref[...].reshape(24, 10), preferred_element_type=jnp.float32)
    total = product.astype(jnp.bfloat16).astype(jnp.float32) + b_ref[...].astype(jnp.float32)[None, :]
    out_part2_ref[...] = jnp.tanh(total).astype(jnp.bfloat16).reshape(9, 6, 10)


def transposed_7_kernel(w_ref, b_ref, x_ref, out_part3_ref):
    acc = jnp.zeros((63, 10), jnp.float32)
    t0 = jnp.pad(x_ref[...], ((1, 1), (0, 0), (0, 0)))
    for tap in range(2):
        acc += jnp.dot(
            t0[tap : tap + 9].reshape(63, 6), w_ref[3 - 2 * tap], preferred_element_type=jnp.float32
        )
    total = acc.astype(jnp.bfloat16).astype(jnp.float32) + b_ref[...].astype(jnp.float32)[None, :]
    out_part3_ref[...] = jnp.tanh(total).astype(jnp.bfloat16).reshape(9, 7, 10)


def transposed(x, w, b):
    t1 = pl.pallas_call(
        transposed_2_kernel,
        out_shape=jax.ShapeDtypeStruct((2, 2, 6, 10), jnp.bfloat16),
        grid=(2, 2),
        in_specs=[pl.BlockSpec((None, None, 6, 10), lambda i_r, i_s: (-2 * i_r + 2, -2 * i_s + 2, 0, 0))],
        out_specs=pl.BlockSpec((None, None, 6, 10), lambda i_r, i_s: (i_r, i_s, 0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name="transposed_2",
    )(w)
    t2 = pl.pallas_call(
        transposed_3_kernel,
        out_shape=jax.ShapeDtypeStruct((2, 2, 6, 10), jnp.bfloat16),
        grid=(2, 2),
        in_specs=[pl.BlockSpec((None, None, 6, 10), lambda i_r, i_s: (-2 * i_r + 3, -2 * i_s + 2, 0, 0))],
        out_specs=pl.BlockSpec((None, None, 6, 10), lambda i_r, i_s: (i_r, i_s, 0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name="transposed_3",
    )(w)
    out_part0 = pl.pallas_call(
        transposed_4_kernel,
        out_shape=jax.ShapeDtypeStruct((2, 9, 6, 10), jnp.bfloat16),
        grid=(2,),
        in_specs=[
            pl.BlockSpec((10,), lambda i_i: (0,)),
            pl.BlockSpec((None, 9, 7, 6), lambda i_i: (i_i, 0, 0, 0)),
            pl.BlockSpec((2, 12, 10), lambda i_i: (0, 0, 0)),
        ],
        out_specs=pl.BlockSpec((None, 9, 6, 10), lambda i_i: (i_i, 0, 0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="transposed_4",
    )(b, x, t1.reshape(2, 12, 10))
    out_part1 = pl.pallas_call(
        transposed_5_kernel,
        out_shape=jax.ShapeDtypeStruct((2, 9, 7, 10), jnp.bfloat16),
        grid=(2,),
        in_specs=[
            pl.BlockSpec((4, None, 6, 10), lambda i_i: (0, 1, 0, 0)),
            pl.BlockSpec((10,), lambda i_i: (0,)),
            pl.BlockSpec((None, 9, 7, 6), lambda i_i: (i_i, 0, 0, 0)),
        ],
        out_specs=pl.BlockSpec((None, 9, 7, 10), lambda i_i: (i_i, 0, 0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="transposed_5",
    )(w, b, x)
    out_part2 = pl.pallas_call(
        transposed_6_kernel,
        out_shape=jax.ShapeDtypeStruct((2, 9, 6, 10), jnp.bfloat16),
        grid=(2,),
        in_specs=[
            pl.BlockSpec((10,), lambda i_i: (0,)),
            pl.BlockSpec((None, 9, 7, 6), lambda i_i: (i_i, 0, 0, 0)),
            pl.BlockSpec((2, 12, 10), lambda i_i: (0, 0, 0)),
        ],
        out_specs=pl.BlockSpec((None, 9, 6, 10), lambda i_i: (i_i, 0, 0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="transposed_6",
    )(b, x, t2.reshape(2, 12, 10))
    out_part3 = pl.pallas_call(
        transposed_7_kernel,
        out_shape=jax.ShapeDtypeStruct((2, 9, 7, 10), jnp.bfloat16),
        grid=(2,),
        in_specs=[
            pl.BlockSpec((4, None, 6, 10), lambda i_i: (0, 1, 0, 0)),
            pl.BlockSpec((10,), lambda i_i: (0,)),
            pl.BlockSpec((None, 9, 7, 6), lambda i_i: (i_i, 0, 0, 0)),
        ],
        out_specs=pl.BlockSpec((None, 9, 7, 10), lambda i_i: (i_i, 0, 0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="transposed_7",
    )(w, b, x)
    out = jax.lax.pad(
        out_part0, jnp.asarray(-0.0, out_part0.dtype), ((0, 0, 0), (1, 0, 1), (1, 1, 1), (0, 0, 0))
    )
    out += jax.lax.pad(
        out_part1, jnp.asarray(-0.0, out_part1.dtype), ((0, 0, 0), (1, 0, 1), (0, 0, 1), (0, 0, 0))
    )
    out += jax.lax.pad(
        out_part2, jnp.asarray(-0.0, out_part2.dtype), ((0, 0, 0), (0, 1, 1), (1, 1, 1), (0, 0, 0))
    )
    out += jax.lax.pad(
        out_part3, jnp.asarray(-0.0, out_part3.dtype), ((0, 0, 0), (0, 1, 1), (0, 0, 1), (0, 0, 0))
    )
    return out
