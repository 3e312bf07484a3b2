"""Weights of convolutions are laid out once, as products walk them."""

from __future__ import annotations

import numpy as np
import pytest

import portakern as pk
from portakern.ir import oracle
from portakern.ir.program import verify_program
from portakern.ir.tensor import TensorProgram, tensor_type, verify_tensor_program
from portakern.lower import hoisted, laid_out, lower, with_layouts
from portakern.lower.laid import LaidOut
from portakern.spec.inputs import make_inputs
from portakern.testing.tile_interpreter import run
from tests.lower.test_lowering import chooser

pytestmark = pytest.mark.quick

T = pk.Tensor


@pk.operator
def twice(x: T["N", 4, "H", "W"], w: T[6, 4, 3, 3], v: T[6, 5, 2, 2], b: T[6]):
    y = pk.relu(pk.conv(x, w, padding=1, layout="NCHW") + pk.reshape(b, (1, 6, 1, 1)))
    return pk.conv(y, v, stride=2, transposed=True, layout="NCHW")


@pk.operator
def steps(x: T["N", 3, "L"], w: T[4, 3, 3], h: T["N", 4], r: T[4, 4]):
    """What is repeated comes after the layout."""
    y = pk.sum(pk.conv(x, w, layout="NCHW"), axis=2)

    def step(carry, _):
        new = pk.tanh(carry @ r + y)
        return new, new

    return pk.scan(step, h, length=3)[0]


@pk.operator
def by_channel(x: T[2, 4, 9, 9], w: T[4, 1, 3, 3]):
    return pk.conv(x, w, groups=4, layout="NCHW")


@pk.operator
def pointwise(x: T[2, 4, 9, 9], w: T[6, 4, 1, 1]):
    return pk.conv(x, w, layout="NCHW")


@pk.operator
def also_read(x: T[2, 4, 9, 9], w: T[6, 4, 3, 3]):
    return pk.conv(x, w, layout="NCHW"), pk.sum(w, axis=(1, 2, 3))


@pk.operator
def last(x: T[2, 9, 9, 4], w: T[3, 3, 4, 6]):
    return pk.conv(x, w, layout="NHWC")


def laid(op: pk.Operator, **dims: int) -> LaidOut:
    found = laid_out(op.program(dims, {}, "f32"), {"w", "v", "b", "r"})
    assert found is not None
    return found


def test_taps_come_first_then_channels_then_what_comes_out() -> None:
    found = laid(twice, N=2, H=5, W=6)
    verify_tensor_program(found.program)
    verify_tensor_program(found.layout)
    shapes = {a.name: tensor_type(a).shape for a in found.program.args}
    assert shapes == {"x": (2, 4, 5, 6), "w_laid": (3, 3, 4, 6), "v_laid": (2, 2, 6, 5), "b": (6,)}
    assert [a.name for a in found.layout.args] == ["w", "v"] and found.layout.outputs == ("w_laid", "v_laid")
    assert found.names({"w": ("o", "i", "kh", "kw")})["w_laid"] == ("kh", "kw", "i", "o")


def test_both_programs_compute_what_one_did() -> None:
    whole, found = twice.program({"N": 2, "H": 5, "W": 6}, {}, "f32"), laid(twice, N=2, H=5, W=6)
    inputs = make_inputs(whole, {}, 0)
    given = inputs | oracle.evaluate(found.layout, {n: inputs[n] for n in ("w", "v")})
    np.testing.assert_array_equal(oracle.evaluate(found.program, {a.name: given[a.name] for a in found.program.args})["out"],
                                  oracle.evaluate(whole, inputs)["out"])  # fmt: skip


@pytest.mark.parametrize(("op", "weights"), [
    (by_channel, {"w"}), (pointwise, {"w"}), (also_read, {"w"}), (last, {"w"}), (twice, {"b"}), (twice, set()),
], ids=["channels by themselves", "one tap", "read elsewhere", "so already", "no convolution's", "no weights"])  # fmt: skip
def test_others_stay_as_they_are(op: pk.Operator, weights: set[str]) -> None:
    program = op.program(dict.fromkeys(op.program({}, {}, "f32").dims, 5), {}, "f32")
    assert laid_out(program, weights) is None


def test_a_name_that_is_taken_is_not_taken_again() -> None:
    @pk.operator
    def f(x: T[2, 4, 9, 9], w: T[6, 4, 3, 3], w_laid: T[6]):
        return pk.conv(x, w, layout="NCHW") + pk.reshape(w_laid, (1, 6, 1, 1))

    assert [a.name for a in laid(f).program.args] == ["x", "w_laid_", "w_laid"]


@pytest.mark.parametrize(("op", "dims"), [(twice, {"N": 2, "H": 5, "W": 6}), (steps, {"N": 2, "L": 7})])
def test_kernels_of_the_layout_come_first_and_are_done_when_weights_are_new(op: pk.Operator, dims: dict[str, int]) -> None:
    whole, found = op.program(dims, {}, "f32"), laid(op, **dims)
    program = with_layouts(_lowered(found.program), _lowered(found.layout), found)
    verify_program(program)
    assert bool(program.repeats) == (op is steps)
    assert [a.name for a in program.by_role("input")] == [a.name for a in whole.args]
    inputs = make_inputs(whole, {}, 0)
    wanted = oracle.evaluate(whole, inputs)["out"]
    np.testing.assert_allclose(run(program, inputs)["out"], wanted, rtol=1e-4, atol=1e-5)
    parts = hoisted(program, {"w", "v", "b"})
    assert parts is not None
    assert {a.name for a in parts.preparation.by_role("output")} == set(found.weights)
    once = run(parts.preparation, {n: inputs[n] for n in (a.name for a in parts.preparation.by_role("input"))})
    given = {a.name: (inputs | once)[a.name] for a in parts.main.by_role("input")}
    np.testing.assert_allclose(run(parts.main, given)["out"], wanted, rtol=1e-4, atol=1e-5)


def _lowered(program: TensorProgram):
    return lower(program, chooser())
