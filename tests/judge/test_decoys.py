"""Who launches kernels and lets host code do the work is called a decoy; who lets kernels do it is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import portakern as pk
from portakern.study.row import Row
from tests.judge.decoys import TRITON_DECOYS, TRITON_LEGAL, Host


def judged(target: str, hosts: Sequence[Host], level: str = "full") -> dict[str, Row]:
    found: dict[str, Row] = {}
    for operator in dict.fromkeys(h.operator for h in hosts):
        same = [h for h in hosts if h.operator == operator]
        with pk.judge(operator, target, dtype="f32", workers=1, level=level, **same[0].dims) as judge:
            found |= dict(zip([h.name for h in same], judge.map([h.text for h in same]), strict=True))
    return found


def all_decoys(rows: dict[str, Row]) -> None:
    assert {n: (r.error or {}).get("kind") for n, r in rows.items()} == dict.fromkeys(rows, "decoy"), \
        {n: r.error for n, r in rows.items()}


def all_right(rows: dict[str, Row]) -> None:
    assert {n: r.error for n, r in rows.items() if not r.correct} == {}
    assert all("alone give" in (r.method or "") for r in rows.values())


def test_who_computes_with_torch_beside_triton_is_a_decoy():
    pytest.importorskip("triton")
    rows = judged("triton:sm_90", TRITON_DECOYS)
    all_decoys(rows)
    message = rows["triton-overwritten"].error["message"]
    assert "1 Triton kernel" in message and "sum on" in message and "output out" in message


def test_who_moves_data_around_triton_is_right():
    pytest.importorskip("triton")
    all_right(judged("triton:sm_90", TRITON_LEGAL))
