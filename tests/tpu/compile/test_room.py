"""Blocks that cannot lie in VMEM are told from those that might, without a compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from portakern.errors import CompileError
from portakern.registry import registry

jax = pytest.importorskip("jax")

Index = Callable[..., tuple[Any, ...]]
MIB = 1 << 20


def refused(rows: Sequence[int], index: Sequence[Index], grid: tuple[int, ...], scratch: int = 0, **spec: Any) -> str:
    """What is said of a kernel on v6e (128 MiB) that reads blocks of ``rows`` MiB at what ``index`` says."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    from portakern.backends.tpu.compile.room import refuse_without_room
    from portakern.backends.tpu.trace.kernel_calls import calls_of

    def kernel(*refs: Any) -> None:
        refs[len(rows)][...] = refs[0][:8, :128]

    def function(*arrays: Any) -> Any:
        return pl.pallas_call(
            kernel, out_shape=jax.ShapeDtypeStruct((8, 128), "float32"), grid=grid, name="kernel",
            in_specs=[pl.BlockSpec((n * 2048, 128), f, **spec) for n, f in zip(rows, index, strict=True)],
            out_specs=pl.BlockSpec((8, 128), lambda *_: (0, 0)),
            scratch_shapes=[pltpu.VMEM((scratch * 2048, 128), jax.numpy.float32)] if scratch else [],
        )(*arrays)  # fmt: skip

    arrays = [jax.ShapeDtypeStruct((n * 2048 * 4, 128), "float32") for n in rows]
    calls = calls_of(jax.make_jaxpr(function)(*arrays), arrays)
    assert [c.name for c in calls] == ["kernel"]
    try:
        refuse_without_room(calls, "op", registry().target("pallas:v6e").device)
    except CompileError as error:
        assert error.kind == "compile-vmem" and error.hint
        return error.message
    return ""


def test_a_block_that_moves_lies_there_twice() -> None:
    assert "the blocks of kernel need at least 140.0M of VMEM, there are 128.0M" in refused([70], [lambda i: (i, 0)], (4,))
    assert refused([60], [lambda i: (i, 0)], (4,)) == ""


def test_a_block_that_stays_lies_there_once() -> None:
    assert refused([70], [lambda i: (0, 0)], (4,)) == ""
    assert refused([70], [lambda i: (i, 0)], (1,)) == ""
    assert refused([70], [lambda i, j: (j, 0)], (4, 1)) == ""
    assert "130.0M" in refused([130], [lambda i: (0, 0)], (4,))


def test_what_is_computed_from_an_axis_moves_with_it() -> None:
    assert "140.0M" in refused([70], [lambda i: (jax.numpy.minimum(i * 2, 3), 0)], (4,))


def test_all_blocks_and_scratch_count() -> None:
    assert "need at least 130.0M" in refused([40, 30], [lambda i: (i, 0), lambda i: (0, 0)], (2,), scratch=20)
    assert refused([40, 30], [lambda i: (i, 0), lambda i: (0, 0)], (2,), scratch=10) == ""


def test_a_block_that_is_buffered_once_counts_once() -> None:
    from jax.experimental import pallas as pl

    assert refused([70], [lambda i: (i, 0)], (4,), pipeline_mode=pl.Buffered(1)) == ""
