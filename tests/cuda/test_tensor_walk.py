"""Attention by tcgen05: scores, weights and sums in tensor memory; right on the CPU, where misuse is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from portakern.api import split
from portakern.backend import Source
from portakern.dtypes import numpy_dtype
from portakern.errors import ScheduleError, SimulatorError
from portakern.ir.oracle import evaluate
from portakern.ir.program import Program
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.work import Problem, Work, works
from tests import samples
from tests.cuda import references
from tests.cuda.variants import scheduled
from tests.lower import paged_operators

CUDA = registry().language("cuda")
BLACKWELL = registry().target("cuda:sm_100a")
assert CUDA.toolchain is not None and CUDA.simulator is not None
SIMULATOR, TOOLCHAIN = CUDA.simulator, CUDA.toolchain
needs_host = pytest.mark.skipif(not SIMULATOR.available(BLACKWELL), reason="needs a C++ compiler on x86-64 Linux")
needs_nvrtc = pytest.mark.skipif(not TOOLCHAIN.available(BLACKWELL), reason="needs NVRTC")
SHAPE = dict(B=1, H=1, G=2, SQ=256, SK=256, D=64, causal=True)
LARGE: dict[str, Any] = dict(B=4, H=8, G=1, SQ=4096, SK=4096, D=128)


def slow(*values: object) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def asked(operator: str = "attention", schedule: dict[str, Any] | None = None, dtype: str = "bf16", **values: Any) -> Work:
    op = load_operator(operator)
    dims, params = split(op, {**SHAPE, **values} if operator == "attention" else values)
    (work,) = works(Problem(op, dims, params), [BLACKWELL], [dtype], schedule)
    return work


def text_of(**values: Any) -> str:
    return steps.emit(asked(**values))[0].text


def plan_of(**values: Any) -> str:
    return str(CUDA.emitter.plan(steps.lowered(asked(**values), BLACKWELL), BLACKWELL).kernels[0])  # type: ignore[attr-defined]


# ---- when, and how ------------------------------------------------------------------------------------------------------


@pytest.mark.quick
def test_text(golden: Callable[[str, str], None]) -> None:
    golden("tensor_walk.cu", text_of(**LARGE))
    golden("tensor_walk.plan", plan_of(**LARGE))


@pytest.mark.quick
def test_two_warpgroups_have_one_place_for_scores_and_one_alone_has_two() -> None:
    both, alone = plan_of(**LARGE), plan_of(SQ=300, SK=300, D=128)
    assert "one place for scores, and one for the sum, of each of 2 warpgroups" in both
    assert "2 places for scores, and one for the sum, of each of 1 warpgroups" in alone
    assert both.count("start sum += weights") == 3  # two walks, and the last sum


@pytest.mark.quick
def test_a_decoded_token_has_its_keys_brought_by_the_copy_engine() -> None:
    text = text_of(B=1, H=8, G=4, SQ=1, SK=8192, D=128, causal=False)
    assert "TensorWalk" in text and "attention_join" in text
    assert text.count("// there are keys to walk") == 3  # of producer, issuer and consumers


@pytest.mark.quick
@pytest.mark.parametrize(("values", "obstacle"), [
    (dict(D=33), "do not begin at multiples of 16 bytes"),
    (dict(schedule=dict(sq=64)), "4 warps do not hold 64 rows, 32 each"),
    (dict(schedule=dict(stages=1)), "not copied ahead"),
    (dict(D=256, schedule=dict(sk=64, d=256, d2=256, stores="threads")), "256 features have no room in registers"),
    (dict(D=128, schedule=dict(sq=256, sk=256, d=128, d2=128, warps=8)), "no room in (shared|tensor) memory"),
])  # fmt: skip
def test_what_stands_in_the_way_is_said(values: dict[str, Any], obstacle: str) -> None:
    schedule = dict(sq=128, sk=128, d=64, d2=64, warps=4, stages=2, mma="tcgen05") | values.pop("schedule", {})
    with pytest.raises(ScheduleError, match=obstacle):
        text_of(schedule=schedule, **values)


@pytest.mark.quick
def test_what_cannot_be_a_walk_is_done_by_warps() -> None:
    others: list[dict[str, Any]] = [dict(D=33), dict(dtype="f32"), dict(D=264), dict(schedule=dict(mma="sync"))]
    assert not any("TensorWalk" in text_of(**values) for values in others)


@needs_nvrtc
def test_compiles_to_its_instructions() -> None:
    binary = TOOLCHAIN.compile(steps.emit(asked(**LARGE))[0])
    assert binary.assembly is not None
    for word in ("mma", "st.sync.aligned.16x128b", "st.sync.aligned.16x256b", "ld.sync.aligned.16x256b", "wait::st", "commit"):
        assert f"tcgen05.{word}" in binary.assembly
    assert "kind::f16 [%r" in binary.assembly


# ---- right --------------------------------------------------------------------------------------------------------------


@needs_host
@pytest.mark.parametrize("values", [
    dict(SQ=300, SK=300, G=1, schedule=dict(sq=256, sk=128, warps=8)),
    dict(SQ=70, SK=200, D=40, causal=False, dtype="f16"),
    dict(operator="examples/attention_bias.py:attention_bias", B=1, H=1, S=140, D=64),
    dict(SQ=140, SK=150, D=256),  # the sum is taken in halves
    slow(dict(SQ=140, SK=300, D=192, causal=False)),
    slow(dict(SQ=300, SK=70, D=128, B=2)),  # rows beyond the last key see them all
    slow(dict(SQ=130, SK=130, D=128, causal=False, schedule=dict(sq=256, sk=64, warps=8, stores="threads"))),
    slow(dict(SQ=1, SK=700, D=128, G=4, causal=False)),  # keys in parts
], ids=str)  # fmt: skip
def test_right(values: dict[str, Any]) -> None:
    work = asked(**values)
    made = steps.build(work)
    assert made.source is not None and "TensorWalk" in made.source.text
    row = steps.check(work, made, full=False)
    assert row.error is None and row.correct and row.evidence == "interpreted"


@needs_host
def test_keys_in_pages_up_to_lengths() -> None:
    """Some entries of the tables name no page; parts of a sequence have no key."""
    dims = dict(B=3, H=2, G=3, D=64, P=12, page=16, N=8)
    schedule = dict(b=1, h=1, g=128, i=64, d2=64, j=64, stages=2, warps=4, mma="tcgen05", split_k=2)
    (work,) = works(Problem(paged_operators.of_pages, dims, {}), [BLACKWELL], ["bf16"], schedule)
    source, program = steps.emit(work)[0], paged_operators.of_pages.program(dims, {}, "bf16")
    assert "fetch_pages" in source.text and "TensorWalk" in source.text
    draw, bf16 = np.random.default_rng(1), numpy_dtype("bf16")
    arrays: dict[str, np.ndarray] = {
        "q": draw.normal(size=(3, 2, 3, 64)).astype(bf16),
        **{n: draw.normal(size=(12, 16, 2, 64)).astype(bf16) for n in "kv"},
        "table": draw.integers(0, 12, (3, 8)).astype(np.int32), "length": np.array([128, 1, 67], np.int32),
    }  # fmt: skip
    arrays["table"][0, 0], arrays["table"][1, -1] = -1, 12
    found = SIMULATOR.load(source, None).call([arrays[a.name] for a in source.by_role("input")], {})
    wanted = evaluate(program, arrays)["out"].astype(np.float32)
    np.testing.assert_allclose(np.asarray(found).astype(np.float32), wanted, atol=2e-2, rtol=2e-2)


# ---- misuse -------------------------------------------------------------------------------------------------------------


@cache
def several(warps: int) -> tuple[Program, Source]:
    """By two blocks of threads, each of which takes several blocks of rows; sums are scaled whenever a maximum grows."""
    of = samples.attention(1, 2, 2, queries=300, keys=300, tile=(32 * warps, 64))
    program = scheduled(of, warps, 2, mma="tcgen05", lag=0)  # type: ignore[arg-type]
    source = CUDA.emitter.emit(program, BLACKWELL)
    return program, replace(source, launches=tuple(replace(x, grid=(2, 1, 1)) for x in source.launches))


def error_of(program: Program, source: Source) -> float:
    """The error as a share of the tolerance, of both runs: products at the latest moment, and at once."""
    executable, found = SIMULATOR.load(source, None), []
    for _ in range(2):
        buffers = references.make_buffers(program)
        executable.run(buffers, references.SIZES)
        assert all(map(references.guards_intact, buffers.values())), "wrote outside an array"
        found.append(references.error_ratio(program, buffers))
    return float(np.max(found))  # NaN where one is


@needs_host
@pytest.mark.parametrize("warps", [4, slow(8)])
def test_blocks_of_rows_follow_each_other(warps: int) -> None:
    assert error_of(*several(warps)) <= 1


AFTER = "ptx::tcgen05_fence_after();"
SCORED = "ptx::barrier_wait(scored + barrier_of(steps), steps / Places & 1);"
WEIGHED = "ptx::barrier_wait(weighed + at, sums / Places & 1);"
SUMMED = "ptx::barrier_wait(summed + at, (steps / Places & 1) ^ 1);"
SCALED = "if (!ptx::any(changes)) return;\n        wait_for_sum();"
STORED = "ptx::tcgen05_wait_store();\n        ptx::tcgen05_fence_before();"
TOLD = "if (lane() == 0) ptx::barrier_arrive(weighed + barrier_of(steps));"
GIVEN = "ptx::tcgen05_commit(ring.empty + ring.slot);"
FAULTS: dict[str, tuple[str, str, str]] = {
    "scores are not waited for": ("before the barrier was waited for|before those who store to it have told", SCORED, ""),
    "no fence behind their barrier": ("no tcgen05.fence::after_thread_sync", f"{SCORED}\n        {AFTER}", SCORED),
    "weights are not waited for": ("reads what another one sums, which nothing orders", WEIGHED, ""),
    "stores are not waited for": ("a store is under way|never waited for", STORED, "ptx::tcgen05_fence_before();"),
    "scores come before the weights are read": ("may not have read yet", SUMMED, ""),
    "the sum is scaled while it is made": ("before the barrier was waited for|before those who store to it have told", SCALED,
                                           "if (!ptx::any(changes)) return;"),
}  # fmt: skip
MORE_FAULTS: dict[str, tuple[str, str, str]] = {
    "no fence behind the weights' barrier": ("no tcgen05.fence::after_thread_sync", f"{WEIGHED}\n        {AFTER}", WEIGHED),
    "no fence behind the stores": ("no tcgen05.fence::before_thread_sync", STORED, "ptx::tcgen05_wait_store();"),
    "it is told before the stores are over": ("a store is under way|never comes", STORED,
                                              f"{TOLD}\n        {STORED}"),
    "a slot is given back without a commit": ("nothing orders two accesses", GIVEN,
                                              GIVEN.replace("tcgen05_commit", "barrier_arrive")),
    "a slot is not given back": ("threads wait for what never comes", GIVEN, ""),
    "the producer leaves early": ("on their way to barriers", "(rings.drain(), ...);", ""),
    "weights in another warp's lanes": ("stores to lanes of tensor memory that it does not reach",
                                        "steps % Places) + (warp() % 4 << 21)", "steps % Places) + ((warp() + 1) % 4 << 21)"),
    "weights in columns of the sum": ("", "scores_at(group, place) + i / 2, right", "scores_at(group, place) + i, right"),
    "the sum begins at each step": ("", "keep || i > 0", "i > 0"),
    "the sum never begins": ("", "keep || i > 0", "true"),
    "the sum is not scaled": ("", "x[i] *= factor.v[i / 8];", ""),
    "rows of the other half": ("", "x[i] *= factor.v[i / 8];", "x[i] *= factor.v[i / 8 ^ 1];"),
    "no warp scales": ("", "if (!ptx::any(changes)) return;", "return;"),
    "the memory is not given back": ("not given back", "if (warp() == 0) ptx::tcgen05_dealloc<columns>(memory);", ""),
}  # fmt: skip


@needs_host
@pytest.mark.parametrize("warps", [4, slow(8)])
@pytest.mark.parametrize("fault", [*FAULTS, *map(slow, MORE_FAULTS)])
def test_a_fault_is_found(fault: str, warps: int) -> None:
    """By its name, or where nothing is misused, in the numbers."""
    told, old, new = {**FAULTS, **MORE_FAULTS}[fault]
    if warps == 8 and old == SCALED:
        return  # no fault there: the scores of this step, which were waited for, come behind that sum
    program, source = several(warps)
    text = dict(source.headers)["pk/tensor_walk.cuh"]
    assert old in text, f"the library does not say {old}"
    headers = {**dict(source.headers), "pk/tensor_walk.cuh": text.replace(old, new, 1)}
    changed = replace(source, headers=tuple(headers.items()))
    if told:
        with pytest.raises(SimulatorError, match=told):
            error_of(program, changed)
        return
    try:
        assert not error_of(program, changed) <= 1
    except SimulatorError as error:
        assert "tensor memory" in str(error) or "columns" in str(error)
