"""Threads of other runtimes: workers keep them from spinning, and a peer that they hamper all the same is suspicious."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from portakern.study.timing import hampered
from portakern.timing.measure import Timing
from portakern.tools.workers import QUIET, WorkerPool

pytestmark = pytest.mark.quick

TIMING = Timing("torch.eager", np.ones(5), np.zeros(5), blocks=5, median_us=53000.0, ci_low_us=52000.0, ci_high_us=54000.0,
                quantiles_us={}, correction_us=0.0, empty_us=None, launch_us=None, end_to_end_us=34.0, overhead_us=0.0,
                calls_per_sample=1, mode="", suspicions=(), incomplete=False)  # fmt: skip


@pytest.mark.parametrize(("median", "alone", "odd"), [
    (53000.0, 34.0, True), (40.0, 34.0, False), (300.0, 20.0, False), (53000.0, 20000.0, False), (53000.0, float("nan"), False),
])  # fmt: skip
def test_a_peer_far_above_its_own_time_alone_is_suspicious(median: float, alone: float, odd: bool):
    found = hampered(replace(TIMING, median_us=median, end_to_end_us=alone))
    assert bool(found) == odd and all("hampered" in text for text in found)


def test_every_worker_is_quiet_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch):
    for name in QUIET:
        monkeypatch.delenv(name, raising=False)
    with WorkerPool() as pool:
        assert [pool.call("os:getenv", name) for name in QUIET] == list(QUIET.values())
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    with WorkerPool() as pool:
        assert pool.call("os:getenv", "OMP_WAIT_POLICY") == "active"
    assert os.environ["OMP_WAIT_POLICY"] == "active" and "KMP_BLOCKTIME" not in os.environ
