"""Gradients of loops that blocks hold, and what only those have: sums that are shown in parts, results that nobody asks for."""

from __future__ import annotations

import numpy as np
import pytest

import portakern as pk
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Arg, Block, Result, Yield
from portakern.ir.oracle import evaluate
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.tensor import tensor_type
from portakern.lower import lower
from portakern.lower.asked import asked_only
from portakern.spec.operator import Operator

from . import step_operators as ops
from .test_steps import agrees, choose, kernels

pytestmark = pytest.mark.quick
T = pk.Tensor

GRADIENTS = [
    (ops.decayed, dict(T=5, B=3, H=10)), (ops.across, dict(B=3, T=5, D=11)), (ops.selective, dict(B=2, T=5, D=11, S=3)),
    (ops.delta, dict(H=2, T=5, K=7, V=11)), (ops.turned_state, dict(T=5, K=7, V=11)), (ops.normed, dict(T=5, B=3, N=11)),
    (ops.weighed, dict(T=5, B=3, N=11)), (ops.balanced, dict(B=3, R=5, C=11)), (ops.memory, dict(B=2, T=4, K=7, V=5)),
    (ops.numbered, dict(T=4, B=3, N=5)), (ops.running_softmax, dict(T=4, B=3, N=11)), (ops.down, dict(B=3, N=6, M=9)),
    (ops.shown_apart, dict(T=4, B=3, N=11)), (ops.of_heads, dict(B=2, T=4, H=3, P=4, N=5)),
    (ops.of_one_array, dict(T=4, B=3, N=5)),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "dims"), GRADIENTS, ids=lambda x: getattr(x, "name", None))
def test_both_ways_of_a_gradient_are_walked_where_the_loop_is(operator: Operator, dims: dict[str, int]) -> None:
    made = agrees(pk.grad(operator), dims)
    assert not made.repeats and 1 <= [k.family for k in made.kernels].count("recurrence") <= 2


def test_the_gradient_of_the_delta_rule_is_two_kernels() -> None:
    """What it reads and writes of states is in the steps, and no state is read once more for a sum of its own."""
    assert [k.family for k in kernels(pk.grad(ops.delta), dict(H=2, T=64, K=8, V=16)).kernels] == ["recurrence"] * 2


# ---- sums in parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("operator", "dims", "parts"), [
    (pk.grad(ops.selective), dict(B=2, T=3, D=192, S=16), (12,)),  # of 16
    (pk.grad(ops.selective), dict(B=2, T=3, D=10 * 13, S=16), (10,)),  # of 13
    (ops.shown_sums, dict(B=2, T=3, N=1100), (5,)),  # of 220
    (ops.of_a_batch, dict(B=1200, T=2, N=3), (5,)),
], ids=lambda x: getattr(x, "name", None))  # fmt: skip
def test_what_is_summed_to_be_shown_is_shown_in_parts(operator: Operator, dims: dict[str, int], parts: tuple[int, ...]) -> None:
    made = agrees(operator, dims)
    shown = [a for a in made.arrays if a.name.endswith("_parts")]
    assert not made.repeats and shown and all(a.type.shape[:1] == parts for a in shown)  # type: ignore[union-attr]
    joining = [k for k in made.kernels if "_join_" in k.name]
    assert [k.family for k in joining] == ["rows"] * len(shown)


def test_what_a_sum_is_multiplied_by_may_be_infinite_and_stays_outside() -> None:
    made = agrees(ops.scaled_sums, dict(B=2, T=3, N=1100))
    read = [{o.buffer.name for o in k.body.walk() if isinstance(o, t.Load) and isinstance(o.buffer, Arg)} for k in made.kernels]
    assert [k.family for k in made.kernels] == ["recurrence", "rows", "transpose"]
    assert "g" in read[2] and "g" not in read[0] | read[1]


def test_parts_in_a_loop_around_belong_to_a_turn_of_it() -> None:
    made = agrees(ops.sums_in_turns, dict(S=3, B=2, T=5, N=1100))
    (parts,) = [a for a in made.arrays if a.name.endswith("_parts")]
    assert len(made.repeats) == 1 and sorted(parts.type.shape) == [2, 5, 5]  # type: ignore[union-attr]


def test_what_a_block_holds_anyway_has_no_parts() -> None:
    assert len(kernels(ops.shown_sums, dict(B=2, T=64, N=100)).kernels) == 1
    program = ops.shown_sums.program(dict(B=2, T=64, N=1100), {}, "f32")
    assert len(lower(program, choose, holds_parts=False).kernels) == 1


def test_a_length_without_divisors_is_held_as_it_is_or_shown_element_by_element() -> None:
    assert [k.family for k in agrees(ops.shown_sums, dict(B=2, T=3, N=1109)).kernels] == ["recurrence"]

    def small(nest: Nest) -> Schedule:
        return Schedule(tuple((a.name, 8 if a.role in ("held", "reduced") else 1) for a in nest.axes))

    made = lower(ops.shown_sums.program(dict(B=2, T=3, N=1109), {}, "f32"), small)  # every element is a part
    assert [k.family for k in made.kernels] == ["recurrence", "rows", "rows"]


# ---- what is asked for ---------------------------------------------------------------------------------------------------


def test_loops_give_what_is_asked_for_alone() -> None:
    """A carry that only another unasked result needs goes with it, a sequence that only these read, too."""
    @pk.operator
    def op(x: T["T", "N"], y: T["T", "N"], z: T["N"]):
        def step(state, xs):
            a, b, c = state
            x_t, y_t = xs
            return (a + x_t, b * z + y_t, c + a), (a * 2.0, b, x_t)

        (a, b, c), shown = pk.scan(step, (z, z, z), (x, y))
        return a, b, c, *shown

    whole = op.program(dict(T=4, N=3), {}, "f32")
    c, doubled = whole.results[2], whole.results[3]
    program = tt.TensorProgram("op", Block(whole.args, (*whole.body.ops[:-1], Yield((c, doubled)))), ("c", "doubled"))
    made = asked_only(program)
    (loop,) = (o for o in made.body.ops if isinstance(o, tt.Recur))
    assert (len(loop.init), len(loop.xs), len(loop.captured), len(loop.gives[1])) == (2, 1, 0, 1)
    assert [r.index for r in made.results if isinstance(r, Result)] == [1, 2] and asked_only(made) is made
    rng = np.random.default_rng(0)
    given = {a.name: rng.standard_normal(tensor_type(a).shape) for a in whole.args if isinstance(a, Arg)}  # type: ignore[arg-type]
    for have, want in zip(evaluate(made, given).values(), evaluate(program, given).values(), strict=True):
        np.testing.assert_array_equal(have, want)
