# pyright: reportUndefinedVariable=false, reportInvalidTypeForm=false, reportGeneralTypeIssues=false
"""Products of products that warpgroups make on Hopper: when they do, in which order, and that results are right."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import portakern as pk
from portakern.api import split
from portakern.errors import ScheduleError
from portakern.registry import registry
from portakern.study import steps
from portakern.study.work import Problem, Work, works

HOPPER = registry().target("cuda:sm_90a")
SIMULATOR = registry().language("cuda").simulator
assert SIMULATOR is not None
on_the_cpu = pytest.mark.skipif(not SIMULATOR.available(HOPPER), reason="needs a C++ compiler on x86-64 Linux")


@pk.operator
def gated(a: pk.Tensor["B", "M", "D"], b: pk.Tensor["B", "N", "D"], g: pk.Tensor["B", "N", "D"], c: pk.Tensor["B", "N", "E"]):
    """Two products that meet, and a third of what they make."""
    s, u = pk.einsum("bmd,bnd->bmn", a, b), pk.einsum("bmd,bnd->bmn", a, g)
    return pk.einsum("bmn,bne->bme", pk.silu(s) * u, c)


@pk.operator
def decayed(a: pk.Tensor["B", "M", "D"], b: pk.Tensor["B", "M", "D"], c: pk.Tensor["B", "M", "E"], w: pk.Tensor["B", "M"]):
    """A walk that ends at the diagonal."""
    i = pk.arange(a.shape[1])
    s = pk.where(i[:, None] >= i[None, :], pk.einsum("bmd,bnd->bmn", a, b) * w[:, None, :], 0)
    return pk.einsum("bmn,bne->bme", s, c)


@pk.operator
def turned(a: pk.Tensor["B", "D", "M"], b: pk.Tensor["B", "D", "N"], c: pk.Tensor["B", "E", "N"]):
    """All arrays lie the other way round, so the result goes through shared memory, which is the consumers' alone."""
    return pk.einsum("bmn,ben->bem", pk.tanh(pk.einsum("bdm,bdn->bmn", a, b)), c)


GRADIENT = pk.grad(pk.load_operator("attention"), wrt=["q", "k", "v"])
SHAPE = dict(B=1, H=1, G=2, SQ=256, SK=256, D=64, causal=True)


def asked(op: Any = GRADIENT, schedule: dict[str, Any] | None = None, dtype: str = "bf16", **values: Any) -> Work:
    dims, params = split(op, {**SHAPE, **values} if op is GRADIENT else values)
    (work,) = works(Problem(op, dims, params), [HOPPER], [dtype], schedule)
    return work


def text_of(op: Any = GRADIENT, **values: Any) -> str:
    return steps.emit(asked(op, **values))[0].text


# ---- when, and how ------------------------------------------------------------------------------------------------------


def test_text(golden: Callable[[str, str], None]) -> None:
    golden("chain.cu", text_of(B=4, H=8, SQ=4096, SK=4096))


def test_a_result_is_summed_as_soon_as_its_operand_is_there() -> None:
    """The gradient of the values needs the first product alone, so it is under way while that of the keys is prepared."""
    step = text_of().rpartition("for (int64_t sq0")[2]
    places = [step.index(x) for x in ("start_product", "pk::load<", "complete<1>", "start_dot(acc1", "start_dot(acc,")]
    assert places == sorted(places)
    assert step.index("complete<1>(v_d_out") > step.index("start_dot(acc1")


@pytest.mark.parametrize(
    "values",
    [
        dict(schedule=dict(mma="sync")),
        dict(schedule=dict(copies="threads")),
        dict(dtype="f32"),
        dict(D=36),  # rows do not begin at multiples of 16 bytes
    ],
    ids=str,
)
def test_otherwise_all_warps_load_and_multiply(values: dict[str, Any]) -> None:
    text = text_of(**{**dict(B=4, H=8), **values})
    assert "d_out_ring" not in text and "pk::dot(" in text


@pytest.mark.parametrize(
    ("schedule", "obstacle"),
    [
        (dict(m=32, n=64, warps=4), "4 warps do not hold 32 rows"),
        (dict(m=64, n=32, warps=4), "no multiples of 64"),
        (dict(m=32, n=64, warps=2), "one or two warpgroups"),
    ],
    ids=str,
)
def test_what_stands_in_the_way_is_said(schedule: dict[str, Any], obstacle: str) -> None:
    schedule = {"d": 64, "e": 64, "stages": 2, "copies": "engine", **schedule}
    with pytest.raises(ScheduleError, match=obstacle):
        text_of(gated, schedule=schedule, B=2, M=256, N=256, D=64, E=64)


# ---- on the CPU ---------------------------------------------------------------------------------------------------------


def error_of(work: Work, change: Callable[[str], str] = lambda text: text) -> str:
    made = steps.build(work)
    assert made.source is not None and "// The producer: one thread" in made.source.text
    row = steps.check(work, replace(made, source=replace(made.source, text=change(made.source.text))), full=False)
    assert row.error is not None or row.correct is not None
    return row.error["message"] if row.error else "" if row.correct else "wrong"


@on_the_cpu
@pytest.mark.parametrize(
    ("op", "values"),
    [
        (GRADIENT, dict(G=1, SQ=70, SK=136, D=40)),  # rows, keys and features that end inside a tile
        pytest.param(decayed, dict(B=1, M=136, D=128, E=64), marks=pytest.mark.slow),
        pytest.param(GRADIENT, dict(SQ=200, SK=136, D=72), marks=pytest.mark.slow),
        pytest.param(GRADIENT, dict(causal=False, dtype="f16"), marks=pytest.mark.slow),
        pytest.param(turned, dict(B=1, M=296, N=520, D=64, E=192), marks=pytest.mark.slow),
        pytest.param(gated, dict(B=1, M=130, N=257, D=40, E=72), marks=pytest.mark.slow),
        (turned, dict(B=1, M=200, N=264, D=48, E=80)),
        pytest.param(GRADIENT, dict(G=1, SQ=256, SK=200, D=128), marks=pytest.mark.slow),
        pytest.param(gated, dict(B=1, M=136, N=200, D=64, E=64, schedule=dict(m=128, n=64, warps=8)), marks=pytest.mark.slow),
    ],
    ids=lambda v: " ".join(f"{k}={x}" for k, x in v.items()) if isinstance(v, dict) else v.name,
)
def test_right(op: Any, values: dict[str, Any]) -> None:
    assert error_of(asked(op, **values)) == ""


def changed(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text, "the change changes nothing"
        return text.replace(old, new)

    return change


SMALL: dict[str, Any] = dict(B=1, M=128, N=512, D=64, E=64)


@on_the_cpu
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pk::complete<0>(a_b, a_g);", "", "nothing orders two accesses|wrong"),  # a product is read before it is complete
        ("c_ring.fetch(c_map, n0", "c_ring.fetch(c_map, n0 + 64", "wrong"),
        ("c_ring.release();", "", "threads wait for what never comes"),
        ("auto& c_slot = c_ring.next();", "auto& c_slot = c_ring.slots[0];", "nothing orders two accesses|wrong"),
    ],
)
def test_a_seeded_fault_shows(old: str, new: str, message: str) -> None:
    """In the result, as accesses that nothing orders, or as a wait without an end."""
    error = error_of(asked(gated, **SMALL), changed(old, new))
    assert any(x in error for x in message.split("|")), error


@pytest.mark.quick
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a", "cuda:sm_120"])
def test_what_is_no_fragment_goes_through_shared_memory_that_is_planned(target: str) -> None:
    """Computed operands of f32: in static shared memory of the library they met the end of 48 KB, which nobody counted."""
    built = pk.build("attention", target=target, dtype="f32", B=1, H=2, SQ=256, SK=256, D=64)
    operands = re.findall(r"pk::dot\(\w+, ([^,]+),", built.source)
    assert operands and all("_shared" in x for x in operands), operands
