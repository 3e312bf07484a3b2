"""Files are found unwritable before the work; what is finished is shown at Ctrl-C; full disks end without a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from portakern.cli import main
from portakern.study import study as running

ROWS = ["check", "row_sum", "-t", "numba:cpu", "--shape", "M=4,N=8", "--dtype", "f32"]


@pytest.mark.quick
@pytest.mark.parametrize(("option", "file"), [("--json", "none/rows.json"), ("--html", "none/page.html"), ("--json", ".")])
def test_a_file_that_cannot_be_written_is_found_before_the_work(
    option: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(running.Runner, "run", lambda *args: pytest.fail("it worked first"))
    assert main([*ROWS, option, str(tmp_path / file)]) in (1, 2)
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.quick
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", [["ops"], ["targets"], ["results", "--schema"]])
def test_a_full_disk_ends_without_a_traceback(words: list[str]):
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "portakern", *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "No space left" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.quick
def test_a_reader_that_goes_away_ends_without_a_traceback():
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-m", "portakern", "results", "--schema"]
    done = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 1 and done.stderr == ""


def test_an_interrupt_shows_what_is_finished(tmp_path: Path):
    """Every row takes its budget, so that some are left half a second after the first is kept."""
    words = ["bench", "row_sum", "-t", "cpp:cpu", "--shape", "M=4|8|16|32,N=8", "--dtype", "f32", "--budget", "1.5s", "--width",
             "0.00001", "--json", "rows.json", "--store", "kept.sqlite"]  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "portakern", *words], cwd=tmp_path, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))  # fmt: skip
    end = time.monotonic() + 120
    while not (tmp_path / "kept.sqlite").exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)  # the row is counted after it is kept
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in err and "Traceback" not in err
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert 1 <= len(rows) < 4 and all(r["time"] for r in rows) and "M=4,N=8" in out


@pytest.mark.quick
@pytest.mark.parametrize("target", ["cpp:cpu", "hip:gfx942", "triton:sm_90"])
def test_sizes_beyond_all_addresses_are_refused(target: str, capsys: pytest.CaptureFixture[str]):
    assert main(["build", "row_sum", "-t", target, "--shape", "M=1000000000000,N=1000000000000", "--dtype", "f32"]) == 2
    said = capsys.readouterr().err
    assert "too large" in said and "report" not in said


def test_the_size_that_an_open_dim_was_timed_at_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    words = ["bench", "row_sum", "-t", "cpp:cpu", "--shape", "M=?,N=8", "--dtype", "f32", "--budget", "0.05s", "--no-store"]
    assert main([*words, "--json", str(tmp_path / "rows.json")]) == 0
    (row,) = json.loads((tmp_path / "rows.json").read_text())["rows"]
    size = row["time"]["sizes"]["M"]
    assert row["shape"]["M"] is None and f"at M={size}," in capsys.readouterr().out
