"""``portakern tune`` on the CPU that is here, with the budgets of a test."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from portakern.cli import main

SMALL = ["row_sum", "-t", "numba:cpu", "--shape", "M=64,N=500", "--dtype", "f32", "--jobs", "1", "--budget", "6s", "--no-store"]


def test_switched_off_is_an_error(capsys: pytest.CaptureFixture[str]):
    assert main(["tune", *SMALL]) == 2
    assert "switched off" in capsys.readouterr().err


def test_a_target_that_can_be_neither_timed_nor_estimated_says_so(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]):  # fmt: skip
    monkeypatch.setenv("PORTAKERN_TUNED", str(tmp_path / "t.sqlite"))
    assert main(["tune", "add_relu", "-t", "sycl:pvc"]) == 1
    assert "sycl:pvc can be neither timed nor estimated here" in capsys.readouterr().err


@pytest.mark.slow
def test_tuning_a_small_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("PORTAKERN_TUNED", str(tmp_path / "t.sqlite"))
    assert main(["tune", *SMALL, "--most", "3", "--json"]) == 0
    (tuning,) = json.loads(capsys.readouterr().out)["tunings"]
    assert tuning["compiled"] == len(tuning["tried"]) <= 3 and tuning["samples"] > 0
    assert tuning["default"] and (tuning["stored"] or tuning["note"])
    if tuning["stored"]:
        assert tuning["verdict"] == "FASTER" and tuning["row"]["correct"] is True


def _trials(file: Path) -> int:
    if not file.is_file():
        return 0
    with contextlib.closing(sqlite3.connect(file, timeout=10)) as db:
        try:
            return db.execute("SELECT count(*) FROM trials").fetchone()[0]
        except sqlite3.OperationalError:
            return 0


@pytest.mark.slow
def test_a_kill_prints_the_best_and_a_later_run_goes_on(tmp_path: Path):
    env = {**os.environ, "PORTAKERN_TUNED": str(tmp_path / "t.sqlite")}
    command = [sys.executable, "-m", "portakern", "tune", "add_relu", "-t", "cpp:cpu", "--shape", "M=256,N=1024", "--no-store"]
    long = [*command, "--budget", "300s"]
    running = subprocess.Popen(long, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    tried = 0
    for _ in range(600):
        if running.poll() is not None or (tried := _trials(tmp_path / "t.sqlite")):
            break
        time.sleep(0.1)
    assert tried
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=60)
    if running.returncode == 0:
        pytest.skip("the search was over before it was ended")
    assert running.returncode == 130 and "interrupted" in out and "best" in out
    more = [*command, "--budget", "20s", "--most", "2", "--resume"]
    again = subprocess.run(more, env=env, capture_output=True, text=True, timeout=120)
    assert again.returncode == 0 and "known from an earlier run" in again.stdout
