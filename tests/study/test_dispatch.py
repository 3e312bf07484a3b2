"""What a source launches, with everything fixed, for machines that execute compiled code."""

from __future__ import annotations

import struct

import pytest

from portakern.backend import Argument, ArrayFill, CompiledBinary
from portakern.launch.dispatch import dispatch_sequence_of
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.spec.operator import dynamic
from portakern.study import steps
from portakern.study.work import Problem, works

BINARY = CompiledBinary("hsaco", b"code", "tool", assembly="text")


def source_of(name: str, target: str, params: dict | None = None, **dims: object):
    (work,) = works(Problem(load_operator(name), dims, params or {}), [registry().target(target)], ["f32"])  # type: ignore[arg-type]
    return steps.emit(work)[0]


def test_an_open_dim_sets_the_grid_and_is_an_argument_of_64_bits():
    source = source_of("softmax", "hip:gfx942", M=dynamic, N=300)
    small, large = (dispatch_sequence_of(source, BINARY, {"M": m}).dispatches[0] for m in (7, 7000))
    assert small.code == b"code" and small.assembly == "text"
    assert small.block == large.block and large.grid[0] > small.grid[0] > 0
    assert small.args[:2] == (Argument("x"), Argument("out"))
    assert small.args[2:] == (Argument(value=struct.pack("<q", 7)),)


def test_an_empty_grid_is_no_dispatch():
    assert dispatch_sequence_of(source_of("softmax", "hip:gfx942", M=dynamic, N=300), BINARY, {"M": 0}).steps == ()
    assert dispatch_sequence_of(source_of("softmax", "hip:gfx942", M=0, N=300), BINARY, {}).steps == ()


def test_arrays_with_a_first_value_are_filled_before_the_kernels():
    source = source_of("row_sum", "hip:gfx942", M=2, N=1 << 22)
    sequence = dispatch_sequence_of(source, BINARY, {})
    wanted = [a for a in source.arrays if a.init is not None]
    assert [s.array for s in sequence.steps if isinstance(s, ArrayFill)] == [a.name for a in wanted]
    assert {n for n, _ in sequence.temporaries} == {a.name for a in source.by_role("temporary")}


def test_a_language_that_does_not_say_what_it_launches_is_named():
    source = source_of("softmax", "numba:cpu", M=4, N=8)
    with pytest.raises(Exception, match="numba does not say what its sources launch"):
        dispatch_sequence_of(source, BINARY, {})
