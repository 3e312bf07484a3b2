"""Few queries on Hopper: the copy engine brings their keys, all of them, in parts, up to lengths, and page by page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from portakern.backend import Source
from portakern.dtypes import numpy_dtype
from portakern.errors import ScheduleError
from portakern.ir.oracle import evaluate
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.work import Problem, works
from tests.lower import paged_operators

CUDA = registry().language("cuda")
HOPPER = registry().target("cuda:sm_90a")
assert CUDA.simulator is not None
SIMULATOR = CUDA.simulator
on_the_cpu = pytest.mark.skipif(not SIMULATOR.available(HOPPER), reason="needs a C++ compiler on x86-64 Linux")
TILES = dict(b=1, h=1, g=64, i=64, d2=64, j=64, stages=2, warps=4, mma="wgmma")
SIZES = dict(B=3, H=2, G=3, D=64, P=12, page=16, N=8)


def source_of(operator: Any, schedule: dict[str, Any] | None = None, **dims: int) -> Source:
    op = load_operator(operator) if isinstance(operator, str) else operator
    (work,) = works(Problem(op, dims, {}), [HOPPER], ["bf16"], schedule)
    return steps.emit(work)[0]


def paged(schedule: dict[str, Any] | None = None, **dims: int) -> Source:
    return source_of(paged_operators.of_pages, schedule, **{**SIZES, **dims})


# ---- when, and how ------------------------------------------------------------------------------------------------------


def decoding(**dims: int) -> str:
    return source_of("attention", None, **{**dict(B=1, H=8, G=4, SQ=1, SK=8192, D=128), **dims}).text


@pytest.mark.quick
def test_one_token_has_its_keys_brought_by_the_copy_engine() -> None:
    text = decoding(B=32)
    assert "k_ring.fetch(k_map, sk0, 0, h, b);" in text and "attention_join" not in text
    assert "there are keys to walk" not in text  # there always are


@pytest.mark.quick
def test_few_heads_are_cut_into_parts_that_may_be_empty() -> None:
    text = decoding()
    assert "attention_join" in text and text.count("// there are keys to walk") == 2  # of the producer and of the consumers
    assert "blocks(1, 128)" in text  # as many as units take at once


@pytest.mark.quick
def test_pages_are_fetched_by_a_warp_and_the_queries_by_one_of_it() -> None:
    text = paged(TILES).text
    assert "pk::page_table<16>(table + b * 8, 8, 1, 12), i0, 0, h);" in text
    assert "if (pk::lane() == 0) q_ring.fetch(" in text and "one warp fetches" in text
    assert "box=(1, 1, 16, 64)" in text


@pytest.mark.quick
@pytest.mark.parametrize(("dims", "why"), [
    (dict(page=12, N=16), "pages of 12 rows are no parts of tiles of 64"), (dict(page=4, N=32), "pages of 4 rows"),
])  # fmt: skip
def test_pages_that_are_no_parts_of_tiles_go_by_threads(dims: dict[str, int], why: str) -> None:
    with pytest.raises(ScheduleError, match=why):
        paged(TILES, **dims)
    assert "pk::Ring" not in paged(None, **dims).text


# ---- on the CPU -----------------------------------------------------------------------------------------------------------


def expected_and_found(source: Source, seed: int, lengths: list[int], **dims: int) -> tuple[np.ndarray, np.ndarray]:
    """On tables some of whose entries name no page."""
    draw = np.random.default_rng(seed)
    program = paged_operators.of_pages.program(dims, {}, "bf16")
    bf16 = numpy_dtype("bf16")
    arrays: dict[str, np.ndarray] = {
        "q": draw.normal(size=(dims["B"], dims["H"], dims["G"], dims["D"])).astype(bf16),
        **{n: draw.normal(size=(dims["P"], dims["page"], dims["H"], dims["D"])).astype(bf16) for n in "kv"},
        "table": draw.integers(0, dims["P"], (dims["B"], dims["N"])).astype(np.int32),
        "length": np.array(lengths, np.int32),
    }
    arrays["table"][0, 0], arrays["table"][1, -1] = -1, dims["P"]
    found = SIMULATOR.load(source, None).call([arrays[a.name] for a in source.by_role("input")], {})
    return evaluate(program, arrays)["out"].astype(np.float32), np.asarray(found).astype(np.float32)


@on_the_cpu
@pytest.mark.parametrize(("dims", "more"), [
    pytest.param({}, {}, marks=pytest.mark.slow), (dict(page=64, N=2), dict(split_k=2)),
    pytest.param(dict(page=128, N=3, P=5), dict(split_k=5, i=64), marks=pytest.mark.slow),
])  # fmt: skip
def test_right_for_any_table_and_length(dims: dict[str, int], more: dict[str, int]) -> None:
    sizes = {**SIZES, **dims}
    keys = sizes["page"] * sizes["N"]
    wanted, found = expected_and_found(paged({**TILES, **more}, **dims), 7, [keys, 1, keys // 2 + 3], **sizes)
    np.testing.assert_allclose(found, wanted, atol=2e-2, rtol=2e-2)


@pytest.mark.slow
@on_the_cpu
def test_a_page_that_is_taken_for_its_neighbour_is_seen() -> None:
    source = paged(TILES)
    text = source.text.replace("pk::page_table<16>(table + b * 8,", "pk::page_table<16>(table + 1 + b * 8,")
    assert text != source.text
    wanted, found = expected_and_found(replace(source, text=text), 7, [128, 1, 67], **SIZES)
    assert not np.allclose(found, wanted, atol=2e-2, rtol=2e-2)
