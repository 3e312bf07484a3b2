"""Runs of the fuzzer: a short one with a fixed seed, one that is killed and goes on, and one that meets a planted fault."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.fuzz_planted import FAULTS, check_places, hunt
from portakern.cli import main


def lines(folder: Path, kind: str) -> list[dict]:
    file = folder / f"{kind}.jsonl"
    return [json.loads(x) for x in file.read_text().splitlines()] if file.exists() else []


def test_a_short_run_finds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "run"
    asked = ["--targets", "cpp:cpu", "--programs", "2", "--batch", "8", "--seed", "2"]
    status = main(["fuzz", *asked, "-o", str(out)])
    printed = capsys.readouterr().out
    assert status == 0, printed + "\n".join(f.read_text() for f in (out / "found").glob("*.py"))
    assert "2 programs" in printed and "no finding" in printed and len(lines(out, "programs")) == 2


def test_many_programs_are_emitted_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """And neither compiled nor run: no toolchain is asked for.  A run goes on as it began."""
    out, targets = tmp_path / "run", "triton:gfx950,pallas:v6e,hip:gfx90a"
    asked = ["fuzz", "--emit", "--targets", targets, "--programs", "12", "--batch", "12", "--seed", "3", "--shrink", "0"]
    assert main([*asked, "-o", str(out)]) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    assert "emitted" in printed and "right" not in printed and "no finding" in printed
    assert {x["status"] for x in lines(out, "outcomes")} <= {"ok", "refused", "unused"}
    assert not list(out.rglob("*.hsaco")) and not (out / "work").exists()
    assert main(["fuzz", "--targets", targets, "--programs", "20", "--resume", str(out)]) == 2
    assert "emits only" in capsys.readouterr().err


def test_programs_of_real_sizes_are_compiled_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out, targets = tmp_path / "run", "hip:gfx942,cuda:sm_90a"
    asked = ["fuzz", "--compile", "--targets", targets, "--programs", "3", "--batch", "3", "--seed", "3", "--shrink", "0"]
    assert main([*asked, "-o", str(out)]) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    assert "compiled" in printed and "right" not in printed and "no finding" in printed
    assert {x["status"] for x in lines(out, "outcomes")} <= {"ok", "refused", "unused"}
    assert all("real" in x["features"] for x in lines(out, "programs"))
    assert main(["fuzz", "--targets", targets, "--programs", "9", "--resume", str(out)]) == 2
    assert "compiles only" in capsys.readouterr().err
    assert main([*asked, "--emit", "-o", str(tmp_path / "other")]) == 2
    assert "--emit compiles nothing" in capsys.readouterr().err


def test_a_killed_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("pyopencl")  # where a program takes least
    out = tmp_path / "run"
    asked = ["--targets", "opencl:cpu", "--programs", "4", "--batch", "10", "--seed", "4", "--shrink", "0"]
    running = subprocess.Popen([sys.executable, "-m", "portakern", "fuzz", *asked, "-o", str(out)],
                               stdout=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    while not lines(out, "outcomes") and running.poll() is None:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    before = lines(out, "outcomes")
    assert main(["fuzz", *asked, "--resume", str(out)]) in (0, 1)
    after = lines(out, "outcomes")
    assert after[: len(before)] == before and "4 programs" in capsys.readouterr().out
    tried = [(x["program"], x["target"]) for x in after]
    assert len(set(tried)) == len(tried) == len(lines(out, "programs")) == 4


@pytest.mark.quick
def test_planted_faults_stand_in_the_source():
    assert not check_places(FAULTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiles: operands of a difference swapped"])
def test_a_planted_fault_is_found(name: str, tmp_path: Path):
    (fault,) = (f for f in FAULTS if f.name == name)
    assert hunt(replace(fault, targets="cpp:cpu"), 120, seed=1, jobs=2, folder=tmp_path).what


@pytest.mark.parametrize(("words", "said"), [
    ([], "--targets"),
    (["--targets", "numba:gpu"], "numba:gpu"),
    (["--targets", "numba:cpu", "--resume", "nowhere"], "no run"),
    (["--targets", "numba:cpu", "--resume", "a", "--out", "b"], "--out"),
    (["--targets", "numba:cpu", "--programs", "0"], "positive"),
    (["--targets", "numba:cpu", "--again", "nowhere.py"], "nowhere.py"),
])  # fmt: skip
def test_bad_usage(words: list[str], said: str, capsys: pytest.CaptureFixture[str]):
    assert main(["fuzz", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_file_is_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "one.py"
    file.write_text('# case: {"dims": {"M": 3}, "stages": ["integers"]}\nimport portakern as pk\n\n\n@pk.operator\n'
                    'def op(x: pk.Tensor["M"]):\n    return x + 1\n')  # fmt: skip
    assert main(["fuzz", "--targets", "cpp:cpu", "--again", str(file)]) == 0
    assert "cpp:cpu" in capsys.readouterr().out


def test_without_hypothesis_the_command_that_brings_it_is_named(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # fmt: skip
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    assert main(["fuzz", "--targets", "numba:cpu"]) == 1
    assert "pip install 'portakern[fuzz]'" in capsys.readouterr().err
