"""Convolutions, pooling and arrays made of pieces: the rewritten program computes what was asked, and so do the kernels."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from portakern.array_program import array_function
from portakern.check.agreement import agreement
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Arg, Block, Op, Yield
from portakern.ir.planes import Planes, never
from portakern.lower.simplify import simplify
from portakern.lower.uses import needed
from portakern.registry import registry
from portakern.spec.inputs import make_inputs
from portakern.study.steps import emission
from portakern.study.study import Runner
from portakern.study.work import Problem, works
from portakern.timing.inputs import from_numpy
from portakern.timing.peers import Subject, host_outputs
from tests.lower import windowed_operators

IDS = [op.name for op, _ in windowed_operators.CASES]
REWRITTEN = (t.Convolve, t.WindowFold, t.PadWith, t.Concat)


def program(make: Callable[..., Op], *shapes: tuple[int, ...]) -> t.TensorProgram:
    args = [Arg(f"x{i}", t.TensorType(s, "f64")) for i, s in enumerate(shapes)]
    result = make(*args)
    ops = [op for op in needed([result]) if not isinstance(op, Arg)]
    return t.TensorProgram("made", Block(tuple(args), (*ops, Yield((result,)))), ("out",))


def agrees(asked: t.TensorProgram, reach: bool = False, planes: Planes = never) -> t.TensorProgram:
    """``asked`` rewritten, with nothing left of what is rewritten, and the same results."""
    rng = np.random.default_rng(0)
    inputs = {a.name: rng.standard_normal(t.tensor_type(a).shape) for a in asked.args}  # type: ignore[arg-type]
    found = simplify(asked, reach, planes=planes)
    assert not [op for op in found.body.ops if isinstance(op, REWRITTEN)]
    np.testing.assert_allclose(oracle.evaluate(found, inputs)["out"], oracle.evaluate(asked, inputs)["out"], atol=1e-12)
    return found


def convolution(x: Op, w: Op, stride: int, pads: tuple[int, int], dilation: int, groups: int, transposed: bool) -> Op:
    return t.Convolve(x, w, (stride, 2), (pads[0], 1), (pads[1], 0), (dilation, 1), groups, "f64", transposed)


@pytest.mark.quick
def test_pixels_lie_outside_of_their_image_where_loads_may_reach_there() -> None:
    for stride, pads, dilation in product((1, 2), ((0, 0), (1, 2), (2, 0)), (1, 2)):
        how = {"stride": stride, "pads": pads, "dilation": dilation, "groups": 1, "transposed": False}
        found = agrees(program(partial(convolution, **how), (2, 7, 6, 16), (3, 2, 16, 5)), reach=True)
        assert [type(op).__name__ for op in found.body.ops] == ["Windows", "Contract", "Yield"]


def of_planes(x: Op, w: Op, **how: Any) -> Op:
    """The convolution of x [N, C, *spatial] with its channels last."""
    return convolution(t.Transpose(x, (0, 2, 3, 1)), w, **how)


@pytest.mark.quick
def test_planes_are_one_product_of_all_pixels_with_all_taps_where_loads_may_take_these() -> None:
    for stride, pads, dilation in product((1, 2), ((0, 0), (1, 2), (2, 0)), (1, 2)):
        how = {"stride": stride, "pads": pads, "dilation": dilation, "groups": 1, "transposed": False}
        asked = program(partial(of_planes, **how), (2, 16, 7, 6), (3, 2, 16, 5))
        found = agrees(asked, reach=True, planes=lambda asked: True)
        (contract,) = (op for op in found.body.ops if isinstance(op, t.Contract))
        assert sorted(t.tensor_type(contract.lhs).shape[d] for d in contract.lhs_axes) == [2, 3, 16]
        assert not [op for op in found.body.ops if isinstance(op, t.Assemble)], "nothing is stored before"


@pytest.mark.quick
def test_phases_of_planes_are_products_of_all_pixels_too() -> None:
    for stride, pads, dilation in product((1, 2, 3), ((0, 0), (1, 2), (2, 0)), (1, 2)):
        how = {"stride": stride, "pads": pads, "dilation": dilation, "groups": 1, "transposed": True}
        agrees(program(partial(of_planes, **how), (2, 16, 7, 6), (4, 3, 16, 5)), reach=True, planes=lambda asked: True)


@pytest.mark.quick
def test_phases_of_transposed_convolutions_are_products_of_pixels_with_the_taps_they_meet() -> None:
    reached = 0
    for stride, pads, dilation in product((1, 2, 3), ((0, 0), (1, 2), (2, 0)), (1, 2)):
        how = {"stride": stride, "pads": pads, "dilation": dilation, "groups": 1, "transposed": True}
        found = agrees(program(partial(convolution, **how), (2, 7, 6, 16), (4, 3, 16, 5)), reach=True)
        views = [op for op in found.body.ops if isinstance(op, t.Windows)]
        reached += bool(views) and all(op.reaching for op in views)
    assert reached >= 6


@pytest.mark.quick
def test_windows_of_channels_and_pooling_lie_outside_where_loads_may_reach_there() -> None:
    for stride, pads, dilation in product((1, 2), ((0, 0), (1, 2)), (1, 2)):
        how = {"stride": stride, "pads": pads, "dilation": dilation, "groups": 5, "transposed": False}
        conv = partial(convolution, **how), ((2, 7, 6, 5), (3, 2, 1, 10))
        pool = partial(pooling, fn="max", window=3, stride=stride, low=1, high=2, dilation=dilation), ((2, 7, 6, 5),)
        for made, shapes in (conv, pool):
            found = agrees(program(made, *shapes), reach=True)
            assert not [op for op in found.body.ops if isinstance(op, t.Assemble)]
            assert [op.reaching for op in found.body.ops if isinstance(op, t.Windows)] == [True]


@pytest.mark.quick
def test_pixels_that_are_not_whole_lines_are_padded_before() -> None:
    how = {"stride": 1, "pads": (1, 1), "dilation": 1, "groups": 1, "transposed": False}
    found = agrees(program(partial(convolution, **how), (2, 7, 6, 8), (3, 2, 8, 5)), reach=True)
    assert any(isinstance(op, t.Assemble) for op in found.body.ops)


@pytest.mark.quick
def test_columns_of_few_channels_are_stored_where_they_are_no_longer_than_a_few_pixels() -> None:
    how = {"groups": 1, "transposed": False}
    for stride, pads, dilation in product((1, 2), ((0, 0), (1, 2)), (1, 2)):
        made = partial(convolution, stride=stride, pads=pads, dilation=dilation, **how)
        found = agrees(program(made, (2, 7, 6, 3), (3, 1, 3, 20)), reach=True)
        (contract,) = (op for op in found.body.ops if isinstance(op, t.Contract))
        assert [t.tensor_type(contract.lhs).shape[d] for d in contract.lhs_axes] == [9]
        assert not [op for op in found.body.ops if isinstance(op, t.Assemble)]
    made = partial(convolution, stride=1, pads=(0, 0), dilation=1, **how)
    found = agrees(program(made, (2, 7, 6, 3), (3, 1, 3, 1)), reach=True)
    (contract,) = (op for op in found.body.ops if isinstance(op, t.Contract))
    assert len(contract.lhs_axes) == 2  # a column has nine times as many elements as a pixel of the result


@pytest.mark.quick
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_become_products_of_windows(groups: int, transposed: bool) -> None:
    tried = 0
    choices = product((1, 3, 4), (1, 2), (1, 2, 3), ((0, 0), (1, 2), (2, 0)), (1, 2, 3))
    for window, other, stride, pads, dilation in choices:
        how = {"stride": stride, "pads": pads, "dilation": dilation, "groups": groups, "transposed": transposed}
        make: Callable[..., Op] = partial(convolution, **how)
        shapes = (2, 8, 5, 4), (window, other, 4 // groups, 6)
        asked = make(*(Arg(n, t.TensorType(s, "f64")) for n, s in zip("xw", shapes, strict=True)))
        if all(n > 0 for n in t.tensor_type(asked).shape):  # type: ignore[operator]
            agrees(program(make, *shapes))
            tried += 1
    assert tried > 90


def pooling(x: Op, fn: str, window: int, stride: int, low: int, high: int, dilation: int) -> Op:
    return t.WindowFold(fn, x, (1, window, 3, 1), (1, stride, 2, 1), (0, low, 1, 0), (0, high, 0, 0), (1, dilation, 1, 1))


@pytest.mark.quick
@pytest.mark.parametrize("fn", ["max", "sum"])
def test_pooling_becomes_a_reduction_of_windows(fn: str) -> None:
    for window, stride, low, high, dilation in product((1, 2, 3), (1, 2), (0, 1), (0, 2), (1, 2)):
        make = partial(pooling, fn=fn, window=window, stride=stride, low=low, high=high, dilation=dilation)
        agrees(program(make, (2, 7, 6, 3)))


@pytest.mark.quick
def test_pieces_are_joined_and_worked_on_where_they_lie() -> None:
    def made(x: Op, y: Op) -> Op:
        inner = t.Concat((t.PadWith(x, (0, 1), (0, 0), 0.0), y), 1)
        return t.Map("max", (t.Transpose(t.Concat((inner, x), 1), (1, 0)), t.Literal(0.0, "f64")))

    found = agrees(program(made, (2, 3), (2, 4)))
    (whole,) = (op for op in found.body.ops if isinstance(op, t.Assemble))
    assert len(whole.parts) == 3 and all(isinstance(p, t.Map) for p in whole.parts)


@pytest.mark.quick
def test_a_slice_inside_a_piece_needs_no_whole() -> None:
    def made(x: Op, y: Op) -> Op:
        return t.Slice(t.Concat((x, y), 0), (3, 0), (5, 4), (1, 1))

    assert not [op for op in agrees(program(made, (3, 4), (2, 4))).body.ops if isinstance(op, t.Assemble)]


def test_windows_with_nothing_in_reach_are_none() -> None:
    view = t.Windows(Arg("x", t.TensorType((3, 2), "f32")), (0,), (5,), (1,), (1,))
    assert t.tensor_type(view).shape == (0, 2, 5)
    assert oracle.apply(view, [np.zeros((3, 2))]).shape == (0, 2, 5)


TARGETS = {"f32": "numba:cpu", "bf16": "cpp:cpu,hip:gfx942", "f16": "opencl:cpu"}
INTERPRETED = "triton:sm_90,cuda:sm_90a,pallas:v6e,sycl:cpu"
FEW = ("strided_bias_relu", "places_of_largest", "updated")


def wrong_rows(targets: str, dtype: str, names: Container[str]) -> list[str]:
    """One run for all operators, so that workers start once."""
    found = [registry().target(n) for n in targets.split(",")]
    cases = [(op, dims) for op, dims in windowed_operators.CASES if op.name in names]
    asked = [w for op, dims in cases for w in works(Problem(op, dims, {}), found, [dtype])]
    rows = Runner("checked", jobs=2).run(asked).rows
    assert len(rows) == len(cases) * len(found) and {r.evidence for r in rows} <= {"executed", "simulated", "interpreted"}
    return [f"{r.operator} {r.target}: {r.error}" for r in rows if r.error is not None]


@pytest.mark.parametrize("dtype", [pytest.param(d, marks=[pytest.mark.slow] * (d != "f16")) for d in TARGETS])
def test_they_are_right(dtype: str) -> None:
    assert wrong_rows(TARGETS[dtype], dtype, IDS) == []


def test_a_few_are_right_here() -> None:
    """In a language that takes least; numba takes seconds to compile one."""
    assert wrong_rows("opencl:cpu", "f32", FEW) == []


@pytest.mark.slow
def test_a_few_are_right_in_interpreters() -> None:
    assert wrong_rows(INTERPRETED, "f32", FEW) == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_all_are_right_in_interpreters(dtype: str) -> None:
    assert wrong_rows(INTERPRETED, dtype, IDS) == []
    assert wrong_rows("cuda:sm_80,triton:gfx942", dtype, IDS) == []


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax"])
@pytest.mark.parametrize(("operator", "dims"), windowed_operators.CASES, ids=IDS)
def test_array_libraries_compute_them(operator, dims: dict[str, int], kind: str) -> None:
    pytest.importorskip("jax" if kind == "jax" else "torch")
    asked = operator.program(dims, {}, "f32")
    inputs = make_inputs(asked, operator.families, 0)
    given = [from_numpy(x) for x in inputs.values()] if kind == "torch" else list(inputs.values())
    function = array_function(asked, kind)
    found = function.call(*given)
    results = found if isinstance(found, tuple) else (found,)
    for want, have in zip(oracle.evaluate(asked, inputs).values(), results, strict=True):
        have = np.asarray(have) if kind == "jax" else host_outputs(have)[0]
        assert not agreement(want, have, Subject(asked).dtypes).message, function.text


def test_phases_read_parts_of_one_padded_array_and_make_their_pieces_where_they_are_computed() -> None:
    """One kernel pads, and each phase is one: nothing is copied for a phase, or stored before its epilogue."""
    w = works(Problem(windowed_operators.transposed, {"N": 2, "H": 5, "W": 6, "C": 3, "O": 4}, {}),
              [registry().target("cpp:cpu")], ["f32"])[0]  # fmt: skip
    kernels = emission(replace(w, weights=("w",))).program.kernels
    written = [a.name for k in kernels for a in k.args if a in k.written]
    products = [k for k in kernels if k.family == "contraction"]
    assert len(kernels) - len(products) <= 1 and written.count("out") == len(products)


@pytest.mark.quick
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)], ids=["lines", "planes"])
def test_pooling_reads_what_is_outside_where_loads_may(order: tuple[int, ...]) -> None:
    def pooled(x: Op) -> Op:
        return t.WindowFold("max", t.Transpose(x, order), (1, 3, 3, 1), (1, 2, 1, 1), (0, 1, 1, 0), (0, 1, 0, 0), (1, 1, 1, 1))

    asked = program(pooled, (2, 5, 6, 7))
    assert [op.reaching for op in agrees(asked, reach=True).body.ops if isinstance(op, t.Windows)] == [True]
    assert not any(op.reaching for op in agrees(asked).body.ops if isinstance(op, t.Windows))
