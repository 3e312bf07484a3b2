"""The functions of Python's face: the same names and options as the commands, which call them."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import portakern as pk
from portakern.cli import COMMANDS, _Parser
from portakern.errors import UsageError
from portakern.study.row import Row
from portakern.study.store import Stored

FACE = {
    "build": pk.build, "check": pk.check, "bench": pk.bench, "compare": pk.compare, "evaluate": pk.evaluate, "tune": pk.tune,
    "emit": pk.emit, "inspect": pk.inspect, "results": pk.results,
}  # fmt: skip

OTHERWISE = {"operator": "op", "targets": "target", "timeout": "timeout_s", "no_run": "run", "shared": "shared_bytes",
             "no_store": "store", "shape": "values", "param": "values"}  # fmt: skip
"""Options that a function may have by another name."""

PRINTED = {"help", "json", "schema", "html", "samples", "output", "asm"}
"""What is about files and printing, for which results have methods."""

ELSEWHERE = {
    "build": {"grad", "save", "jobs"}, "emit": {"grad", "save"}, "evaluate": {"grad", "save", "schedule"},  # pk.grad(op)
    "tune": {"grad", "save", "schedule"}, "check": {"faults"}, "compare": {"results"}, "inspect": {"seed"},
    "results": {"imported", "export", "name", "schema", "prune", "age", "size", "count", "dry_run",  # methods of ResultStore
                "gate", "against", "margin", "budget", "tries", "strict"},  # pk.gate
}  # fmt: skip


@pytest.mark.quick
@pytest.mark.parametrize("name", FACE)
def test_a_function_has_the_options_of_its_command(name: str):
    parser = _Parser()
    importlib.import_module(f"portakern.cli.{name}").add_arguments(parser)
    has = set(inspect.signature(FACE[name]).parameters)
    asked = {a.dest for a in parser._actions} - PRINTED - ELSEWHERE.get(name, set())
    missing = {a for a in asked if not has & {a, OTHERWISE.get(a, a)}}
    assert not missing, f"pk.{name} has no {missing}"


@pytest.mark.quick
def test_rooms_that_are_called_stay_rooms():
    """In any order of importing and calling."""
    code = ("import portakern as pk; {first}; assert callable(pk.check) and callable(pk.emit); import portakern.emit.clike;"
            "import portakern.check.stages as s; assert callable(pk.check) and pk.check.stages is s and pk.emit.clike")
    for first in ("pk.check", "import portakern.check", "from portakern.api import emit", "pass"):
        done = subprocess.run([sys.executable, "-c", code.format(first=first)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    assert "against" in inspect.signature(pk.bench).parameters and "targets" in inspect.signature(pk.check).parameters
    assert {"check", "emit", "cache", "bench"} <= set(dir(pk)) and set(COMMANDS) >= {"cache", "check"}


def test_sizes_are_lists_ranges_and_texts():
    study = pk.check("row_sum", ["cpp:cpu"], dtype=np.float32, M=range(2, 4), N="8|16")
    assert [r.shape for r in pk.check("row_sum", "cpp:cpu", dtype="f32", shape="M=2|3,N=8:16:*2")] == [r.shape for r in study]
    assert [(r.shape or {}) for r in study] == [{"M": m, "N": n} for m in (2, 3) for n in (8, 16)]
    assert all(isinstance(r, Row) and r.correct and r.dtype == "f32" for r in study)


def test_times_are_kept_found_and_held_against(tmp_path: Path):
    store = tmp_path / "mine.sqlite"
    study = pk.sweep("row_sum", "cpp:cpu", dtype="float32", M=[4], N=8, budget=0.05, cache="warm", store=store)
    found = pk.results(dtype=np.float32, store=store)
    assert [s.row.shape for s in found] == [r.shape for r in study] and isinstance(found[0], Stored)
    assert all((r.time or {})["mode"].startswith("warm") for r in study)
    again = pk.sweep("row_sum", "cpp:cpu", dtype="f32", M=[4], N=8, budget=0.05, cache="warm", store=store, resume=True)
    assert [r.time for r in again] == [s.row.time for s in found], "taken from the store"
    assert [v.verdict for v in pk.gate(study.rows, study.rows, margin=9.0).verdicts] == ["same"]
    assert pk.gate(store, margin=9.0, budget=0.05).rows[0].time


@pytest.mark.quick
def test_texts_and_paths_are_told_apart(tmp_path: Path):
    file = tmp_path / "kernel.py"
    file.write_text("x = 1\n")
    for wrong in (file, str(file), "kernel.cu", "/nowhere/kernel.hip"):
        with pytest.raises(UsageError, match="text is meant") as error:
            pk.evaluate("row_sum", wrong, "numba:cpu")  # type: ignore[arg-type]
        assert "read_text()" in error.value.hint
    for missing in (tmp_path / "none.cu", tmp_path):
        with pytest.raises(UsageError, match="cannot read the kernel"):
            pk.inspect(missing, "hip:gfx942")
    with pytest.raises(UsageError, match="text is meant"):
        pk.inspect(str(file), "hip:gfx942")


@pytest.mark.quick
@pytest.mark.parametrize(("options", "said"), [
    ({"cache": "lukewarm"}, "lukewarm"), ({"mode": "fast"}, "fast"), ({"budget": 0}, "positive"),
    ({"against": "nunpy"}, "nunpy"),
    ({"check": "some"}, "some"), ({"resume": True}, "store"), ({"MM": 4}, "MM"), ({"dtype": "f33"}, "f33"),
    ({"shape": 64}, "shape is given as int"), ({"shape": "M"}, "name=value"), ({"param": "M=4"}, "'M'"),
])  # fmt: skip
def test_options_that_make_no_sense(options: dict, said: str):
    with pytest.raises(UsageError, match=said):
        pk.bench("row_sum", "numba:cpu", **options)
