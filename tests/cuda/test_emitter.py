"""Emitted CUDA C++: golden texts, the headers that go with them, and what is refused before any text is made."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from portakern.backend import Target
from portakern.backends.cuda.emitter import HOME, library
from portakern.emit.clike import reached
from portakern.errors import MissingRuleError, ScheduleError
from portakern.ir import tile as t
from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block
from portakern.ir.functions import BINARY, UNARY
from portakern.ir.program import Array, Program
from portakern.ir.schedule import Schedule
from portakern.registry import registry
from tests import samples
from tests.cuda.variants import all_variants, scheduled

pytestmark = pytest.mark.quick

CUDA = registry().language("cuda")
HOPPER = registry().target("cuda:sm_90a")
GOLDEN = ("add_bias", "softmax_row", "softmax_long_open", "matmul_deep", "matmul_f32_large", "matmul_f32_thirds",
          "matmul_f32_by_unit", "wgmma", "pipeline", "pipeline_batched", "narrow", "few_rows", "attention_registers", "walk",
          "transpose")  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_text(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.cu", CUDA.emitter.emit(all_variants()[name], HOPPER).text)


def test_only_the_headers_in_use_go_with_a_source() -> None:
    names = dict(CUDA.emitter.emit(all_variants()["add_bias"], HOPPER).headers)
    assert "pk/memory.cuh" in names
    assert "pk/dot.cuh" not in names and "pk/reduce.cuh" not in names


def test_a_word_has_its_header_wherever_it_is_printed() -> None:
    for word, header in HOME.items():
        found = reached([f"pk/{header}.cuh"], library())
        assert word in {*UNARY, *BINARY} or any(re.search(rf"\b{word}\b", text) for _, text in found), word
    seen: set[str] = set()
    for name, program in all_variants().items():
        text = CUDA.emitter.emit(program, HOPPER).text
        words = {x for x in re.findall(r"\bpk::(\w+)", text) if x in HOME}
        assert {f"pk/{HOME[x]}.cuh" for x in words} == set(re.findall(r'#include "(.*)"', text)), name
        seen |= words
    # Of none of the samples, on Hopper:
    unused = {"ahead", "atomic", "gather", "pixels", "scan", "scan_by", "shifted", "sort", "tensor_memory", "tensor_walk"}
    assert {HOME[x] for x in seen} == set(HOME.values()) - unused


@pytest.mark.parametrize("name", ["add_bias", "attention"])
def test_standalone_includes_nothing_of_ours(name: str) -> None:
    source = CUDA.emitter.emit(all_variants()[name], HOPPER)
    text = CUDA.emitter.standalone(source)
    assert '#include "' not in text and "#pragma once" not in text
    assert all(text.count(f"// ---- {header} ----") == 1 for header, _ in source.headers)


def test_operands_beyond_static_shared_memory_are_dynamic() -> None:
    small, large = (CUDA.emitter.emit(all_variants()[n], HOPPER) for n in ("matmul_bias", "matmul_deep"))
    assert small.launches[0].shared_bytes == 0 and "extern __shared__" not in small.text
    assert large.launches[0].shared_bytes == 3 * 2 * (128 * 64 + 64 * 128) and "extern __shared__" in large.text


def test_every_launch_can_be_read_back() -> None:
    for program in all_variants().values():
        source = CUDA.emitter.emit(program, HOPPER)
        assert CUDA.adopt is not None
        assert CUDA.adopt(source.text, None, program, HOPPER).launches == source.launches


def _product(dtype: str, precision: str, accumulator: str = "f32") -> Program:
    axes = (t.Axis("m", "whole", 16, 16), t.Axis("n", "whole", 16, 16), t.Axis("k", "whole", 16, 16))
    args = tuple(Arg(x, t.BufferType((16, 16), d)) for x, d in (("a", dtype), ("b", dtype), ("c", accumulator)))
    b = Builder(axes)
    left, right = b.load(args[0], ["m", "k"], pad=0), b.load(args[1], ["k", "n"], pad=0)
    b.store(b.add(t.Dot(left, right, b.full(0, accumulator, b.dims("m", "n")), "k", precision)), args[2], ["m", "n"])
    kernel = t.Kernel("product", Block(args, b.ops), "contraction", axes, Schedule((), warps=1))
    arrays = tuple(Array(a.name, t.buffer_type(a), "output" if a.name == "c" else "input") for a in args)
    return Program("product", arrays, (kernel,))


def test_what_has_no_rule_is_named_at_once() -> None:
    def missing(program: Program, target: Target = HOPPER) -> str:
        return "; ".join(f"{m.what} -> {m.alternative}" for m in CUDA.emitter.missing(program, target))

    assert not missing(_product("bf16", "ieee")) and not missing(_product("f32", "tf32"))
    assert missing(_product("f32", "bf16x3")) == "the precision bf16x3 of f32 operands -> ieee"
    assert missing(_product("i16", "ieee", "i32")) == "a matrix product of i16 -> bf16, f16 or i8"
    assert "with 3 warps" in missing(scheduled(all_variants()["softmax"], 3))
    both = replace(_product("i16", "ieee", "i32"), kernels=(scheduled(_product("i16", "ieee", "i32"), 3).kernels))
    with pytest.raises(MissingRuleError, match="cannot be emitted") as caught:
        CUDA.emitter.emit(both, HOPPER)
    assert len(caught.value.missing) == 2


def test_the_plan_says_which_instructions_do_the_products() -> None:
    def products(name: str, target: Target = HOPPER) -> str:
        lines = str(CUDA.emitter.plan(all_variants()[name], target)).splitlines()
        return next((x.strip() for x in lines if "products by" in x), "")

    assert products("wgmma").startswith("products by wgmma.m64nNk16")
    assert products("matmul_deep").startswith("products by mma.sync.m16n8k16")
    assert products("matmul_f32_large").startswith("products by fused multiply-adds")
    assert products("matmul_f32_thirds").startswith("products by six mma.sync.m16n8k16")
    assert products("matmul_f32_by_unit").startswith("products by six wgmma.m64nNk16")
    assert products("softmax") == ""
    with pytest.raises(ScheduleError, match="sm_80 does not have it"):
        products("wgmma", registry().target("cuda:sm_80"))
    with pytest.raises(ScheduleError, match="4 warps do not hold 32 rows"):
        CUDA.emitter.emit(scheduled(all_variants()["attention"], 4, 2, mma="wgmma"), HOPPER)


def _pipeline(tile: tuple[int, int, int] = (128, 128, 64), size: tuple[int, int, int] = (256, 256, 256), warps: int = 8,
              **options: str) -> Program:
    return scheduled(samples.matmul_bias(*size, "bf16", tile), warps, 2, **{"copies": "engine", **options})


def test_the_plan_of_a_pipeline_says_who_does_what(golden: Callable[[str, str], None]) -> None:
    golden("pipeline.plan", str(CUDA.emitter.plan(all_variants()["pipeline"], HOPPER)))


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (_pipeline(size=(256, 250, 256)), "rows of w do not begin at multiples of 16 bytes"),
        (_pipeline(size=(256, 256, 100)), "rows of a do not begin at multiples of 16 bytes"),
        (_pipeline(tile=(32, 128, 64), warps=4), "its products are not wgmma's"),
        (_pipeline(cluster="3x1"), "cannot run in clusters of 3x1"),
        (_pipeline(size=(128, 256, 256), cluster="2x1"), "cannot run in clusters of 2x1"),
        (_pipeline(size=(256, 250, 256), copies="auto", mma="sync"), ""),
        (_pipeline(size=(256, 250, 256), copies="auto"), ""),
    ],
)
def test_what_the_copy_engine_cannot_do_is_said_or_left_to_the_threads(program: Program, why: str) -> None:
    if not why:
        assert not CUDA.emitter.emit(program, HOPPER).launches[0].maps
        return
    with pytest.raises(ScheduleError, match=why):
        CUDA.emitter.emit(program, HOPPER)


def test_the_copy_engine_is_hoppers() -> None:
    with pytest.raises(ScheduleError, match="its products are not wgmma's"):
        CUDA.emitter.emit(_pipeline(), registry().target("cuda:sm_80"))
    assert not CUDA.emitter.emit(_pipeline(copies="auto"), registry().target("cuda:sm_80")).launches[0].maps
    assert "the option copies=both" in CUDA.emitter.missing(_pipeline(copies="both"), HOPPER)[0].what


def test_a_result_that_the_engine_cannot_write_is_stored_by_the_threads() -> None:
    source = CUDA.emitter.emit(_pipeline(stores="threads"), HOPPER)
    assert [m.array for m in source.launches[0].maps] == ["a", "w"] and "pk::Outbox" not in source.text
    full = CUDA.emitter.emit(_pipeline(), HOPPER)
    assert [m.array for m in full.launches[0].maps] == ["a", "w", "c"] and "pk::store" not in full.text


def test_misaligned_rows_are_shared_in_pairs() -> None:
    assert CUDA.emitter.emit(_pipeline(), HOPPER).launches[0].cluster == (1, 1, 1)
    assert CUDA.emitter.emit(_pipeline(size=(256, 264, 264)), HOPPER).launches[0].cluster == (2, 1, 1)


def test_persistent_blocks_are_as_many_as_run_at_once() -> None:
    few, many = (CUDA.emitter.emit(_pipeline(size=(n, n, 64)), HOPPER).launches[0].grid[0] for n in (256, 4096))
    assert (few, many) == (4, 132)


def test_aligned_accesses_need_aligned_facts() -> None:
    def aligned(name: str) -> int:
        return CUDA.emitter.emit(all_variants()[name], HOPPER).text.count("pk::Aligned")

    assert aligned("add_bias") == 3 and aligned("add_bias_open") == 3
    assert aligned("add_bias_unaligned") == 0  # rows of 1001 elements of 2 bytes
    assert aligned("softmax_long_open") == 0  # rows of N elements


def test_tf32_is_used_only_where_it_is_asked_for() -> None:
    assert "pk::tf32" in CUDA.emitter.emit(_product("f32", "tf32"), HOPPER).text
    assert "pk::tf32" not in CUDA.emitter.emit(_product("f32", "ieee"), HOPPER).text


@pytest.mark.parametrize("isa", ["sm_100a", "sm_120"])
def test_a_source_that_never_ran_says_so(isa: str) -> None:
    target = registry().target(f"cuda:{isa}")
    assert "run on no silicon" in CUDA.emitter.emit(all_variants()["softmax"], target).text
    assert "silicon" not in CUDA.emitter.emit(all_variants()["softmax"], HOPPER).text


@pytest.mark.parametrize(("keep", "loads", "stores"), [("none", 0, 0), ("loads", 1, 0), ("stores", 0, 1)])
def test_what_stays_in_cache_is_said_of_aligned_accesses(keep: str, loads: int, stores: int) -> None:
    text = CUDA.emitter.emit(scheduled(samples.softmax(cols=4000, tile=(1, 4096)), 8, keep=keep), HOPPER).text
    assert text.count("pk::load<Tile, pk::Kept>") == loads and text.count("pk::store<pk::Kept>") == stores
    unaligned = CUDA.emitter.emit(scheduled(samples.softmax(cols=4001, tile=(1, 4096)), 8, keep=keep), HOPPER).text
    assert "pk::Kept" not in unaligned


def test_blocks_that_an_sm_must_hold_are_told_to_the_compiler() -> None:
    text = CUDA.emitter.emit(scheduled(samples.softmax(cols=4000, tile=(1, 4096)), 8, blocks=4), HOPPER).text  # type: ignore[arg-type]
    assert "__launch_bounds__(256, 4)" in text


def test_lines_to_keep_are_loads_stores_or_none() -> None:
    with pytest.raises(MissingRuleError) as caught:
        CUDA.emitter.emit(scheduled(all_variants()["softmax_row"], 4, keep="all"), HOPPER)
    assert "none, loads, stores" in str(caught.value.missing)
