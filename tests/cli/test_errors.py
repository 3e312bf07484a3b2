"""Bad input of every kind: exit status 2 (1 where the machine is at fault), what is wrong, and what to do."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from portakern.cli import main

pytestmark = pytest.mark.quick

BUILD = ["build", "softmax", "-t", "numba:cpu"]


@pytest.mark.parametrize(("arguments", "says"), [
    (["build", "sofmax", "-t", "numba:cpu"], "did you mean softmax"),
    (["build", "nowhere.py:f", "-t", "numba:cpu"], "there is no file nowhere.py"),
    (["build", "softmax", "-t", "numba:gpu"], "numba has no device 'gpu'"),
    (["build", "softmax", "-t", "metal:m3"], "unknown target language 'metal'"),
    (["build", "softmax", "-t", "hip:gfx8*"], "no target matches"),
    (["build", "softmax", "-t", ""], "no target was named"),
    (["build", "softmax"], "--targets"),
    ([*BUILD, "--shape", "Q=4"], "no dim 'Q'"),
    ([*BUILD, "--shape", "M"], "not of the form name=value"),
    ([*BUILD, "--shape", "M=four"], "not a size"),
    ([*BUILD, "--shape", "M=-1"], "not negative"),
    ([*BUILD, "--shape", "M=1,M=2"], "gives M twice"),
    ([*BUILD, "--dtype", "float"], "unknown dtype 'float'"),
    ([*BUILD, "--param", "causal=true"], "no parameter 'causal'"),
    (["build", "attention", "-t", "numba:cpu", "--param", "causal=maybe"], "cannot take causal=maybe"),
    (["build", "all", "-t", "numba:cpu", "--shape", "QQ=1"], "no operator has a dim 'QQ'"),
    ([*BUILD, "--jobs", "0"], "not a positive number"),
    (["compare", "softmax"], "neither --targets nor --from"),
    (["compare", "softmax", "--from", "missing.json"], "cannot read the results missing.json"),
    (["evaluate", "softmax", "-t", "numba:cpu", "--source", "missing.py"], "cannot read the kernel missing.py"),
    (["bench", "softmax", "-t", "numba:cpu", "--against", "cublas"], "unknown peer 'cublas'"),
    (["bench", "softmax", "-t", "numba:cpu", "--margin", "2"], "not a share"),
    (["bench", "softmax", "-t", "numba:cpu", "--cache", "hot"], "invalid choice"),
    (["results", "--export", "rows.xls"], "neither .json nor .csv"),
    (["results", "--since", "yesterday"], "not a date"),
    (["results", "--import", "missing.json"], "cannot read the results missing.json"),
    (["results", "--last", "0"], "not a positive number"),
    (["emit", "softmax", "-t", "hip:gfx942", "--as", "binary"], "name a file"),
    (["emit", "softmax", "-t", "hip:gfx942", "--as", "asm", "--ir", "tile"], "one thing at a time"),
    (["emit", "softmax", "-t", "hip:gfx942", "--ir", "llvm"], "invalid choice"),
])  # fmt: skip
def test_bad_usage(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str):
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert says in err and "Traceback" not in err


@pytest.mark.parametrize("text", ["{", "[]", '{"rows": 3}', '{"rows": [3]}', '{"rows": [{"operator": "x"}]}',
                                  '{"rows": [{"operator": "x", "target": "y", "evidence": "guessed"}]}'])  # fmt: skip
def test_results_that_are_none(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str):
    file = tmp_path / "rows.json"
    file.write_text(text)
    assert main(["compare", "softmax", "--from", str(file)]) == 2
    assert "rows.json" in capsys.readouterr().err


def test_a_schedule_that_fits_nothing_is_in_the_row(capsys: pytest.CaptureFixture[str]):
    assert main([*BUILD, "--schedule", "banana=4"]) == 1
    out = capsys.readouterr().out
    assert "schedule" in out and "banana" in out


def test_an_operator_with_a_mistake_is_reported_at_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text('import portakern as pk\n\n\n@pk.operator\ndef f(x: pk.Tensor["M", "N"], y: pk.Tensor["N", "M"]):\n'
                    "    return x + y\n")  # fmt: skip
    assert main(["build", f"{file}:f", "-t", "numba:cpu"]) == 1
    assert "mine.py:6" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_that_may_not_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    monkeypatch.setenv("PORTAKERN_CACHE", str(tmp_path / "cache"))
    assert main(BUILD) == 1
    assert "PORTAKERN_CACHE" in capsys.readouterr().err


def test_a_cache_that_is_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "cache").write_text("")
    monkeypatch.setenv("PORTAKERN_CACHE", str(tmp_path / "cache"))
    assert main(BUILD) == 1
    assert "PORTAKERN_CACHE" in capsys.readouterr().err


def test_output_that_cannot_be_written(capsys: pytest.CaptureFixture[str]):
    assert main(["build", "softmax", "-t", "numba:cpu", "--shape", "M=4,N=6", "--json", "/nowhere/rows.json"]) == 1
    assert "cannot write /nowhere/rows.json" in capsys.readouterr().err


def test_a_broken_compiler_is_a_row(tmp_path: Path):
    compiler = tmp_path / "broken-c++"
    compiler.write_text("#!/bin/sh\ncase $1 in --version) echo broken 1.0;; *) echo it exploded >&2; exit 3;; esac\n")
    compiler.chmod(0o755)
    env = {**os.environ, "PORTAKERN_CXX": str(compiler), "PORTAKERN_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-m", "portakern", "build", "softmax", "-t", "cpp:cpu", "--shape", "M=4,N=6"],
                          env=env, capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 1
    assert "emitted !" in done.stdout and "it exploded" in done.stdout and "Traceback" not in done.stdout + done.stderr


def test_missing_tools_leave_the_source(tmp_path: Path):
    """Without the wheels of the extras everything is still emitted, and the row says what to install."""
    hide = tmp_path / "sitecustomize.py"
    hide.write_text(
        "import importlib.metadata as m, importlib.util as u\nfind, version = u.find_spec, m.version\n"
        "def hidden(name): return name.split('.')[0] in ('triton', 'torch')\n"
        "u.find_spec = lambda name, *a: None if hidden(name) else find(name, *a)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "portakern", "build", "softmax", "-t", "triton:sm_90", "--shape", "M=4,N=6"],
                          env=env, capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 1
    assert "emitted !" in done.stdout and "tool-missing" in done.stdout and "portakern[triton]" in done.stdout
