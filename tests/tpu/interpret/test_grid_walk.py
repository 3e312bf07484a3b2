"""The grid walk on kernels of a few lines: what is wrong with blocks is known without running anything, at any size."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.quick

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax")
jnp = jax.numpy
pl = pytest.importorskip("jax.experimental.pallas")
pltpu = pytest.importorskip("jax.experimental.pallas.tpu")
grid_walk = pytest.importorskip("portakern.backends.tpu.interpret.grid_walk")
kernel_calls = pytest.importorskip("portakern.backends.tpu.trace.kernel_calls")
GridWalk = grid_walk.GridWalk


def copy_kernel(*refs: Any) -> None:
    refs[-1][...] = refs[-2][...]


def walked(function: Any, *arrays: np.ndarray) -> Any:
    (call,) = kernel_calls.calls_of(kernel_calls.trace(function, arrays), arrays)
    return grid_walk.walk(call)


def kinds(function: Any, *arrays: np.ndarray) -> list[str]:
    return [f.kind for f in walked(function, *arrays).diagnostics]


def blocks(grid: Any, inputs: Any, outputs: Any, shape: tuple[int, ...] = (64, 256), block: Any = (8, 128), **more: Any) -> Any:
    def function(x: Any) -> Any:
        return pl.pallas_call(copy_kernel, grid=grid, in_specs=[pl.BlockSpec(block, inputs)],
                              out_specs=pl.BlockSpec(block, outputs), out_shape=jax.ShapeDtypeStruct(shape, x.dtype),
                              **more)(x)  # fmt: skip

    return function


X = np.zeros((64, 256), np.float32)


def same(i: Any, j: Any) -> tuple[Any, Any]:
    return i, j


def test_a_plain_copy_is_right_at_any_size() -> None:
    assert walked(blocks((8, 2), lambda i, j: (i, j), lambda i, j: (i, j)), X) == GridWalk(())
    huge = jax.ShapeDtypeStruct((65536, 8192), jnp.float32)
    function = blocks((8192, 64), lambda i, j: (i, j), lambda i, j: (i, j), (65536, 8192))
    assert walked(function, huge) == GridWalk(())


def test_ragged_blocks_cover_their_array() -> None:
    x = np.zeros((61, 200), np.float32)
    assert kinds(blocks((8, 2), lambda i, j: (i, j), lambda i, j: (i, j), (61, 200)), x) == []
    assert kinds(blocks((7, 2), lambda i, j: (i, j), lambda i, j: (i, j), (61, 200)), x) == ["uncovered"]


def test_what_is_wrong_is_named() -> None:
    assert kinds(blocks((2, 8, 2), lambda k, i, j: (i, j), lambda k, i, j: (i, j)), X) == ["revisit"]
    assert kinds(blocks((8, 2, 2), lambda i, j, k: (i, j), lambda i, j, k: (i, j)), X) == []
    assert kinds(blocks((9, 2), lambda i, j: (jnp.minimum(i, 7), j), same), X) == ["outside"]
    assert kinds(blocks((8, 2), lambda i, j: (i - 1, j), same), X) == ["outside"]
    parallel = pltpu.CompilerParams(dimension_semantics=("arbitrary", "parallel"))
    found = walked(blocks((8, 2), same, lambda i, j: (i, 0), (64, 128), compiler_params=parallel), X).diagnostics
    assert [f.kind for f in found] == ["parallel-write"]
    assert "grid points (0, 0) and (0, 1) write the same block (0, 0)" in found[0].message
    assert "test_grid_walk.py:" in found[0].where


def test_outputs_that_nothing_reads_are_places_of_each_core() -> None:
    """jax's own splash attention keeps its running sums so: every step has the block (0, 0) of an output that is dropped."""

    def both(x: Any) -> Any:
        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        params = pltpu.CompilerParams(dimension_semantics=("parallel",))
        shapes = [jax.ShapeDtypeStruct((64, 128), x.dtype), jax.ShapeDtypeStruct((8, 128), x.dtype)]
        outputs = [block, pl.BlockSpec((8, 128), lambda i: (0, 0))]
        return pl.pallas_call(lambda x_ref, o_ref, s_ref: copy_kernel(x_ref, o_ref), grid=(8,), in_specs=[block],
                              out_specs=outputs, out_shape=shapes, compiler_params=params)(x)  # fmt: skip

    x = np.zeros((64, 128), np.float32)
    dropped = walked(lambda x: both(x)[0], x)
    assert not dropped.diagnostics and dropped.private
    assert kinds(both, x) == ["parallel-write"] and not walked(both, x).private


def test_an_input_that_is_also_the_output() -> None:
    assert kinds(blocks((8, 2), same, same, input_output_aliases={0: 0}), X) == []
    assert kinds(blocks((8, 2), lambda i, j: (7 - i, j), same, input_output_aliases={0: 0}), X) == ["alias"]


def test_index_maps_that_read_prefetched_scalars() -> None:
    def function(table: Any, x: Any) -> Any:
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(8,), in_specs=[pl.BlockSpec((8, 256), lambda i, t: (t[i], 0))],
            out_specs=pl.BlockSpec((8, 256), lambda i, t: (i, 0)))
        return pl.pallas_call(copy_kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(table * 2 // 2, x)

    table = np.arange(8, dtype=np.int32)[::-1].copy()
    assert kinds(jax.jit(function), table, X) == []
    table[3] = 8
    assert kinds(jax.jit(function), table, X) == ["outside"]


def test_a_kernel_in_a_loop_is_not_walked_where_its_blocks_depend_on_it() -> None:
    def function(table: Any, x: Any) -> Any:
        def step(_: Any, t: Any) -> Any:
            spec = pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1, grid=(8,), in_specs=[pl.BlockSpec((8, 256), lambda i, t: (t[i], 0))],
                out_specs=pl.BlockSpec((8, 256), lambda i, t: (i, 0)))
            pl.pallas_call(copy_kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(t, x)
            return t

        return jax.lax.fori_loop(0, 2, step, table)

    found = walked(function, np.arange(8, dtype=np.int32), X)
    assert not found.diagnostics and "computed in a" in found.skipped


def test_a_grid_too_long_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_walk, "MOST_STEPS", 8)
    found = walked(blocks((8, 2), lambda i, j: (i, j), lambda i, j: (i, j)), X)
    assert found == GridWalk((), "the grid of copy_kernel has 16 steps, more than 8")
