"""Attention as a walk of warpgroups on Hopper: when it is taken, its plan, and its text on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from portakern.api import split
from portakern.backend import Source
from portakern.errors import ScheduleError, SimulatorError
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.work import Problem, Work, works
from tests.cuda import references
from tests.cuda.variants import all_variants

CUDA = registry().language("cuda")
HOPPER = registry().target("cuda:sm_90a")
assert CUDA.simulator is not None
SIMULATOR = CUDA.simulator
on_the_cpu = pytest.mark.skipif(not SIMULATOR.available(HOPPER), reason="needs a C++ compiler on x86-64 Linux")
SHAPE = dict(B=1, H=1, G=2, SQ=256, SK=256, D=64, causal=True)


def asked(operator: str = "attention", schedule: dict[str, Any] | None = None, dtype: str = "bf16", **values: Any) -> Work:
    op = load_operator(operator)
    dims, params = split(op, {**SHAPE, **values} if operator == "attention" else values)
    (work,) = works(Problem(op, dims, params), [HOPPER], [dtype], schedule)
    return work


def text_of(**values: Any) -> str:
    return steps.emit(asked(**values))[0].text


def plan_of(schedule: dict[str, Any] | None = None, **values: Any) -> str:
    work = asked(schedule=schedule, **values)
    return str(CUDA.emitter.plan(steps.lowered(work, HOPPER), HOPPER).kernels[0])  # type: ignore[attr-defined]


# ---- when, and how ------------------------------------------------------------------------------------------------------


def test_the_plan_says_what_each_role_does() -> None:
    plan = plan_of(SQ=4096, SK=4096, H=32, D=128)
    assert "blocks 132, each for one block of rows after the other: 32 in each of 64 heads" in plan
    assert "the last rows first" in plan and "block: the first step" in plan
    assert plan.partition("consumers, for")[2].count("loop sk0 from") == 1  # the first part has one step
    assert "ring k_ring: 2 slots, from k at (sk0, 0, h) by boxes of 1 x 128 x 64" in plan


def test_steps_with_and_without_the_mask_use_the_same_names() -> None:
    text = text_of()
    for word in ("new_top", "exp2_top", "row_sum"):
        assert text.count(f"auto {word} = ") == 2, word


def test_without_a_mask_the_order_is_that_of_memory() -> None:
    plan = plan_of(causal=False)
    assert "the first rows first" in plan
    assert plan.count("loop sk0 from 64 below") == 1  # behind the first step, which stands alone


def test_heads_that_share_keys_are_taken_together() -> None:
    shared, alone = (plan_of(SQ=4096, SK=65536, D=128, H=8, G=g, causal=False) for g in (8, 1))
    assert "8 heads at a time" in shared
    assert "1 heads at a time" in alone


@pytest.mark.parametrize(
    ("values", "obstacle"),
    [
        (dict(D=33), "do not begin at multiples of 16 bytes"),
        (dict(schedule=dict(sq=32, warps=4)), "do not hold 32 rows"),
        (dict(schedule=dict(stages=1)), "not copied ahead"),
    ],
)
def test_what_stands_in_the_way_is_said(values: dict[str, Any], obstacle: str) -> None:
    schedule = dict(sq=64, sk=64, d=64, d2=64, warps=4, stages=2, copies="engine") | values.pop("schedule", {})
    with pytest.raises(ScheduleError, match=obstacle):
        text_of(schedule=schedule, **values)


def test_what_cannot_be_a_walk_is_done_by_threads() -> None:
    assert "pk::Ring" not in text_of(D=33)
    assert "pk::Ring" not in text_of(dtype="f32")
    assert "pk::Ring" not in text_of(schedule=dict(mma="sync"))


@pytest.mark.parametrize("features", [136, 192])
def test_it_compiles_for_any_features(features: int) -> None:
    """No form of a product of registers has 192 columns, which products of shared memory have."""
    made = steps.build(asked(H=32, SQ=1024, SK=1024, D=features))
    assert made.source is not None and "pk::Ring" in made.source.text
    assert made.row.error is None and made.row.resources and made.row.resources["spills"] == 0


# ---- on the CPU -----------------------------------------------------------------------------------------------------------


@on_the_cpu
@pytest.mark.parametrize(
    "values",
    [
        dict(),
        pytest.param(dict(SQ=200, SK=70), marks=pytest.mark.slow),  # rows beyond the last key see them all
        pytest.param(dict(SQ=70, SK=200, D=40), marks=pytest.mark.slow),
        dict(SQ=300, D=128, schedule=dict(sq=128, sk=64, warps=8)),  # several masked steps
        dict(causal=False, SK=200, dtype="f16", schedule=dict(sq=128, warps=8, stores="threads")),
        dict(operator="examples/attention_bias.py:attention_bias", B=1, H=2, S=150, D=64),
    ],
    ids=lambda v: " ".join(f"{k}={x}" for k, x in v.items()),
)
def test_right(values: dict[str, Any]) -> None:
    work = asked(**values)
    made = steps.build(work)
    assert made.source is not None and "pk::Ring" in made.source.text
    row = steps.check(work, made, full=False)
    assert row.error is None and row.correct


def error_of(change: Callable[[str], str]) -> float:
    """As a share of the tolerance, with so few blocks of threads that each takes several blocks of rows."""
    program = all_variants()["walk"]
    source: Source = CUDA.emitter.emit(program, HOPPER)
    launches = tuple(replace(x, grid=(3, 1, 1)) for x in source.launches)
    executable = SIMULATOR.load(replace(source, text=change(source.text), launches=launches), None)
    worst = 0.0
    for _ in range(2):
        buffers = references.make_buffers(program)
        executable.run(buffers, references.SIZES)
        ratio = references.error_ratio(program, buffers)
        worst = ratio if ratio != ratio else max(worst, ratio)
        if not worst <= 1:
            break
    return worst


@on_the_cpu
def test_blocks_of_rows_follow_each_other() -> None:
    assert error_of(lambda text: text) <= 1


def changed(text: str, old: str, new: str) -> str:
    assert old in text, "the change changes nothing"
    return text.replace(old, new)


@on_the_cpu
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pk::complete<1>(scores);\n", "\n"),  # scores are read before they are complete
        ("pk::complete<0>(acc, weights);\n                v_ring", "v_ring"),  # weights are written while they are read
        ("k_ring.fetch(k_map, n0", "k_ring.fetch(k_map, n0 + 64"),
        ("outbox.finish();", ""),
    ],
)
def test_a_seeded_fault_shows(old: str, new: str) -> None:
    """In the result, or as accesses that nothing orders."""
    try:
        assert not error_of(lambda text: changed(text, old, new)) <= 1
    except SimulatorError as error:
        assert "nothing orders two accesses" in str(error)


@on_the_cpu
@pytest.mark.parametrize("word", ["turns.pass();", "v_ring.release();", "q_ring.release();"])
def test_what_is_not_given_back_is_waited_for(word: str) -> None:
    with pytest.raises(SimulatorError, match="threads wait for what never comes"):
        error_of(lambda text: changed(text, word, ""))
