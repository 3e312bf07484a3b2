"""Whose work it is is found out within a budget of its own, at small sizes where they are open; no kernel is wrong for it."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from portakern.check import proof
from portakern.errors import PortakernError
from portakern.referee import RemoteExecutable
from portakern.referee.process import Allowance, KernelProcess
from portakern.study.row import Row
from tests.judge import decoys
from tests.judge.attacks import HONEST_NUMBA, numba
from tests.judge.test_attacks import SMALL, checked

OPEN = {"M": None, "N": None}
DECOY = f"""{HONEST_NUMBA}
def row_sum(x, out):
    honest(x, out)
    out[:] = x.sum(1)
"""
LEGAL = numba("")


def judged(text: str, dims: Mapping[str, int | None] = SMALL) -> Row:
    return checked("numba:cpu", text, dims=dims)


def rest(seconds: float) -> dict[str, float]:
    time.sleep(seconds)
    return {}


@pytest.mark.parametrize("kind", ["timeout", "memory"])
def test_a_proof_that_its_budget_ends_says_so_and_rejects_nothing(kind: str, monkeypatch: pytest.MonkeyPatch):
    def run_part(self: RemoteExecutable, part: str, buffers: object, sizes: object) -> str:
        if part == "kernels":
            raise PortakernError(kind, "too much")
        return whole(self, part, buffers, sizes)  # type: ignore[arg-type]

    whole = RemoteExecutable.run_part
    monkeypatch.setattr(RemoteExecutable, "run_part", run_part)
    row = judged(LEGAL)
    assert row.correct and "whether its kernels do the work was not found out" in (row.method or ""), row.error


def test_the_proof_does_not_take_the_time_of_the_kernel(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(proof, "PROOF_S", 1e-4)
    row = judged(LEGAL)
    assert row.correct and "was not found out" in (row.method or ""), row.error


def test_slow_kernels_of_open_dims_are_looked_at_at_small_sizes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(proof, "SLOW_S", 0.0)
    row = judged(LEGAL, OPEN)
    assert row.correct and "its kernels alone give the outputs at M=" in (row.method or ""), (row.error, row.method)
    row = judged(DECOY, OPEN)
    assert row.error is not None and row.error["kind"] == "decoy", row


def test_the_last_run_of_a_slow_kernel_is_the_one_that_is_done_in_part(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(proof, "SLOW_S", 0.0)
    monkeypatch.setattr(proof.Proof, "whole_run", lambda self: pytest.fail("it ran once more"))
    assert judged(LEGAL).correct
    row = judged(next(h.text for h in decoys.NUMBA_DECOYS if h.name == "numba-overwritten"))
    assert row.error is not None and row.error["kind"] == "decoy", row


def test_only_the_answers_of_a_process_take_its_time():
    with KernelProcess("off") as process:
        process.allowance, begun = Allowance(100.0), time.monotonic()
        for _ in range(2):
            process.call(f"{__name__}:rest", (0.1,))
            time.sleep(0.5)
        spent, elapsed = 100.0 - process.allowance.left, time.monotonic() - begun
        assert 0.2 <= spent <= elapsed - 1.0
        process.allowance = Allowance(0.5)
        with pytest.raises(PortakernError, match=r"within 0\.5 s"):
            process.call(f"{__name__}:rest", (30.0,))
