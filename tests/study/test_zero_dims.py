"""Arrays without dims are arrays: a kernel reads them where they lie, while run-time numbers are given by value."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import portakern as pk
from portakern.ir.tensor import TensorProgram
from portakern.ir.text import parse_functions
from portakern.ir.tile import BufferType
from portakern.registry import registry
from portakern.spec.bind import bind
from tests.lowering import lowered_for

TARGETS = ["numba:cpu", "cpp:cpu", "opencl:cpu", "sycl:cpu", "triton:sm_90", "pallas:v5e", "hip:gfx942", "cuda:sm_90a"]


@pk.operator
def scaled(x: pk.Tensor["M", "N"], scale: pk.Tensor[()], shift: pk.Scalar[pk.f32]):
    return x * scale + shift, pk.sum(x) * scale


@pytest.mark.parametrize("target", TARGETS)
def test_an_array_without_dims_is_an_input_in_memory(target: str):
    found = registry().target(target)
    program = lowered_for(found, scaled.program({"M": 5, "N": 7}))
    roles = {a.name: a.role for a in program.by_role("input", "scalar")}
    assert roles == {"x": "input", "scale": "input", "shift": "scalar"}
    assert isinstance(program.array("scale").type, BufferType)
    source = registry().language(found.language).emitter.emit(program, found)
    assert [a.role for a in source.arrays if a.name == "scale"] == ["input"]


def test_which_arguments_are_numbers_survives_binding_text_and_pickling():
    program = scaled.program({})
    assert program.scalars == ("shift",)
    (read,) = parse_functions(str(program))
    assert isinstance(read, TensorProgram)
    for again in (bind(program, {"M": 3}), read, pickle.loads(pickle.dumps(program)), replace(program)):
        assert again.scalars == ("shift",)


def test_a_call_takes_an_array_of_one_element():
    built = pk.build(scaled, target="numba:cpu", dtype="f32", M=pk.dynamic, N=4)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y, total = built(x, np.asarray(2.0, np.float32), 0.5)
    np.testing.assert_array_equal(y, x * 2 + 0.5)
    assert total.shape == () and float(total) == 2 * x.sum()
