"""Programs in float64 instead of f32."""

from __future__ import annotations

import numpy as np
import pytest

import portakern as pk
from portakern.check.widened import unrounded, widened
from portakern.ir import oracle
from portakern.ir.tensor import tensor_type, verify_tensor_program
from portakern.spec.inputs import make_inputs
from portakern.spec.load import load_operator

LIBRARY = ("softmax", "layer_norm", "attention", "conv2d_bias_relu", "lstm", "linear_recurrence", "embedding",
           "moe_grouped_matmul", "segment_sum", "top_k", "fft", "scatter_add", "rope")  # fmt: skip


@pytest.mark.parametrize("name", LIBRARY)
def test_a_program_is_the_same_in_float64(name: str):
    op = load_operator(name)
    program = op.program(op.typical.dims, op.typical.params)
    wide = widened(program)
    assert wide is not None
    verify_tensor_program(wide)
    kinds = {tensor_type(v).dtype for v in (*wide.args, *wide.results)}
    assert "f64" in kinds and "f32" not in kinds
    assert [type(op) for op in wide.body.walk()] == [type(op) for op in program.body.walk()]


def test_it_computes_the_same_more_exactly():
    @pk.operator
    def f(x: pk.Tensor["N"]):
        return pk.cumsum(x * 0.1, axis=0) + pk.cast(pk.cast(x, "i32"), "f32")

    program = f.program({"N": 5})
    wide = widened(program)
    assert wide is not None
    x = make_inputs(program, {}, 0)["x"].astype(np.float64)
    found, wanted = (oracle.evaluate(p, {"x": x})["out"] for p in (wide, program))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    assert found.dtype == np.float64


def test_what_would_be_another_computation_is_not_widened():
    @pk.operator
    def narrow(x: pk.Tensor["N"]):
        return pk.cast(pk.cast(x, "bf16"), "f32")

    @pk.operator
    def bits(x: pk.Tensor["N"]):
        return pk.bitcast(x, "i32")

    @pk.operator
    def whole(x: pk.Tensor["N", pk.i32]):
        return x + 1

    for op in (narrow, bits, whole):
        assert widened(op.program({"N": 5})) is None


def test_a_program_without_roundings_has_all_its_floats_in_float64():
    @pk.operator
    def narrow(x: pk.Tensor["N", pk.bf16], y: pk.Tensor["N", pk.i8]):
        return pk.cast(pk.cast(x, "f16") * 0.1, "f8e5m2"), y + 1

    wide = unrounded(narrow.program({"N": 5}))
    assert wide is not None
    verify_tensor_program(wide)
    assert [tensor_type(v).dtype for v in (*wide.args, *wide.results)] == ["f64", "i8", "f64", "i8"]
    x = np.array([1.0, 2.0, 3.0, 1e5, 0.3])
    found = oracle.evaluate(wide, {"x": x, "y": np.zeros(5, np.int8)})["out0"]
    np.testing.assert_array_equal(found, x * float(np.float16(0.1)))

    @pk.operator
    def bits(x: pk.Tensor["N"]):
        return pk.bitcast(x, "i32")

    assert unrounded(bits.program({"N": 5})) is None
