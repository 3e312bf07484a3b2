"""Steps one after the other: tile programs against the oracle, and what leaves the loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.check.mutants import inject
from portakern.errors import ScheduleError
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.oracle import evaluate
from portakern.ir.program import Program, turns
from portakern.ir.rewrite import canonicalise
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.tensor import tensor_type
from portakern.lower import at_once, lower, steps
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run

from . import step_operators as ops

pytestmark = pytest.mark.quick


def choose(nest: Nest) -> Schedule:
    last = nest.axes[-1].name
    roles = ("m", "n", "k", "reduced", "held")
    tiled = {a.name for a in nest.axes if a.role in roles or (a.role == "parallel" and a.name == last)}
    whole = {a.name: a.extent for a in nest.axes if a.role in ("reduced", "held") and isinstance(a.extent, int)}
    return Schedule(tuple((a.name, whole.get(a.name, 8) if a.name in tiled else 1) for a in nest.axes))


def agrees(operator: Operator, dims: dict[str, int], open_dims: tuple[str, ...] = (), **params: Any) -> Program:
    """The lowered program, whose outputs are those of the oracle."""
    program = operator.program(dims, params, "f32")
    rng = np.random.default_rng(1)
    given = {a.name: (rng.standard_normal(tensor_type(a).shape) * 0.5).astype(np.float32) for a in program.args}  # type: ignore[arg-type]
    expected = evaluate(program, given)
    made = lower(operator.program({k: v for k, v in dims.items() if k not in open_dims}, params, "f32"), choose)
    found = run(made, given, {n: dims[n] for n in open_dims})
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-4, atol=2e-5)
    return made


CASES = [
    (ops.decayed, dict(T=5, B=3, H=10), {}),
    (ops.decayed, dict(T=5, B=3, H=10), dict(reverse=True)),
    (ops.rnn, dict(T=4, B=3, I=5, H=6), {}),
    (ops.rnn, dict(T=4, B=3, I=5, H=6), dict(reverse=True)),
    (ops.both_ways, dict(B=2, T=4, I=9), {}),
    (ops.two_layers, dict(T=3, B=2, H=5), {}),
    (ops.powers, dict(H=6), {}),
    (ops.counted, dict(T=5, B=2, N=3), {}),
    (ops.turned, dict(T=5, N=11), {}),
    (ops.nested, dict(T=3, S=2, N=5), {}),
    (ops.shifted, dict(T=5, N=7), {}),
    (ops.begun_in_pieces, dict(N=3), {}),
    (ops.running_softmax, dict(T=4, B=3, N=11), {}),
    (ops.across, dict(B=3, T=5, D=11), {}),
    (ops.across, dict(B=3, T=5, D=11), dict(reverse=True)),
    (ops.shown_twice, dict(B=3, T=5, D=11), {}),
    (ops.selective, dict(B=2, T=5, D=11, S=3), {}),
    (ops.delta, dict(H=2, T=5, K=7, V=11), {}),
    (ops.turned_state, dict(T=5, K=7, V=11), {}),
    (ops.normed, dict(T=5, B=3, N=11), {}),
    (ops.weighed, dict(T=5, B=3, N=11), {}),
    (ops.of_itself, dict(T=4, B=3, N=5), {}),
    (ops.of_one_array, dict(T=4, B=3, N=5), {}),
    (ops.along_both, dict(N=6), {}),
    (ops.whole_as_well, dict(N=6), {}),
    (ops.balanced, dict(B=3, R=5, C=11), {}),
    (ops.balanced_once, dict(R=5, C=11), {}),
    (ops.memory, dict(B=2, T=4, K=7, V=5), {}),
    (ops.numbered, dict(T=4, B=3, N=5), {}),
    (ops.numbered, dict(T=4, B=3, N=5), dict(reverse=True)),
    (ops.picked_out, dict(T=3, N=6), {}),
    (ops.down, dict(B=3, N=6, M=9), {}),
    (ops.factored, dict(B=3, N=34), {}),
    (ops.solved, dict(B=3, N=34, M=5), {}),
    (ops.of_one_number, dict(T=4, N=19), {}),
    (ops.joined_before, dict(T=3, N=13, M=7), {}),
]


@pytest.mark.parametrize(("operator", "dims", "params"), CASES, ids=lambda x: getattr(x, "name", None))
def test_kernels_compute_what_the_oracle_says(operator: Operator, dims: dict[str, int], params: dict[str, Any]) -> None:
    agrees(operator, dims, **params)


@pytest.mark.parametrize("length", [0, 1])
@pytest.mark.parametrize("number", [1, 3, 7, 10])
def test_loops_of_no_step_and_of_one_are_none(number: int, length: int) -> None:
    operator, dims, params = CASES[number]
    made = agrees(operator, {**dims, "T": length}, **params)
    assert not made.repeats and not any(k.family == "recurrence" for k in made.kernels)


@pytest.mark.parametrize("length", [0, 1, 6])
def test_open_lengths(length: int) -> None:
    agrees(ops.rnn, dict(T=length, B=3, I=5, H=6), ("T", "B"), reverse=True)
    agrees(ops.decayed, dict(T=length, B=3, H=6), ("T",))


def kernels(operator: Operator, dims: dict[str, int], **params: Any) -> Program:
    return lower(operator.program(dims, params, "f32"), choose)


def test_a_walked_loop_is_one_kernel_that_carries_tiles() -> None:
    made = kernels(ops.decayed, dict(T=512, B=3, H=10), reverse=True)
    assert [k.family for k in made.kernels] == ["recurrence"] and not made.repeats
    (loop,) = (op for op in made.kernels[0].body.ops if isinstance(op, t.For))
    inside = [op.mnemonic() for op in loop.body.ops]
    assert inside.count("load") == inside.count("store") == 1  # of the sequence, and what is shown
    assert "sigmoid" not in {getattr(op, "fn", "") for op in loop.body.ops}  # which is the same in every step


def test_steps_along_any_dim_are_read_and_written_where_they_lie() -> None:
    made = kernels(ops.across, dict(B=3, T=512, D=10), reverse=True)
    assert [k.family for k in made.kernels] == ["recurrence", "elementwise"]  # which adds one
    assert [a.name for a in made.arrays if a.role == "temporary"] == ["t0"]


@pytest.mark.parametrize(("operator", "dims"), [
    (ops.selective, dict(B=2, T=512, D=11, S=3)), (ops.delta, dict(H=2, T=512, K=7, V=11)),
    (ops.turned_state, dict(T=512, K=7, V=11)), (ops.normed, dict(T=512, B=3, N=11)), (ops.weighed, dict(T=512, B=3, N=11)),
    (ops.balanced, dict(B=3, R=5, C=11)), (ops.balanced_once, dict(R=5, C=11)), (ops.memory, dict(B=2, T=512, K=7, V=5)),
    (ops.numbered, dict(T=512, B=3, N=5)), (ops.picked_out, dict(T=512, N=6)), (ops.down, dict(B=3, N=64, M=9)),
], ids=lambda x: getattr(x, "name", None))  # fmt: skip
def test_a_loop_whose_lanes_meet_where_a_block_holds_them_is_one_kernel(operator: Operator, dims: dict[str, int]) -> None:
    made = kernels(operator, dims)
    assert made.kernels[-1].family == "recurrence" and not made.repeats
    assert all(k.family in ("elementwise", "transpose") for k in made.kernels[:-1])  # of a sequence, and what it begins with
    (loop,) = (op for op in made.kernels[-1].body.ops if isinstance(op, t.For))
    assert any(isinstance(op, t.Reduce) for op in loop.body.ops) and not any(isinstance(op, t.Dot) for op in loop.body.ops)


@pytest.mark.parametrize(("operator", "dims"), [
    (ops.numbered, dict(T=512, B=3, N=64)), (ops.down, dict(B=3, N=64, M=9)),
], ids=lambda x: getattr(x, "name", None))  # fmt: skip
def test_numbers_of_steps_are_no_arrays(operator: Operator, dims: dict[str, int]) -> None:
    made = kernels(operator, dims)
    assert len(made.kernels) == 1 and not [a for a in made.arrays if a.role == "temporary"]


def test_columns_that_lie_side_by_side_are_the_last_axis() -> None:
    asked: list[Nest] = []
    lower(ops.down.program(dict(B=3, N=64, M=9), {}, "f32"), lambda nest: asked.append(nest) or choose(nest))
    assert [(a.role, a.contiguous) for a in asked[-1].axes] == [("parallel", False), ("held", False), ("parallel", True)]


def test_what_no_block_can_hold_is_repeated() -> None:
    """A state that meets itself, an axis without a size, and tiles that are too small for what is reduced."""
    assert len(kernels(ops.of_itself, dict(T=512, B=3, N=5)).repeats) == 1
    assert len(kernels(ops.normed, dict(T=512, B=3)).repeats) == 1
    program = ops.normed.program(dict(T=512, B=3, N=11), {}, "f32")
    small = lower(program, lambda nest: Schedule(tuple((a.name, 4 if a.role in ("reduced", "held") else 1) for a in nest.axes)))
    assert len(small.repeats) == 1
    agrees(ops.normed, dict(T=4, B=3, N=11), ("N",))


def test_a_loop_that_one_kernel_walks_is_asked_about_and_has_one_schedule() -> None:
    """Schedules that were tuned answer one after the other; no part of one is ignored."""
    asked: list[Nest] = []

    def once(nest: Nest) -> Schedule:
        asked.append(nest)
        return choose(nest)

    program = ops.normed.program(dict(T=512, B=3, N=11), {}, "f32")
    assert len(lower(program, once, default=choose).kernels) == len(asked) == 1
    assert asked[0].steps == 512
    with pytest.raises(ScheduleError, match="split_k: steps that follow each other have no parts"):
        lower(program, lambda nest: replace(choose(nest), options=(("split_k", 4),)))


def test_what_the_input_contributes_is_one_product_before_the_loop() -> None:
    made = kernels(ops.rnn, dict(T=512, B=3, I=5, H=6))
    (repeat,) = made.repeats
    assert (repeat.count, len(repeat.swaps)) == (512, 1)
    dots = [any(isinstance(op, t.Dot) for op in k.body.walk()) for k in made.kernels]
    assert dots == [True, False, True, False] and (repeat.first, repeat.last) == (2, 3)
    axes = {a.extent for a in made.kernels[0].axes}
    assert axes == {512 * 3, 5, 6}


def test_the_step_of_an_lstm_is_two_kernels() -> None:
    made = kernels(pk.load_operator("lstm"), dict(T=128, B=8, I=32, H=16))
    (repeat,) = made.repeats
    assert [k.family for k in made.kernels[repeat.first : repeat.last]] == ["contraction", "elementwise"]
    assert [len(pair) for pair in repeat.swaps] == [2, 2]


def test_what_is_shown_of_the_input_alone_is_no_work_of_the_loop() -> None:
    made = kernels(ops.shown_apart, dict(T=4, B=3, N=11))
    assert sorted(k.family for k in made.kernels) == ["recurrence", "rows"] and not made.repeats


def test_what_a_block_has_all_of_is_reduced_where_it_is_read() -> None:
    """The input is not read once more for its own maximum."""
    (kernel,) = kernels(ops.running_softmax, dict(T=4, B=3, N=11)).kernels
    assert kernel.family == "recurrence" and len(kernel.written) == 2


def test_loops_nest() -> None:
    made = kernels(ops.nested, dict(T=3, S=2, N=5))
    outer, inner = sorted(made.repeats, key=lambda r: r.first - r.last)
    assert (outer.count, inner.count) == (3, 2)
    assert outer.first <= inner.first < inner.last <= outer.last
    order = [turn.number for turn in turns(len(made.kernels), made.repeats, {})]
    assert sum(outer.first <= n < outer.last for n in order) == 3 * (outer.last - outer.first - 1 + 2)


def test_rewriting_keeps_the_step_closed() -> None:
    """The hoisted program says the same, and is read by its own arguments alone."""
    program = ops.rnn.program(dict(T=4, B=3, I=5, H=6), {}, "f32")
    made = canonicalise(program, steps.rules + at_once.rules)
    (loop,) = (op for op in made.body.ops if isinstance(op, tt.Recur))
    assert [tensor_type(x).shape for x in loop.xs] == [(4, 3, 6)]
    assert {o for op in loop.step.ops for o in op.operands} <= {*loop.step.args, *loop.step.ops}
    rng = np.random.default_rng(0)
    given = {a.name: rng.standard_normal(tensor_type(a).shape) for a in program.args}  # type: ignore[arg-type]
    for have, want in zip(evaluate(made, given).values(), evaluate(program, given).values(), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12)


@pytest.mark.parametrize("kind", ["one turn less", "carry not handed on", "missing kernel"])
def test_faults_of_repeats(kind: str) -> None:
    """A turn too few, a carry that never changes, a kernel that does not run: all change the results."""
    dims = dict(T=4, B=3, I=5, H=6)
    program = ops.rnn.program(dims, {}, "f32")
    rng = np.random.default_rng(1)
    given = {a.name: rng.standard_normal(tensor_type(a).shape).astype(np.float32) for a in program.args}  # type: ignore[arg-type]
    expected = evaluate(program, given)
    found = list(inject(kernels(ops.rnn, dims), {kind}))
    assert found
    for mutant in found:
        assert any(not np.allclose(x, expected[n], atol=1e-4) for n, x in run(mutant.program, given).items()), mutant.where


@pk.operator
def sorted_steps(x: pk.Tensor["N"], u: pk.Tensor["S", "N"], i: pk.Tensor["N", pk.i32]):
    def step(c, y):
        c = pk.scatter(pk.sort(c * 0.5 + y, 0), i, y, 0)
        return c, c

    return pk.scan(step, x, u)


def test_merges_of_runs_are_loops_inside_of_the_loop() -> None:
    program = sorted_steps.program({"N": 41, "S": 2}, {}, "f32")
    rng = np.random.default_rng(1)
    given = {a.name: rng.standard_normal(tensor_type(a).shape).astype(np.float32) for a in program.args}  # type: ignore[arg-type]
    given["i"] = rng.integers(-3, 44, 41).astype(np.int32)
    expected = evaluate(program, given)
    made = lower(program, choose, run=4)
    assert sorted(str(r.count) for r in made.repeats) == ["2", "4", "4"]
    for name, value in run(made, given, {}).items():
        np.testing.assert_allclose(value, expected[name], rtol=2e-4, atol=2e-5)
