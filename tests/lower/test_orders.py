"""Sorts, scatters and random bits: the rewritten program computes what was asked, and so do the kernels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import portakern as pk
from portakern.errors import IRError, ScheduleError
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Arg, Block, Op, Result, Yield
from portakern.ir.size import evaluate
from portakern.ir.size import product as count_of
from portakern.ir.tile import For, Load, Unary
from portakern.lower.simplify import simplify
from portakern.lower.uses import needed
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study.steps import lowered
from portakern.study.study import Runner
from portakern.study.work import Problem, works

KINDS = {"float64": "f64", "int32": "i32", "int64": "i64", "bool": "bool"}
T = pk.Tensor
RUN = 4
"""Elements that a tile sorts: lines of more are merged from runs."""


def agrees(make: Callable[..., tuple[Op, ...]], *inputs: np.ndarray) -> None:
    args = [Arg(f"x{i}", t.TensorType(x.shape, KINDS[x.dtype.name])) for i, x in enumerate(inputs)]
    results = make(*args)
    ops = [op for op in needed(results) if not isinstance(op, Arg)]
    block = Block(tuple(args), (*ops, Yield(results)))
    asked = t.TensorProgram("made", block, tuple(f"out{i}" for i in range(len(results))))
    found = simplify(asked, run=RUN)
    assert not [op for op in found.body.ops if isinstance(op, t.Sort | t.Scatter | t.RandomBits)]
    given = {a.name: x for a, x in zip(args, inputs, strict=True)}
    want, have = oracle.evaluate(asked, given), oracle.evaluate(found, given)
    for name in want:
        np.testing.assert_allclose(have[name], want[name], rtol=1e-12, atol=1e-12)


def both(x: Op, axis: int, descending: bool, count: int) -> tuple[Op, ...]:
    sort = t.Sort(x, axis, descending, count)
    return Result(sort, 0), Result(sort, 1)


@pytest.mark.quick
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_lines_are_sorted(axis: int, descending: bool) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 5, (3, 7, 4)).astype(float)  # many are equal
    numbers[0, 2, 1], numbers[1, 1, 1], numbers[2, :, 0] = np.nan, np.inf, -np.inf
    for count in (0, 2):
        agrees(lambda x, n=count: both(x, axis, descending, n), numbers)
        agrees(lambda x, n=count: both(x, axis, descending, n), rng.integers(-3, 3, (3, 4, 3)).astype(np.int32))
        agrees(lambda x, n=count: both(x, axis, descending, n), rng.integers(0, 2, (3, 4, 3)).astype(bool))


@pytest.mark.quick
@pytest.mark.parametrize("run", [8, 32, 128])
def test_runs_are_merged_and_ties_keep_their_order(run: int) -> None:
    rng = np.random.default_rng(run)
    numbers = rng.integers(-9, 9, (2, 101)).astype(float)
    numbers[0, ::7], numbers[1, ::5], numbers[0, 3::9], numbers[1, 1::8] = np.nan, -0.0, 0.0, np.inf
    for descending, count in product((False, True), (0, 2, 40)):
        x = Arg("x", t.TensorType(numbers.shape, "f64"))
        results = both(x, 1, descending, count)
        ops = [op for op in needed(results) if op is not x]
        asked = t.TensorProgram("made", Block((x,), (*ops, Yield(results))), ("values", "indices"))
        want, have = (oracle.evaluate(p, {"x": numbers}) for p in (asked, simplify(asked, run=run)))
        np.testing.assert_array_equal(have["indices"], want["indices"])
        np.testing.assert_array_equal(have["values"].view(np.int64), want["values"].view(np.int64))


def elements(op: Op) -> int:
    return evaluate(count_of(t.tensor_type(op).shape), {})


def work(block: Block) -> int:
    """Elements that are computed, in all turns of loops."""
    found = sum(elements(op) for op in block.ops if isinstance(op.type, t.TensorType))
    loops = [op for op in block.ops if isinstance(op, t.Recur)]
    return found + sum(evaluate(op.length, {}) * work(op.step) for op in loops)


@pytest.mark.quick
def test_nothing_grows_with_the_square_of_a_line() -> None:
    """Twice as long, a line takes little more than twice the work; no array between kernels is larger than it by a factor."""
    asked = {n: simplify(ordered.program({"M": 2, "N": n}, {}, "f32"), run=64) for n in (1 << 12, 1 << 13)}
    steps = {n: work(p.body) for n, p in asked.items()}
    assert steps[1 << 13] < 2.5 * steps[1 << 12]
    largest = max(elements(op) for op in asked[1 << 13].body.walk() if isinstance(op.type, t.TensorType))
    assert largest == 2 << 13


@pytest.mark.quick
def test_indices_that_all_lines_share_are_sorted_once() -> None:
    @pk.operator
    def rows(x: T["V", "D"], i: T["N", pk.i32], u: T["N", "D"]):
        return pk.scatter(x, pk.broadcast_to(i[:, None], u.shape), u, 0)

    found = simplify(rows.program({"V": 100, "D": 7, "N": 90}, {}, "f32"), run=128)
    assert {t.tensor_type(op.xs[0]).shape for op in found.body.ops if isinstance(op, t.KeySort)} == {(90,)}


@pytest.mark.quick
def test_an_element_walks_its_own_updates() -> None:
    """Of many rows: what merges runs stands in the program once, nobody walks all rows, and no walk searches for anything."""
    target = registry().target("cuda:sm_90a")
    problem = Problem(load_operator("scatter_add"), {"V": 10000, "D": 128, "M": 100000}, {})
    made = lowered(works(problem, [target], ["f32"])[0], target)
    families = [k.family for k in made.kernels]
    assert (families[0], families[-1], families.count("elementwise")) == ("sort", "segments", len(families) - 2)
    assert len(families) <= 5
    assert [r.count for r in made.repeats] == [6]
    walk = next(op for op in made.kernels[-1].body.ops if isinstance(op, For))
    assert walk.lo is not None and walk.hi is not None
    assert len([op for op in walk.body.ops if isinstance(op, Load)]) == 2  # where the row lies, and the row


@pytest.mark.quick
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_lines_with_indices_of_their_own(axis: int) -> None:
    rng = np.random.default_rng(axis)
    shape, count = [3, 2, 4], 45
    shape[axis] = 39
    x = rng.standard_normal(shape)
    shape[axis] = count
    for mode in t.SCATTER:
        indices, updates = rng.integers(-9, 48, shape), rng.standard_normal(shape)
        agrees(lambda x, i, u, m=mode: (t.Scatter(x, i, u, axis, m),), x, indices, updates)
    every = rng.integers(38, 39, shape)  # all go to the last element
    agrees(lambda x, i, u: (t.Scatter(x, i, u, axis, "add"),), x, every, rng.standard_normal(shape))


@pytest.mark.quick
@pytest.mark.parametrize(("axis", "mode"), list(product((0, 1), t.SCATTER)))
@pytest.mark.parametrize("length", [5, 70])
def test_updates_go_to_their_owner(axis: int, mode: str, length: int) -> None:
    rng = np.random.default_rng(0)
    x, updates = rng.standard_normal((length + 1, 4) if axis == 0 else (5, 6)), rng.standard_normal((length, 4))
    x = rng.standard_normal((length, 50)) if axis and length > 5 else x
    updates = rng.standard_normal((length, 40)) if axis and length > 5 else updates
    indices = rng.integers(-2, x.shape[axis] + 2, updates.shape)
    for dtype in (np.int32, np.int64):
        agrees(lambda x, i, u: (t.Scatter(x, i, u, axis, mode),), x, indices.astype(dtype), updates)
    fewer = indices[:, :2] if axis == 0 else indices[:2]
    agrees(lambda x, i, u: (t.Scatter(x, i, u, axis, mode),), x, fewer.astype(np.int32), rng.standard_normal(fewer.shape))


@pytest.mark.quick
@pytest.mark.parametrize("seed", [0, 12345678901234, -1])
def test_bits_are_those_of_philox(seed: int) -> None:
    agrees(lambda s: (t.RandomBits(s, (3, 5, 7)),), np.array(seed, np.int64))


@pk.operator
def ordered(x: T["M", "N"]):
    return pk.sort(x, 1), pk.argsort(x, 0, descending=True), pk.topk(x * 2.0, 3)[0]


@pk.operator
def scattered(x: T["M", "N"], i: T["K", "N", pk.i32], u: T["K", "N"]):
    return pk.scatter(x, i, u, 0), pk.scatter(x, i, u, 0, "set")


@pk.operator
def runs_of_lines(x: T["M", "N"], i: T["M", "K", pk.i32], u: T["M", "K"]):
    return tuple(pk.scatter(x, i, u, 1, mode) for mode in ("add", "set", "max"))


@pk.operator
def runs_of_all(x: T["M", "N"], i: T["K", pk.i64], u: T["M", "K"]):
    return tuple(pk.scatter(x, pk.broadcast_to(i, u.shape), u, 1, mode) for mode in ("mul", "set", "min"))


@pk.operator
def noisy(x: T["M", "N"], seed: pk.Scalar[pk.i64]):
    return pk.dropout(x, seed, 0.3), x + pk.uniform(seed, x.shape), pk.normal(seed, x.shape, dtype=x.dtype)


@pytest.mark.quick
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_what_is_compared_with_itself_is_computed_once(dtype: str) -> None:
    """One of two ways to compute it may round otherwise: then an element is not its own equal, and has no place."""

    @pk.operator
    def op(x: T["M", "N"]):
        return pk.sort(pk.exp(x) * 0.1), pk.argsort(pk.softmax(x))

    target = registry().target("pallas:v6e")  # where long lines rank every element against every other
    asked = works(Problem(op, {"M": 6, "N": 2100}, {}), [target], [dtype])
    kernels = lowered(asked[0], target).kernels
    assert [sum(x.fn == "exp" for x in k.body.walk() if isinstance(x, Unary)) for k in kernels if "exp" in str(k)] == [1, 1]


def rows_of(op: pk.Operator, targets: str, dtype: str) -> None:
    dims = {scattered: {"M": 6, "N": 11, "K": 5}, runs_of_lines: {"M": 3, "N": 41, "K": 37},
            runs_of_all: {"M": 3, "N": 41, "K": 67}}.get(op, {"M": 6, "N": 11})  # fmt: skip
    asked = works(Problem(op, dims, {}), [registry().target(n) for n in targets.split(",")], [dtype])
    rows = Runner("checked", jobs=2).run(asked).rows
    assert [f"{r.operator} {r.target}: {r.error}" for r in rows if r.error is not None] == []


SHORT = pytest.mark.parametrize("operator", [ordered, scattered, noisy], ids=lambda op: op.name)
RUNS = pytest.mark.parametrize("operator", [runs_of_lines, runs_of_all], ids=lambda op: op.name)
HERE = "cpp:cpu,opencl:cpu,hip:gfx942"
ELSEWHERE = "sycl:cpu,triton:sm_90,triton:gfx942,cuda:sm_80,cuda:sm_90a"


@SHORT
def test_they_are_right(operator: pk.Operator) -> None:
    numba = "numba:cpu," if operator is scattered else ""  # which takes seconds to compile one
    here = HERE.removesuffix(",hip:gfx942") if operator is noisy else HERE  # a simulator takes long to draw numbers
    rows_of(operator, f"{numba}{here}", "f32" if operator is noisy else "bf16")


@pytest.mark.slow
@RUNS
def test_runs_are_right(operator: pk.Operator) -> None:
    rows_of(operator, f"numba:cpu,{HERE}", "bf16")


@pytest.mark.slow
@SHORT
def test_they_are_right_everywhere(operator: pk.Operator) -> None:
    rows_of(operator, f"numba:cpu,{ELSEWHERE}" + (",hip:gfx942" if operator is noisy else ",pallas:v6e"), "f32")


@pytest.mark.slow
@RUNS
def test_runs_are_right_everywhere(operator: pk.Operator) -> None:
    rows_of(operator, f"{ELSEWHERE},pallas:v6e", "f32")


@pytest.mark.quick
def test_random_numbers_are_distributed_as_asked() -> None:
    @pk.operator
    def drawn(seed: pk.Scalar[pk.i64]):
        n = (40000,)
        return pk.uniform(seed, n, -1.0, 3.0), pk.normal(seed, n, 2.0, 3.0), pk.cast(pk.bernoulli(seed, n, 0.2), pk.f32)

    flat, bell, hit = oracle.evaluate(drawn.program({}, {}, "f32"), {"seed": np.array(7)}).values()
    assert flat.min() >= -1.0 and flat.max() < 3.0 and abs(flat.mean() - 1.0) < 0.02
    assert abs(bell.mean() - 2.0) < 0.05 and abs(bell.std() - 3.0) < 0.05 and np.isfinite(bell).all()
    assert abs(hit.mean() - 0.2) < 0.01


@pytest.mark.parametrize(("lines", "by_segments"), [(400, True), (40000, False)])
def test_results_of_more_elements_than_i32_numbers_ask_which_updates_are_their_own(lines: int, by_segments: bool) -> None:
    x, i = Arg("x", t.TensorType((lines, 60000), "f32")), Arg("i", t.TensorType((lines, 100), "i32"))
    u = Arg("u", t.TensorType((lines, 100), "f32"))
    made = t.Scatter(x, i, u, 1, "add")
    ops = simplify(t.TensorProgram("op", Block((x, i, u), (made, Yield((made,)))), ("out",))).body.ops
    assert any(isinstance(op, t.SegmentFold) for op in ops) == by_segments


@pytest.mark.quick
def test_a_tile_holds_all_that_is_asked_for_of_a_line() -> None:
    @pk.operator
    def three_first(x: T["M", "N"]):
        return pk.topk(x, 3)

    target = registry().target("numba:cpu")
    (asked,) = works(Problem(three_first, {"M": 4, "N": 40}, {}), [target], ["f32"], schedule={"n": 64, "i": 2})
    with pytest.raises(ScheduleError, match="cuts i: a tile must hold all that is asked for of a line"):
        lowered(asked, target)


@pytest.mark.quick
@pytest.mark.parametrize("size", [0, 2])
def test_more_than_a_line_has_cannot_be_asked_for(size: int) -> None:
    """A line named by its dim is counted once its size is known: kernels would read beyond it."""
    @pk.operator
    def three_first(x: T["M", "N"]):
        return pk.topk(x, 3)

    with pytest.raises(IRError, match=f"there are no 3 first ones in a dim of {size}"):
        three_first.program({"M": 4, "N": size})


@pytest.mark.quick
def test_no_elements_are_rolled_to_no_elements() -> None:
    @pk.operator
    def rolled(x: T["M", 0]):
        return pk.roll(x, -2)

    assert oracle.evaluate(rolled.program({"M": 4}), {"x": np.zeros((4, 0), np.float32)})["out"].shape == (4, 0)
