"""Tiles of a table chosen by indices, by copies of the kernel's own: two slots, so that one tile arrives while one is used.

It holds the mistake that such copies invite: a slot is filled again before it has been read.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TILE = 8  # rows of the table that are copied at once
TILES = 4  # of the output in a block


def gather_kernel(index_ref, table_ref, out_ref, slots_ref, arrived):
    first = pl.program_id(0) * TILES

    def copy(n):
        rows = pl.ds(index_ref[first + n] * TILE, TILE)
        return pltpu.make_async_copy(table_ref.at[rows], slots_ref.at[n % 2], arrived.at[n % 2])

    copy(0).start()
    copy(1).start()
    for n in range(TILES):
        copy(n).wait()
        if n + 2 < TILES:
            copy(n + 2).start()  # into the slot that is read on the next line
        out_ref[n * TILE : (n + 1) * TILE, :] = slots_ref[n % 2]


def gather(index, table):
    rows = index.shape[0] * TILE
    return pl.pallas_call(
        gather_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(index.shape[0] // TILES,),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec((TILES * TILE, table.shape[1]), lambda i, index: (i, 0)),
            scratch_shapes=[pltpu.VMEM((2, TILE, table.shape[1]), table.dtype), pltpu.SemaphoreType.DMA((2,))],
        ),
        out_shape=jax.ShapeDtypeStruct((rows, table.shape[1]), table.dtype),
    )(index, table)


def example_inputs():
    """What `portakern inspect` calls it with: indices must lie in the table."""
    table = jax.random.normal(jax.random.key(0), (64, 256))
    return jnp.array([3, 1, 7, 0, 5, 5, 2, 6], jnp.int32), table
