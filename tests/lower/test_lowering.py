"""Lowering against the oracle, by running tile programs literally: library cases and operators of users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from portakern.dtypes import numpy_dtype
from portakern.errors import LoweringError, MissingRuleError, ScheduleError
from portakern.ir.oracle import evaluate
from portakern.ir.program import ArrayFacts, Program
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.tensor import tensor_type
from portakern.ir.tile import Compare, Extent, For
from portakern.lower import lower
from portakern.spec.inputs import Family, make_inputs
from portakern.spec.load import library, load_operator
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run
from tests.lower import user_operators

pytestmark = pytest.mark.quick


def chooser(row_tile: int = 4096):
    """Schedules of a made-up target; rows longer than ``row_tile`` are walked."""

    def choose(nest: Nest) -> Schedule:
        return Schedule(tuple((a.name, tile(nest, a)) for a in nest.axes))

    def tile(nest: Nest, a: Any) -> int:
        extent = a.extent if isinstance(a.extent, int) else 1000
        if nest.family in ("contraction", "attention", "chain"):
            whole = _power_of_two(extent, 16, 4096)
            deep = 32 if nest.family == "contraction" else whole
            return {"m": 32, "n": 32, "k": deep, "kd": whole, "d": whole}.get(a.role, 1)
        if nest.family == "scan" and a.role == "scanned":
            return (_power_of_two(extent, 1, row_tile) if isinstance(a.extent, int) else 64) if a.contiguous else 1
        if a.role in ("segment", "group"):
            return 1
        if nest.family == "sort":
            return 1 if a.role == "parallel" else _power_of_two(extent, 2, 1024)
        if nest.family == "scan":
            return 4 if a is nest.role("parallel")[-1] else 1
        if nest.family == "rows":
            if a is nest.role("reduced")[-1]:
                return _power_of_two(extent, 1, row_tile) if isinstance(a.extent, int) else 64
            return 4 if nest.role("parallel") and a is nest.role("parallel")[-1] else 1
        tiled = [x for x in nest.axes if x.role in ("source", "target")] or list(nest.axes[-2:])
        return _power_of_two(extent, 1, 32) if a in tiled else 1

    return choose


def _power_of_two(n: int, low: int, high: int) -> int:
    value = low
    while value < min(n, high):
        value *= 2
    return value


def lowered(op: Operator, dims: Mapping[str, Any], params: Mapping[str, Any], dtype: str, row_tile: int = 4096,
            keep_open: tuple[str, ...] = ()) -> tuple[Any, Program]:
    program = op.program({d: n for d, n in dims.items() if d not in keep_open}, params=params, dtype=dtype)
    return program, lower(program, chooser(row_tile))


def normal(rng: np.random.Generator, shape: list[int], dtype: str) -> np.ndarray:
    return (rng.standard_normal(shape) * 3).astype(numpy_dtype(dtype))


def compare(op: Operator, dims: Mapping[str, Any], params: Mapping[str, Any], dtype: str, row_tile: int = 4096,
            keep_open: tuple[str, ...] = (), families: Mapping[str, Family] | None = None) -> Program:
    """Run the lowered program and the oracle on normal data; errors are bounded by the dtype's roundoff."""
    bound = op.program(dims, params=params, dtype=dtype)
    _, program = lowered(op, dims, params, dtype, row_tile, keep_open)
    rng = np.random.default_rng(0)
    inputs = {a.name: normal(rng, [int(str(s)) for s in tensor_type(a).shape], tensor_type(a).dtype) for a in bound.args}
    inputs.update({n: x for n, x in make_inputs(bound, families).items() if n in (families or {})})
    got = run(program, inputs, {d: int(dims[d]) for d in keep_open})
    want = evaluate(bound, inputs)
    for name in bound.outputs:
        g, w = np.asarray(got[name], np.float64), np.asarray(want[name], np.float64)
        assert g.shape == w.shape
        scale = np.abs(w) + 0.1 * np.max(np.abs(w), initial=0, where=np.isfinite(w)) + 1e-6
        with np.errstate(invalid="ignore"):
            error = np.where((g == w) | (np.isnan(g) & np.isnan(w)), 0, np.abs(g - w) / scale)
        assert np.all(error < (1e-3 if dtype == "f32" else 0.06)), f"{name}: {np.nanmax(error)}"
    return program


SMALL = [(op, case) for op in library() for case in op.cases
         if np.prod([np.prod(v) for v in case.dims.values()]) < 2e5]


@pytest.mark.parametrize(("op", "case"), SMALL, ids=[f"{o.name}-{c.name}" for o, c in SMALL])
def test_library(op: Operator, case: Any) -> None:
    for dtype in ("f32", "bf16"):
        compare(op, case.dims, case.params, dtype, families={**op.families, **case.inputs})


@pytest.mark.parametrize("row_tile", [4096, 16])
@pytest.mark.parametrize("name", user_operators.CASES)
def test_users_operator(name: str, row_tile: int) -> None:
    for dtype in ("f32", "bf16"):
        compare(getattr(user_operators, name), user_operators.CASES[name], {}, dtype, row_tile)


@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize("dims", [(64, 64), (40, 90), (90, 40), (33, 100)])
def test_walks_split_at_the_mask(dims: tuple[int, int], split: int) -> None:
    """One of two walks over the keys goes as far as every row of the block sees, without a comparison: the first or last."""
    choose = chooser()
    attention = load_operator("attention")
    sizes = {"B": 1, "H": 2, "G": 1, "SQ": dims[0], "SK": dims[1], "D": 16}
    bound = attention.program(sizes, {"causal": True}, "f32")
    program = lower(bound, lambda nest: replace(choose(nest), options=(("split", split),)))
    loops = [op for op in program.kernels[0].body.ops if isinstance(op, For)]
    masked = [any(isinstance(op, Compare) and op.fn == "ge" for op in loop.body.walk()) for loop in loops]
    assert masked == [split == 2, split == 1]
    rng = np.random.default_rng(0)
    inputs = {a.name: normal(rng, [int(str(s)) for s in tensor_type(a).shape], "f32") for a in bound.args}
    got, want = run(program, inputs, {})["out"], evaluate(bound, inputs)["out"]
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3, equal_nan=True)


def test_a_row_of_nan_scores_is_nan_and_no_other() -> None:
    """Its weights are NaN beyond the last key, too: where they meet the zeros of a padded tile they change nothing."""
    bound, program = lowered(load_operator("attention"), {"B": 1, "H": 1, "G": 1, "SQ": 5, "SK": 37, "D": 8}, {}, "f32")
    rng = np.random.default_rng(0)
    inputs = {a.name: normal(rng, [int(str(s)) for s in tensor_type(a).shape], "f32") for a in bound.args}
    inputs["q"][..., 2, 3] = np.nan
    got, want = run(program, inputs, {})["out"], evaluate(bound, inputs)["out"]
    assert np.isnan(got).any(-1).sum() == 1
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize(("name", "dims"), [
    ("lincum", ("M", "N")), ("cum0", ("M", "N")), ("pick", ("M", "N")),
    ("chain", ("M", "N")), ("colsum", ("M", "N")), ("l2norm", ("M", "N")), ("strange", ("M", "K", "N")), ("lse", ("N",)),
    ("attn_bias", ("S",)), ("attn_lse", ("S", "T")), ("attn_window", ("S",)), ("mean_mm", ("B", "S", "N")),
    ("two_out", ("M", "N")), ("perm3", ("A", "C")), ("midmax", ("B",)), ("total", ("M",)),
])  # fmt: skip
def test_open_dims(name: str, dims: tuple[str, ...]) -> None:
    program = compare(getattr(user_operators, name), user_operators.CASES[name], {}, "f32", 16, keep_open=dims)
    assert set(program.sizes) == set(dims)


def test_counts_of_open_dims_are_whole_in_64_bits() -> None:
    """A mean over more elements than 32 bits count divided by a negative number."""
    _, program = lowered(user_operators.two_out, {"M": 2, "N": 3}, {}, "f32", keep_open=("M", "N"))
    counts = [op for kernel in program.kernels for op in kernel.body.walk() if isinstance(op, Extent)]
    assert counts and {op.dtype for op in counts} == {"i64"}


def families(name: str) -> list[str]:
    _, program = lowered(getattr(user_operators, name), user_operators.CASES[name], {}, "bf16")
    return [k.family for k in program.kernels]


def test_fusion() -> None:
    """What shares a loop nest is one kernel; what does not is as few as can be."""
    assert families("strange") == ["contraction"]
    assert families("attn_bias") == ["attention"]
    assert families("attn_window") == ["attention"]
    assert families("two_out") == ["rows"]
    assert families("norm_mm") == ["rows", "contraction"]
    assert families("swiglu") == ["contraction"]
    assert families("mm_softmax") == ["contraction", "rows"]
    assert families("group_norm") == ["rows", "elementwise"]
    assert families("cum_chain") == ["scan"]
    assert families("cum_softmax") == ["rows", "scan"]
    assert families("cum_total") == ["scan", "rows"]
    assert families("pick") == ["rows"]


def test_online_softmax_is_two_walks() -> None:
    _, program = lowered(load_operator("softmax"), {"M": 2, "N": 5000}, {}, "f32", row_tile=1024)
    loops = [op for op in program.kernels[0].body.ops if op.mnemonic() == "loop"]
    assert len(program.kernels) == 1 and len(loops) == 2


@pytest.mark.parametrize("name", ["largest_and_place", "place_of_nan"])
def test_an_extreme_and_its_place_are_one_walk(name: str) -> None:
    _, program = lowered(getattr(user_operators, name), user_operators.CASES[name], {}, "f32", row_tile=16)
    (kernel,) = program.kernels
    assert sum(op.mnemonic() == "loop" for op in kernel.body.walk()) == 1
    assert sum(op.mnemonic() == "load" for op in kernel.body.walk()) == 1


@pytest.mark.parametrize(("row_tile", "walks"), [(4096, 0), (16, 1)])
def test_cross_entropy_reads_the_logits_once(row_tile: int, walks: int) -> None:
    """Maximum, sum of exponentials and the label's logit in one walk; one loss per row goes on to the mean."""
    _, program = lowered(load_operator("cross_entropy"), {"M": 8, "N": 100}, {}, "f32", row_tile)
    rows, mean = program.kernels
    assert [a.name for a in program.by_role("temporary")] == ["t0"]
    loads = [op for op in rows.body.walk() if op.mnemonic() == "load" and op.operands[0] is rows.args[0]]
    assert len(loads) == 1 and sum(op.mnemonic() == "loop" for op in rows.body.ops) == walks
    assert "logits" not in [a.name for a in mean.args]


def test_causal_attention_stops_at_the_diagonal() -> None:
    dims = {"B": 1, "H": 1, "G": 1, "SQ": 128, "SK": 128, "D": 16}
    _, causal = lowered(load_operator("attention"), dims, {"causal": True}, "f32")
    _, full = lowered(load_operator("attention"), dims, {}, "f32")
    (with_bound,), (without,) = ([op for op in p.kernels[0].body.walk() if op.mnemonic() == "loop"] for p in (causal, full))
    assert with_bound.hi is not None and without.hi is None  # type: ignore[attr-defined]


def test_everything_missing_is_listed_at_once() -> None:
    with pytest.raises(MissingRuleError, match="argmax along a dim of 0 elements") as caught:
        lowered(user_operators.largest_places, {"M": 3, "N": 0}, {}, "f32")
    assert "user_operators.py:" in str(caught.value)


def test_a_schedule_with_three_tiled_axes_is_refused() -> None:
    def choose(nest: Nest) -> Schedule:
        return Schedule(tuple((a.name, 4) for a in nest.axes))

    program = user_operators.perm3.program({"A": 8, "B": 8, "C": 8}, dtype="f32")
    with pytest.raises(ScheduleError, match="at most 2"):
        lower(program, choose)


def test_strided_and_unaligned_arguments() -> None:
    """Facts of the arrays at hand go into their buffers; a strided array cannot be seen under another shape."""
    program = user_operators.colsum.program({"M": 8, "N": 16}, dtype="f32")
    facts = {"x": ArrayFacts(strides=(1, 8), align=4)}
    (kernel,) = lower(program, chooser(), facts=facts).kernels
    assert str(kernel.args[0].type) == "buffer[8, 16, f32, strides(1, 8), align(4)]"
    whole = user_operators.total.program({"M": 8, "N": 16}, dtype="f32")
    merged, apart = lower(whole, chooser()), lower(whole, chooser(), facts=facts)
    assert [len(p.kernels[0].axes) for p in (merged, apart)] == [1, 2]
    view = user_operators.group_norm.program({"B": 2, "C": 8, "L": 4}, dtype="f32")
    with pytest.raises(LoweringError, match="strided"):
        lower(view, chooser(), facts={"x": ArrayFacts(strides=(64, 8, 1))})


def test_functions_of_constants_are_computed_while_lowering() -> None:
    dims = {"B": 1, "H": 1, "G": 1, "SQ": 64, "SK": 64, "D": 64}
    _, program = lowered(load_operator("attention"), dims, {}, "bf16")
    text = str(program)
    assert "rsqrt" not in text and "const(0.125, 'f32')" in text
