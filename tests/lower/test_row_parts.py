"""Rows that blocks of their own reduce parts of: what lowering makes of them, and that the results are right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.errors import ScheduleError
from portakern.ir import tile as t
from portakern.ir.oracle import evaluate
from portakern.ir.program import Program, parse_kernels
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.tensor import tensor_type
from portakern.lower import lower
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run
from tests.lower import user_operators
from tests.lower.test_lowering import chooser, normal
from tests.lowering import lowered_for


@pk.operator
def peak_and_sum(x: pk.Tensor["M", "N"]):
    """Two results of a row that no operation brings together."""
    xf = pk.cast(x, pk.f32)
    return pk.max(xf, axis=-1), pk.sum(pk.exp(xf - pk.max(xf, axis=-1, keepdims=True)), axis=-1)


@pk.operator
def log_sum_exp(x: pk.Tensor["M", "N"]):
    xf = pk.cast(x, pk.f32)
    top = pk.max(xf, axis=-1, keepdims=True)
    return pk.log(pk.sum(pk.exp(xf - top), axis=-1)) + pk.max(xf, axis=-1)


@pk.operator
def variance_and_mean(x: pk.Tensor["M", "N"]):
    return pk.var(x, axis=1), pk.mean(x, axis=1)


@pk.operator
def first_of_the_largest(x: pk.Tensor["M", "N"]):
    return pk.argmax(x, axis=1), pk.max(x, axis=1)


def in_parts(parts: int, step: int = 8):
    """The made-up target's schedules, with rows longer than ``step`` in parts."""
    choose = chooser(step)

    def cut(nest: Nest) -> Schedule:
        made = choose(nest)
        walked = nest.divided(dict(made.tiles)) if nest.family == "rows" else None
        if walked is None:
            return made
        tiles = -(-walked.extent // made.tile(walked.name))  # type: ignore[operator]
        return replace(made, options=(("split_k", min(parts, tiles)),))

    return cut


def checked(op: Operator, dims: dict[str, Any], parts: int, dtype: str) -> Program:
    """The program, run literally, gives what the oracle does.  Steps are short where there are many parts."""
    bound = op.program(dims, dtype=dtype)
    program = lower(bound, in_parts(parts, 8 if parts < 10 else 2))
    rng = np.random.default_rng(0)
    inputs = {a.name: normal(rng, [int(str(s)) for s in tensor_type(a).shape], tensor_type(a).dtype) for a in bound.args}
    got, want = run(program, inputs, {}), evaluate(bound, inputs)
    share = 1e-3 if dtype == "f32" else 0.06
    for name in bound.outputs:
        g, w = np.asarray(got[name], np.float64), np.asarray(want[name], np.float64)
        assert np.all(np.abs(g - w) <= share * (np.abs(w) + 0.1 * np.max(np.abs(w), initial=0) + 1e-6)), name
    return program


@pytest.mark.parametrize("parts", [2, 5, 20])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", ["row_sum", "softmax", "layer_norm", "rms_norm"])
def test_library(name: str, dtype: str, parts: int) -> None:
    checked(load_operator(name), {"M": 3, "N": 75}, parts, dtype)


@pytest.mark.parametrize("name", user_operators.CASES)
@pytest.mark.parametrize("parts", [3, 18])
def test_users_operator(name: str, parts: int) -> None:
    checked(getattr(user_operators, name), user_operators.CASES[name], parts, "f32")


def test_reductions_that_are_results_and_go_on() -> None:
    @pk.operator
    def op(x: pk.Tensor["B", "M", "N"]):
        top = pk.max(x, axis=-1, keepdims=True)
        e = pk.exp(x - top)
        total = pk.sum(e, axis=-1)
        return e, top[..., 0], total, e / total[..., None], total + 1.0

    for b in (1, 3):
        checked(op, {"B": b, "M": 5, "N": 50}, 3, "f32")


@pytest.mark.parametrize("op", [peak_and_sum, log_sum_exp], ids=lambda op: op.name)
def test_reductions_of_one_walk_are_joined_together(op: Operator) -> None:
    program = checked(op, {"M": 5, "N": 50}, 3, "f32")
    assert [k.family for k in program.kernels] == ["rows", "elementwise"]
    assert {a.type.shape for a in program.by_role("temporary")} == {(3, 5)}  # type: ignore[union-attr]


@pytest.mark.quick
@pytest.mark.parametrize("op", [peak_and_sum, log_sum_exp, variance_and_mean, first_of_the_largest], ids=lambda op: op.name)
def test_many_parts_are_one_tile_that_is_reduced(op: Operator) -> None:
    program = checked(op, {"M": 5, "N": 50}, 20, "f32")
    assert [k.family for k in program.kernels] == ["rows", "rows"]
    join = program.kernels[1]
    assert not any(isinstance(x, t.For) for x in join.body.walk())
    assert t.Axis("part", "whole", 20, 32) in join.axes


@pytest.mark.quick
def test_parts_of_many_rows_are_joined_in_turn() -> None:
    """Neighbouring rows are neighbouring lanes, then."""
    program = lower(peak_and_sum.program({"M": 2000, "N": 50}, dtype="f32"), in_parts(20, 2))
    assert [k.family for k in program.kernels] == ["rows", "elementwise"]


@pytest.mark.parametrize("op", [peak_and_sum, variance_and_mean, first_of_the_largest], ids=lambda op: op.name)
def test_parts_without_numbers_or_of_nothing_but_infinities(op: Operator) -> None:
    bound = op.program({"M": 4, "N": 50}, dtype="f32")
    x = np.random.default_rng(0).standard_normal((4, 50)).astype(np.float32)
    x[0, :20] = -np.inf
    x[1, 30] = np.nan
    x[2, 7] = np.inf
    x[3] = 1e25  # the square of a mean is no f32
    with np.errstate(all="ignore"):
        want = evaluate(bound, {"x": x})
        for parts in (3, 20):
            got = run(lower(bound, in_parts(parts, 8 if parts < 10 else 2)), {"x": x}, {})
            for name in bound.outputs:
                np.testing.assert_allclose(np.asarray(got[name][:3], np.float64), want[name][:3], rtol=1e-4, atol=1e-6)
                assert np.isfinite(got[name][3]) == np.isfinite(want[name][3])


def test_softmax_is_three_kernels() -> None:
    program = checked(load_operator("softmax"), {"M": 3, "N": 75}, 4, "bf16")
    assert [k.name for k in program.kernels] == ["softmax_parts", "softmax_join", "softmax_whole"]
    parts = program.kernels[0]
    assert parts.axes[0] == t.Axis("part", "grid", 4, 1)
    assert [a.dtype for a in program.by_role("temporary")] == ["f32"] * 4


@pk.operator
def norm_of_groups(x: pk.Tensor["M", "C", "P"], w: pk.Tensor["C"]):
    """Weights keep a group's channels from being one axis with its pixels."""
    less = x - pk.mean(x, axis=(1, 2), keepdims=True)
    return less * pk.rsqrt(pk.mean(less * less, axis=(1, 2), keepdims=True) + 1e-5) * w[None, :, None]


@pytest.mark.quick
@pytest.mark.parametrize(("op", "dims", "kernels"), [
    (variance_and_mean, {"M": 5, "N": 50}, 2), (norm_of_groups, {"M": 3, "C": 2, "P": 75}, 3),
    (load_operator("layer_norm"), {"M": 3, "N": 75}, 3),
])  # fmt: skip
def test_deviations_are_summed_in_the_walk_of_their_mean(op: Operator, dims: dict[str, int], kernels: int) -> None:
    program = checked(op, dims, 4, "f32")
    assert len(program.kernels) == kernels


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_parts_of_deviations_are_joined_without_loss_far_from_zero(parts: int) -> None:
    """Around the mean of all, and not as a difference of two large sums."""
    bound = variance_and_mean.program({"M": 2, "N": 50}, dtype="f32")
    x = (1e5 + np.random.default_rng(0).standard_normal((2, 50)) * [[1.0], [30.0]]).astype(np.float32)
    x[1, 48:] -= 1e5  # the last part is elsewhere
    got, _ = run(lower(bound, in_parts(parts)), {"x": x}, {}).values()
    np.testing.assert_allclose(got, np.var(x.astype(np.float64), axis=1), rtol=2e-2)


@pytest.mark.quick
def test_each_thread_sums_the_deviations_of_its_own_columns() -> None:
    text = str(pk.emit("layer_norm", "cuda:h200", dtype="f32", M=16, N=1 << 22))
    parts = text[text.index("layer_norm_parts(") : text.index("layer_norm_join(")]
    assert parts.count("pk::reduce_own<pk::Sum>") == 3 and "pk::reduce_cols" not in parts


def test_more_parts_than_tiles_are_refused() -> None:
    def choose(nest: Nest) -> Schedule:
        return replace(chooser(8)(nest), options=(("split_k", 11),))

    with pytest.raises(ScheduleError, match="10 tiles of 8, too few for split_k=11"):
        lower(load_operator("row_sum").program({"M": 3, "N": 75}, dtype="f32"), choose)


def test_few_long_rows_are_shared_out_on_a_gpu() -> None:
    few, many, short = (pk.build("row_sum", target="cuda:h200", dtype="f32", M=m, N=n)._source.launches
                        for m, n in ((4, 1 << 22), (4096, 1 << 17), (4, 4096)))  # fmt: skip
    assert [x.kernel for x in few] == ["row_sum_parts", "row_sum_join"] and int(few[0].grid[0]) >= 2 * 132  # type: ignore[arg-type]
    assert len(many) == len(short) == 1


@pytest.mark.parametrize("target", ["cpp:cpu", "cuda:sm_90a"])
def test_it_runs(target: str) -> None:
    (row,) = pk.check("softmax", targets=[target], dtype="bf16", M=3, N=3001, schedule={"n": 128, "split_k": 5}).rows
    assert row.error is None and row.evidence in ("executed", "interpreted")


@pytest.mark.quick
def test_what_is_stored_for_each_row_is_stored_where_parts_are_joined() -> None:
    """And not, rounded once more, by every block of the kernel that stores the elements of rows."""

    @pk.operator
    def op(x: pk.Tensor["M", "N"]):
        peak = pk.max(x, axis=-1, keepdims=True)
        e = pk.exp(x - peak)
        total = pk.sum(e, axis=-1, keepdims=True)
        return e / total, peak, pk.cast(total, pk.f32)

    program = checked(op, {"M": 3, "N": 50}, 4, "bf16")
    stored = {k.name: {x.buffer.name for x in k.body.walk() if isinstance(x, t.Store)} for k in program.kernels}  # type: ignore[attr-defined]
    assert stored["op_whole"] == {"out0"} and {"out1", "out2"} <= stored["op_join"]


@pk.operator
def beside_a_line(x: pk.Tensor["M", "N"], t: pk.Tensor["N"]):
    """Two axes that do not merge, since ``t`` has one of them."""
    return pk.mean(pk.maximum(1 - x * t, 0))


@pk.operator
def beside_a_column(x: pk.Tensor["M", "N"], t: pk.Tensor["M"]):
    return pk.sum(x * t[:, None])


@pytest.mark.parametrize("operator", [beside_a_line, beside_a_column])
@pytest.mark.parametrize(("m", "n"), [(20, 33), (2, 100), (70, 3)])
def test_parts_of_two_axes_are_right(operator: pk.Operator, m: int, n: int) -> None:
    checked(operator, {"M": m, "N": n}, 3, "f32")


@pytest.mark.parametrize("target", ["cuda:sm_90a", "triton:sm_90", "hip:gfx942"])
@pytest.mark.parametrize("operator", [beside_a_line, beside_a_column])
@pytest.mark.parametrize(("m", "n"), [(4096, 4096), (3, 1 << 24), (1 << 22, 7)])
def test_a_sum_of_two_axes_is_shared_along_the_longer_one(operator: pk.Operator, target: str, m: int, n: int) -> None:
    """One block for all of it would take minutes."""
    lowered = lowered_for(registry().target(target), operator.program({"M": m, "N": n}, {}, "f32"))
    first = lowered.kernels[0]
    assert len(lowered.kernels) == 2
    assert next(a.extent for a in first.axes if a.name.startswith("part")) > 100  # type: ignore[operator]


@pytest.mark.parametrize("op", [variance_and_mean, log_sum_exp, first_of_the_largest], ids=lambda op: op.name)
def test_parts_are_joined_by_operations_of_their_own(op: Operator) -> None:
    """The text of a kernel whose loop and its way to join had an operation in common read back as another kernel."""
    program = lower(op.program(dict(M=5, N=64), dtype="f32"), in_parts(4))
    assert len(program.kernels) > 1
    for kernel in program.kernels:
        every = list(kernel.body.walk())
        assert len(every) == len(set(every))
    assert [k.digest for k in parse_kernels(str(program))] == [k.digest for k in program.kernels]
