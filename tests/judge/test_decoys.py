"""Who launches kernels and lets host code do the work is called a decoy; who lets kernels do it is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import portakern as pk
from portakern.study.row import Row
from tests.judge import decoys
from tests.judge.decoys import Host

LANGUAGES = (
    ("triton:sm_90", decoys.TRITON_DECOYS, decoys.TRITON_LEGAL),
    ("numba:cpu", decoys.NUMBA_DECOYS, decoys.NUMBA_LEGAL),
    ("cpp:cpu", decoys.CPP_DECOYS, decoys.CPP_LEGAL),
    ("pallas:v6e", decoys.PALLAS_DECOYS, decoys.PALLAS_LEGAL),
)
NEEDS = {"triton:sm_90": ("triton", "torch"), "pallas:v6e": ("jax", "libtpu")}


def judged(target: str, hosts: Sequence[Host]) -> dict[str, Row]:
    """Rows by name; ``quick`` is enough, since every level looks at who does the work in the same way."""
    for module in NEEDS.get(target, ()):
        pytest.importorskip(module)
    found: dict[str, Row] = {}
    for operator, dims in {(h.operator, tuple(h.dims.items())) for h in hosts}:
        same = [h for h in hosts if h.operator == operator]
        work = pk.task(operator, target, dtype="f32", **dict[str, int](dims))
        with pk.judge(work, workers=1, level="quick") as judge:
            found |= dict(zip([h.name for h in same], judge.map([h.text for h in same]), strict=True))
    return found


def each(which: int):
    """The quick ones of each language, and the slow ones."""
    return [pytest.param(target, [h for h in found[which] if h.slow == slow], id=f"{target}-{'slow' if slow else 'quick'}",
                         marks=[pytest.mark.slow] if slow else [])
            for target, *found in LANGUAGES for slow in (False, True) if any(h.slow == slow for h in found[which])]  # fmt: skip


def said(row: Row) -> str:
    return row.error["message"] if row.error else ""


@pytest.mark.parametrize(("target", "hosts"), each(0))
def test_who_lets_others_work_is_a_decoy(target: str, hosts: Sequence[Host]):
    rows = judged(target, hosts)
    assert {n: said(r) for n, r in rows.items() if r.correct or not r.error or r.error["kind"] != "decoy"} == {}
    assert all(r.error and r.error["hint"] for r in rows.values())


@pytest.mark.parametrize(("target", "hosts"), each(1))
def test_what_may_stand_around_kernels_is_right(target: str, hosts: Sequence[Host]):
    rows = judged(target, hosts)
    assert {n: said(r) for n, r in rows.items() if not r.correct} == {}
    assert target == "cpp:cpu" or all("its kernels alone give the outputs" in (r.method or "") for r in rows.values())


def test_a_decoys_error_tells_what_was_found():
    (row,) = judged("numba:cpu", [h for h in decoys.NUMBA_DECOYS if h.name == "numba-overwritten"]).values()
    assert row.correct is False
    assert "output out" in said(row) and "1 kernel" in said(row) and "16 elements" in said(row)
    (row,) = judged("cpp:cpu", [h for h in decoys.CPP_DECOYS if h.name == "cpp-python"]).values()
    assert "PyRun_SimpleString" in said(row)
