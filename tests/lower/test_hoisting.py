"""What hangs on weights alone goes into a program of its own: which kernels go, and that both give what one gave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.ir.program import Program
from portakern.ir.tensor import tensor_type
from portakern.lower import hoisted, lower
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run
from tests.lower import user_operators
from tests.lower.test_lowering import chooser, normal
from tests.lower.test_steps import CASES as STEPS

pytestmark = pytest.mark.quick

T = pk.Tensor


@pk.operator
def normalised(x: T["M", 4], w: T[4, 4], s: T[4]):
    v = pk.cumsum(w, axis=0)
    return pk.matmul(x, v / pk.sum(v, axis=0, keepdims=True)) * s


def parts(op: Operator, weights: set[str], **dims: int) -> tuple[str, str]:
    """Signatures of both programs: their arrays and kernels."""
    found = hoisted(lower(op.program(dims, dtype="f32"), chooser()), weights)
    assert found is not None
    return _signature(found.preparation), _signature(found.main)


def _signature(program: Program) -> str:
    arrays = ", ".join(f"{a.role} {a.name}" for a in program.arrays)
    return f"{program.name}: {arrays}; {', '.join(k.name for k in program.kernels)}"


def test_kernels_on_weights_and_on_what_they_give_go_and_hand_over_what_is_read():
    before = lower(normalised.program(dtype="f32"), chooser())
    assert _signature(before) == (
        "normalised: input x, input w, input s, output out, temporary t1, temporary t0; "
        "normalised_1, normalised_2, normalised_3")
    after = hoisted(before, {"w", "s"})
    assert after is not None
    assert _signature(after.preparation) == "normalised_weights: input w, output t0, temporary t1; normalised_1, normalised_2"
    assert _signature(after.main) == "normalised: input x, input s, input t0, output out; normalised_3"
    assert after.preparation.kernels + after.main.kernels == before.kernels


@pytest.mark.parametrize("weights", [set(), {"s"}, {"x"}, {"x", "s"}])
def test_where_nothing_hangs_on_weights_alone_a_program_stays_whole(weights: set[str]):
    assert hoisted(lower(normalised.program(dtype="f32"), chooser()), weights) is None


def test_outputs_are_written_at_every_call():
    @pk.operator
    def shown(x: T["M", 4], w: T[4, 4]):
        v = pk.cumsum(w, axis=0)
        return pk.matmul(x, v), v

    assert hoisted(lower(shown.program(dtype="f32"), chooser()), {"w"}) is None


def test_what_a_call_says_the_extent_of_is_done_at_every_call():
    @pk.operator
    def scaled(x: T["M", "N"], w: T["N", "N"]):
        return pk.matmul(x, pk.cumsum(w, axis=0))

    assert hoisted(lower(scaled.program(dtype="f32"), chooser()), {"w"}) is None
    assert parts(scaled, {"w"}, N=8) == (
        "scaled_weights: input w, output t0; scaled_1", "scaled: input x, input t0, output out; scaled_2")


def test_what_the_preparation_alone_needs_is_its_own():
    @pk.operator
    def twice(x: T["M", 8], w: T[8, 8]):
        return pk.matmul(x, pk.cumsum(pk.cumsum(w, axis=0), axis=1))

    assert parts(twice, {"w"}) == (
        "twice_weights: input w, output t0, temporary t1; twice_1, twice_2", "twice: input x, input t0, output out; twice_3")


def test_an_array_that_a_call_writes_a_part_of_is_written_whole_at_that_call():
    """Both halves are pieces of one array, which no kernel may find half done from an earlier call."""
    @pk.operator
    def joined(x: T[3, 4], w: T[3, 4], v: T[8, 8]):
        return pk.matmul(pk.concat([pk.cumsum(x, axis=0), pk.cumsum(w, axis=0)], axis=1), v)

    program = lower(joined.program(dtype="f32"), chooser())
    assert any(k.args[0].name == "w" for k in program.kernels) and hoisted(program, {"w"}) is None


@pytest.mark.parametrize(("weights", "repeats"), [({"u"}, None), ({"u", "v"}, (1, 0))])
def test_a_loop_goes_as_a_whole(weights: set[str], repeats: tuple[int, int] | None):
    @pk.operator
    def stepped(x: T["M", 6], u: T[6, 6], v: T[6]):
        def step(h: Any, _: Any) -> Any:
            h = pk.tanh(pk.sum(u * pk.reshape(h, (1, 6)), axis=1))
            return h, h

        return x * pk.sum(pk.scan(step, v, length=5)[1], axis=0)

    found = hoisted(lower(stepped.program({"M": 3}, dtype="f32"), chooser()), weights)
    assert (found and (len(found.preparation.repeats), len(found.main.repeats))) == repeats


# ---- both give what one gave

CASES = [*((getattr(user_operators, name), dims, {}) for name, dims in user_operators.CASES.items()), *STEPS]


@pytest.mark.parametrize(("op", "dims", "params"), CASES, ids=lambda x: getattr(x, "name", None))
def test_both_give_what_one_gave(op: Operator, dims: dict[str, Any], params: dict[str, Any]):
    """Whichever inputs are weights."""
    bound = op.program(dims, params=params, dtype="f32")
    program = lower(bound, chooser(16))
    names = [a.name for a in bound.args]
    found = {n: h for n in ("", *names) if (h := hoisted(program, {n} if n else set(names))) is not None}
    rng = np.random.default_rng(0)
    inputs = {a.name: normal(rng, [int(str(s)) for s in tensor_type(a).shape], tensor_type(a).dtype) for a in bound.args}
    whole = run(program, inputs) if found else {}
    for both in found.values():
        assert len(both.preparation.kernels) + len(both.main.kernels) == len(program.kernels)
        made = run(both.main, {**inputs, **run(both.preparation, inputs)})
        for name, want in whole.items():
            np.testing.assert_array_equal(made[name], want)
