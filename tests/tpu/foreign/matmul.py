import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BM, BN, BK = 16, 128, 128


def kernel(x_ref, y_ref, o_ref, acc_ref, *, extent):
    k = pl.program_id(2)

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    inside_x = k * BK + jax.lax.broadcasted_iota(jnp.int32, (BM, BK), 1) < extent
    inside_y = k * BK + jax.lax.broadcasted_iota(jnp.int32, (BK, BN), 0) < extent
    x = jnp.where(inside_x, x_ref[...], 0)
    y = jnp.where(inside_y, y_ref[...], 0)
    acc_ref[...] += jnp.dot(x, y, precision=jax.lax.Precision.HIGHEST, preferred_element_type=jnp.float32)

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def matmul(x, y):
    (m, k), n = x.shape, y.shape[1]
    return pl.pallas_call(
        functools.partial(kernel, extent=k),
        grid=(pl.cdiv(m, BM), pl.cdiv(n, BN), pl.cdiv(k, BK)),
        in_specs=[pl.BlockSpec((BM, BK), lambda i, j, k: (i, k)), pl.BlockSpec((BK, BN), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((BM, BN), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        scratch_shapes=[pltpu.VMEM((BM, BN), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
        name="matmul",
    )(x, y)
