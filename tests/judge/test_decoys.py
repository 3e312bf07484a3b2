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
        same = [h for h in hosts if h.operator == operator and tuple(h.dims.items()) == dims]
        work = pk.task(operator, target, dtype="f32", **dict[str, int](dims))
        with pk.judge(work, workers=1, level="quick") as judge:
            found |= dict(zip([h.name for h in same], judge.map([h.text for h in same]), strict=True))
    return found


def each():
    """The quick ones of each language, and the slow ones: all by one judge, since that takes longest to begin."""
    return [pytest.param(target, *found, id=f"{target}-{'slow' if slow else 'quick'}", marks=[pytest.mark.slow] if slow else [])
            for target, bad, legal in LANGUAGES for slow in (False, True)
            if any(found := [[h for h in hosts if h.slow == slow] for hosts in (bad, legal)])]  # fmt: skip


def said(row: Row) -> str:
    return row.error["message"] if row.error else ""


@pytest.mark.parametrize(("target", "bad", "legal"), each())
def test_who_lets_others_work_is_a_decoy_and_what_may_stand_around_kernels_is_right(
        target: str, bad: Sequence[Host], legal: Sequence[Host]):  # fmt: skip
    assert len({h.name for h in (*bad, *legal)}) == len(bad) + len(legal)
    rows = judged(target, [*bad, *legal])
    decoys_, rights = {h.name: rows[h.name] for h in bad}, {h.name: rows[h.name] for h in legal}
    assert {n: said(r) for n, r in decoys_.items() if r.correct or not r.error or r.error["kind"] != "decoy"} == {}
    assert all(r.error and r.error["hint"] for r in decoys_.values())
    assert {n: said(r) for n, r in rights.items() if not r.correct} == {}
    assert target == "cpp:cpu" or all("its kernels alone give the outputs" in (r.method or "") for r in rights.values())
    for name in TOLD.keys() & decoys_.keys():
        assert all(words in said(decoys_[name]) for words in TOLD[name])


TOLD = {"numba-overwritten": ("output out", "1 kernel", "16 elements"), "cpp-python": ("PyRun_SimpleString",)}
"""What an error says of what was found."""
