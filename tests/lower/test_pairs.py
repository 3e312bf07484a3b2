"""Products that share an operand and meet elementwise: one kernel where a language says so, right in any case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.ir import tile as t
from portakern.ir.oracle import evaluate
from portakern.ir.program import Program
from portakern.ir.schedule import Nest, Schedule
from portakern.lower import lower
from portakern.lower.kernel import NoSchedule
from portakern.spec.inputs import make_inputs
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run

T = pk.Tensor
DIMS = {"M": 9, "K": 7, "F": 6, "B": 2}


def silu(x: Any) -> Any:
    return x * pk.sigmoid(x)


@pk.operator
def gated(x: T["M", "K"], g: T["K", "F"], u: T["K", "F"]):
    return silu(x @ g) * (x @ u)


@pk.operator
def of_halves(x: T["M", "K"], w: T["K", "2*F"]):
    y, n = x @ w, w.shape[1] // 2
    return silu(y[:, :n]) * y[:, n:]


@pk.operator
def of_rows_of_weights(x: T["B", "M", "K"], w: T["2*F", "K"], b: T["2*F"]):
    """As PyTorch writes a linear layer of gate and projection, the second half being the gate."""
    y = pk.reshape(pk.reshape(x, (-1, x.shape[2])) @ w.T + b, (x.shape[0], x.shape[1], w.shape[0]))
    n = w.shape[0] // 2
    return y[:, :, :n] * pk.sigmoid(y[:, :, n:])


@pk.operator
def with_bias_and_residual(x: T["M", "K"], g: T["K", "F"], bg: T["F"], u: T["K", "F"], c: T["F"], r: T["M", "F"]):
    return r + silu(x @ g + bg) * (x @ u + c)


@pk.operator
def shared_right(a: T["M", "K"], b: T["M", "K"], w: T["K", "F"]):
    x, y = a @ w, b @ w
    return pk.where(x > y, x, y)


@pk.operator
def also_stored(x: T["M", "K"], g: T["K", "F"], u: T["K", "F"]):
    """Both products are results as well, as a backward wants them."""
    a, b = x @ g, x @ u
    return silu(a) * b, a, b


PAIRED = [gated, of_halves, of_rows_of_weights, with_bias_and_residual, shared_right, also_stored]


@pk.operator
def quarters(x: T["M", "K"], w: T["K", "4*F"]):
    """Parts that do not meet each other alone are read where one product has stored them."""
    y, n = x @ w, w.shape[1] // 4
    return y[:, :n] + y[:, n : 2 * n] * y[:, 3 * n :]


@pk.operator
def one_of_other(x: T["M", "K"], w: T["K", "K"], v: T["K", "K"]):
    """The second product waits for the first."""
    a = x @ w
    return a * (a @ v)


@pk.operator
def apart(x: T["M", "K"], g: T["K", "F"], u: T["K", "F"]):
    return x @ g, x @ u


def dims_of(op: Operator) -> dict[str, Any]:
    asked = {n for a in op.trace({}, "f32").args for s in getattr(a.type, "shape", ()) for n in getattr(s, "names", ())}
    return {n: size for n, size in DIMS.items() if n in asked}


def choose(nest: Nest) -> Schedule:
    sizes = {"m": 4, "n": 4, "k": 4, "reduced": 64, "parallel": 4}
    return Schedule(tuple((a.name, sizes.get(a.role, 1)) for a in nest.axes))


def no_pairs(nest: Nest) -> Schedule:
    if nest.products > 1:
        raise NoSchedule("no pairs here")
    return choose(nest)


def dots(program: Program) -> list[int]:
    return [sum(isinstance(op, t.Dot) for op in k.body.walk()) for k in program.kernels]


def right(op: Operator, program: Program, inputs: dict[str, np.ndarray]) -> None:
    wanted, got = evaluate(op.program(dims_of(op), {}, "f32"), inputs), run(program, inputs, {})
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-5, atol=2e-5)


@pytest.mark.quick
@pytest.mark.parametrize("op", PAIRED, ids=lambda o: o.name)
def test_one_walk_makes_both(op: Operator) -> None:
    program = op.program(dims_of(op), {}, "f32")
    made = lower(program, choose)
    assert dots(made) == [2]
    (walk,) = (x for x in made.kernels[0].body.walk() if isinstance(x, t.For))
    assert sum(isinstance(x, t.Load) for x in walk.body.walk()) == 3, "the shared operand is loaded once"
    right(op, made, make_inputs(program))


@pytest.mark.quick
@pytest.mark.parametrize("op", PAIRED, ids=lambda o: o.name)
def test_both_sums_in_parts_are_joined_by_one_kernel(op: Operator) -> None:
    def in_parts(nest: Nest) -> Schedule:
        made = choose(nest)
        return replace(made, options=(("split_k", 2),)) if nest.family == "contraction" else made

    program = op.program(dims_of(op), {}, "f32")
    made = lower(program, in_parts)
    assert dots(made) == [2, 0]
    assert [a.name for a in made.by_role("temporary")] == [f"{op.name}_partial0", f"{op.name}_partial1"]
    right(op, made, make_inputs(program))


@pytest.mark.quick
def test_both_sums_of_one_row_are_one_walk_over_rows() -> None:
    dims: dict[str, Any] = {"M": 1, "K": 7, "F": 6}
    program = gated.program(dims, {}, "f32")
    (kernel,) = lower(program, choose).kernels
    assert kernel.family == "rows" and sum(isinstance(op, t.Reduce) for op in kernel.body.walk()) == 2


@pytest.mark.quick
@pytest.mark.parametrize(("op", "by_rows"), [(gated, True), (of_halves, True), (of_rows_of_weights, False)], ids=str)
def test_a_nest_says_how_its_right_operand_lies(op: Operator, by_rows: bool) -> None:
    seen: list[bool] = []

    def noted(nest: Nest) -> Schedule:
        seen.append(nest.across)
        return choose(nest)

    lower(op.program(dims_of(op), {}, "f32"), noted)
    assert seen == [by_rows]


@pytest.mark.quick
@pytest.mark.parametrize("op", PAIRED, ids=lambda o: o.name)
def test_languages_without_pairs(op: Operator) -> None:
    program = op.program(dims_of(op), {}, "f32")
    made = lower(program, no_pairs)
    assert sorted(n for n in dots(made) if n) == [1, 1]
    right(op, made, make_inputs(program))


@pytest.mark.quick
@pytest.mark.parametrize(("op", "wanted"), [(quarters, [1, 0]), (one_of_other, [1, 1]), (apart, [1, 1])], ids=lambda o: str(o))
def test_what_is_no_pair(op: Operator, wanted: list[int]) -> None:
    program = op.program(dims_of(op), {}, "f32")
    made = lower(program, choose)
    assert dots(made) == wanted
    right(op, made, make_inputs(program))


@pytest.mark.quick
def test_a_block_has_half_as_many_columns_of_each() -> None:
    sizes: dict[str, Any] = {"M": 4096, "K": 4096}
    pair = pk.build(gated, target="cuda:sm_90a", dtype="bf16", F=4096, **sizes).schedule[0]
    single = pk.build("matmul", target="cuda:sm_90a", dtype="bf16", N=8192, **sizes).schedule[0]
    assert (pair.tile("m"), 2 * pair.tile("f"), pair.stages) == (single.tile("m"), single.tile("n"), single.stages)


@pytest.mark.quick
def test_the_producer_brings_what_both_share_once() -> None:
    text = pk.build(gated, target="cuda:sm_90a", dtype="bf16", M=4096, K=4096, F=4096).source
    assert text.count("pipe.copy_left(") == 1 and text.count("pipe.copy_right(") == 2 and text.count("pk::start_dot(") == 2
    assert "release_previous<2>" in text, "the slot before goes back while both products of this step are under way"


@pytest.mark.quick
@pytest.mark.parametrize(("target", "m", "kernels"), [
    ("cuda:sm_90a", 4096, 1), ("cuda:sm_80", 4096, 1), ("triton:sm_90", 4096, 1), ("cpp:cpu", 256, 1), ("hip:gfx1201", 4096, 1),
    ("hip:gfx942", 80, 1), ("hip:gfx942", 4096, 2),  # whose waves take turns at one product
    ("opencl:cpu", 256, 2), ("cuda:sm_90a", 16, 1), ("cuda:sm_90a", 1, 1), ("cuda:sm_80", 1, 1),
    ("triton:sm_90", 1, 1), ("hip:gfx942", 1, 1), ("cuda:sm_100a", 16, 1), ("cuda:sm_100a", 64, 2),
    ("cpp:cpu", 1, 1), ("numba:cpu", 1, 1), ("opencl:cpu", 1, 1),
])  # fmt: skip
def test_where_it_pays(target: str, m: int, kernels: int) -> None:
    assert len(pk.build(gated, target=target, dtype="bf16", M=m, K=1024, F=8192).program.kernels) == kernels


SLOW = [pytest.param(t, marks=pytest.mark.slow) for t in ("triton:sm_90", "cuda:sm_80")]


@pytest.mark.parametrize("target", ["cpp:cpu", "hip:gfx942", "cuda:sm_90a", *SLOW])
@pytest.mark.parametrize("op", [with_bias_and_residual, of_halves], ids=lambda o: o.name)
def test_right_in_every_language(op: Operator, target: str) -> None:
    row = pk.check(op, target, M=80, K=72, F=104, dtype="bf16").rows[0]
    assert row.correct and row.error is None
