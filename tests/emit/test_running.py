"""Texts of the operators with running values and with one element of a row: a CUDA C++ and a Triton golden of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import portakern as pk
from portakern.emit.clike.alone import is_a_part
from portakern.emit.partials import only_joined
from portakern.ir.builder import Builder
from portakern.ir.core import Op
from portakern.ir.tile import Axis, For, Reduce
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.spec.operator import dynamic
from tests.lowering import lowered_for

pytestmark = pytest.mark.quick

CASES: dict[str, tuple[str, Mapping[str, Any], Mapping[str, Any], str]] = {
    "cumsum": ("cumsum", {"M": 64, "N": 8192}, {}, "f32"),
    "cumsum_long": ("cumsum", {"M": dynamic, "N": 100000}, {}, "bf16"),
    "cumsum_back": ("cumsum", {"M": 33, "N": 300}, {"reverse": True, "exclusive": True}, "bf16"),
    "linear_recurrence": ("linear_recurrence", {"B": 16, "T": 20000, "D": 1}, {}, "bf16"),
    "linear_recurrence_side_by_side": ("linear_recurrence", {"B": 4, "T": 512, "D": 1024}, {}, "bf16"),
    "cross_entropy": ("cross_entropy", {"M": 4096, "N": 32768}, {}, "f32"),
}


@pytest.mark.parametrize("target", ["cuda:sm_90a", "triton:sm_90"])
@pytest.mark.parametrize("name", CASES)
def test_text(name: str, target: str, golden: Callable[[str, str], None]) -> None:
    operator, dims, params, dtype = CASES[name]
    at = registry().target(target)
    program = load_operator(operator).program({d: n for d, n in dims.items() if n is not dynamic}, params, dtype)
    source = registry().language(at.language).emitter.emit(lowered_for(at, program), at)
    golden(f"{name}_{at.language}{source.suffix}", source.text)


def test_a_walk_alone_exchanges_nothing_in_its_loop() -> None:
    """Between the braces of the loop no word meets other threads; after it one word does."""
    at = registry().target("cuda:sm_90a")
    text = registry().language("cuda").emitter.emit(lowered_for(at, load_operator("cross_entropy").program(
        {"M": 8, "N": 70000}, {}, "f32")), at).text  # fmt: skip
    loop = text[text.index("for ("):text.index("struct Part")]
    assert "reduce_own" in loop
    assert "reduce_cols" not in loop
    assert text.count("pk::combine<") == 1


@pk.operator
def sum_over_ends(x: pk.Tensor["M", "N", "K"]):
    return pk.sum(x, axis=(0, 2))


def test_a_walk_over_two_axes_is_joined_once_behind_both_loops() -> None:
    """A thread that begins an inner loop with what the outer one has carried may not be joined with others that do so too."""
    at = registry().target("cuda:sm_90a")
    program = lowered_for(at, sum_over_ends.program({"M": 7, "N": 3, "K": dynamic}, {}, "f32"))
    text = registry().language("cuda").emitter.emit(program, at).text
    assert text.count("pk::combine<") == 1
    assert "reduce_own" in text[text.index("for (", text.index("for (") + 1):]
    inside, depth = text[text.index("for ("):text.index("pk::combine<")], 0
    for c in inside:
        depth += (c == "{") - (c == "}")
    assert depth == 0, "the join stands inside a loop"


def test_a_walk_whose_tiles_hold_all_of_another_axis_is_joined_once_too() -> None:
    at = registry().target("cuda:sm_90a")
    program = lowered_for(at, sum_over_ends.program({"M": 7, "N": 3, "K": 300}, {}, "f32"))
    text = registry().language("cuda").emitter.emit(program, at).text
    assert "pk::reduce_own<" in text and "pk::reduce_cols<" not in text and text.count("pk::combine<") == 1


@pk.operator
def masked_mean(x: pk.Tensor["P", "M", "N"], mask: pk.Tensor["M", "N"]):
    return pk.sum(x * mask) / pk.sum(pk.broadcast_to(mask, x.shape))


@pytest.mark.parametrize("target", ["cuda:sm_90a", "hip:gfx942", "cpp:cpu"])
def test_what_every_step_adds_whole_is_not_joined_over_the_threads(target: str) -> None:
    """The mask's sum is the same in every step of the walk along P: taken before the loop, it is whole in each thread."""
    at = registry().target(target)
    program = lowered_for(at, masked_mean.program({"P": 5, "M": 5, "N": 5}, {}, "f32"))
    text = registry().language(at.language).emitter.emit(program, at).text
    assert "pk::combine<" not in text and "reduce_own" not in text


@pytest.mark.parametrize(("fn", "how", "part"), [
    ("add", "reduced", True), ("add", "the same", False), ("add", "both", False), ("add", "scaled", True),
    ("mul", "reduced", True), ("mul", "the same", False), ("max", "the same", True), ("add", "kept", True),
])  # fmt: skip
def test_a_step_joins_a_part_where_all_that_it_joins_was_reduced_in_it(fn: str, how: str, part: bool) -> None:
    b = Builder((Axis("j", "loop", 5, 1), Axis("h", "whole", 300, 512)))
    x = b.full(2.0, "f32", b.dims("h"))
    before = b.add(Reduce("sum", x, "h"))

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        (total,) = carried
        row = b.add(Reduce("sum", b.binary("mul", x, x), "h"))
        new = {"reduced": row, "the same": before, "both": b.binary("add", row, before), "scaled": b.binary("mul", row, before),
               "kept": b.const(0.0, "f32")}[how]  # fmt: skip
        return (total if how == "kept" else b.binary(fn, total, new),)

    start = 1.0 if fn == "mul" else 0.0
    b.loop("j", [("total", b.const(start, "f32"))], step,
           combine=lambda one, two: (b.binary(fn, one[0], two[0]),))
    loop = next(op for op in b.ops if isinstance(op, For))
    assert is_a_part(loop.body, loop.combine) == part


@pytest.mark.parametrize("how", ["added", "squared first", "of the total so far", "added twice"])
def test_only_a_total_that_each_step_adds_a_part_to_can_be_in_parts(how: str) -> None:
    """The square of a row's sum is no sum of squares of its parts."""
    b = Builder((Axis("j", "loop", 5, 1), Axis("h", "whole", 300, 512)))
    x = b.full(2.0, "f32", b.dims("h"))

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        (total,) = carried
        row = b.add(Reduce("sum", b.binary("mul", x, b.fit(total, b.dims("h"))) if how == "of the total so far" else x, "h"))
        added = b.binary("add", total, b.binary("mul", row, row) if how == "squared first" else row)
        return (b.binary("add", added, row) if how == "added twice" else added,)

    b.loop("j", [("total", b.const(0.0, "f32"))], step)
    loop = next(op for op in b.ops if isinstance(op, For))
    reduce = next(op for op in loop.body.ops if isinstance(op, Reduce))
    assert only_joined(reduce, loop.body) == (0 if how == "added" else None)
