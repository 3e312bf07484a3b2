"""The plan of the C family: golden listings, and what they must say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from portakern.emit.clike import Dialect, build_plan
from portakern.emit.clike import plan as p
from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block
from portakern.ir.program import Array, Program, verify_program
from portakern.ir.schedule import Schedule
from portakern.ir.tile import Axis, BufferType, Dot, Kernel, Reduce
from tests import samples

pytestmark = pytest.mark.quick

GPU = Dialect("a GPU")
REGISTERS = Dialect("a GPU", register_operands=frozenset({("A", "accumulator")}))
NAMES = ("add_bias", "transpose", "softmax", "softmax_row", "softmax_long_open", "matmul_bias", "attention", "column_sums")


@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.plan", str(build_plan(samples.all_samples()[name], GPU)))


def statements(body: tuple[p.Statement, ...]) -> Iterator[p.Statement]:
    for s in body:
        yield s
        if isinstance(s, p.Loop):
            yield from statements(s.body)


def of(plan: p.ProgramPlan, kind: type) -> list:
    return [s for k in plan.kernels for s in statements(k.body) if isinstance(s, kind)]


def test_operands_are_staged_once_and_pipelined() -> None:
    plan = build_plan(samples.matmul_bias(), GPU)
    (loop,) = of(plan, p.Loop)
    assert loop.pipeline is not None and loop.pipeline.slots == 2
    assert [c.shared.name for c in loop.pipeline.copies] == ["a_shared", "w_shared"]
    assert [type(s) for s in loop.body] == [p.Dot]


def test_one_stage_means_no_pipeline() -> None:
    program = samples.matmul_bias()
    (kernel,) = program.kernels
    single = replace(program, kernels=(replace(kernel, schedule=replace(kernel.schedule, stages=1)),))
    (loop,) = of(build_plan(single, GPU), p.Loop)
    assert loop.pipeline is None
    assert [type(s) for s in loop.body] == [p.Scalar, p.Sync, p.CopyToShared, p.CopyToShared, p.Commit, p.Wait, p.Sync, p.Dot]


def test_probabilities_may_stay_in_registers() -> None:
    shared = build_plan(samples.attention(), GPU)
    registers = build_plan(samples.attention(), REGISTERS)
    assert len(of(shared, p.StoreToShared)) == 1 and not of(registers, p.StoreToShared)
    assert [d.a.shared is None for d in of(registers, p.Dot)] == [False, True]


def test_statistics_move_between_accumulators_only_where_layouts_differ() -> None:
    moved = [s for s in of(build_plan(samples.attention(), GPU), p.Relayout) if s.word == "relayout"]
    assert {str(s.place) for s in moved} == {"row of AccMD"}
    plain = replace(GPU, plain_vectors=True)
    assert not [s for s in of(build_plan(samples.attention(), plain), p.Relayout) if s.word == "relayout"]


def test_bounds_only_where_a_tile_may_reach_out() -> None:
    aligned = build_plan(samples.add_bias(64, 2048), GPU)
    assert all(not s.access.left for s in [*of(aligned, p.LoadTile), *of(aligned, p.StoreTile)])
    ragged = build_plan(samples.add_bias(37, 1000), GPU)
    assert all(s.access.left for s in [*of(ragged, p.LoadTile), *of(ragged, p.StoreTile)])


def test_an_elementwise_region_is_one_map() -> None:
    assert len(of(build_plan(samples.add_bias(), GPU), p.Map)) == 1


def test_a_swap_of_carried_values_goes_through_copies() -> None:
    axes = (Axis("m", "grid", 8, 8), Axis("n", "loop", 64, 16))
    x, y = Arg("x", BufferType((8, 64), "f32")), Arg("y", BufferType((8,), "f32"))
    b = Builder(axes)

    def step(carried):  # a, b = b, a + sum
        first, second = carried
        return second, b.binary("add", first, b.add(Reduce("sum", b.load(x, ["m", "n"]), "n")))

    rows = b.dims("m")
    first, _ = b.loop("n", [("first", b.full(0.0, "f32", rows)), ("second", b.full(1.0, "f32", rows))], step)
    b.store(first, y, ["m"])
    kernel = Kernel("swap", Block((x, y), b.ops), "rows", axes, Schedule((("m", 8), ("n", 16))))
    program = Program("swap", (Array("x", x.of, "input"), Array("y", y.of, "output")), (kernel,))  # type: ignore[arg-type]
    verify_program(program)
    (loop,) = of(build_plan(program, GPU), p.Loop)
    tail = [str(s) for s in loop.body if isinstance(s, p.Relayout | p.Assign)]
    assert tail == ["first = second", "second = new_second"] or tail[0].startswith("old_"), tail


def _two_products(first: str, second: str) -> Program:
    """The sum of a product of ``first`` and one of ``second``, each over a dim that is one tile."""
    axes = (Axis("m", "grid", 16, 16), Axis("n", "grid", 16, 16), Axis("k", "loop", 16, 16))
    dtypes = {"a": first, "b": first, "c": second, "d": second}
    arrays = [Arg(name, BufferType((16, 16), dtype)) for name, dtype in dtypes.items()]
    y = Arg("y", BufferType((16, 16), "f32"))
    b = Builder(axes)

    def step(carried):
        a, w, c, d = (b.load(x, ["m" if x.name in "ac" else "n", "k"]) for x in arrays)
        sums = [b.add(Dot(left, right, b.full(0.0, of, b.dims("m", "n")), "k")) for left, right, of in
                ((a, w, "f64" if first == "f64" else "f32"), (c, d, "f64" if second == "f64" else "f32"))]
        one, other = (b.cast(x, "f32") for x in sums)
        return [b.binary("add", carried[0], b.binary("mul", one, other))]

    (total,) = b.loop("k", [("total", b.full(0.0, "f32", b.dims("m", "n")))], step)
    b.store(total, y, ["m", "n"])
    kernel = Kernel("two", Block((*arrays, y), b.ops), "contraction", axes, Schedule((("m", 16), ("n", 16), ("k", 16))))
    given = (Array(x.name, BufferType((16, 16), of), "input") for x, of in zip(arrays, dtypes.values(), strict=True))
    program = Program("two", (*given, Array("y", BufferType((16, 16), "f32"), "output")), (kernel,))
    verify_program(program)
    return program


@pytest.mark.parametrize("dtypes", [("f32", "bf16"), ("bf16", "f32")])
def test_products_that_meet_lie_as_the_matrix_unit_of_the_narrower_one_writes(dtypes: tuple[str, str]) -> None:
    plan = build_plan(_two_products(*dtypes), GPU)
    assert {d.place.layout.element for d in of(plan, p.Dot)} == {"bf16"}
    assert not of(plan, p.Relayout)


@pytest.mark.parametrize("dtypes", [("f32", "f64"), ("f64", "f32")])
def test_products_whose_units_differ_in_their_order_lie_apart(dtypes: tuple[str, str]) -> None:
    program = _two_products(*dtypes)
    together, apart = build_plan(program, GPU), build_plan(program, replace(GPU, apart=frozenset({"f64"})))
    assert {d.place.layout.element for d in of(together, p.Dot)} == {"f32"}
    assert [d.place.layout.element for d in of(apart, p.Dot)] == list(dtypes)
    assert [s.word for s in of(apart, p.Relayout)] == ["relayout"]
