"""Reductions of segments: tile programs against the oracle, with ascending offsets and with any, one by one and in tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.check.bounds import propagate
from portakern.check.compare import error_ratio
from portakern.check.mutants import inject
from portakern.errors import PortakernError
from portakern.ir import tile as t
from portakern.ir.core import Result
from portakern.ir.oracle import evaluate
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.tensor import SegmentFold, tensor_type
from portakern.lower import lower
from portakern.spec.cost import cost
from portakern.spec.inputs import make_inputs
from portakern.spec.load import load_operator
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run

pytestmark = pytest.mark.quick
T = pk.Tensor


@pk.operator
def rows(x: T["P", "D"], offsets: T["N+1", pk.i32]):
    return pk.segment_sum(x, offsets) * 2.0, pk.segment_max(x, offsets)


@pk.operator
def means(x: T["B", "P", "D"], offsets: T["N+1", pk.i64]):
    return pk.segment_mean(x, offsets, axis=1)


@pk.operator
def line(x: T["P"], offsets: T["N+1", pk.i64]):
    return pk.segment_min(x, offsets), pk.segment_any(x > 1.0, offsets), pk.segment_all(x < 1.0, offsets)


@pk.operator
def last(x: T["B", "P"], offsets: T["N+1", pk.i32]):
    return pk.segment_prod(x, offsets, axis=-1)


@pk.operator
def bags(table: T["V", "D"], ids: T["P", pk.i32], offsets: T["N+1", pk.i32], scale: T["D"]):
    """Means of rows of a table, normalised behind it: an embedding bag and what follows."""
    mean = pk.segment_mean(pk.take(table, ids), offsets)
    return mean * scale / pk.sqrt(pk.sum(mean * mean, axis=-1, keepdims=True) + 1e-3)


@pk.operator
def edges(x: T["P", "D"], offsets: T["N+1", pk.i32], ids: T["P", pk.i32]):
    """A softmax of each segment, as attention in graphs has it; of a single one the second walk waits for the first."""
    e = pk.exp(x - pk.take(pk.segment_max(x, offsets), ids))
    return e / (1.0 + pk.take(pk.segment_sum(e, offsets), ids))


@pk.operator
def as_many(x: T["P", "D"], offsets: T["P+1", pk.i32]):
    """As many segments as elements, which meet: one dim walks through the other."""
    y = pk.exp(x * 0.1)
    return x + pk.segment_sum(x, offsets), y * pk.segment_max(y, offsets)


@pk.operator
def small(x: T["P", "D", pk.i8], offsets: T["N+1", pk.i32]):
    return pk.segment_min(x, offsets), pk.segment_sum(x, offsets)


@pk.operator
def computed(x: T["P", "D"], lengths: T["N", pk.i32]):
    ends = pk.cumsum(lengths)
    return pk.segment_sum(x, pk.concat([pk.zeros((1,), pk.i32), ends]))


OPERATORS = [rows, means, line, last, bags, edges, as_many, small, load_operator("spmm")]
SIZES = [dict(P=37, N=11, D=5, B=3, V=7, M=11, K=6), dict(P=1, N=1, D=1, B=1, V=1, M=1, K=1),
         dict(P=0, N=3, D=2, B=2, V=3, M=3, K=2), dict(P=13, N=0, D=2, B=2, V=3, M=0, K=2)]  # fmt: skip


def chooser(tile: int):
    def choose(nest: Nest) -> Schedule:
        columns = [a.name for a in nest.role("parallel")][-1:]
        return Schedule(tuple((a.name, tile if a.role in ("walked", "reduced") else 4 if a.name in columns else 1)
                              for a in nest.axes))  # fmt: skip

    return choose


def arrays(program: Any, how: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    found = make_inputs(program)
    name = next((n for n in found if n == "offsets"), None)
    if name and how == "any":
        found[name] = rng.integers(-5, 60, found[name].shape).astype(found[name].dtype)
    if name and how == "far" and found[name].dtype == np.int64:
        found[name] = rng.choice([-(2**40), 3, 2**33 + 1], found[name].shape)
    return found


CASES = [*((o, 8, "ascending") for o in OPERATORS), *((o, 1, "any") for o in OPERATORS), (line, 8, "far")]


@pytest.mark.parametrize(("operator", "tile", "how"), CASES, ids=[f"{o.name}-{how}" for o, _, how in CASES])
def test_right(operator: Operator, tile: int, how: str) -> None:
    rng = np.random.default_rng(0)
    for sizes in SIZES:
        dims = {d: sizes[d] for d in operator.dims}
        bound = operator.program(dims, {}, "f32")
        inputs = arrays(bound, how, rng)
        want = evaluate(bound, inputs)
        for program, open_sizes in ((bound, {}), (operator.program({}, {}, "f32"), dims)):
            got = run(lower(program, chooser(tile)), inputs, open_sizes)
            for name in bound.outputs:
                np.testing.assert_allclose(got[name], want[name], rtol=2e-5, atol=2e-5)


def loops(operator: Operator, **dims: int) -> list[list[t.For]]:
    program = lower(operator.program(dims, {}, "f32"), chooser(1))
    return [[op for op in k.body.walk() if isinstance(op, t.For)] for k in program.kernels]


def test_a_sparse_product_is_one_kernel_whose_walk_ends_where_offsets_say() -> None:
    ((loop,),) = loops(load_operator("spmm"), M=9, K=8, N=16, P=40)
    for bound in (loop.lo, loop.hi):
        assert bound is not None and t.begins_inside(bound) and t.ends_inside(bound, 40)
        loads = [op for op in above(bound) if isinstance(op, t.Load)]
        (index,) = (i for op in loads for i in op.indices)
        assert index.offset == (0 if bound is loop.lo else 1)
    assert len(loops(load_operator("sddmm"), M=9, N=8, K=16, P=40)) == 1


def above(op: t.Op) -> list[t.Op]:
    return [op, *(x for o in op.operands if not isinstance(o.type, t.BufferType) for x in above(o))]


def test_reductions_of_the_same_segments_share_a_walk_and_others_do_not() -> None:
    @pk.operator
    def both(x: T["P", "D"], a: T["N+1", pk.i32], b: T["N+1", pk.i32]):
        return pk.segment_sum(x, a) + pk.segment_max(x, a), pk.segment_sum(x, a) + pk.segment_sum(x, b)

    found = loops(both, P=40, D=8, N=5)
    assert sorted(len(loop.init) for kernel in found for loop in kernel) == [1, 2]


def test_what_marks_segments_may_be_computed() -> None:
    program = computed.program({"P": 30, "D": 3, "N": 4}, {}, "f32")
    inputs = {**make_inputs(program), "lengths": np.array([3, 0, 9, 40], np.int32)}
    got = run(lower(program, chooser(1)), inputs, {})
    np.testing.assert_allclose(got["out"], evaluate(program, inputs)["out"], rtol=1e-5, atol=1e-5)


def test_work_is_that_of_the_elements() -> None:
    few, many = (cost(load_operator("segment_sum").program({"P": 1000, "D": 8, "N": n}, {}, "f32")) for n in (3, 900))
    assert few.flops == many.flops == 8000
    assert many.bytes - few.bytes == 897 * (4 * 8 + 4)


def test_bounds_catch_a_neighbour_and_pass_any_order() -> None:
    program = load_operator("segment_sum").program({"P": 300, "D": 4, "N": 3}, {}, "f32")
    inputs = make_inputs(program)
    want, x = propagate(program, inputs)["out"], inputs["x"]
    segments = list(zip(inputs["offsets"], inputs["offsets"][1:], strict=False))

    def ratio(further: int) -> float:
        made = [x[lo : hi + further][::-1].cumsum(0, np.float32)[-1] if hi > lo else x[:0].sum(0) for lo, hi in segments]
        return error_ratio(want, "f32", np.array(made)).max()

    assert ratio(0) <= 1 < ratio(-1)


def test_planted_faults_are_found() -> None:
    program = load_operator("spmm").program({"M": 5, "K": 6, "N": 3, "P": 40}, {}, "f32")
    inputs, lowered = make_inputs(program), lower(program, chooser(8))
    want = evaluate(program, inputs)["out"]
    kinds = ("wrong loop bound", "wrong comparison", "off-by-one load")
    wrong = {m.kind: not np.allclose(run(m.program, inputs, {})["out"], want, atol=1e-4) for m in inject(lowered, kinds)}
    assert wrong == dict.fromkeys(kinds, True)


@pytest.mark.parametrize(("of", "says"), [
    (lambda x, o: pk.segment_sum(x, pk.cast(o, pk.f32)), "i32 or i64"),
    (lambda x, o: pk.segment_sum(x, x), "i32 or i64"),
    (lambda x, o: pk.segment_sum(x, 3), "i32 or i64"),  # pyright: ignore[reportArgumentType]
    (lambda x, o: pk.segment_sum(x, o, axis=2), "axis 2"),
])  # fmt: skip
def test_bad_input_is_said(of: Any, says: str) -> None:
    @pk.operator
    def bad(x: T["P", "D"], offsets: T["N+1", pk.i32]):
        return of(x, offsets)

    with pytest.raises(PortakernError) as error:
        bad.program({}, {}, "f32")
    assert says in str(error.value)


def test_the_type_counts_segments() -> None:
    program = rows.program({}, {}, "f32")
    (fold, *_) = (op for op in program.body.ops if isinstance(op, SegmentFold))
    assert str(tensor_type(fold)) == "tensor[N, D, f32]" and not isinstance(fold, Result)
