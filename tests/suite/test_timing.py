"""A task's kernels are timed against its own module, on its inputs and weights; peers that fail are told, and no more."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from portakern.cli import main  # noqa: E402
from portakern.registry import registry  # noqa: E402
from portakern.study import steps  # noqa: E402
from portakern.study.row import Row  # noqa: E402
from portakern.suite import results, running, timing  # noqa: E402
from portakern.suite.adapter import TaskRef  # noqa: E402
from portakern.suite.importing import import_task  # noqa: E402
from portakern.suite.kernelbench import KernelBench  # noqa: E402
from portakern.suite.rows import Timed  # noqa: E402
from portakern.suite.task_module import TaskModule  # noqa: E402
from portakern.timing.same import fingerprint  # noqa: E402

TASK = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 5)
        self.scale = torch.full((5,), 2.0)
    def forward(self, x):
        return torch.relu(self.layer(x)) * self.scale
def get_inputs():
    return [torch.randn(6, 4).T]
def get_init_inputs():
    return []
"""
RAISES = TASK.replace("        return", "        if x.dtype is torch.float32 and not torch.compiler.is_exporting():\n"
                                        "            raise RuntimeError('not in this mood')\n        return")  # fmt: skip
WRITES = TASK.replace("        return", "        x.neg_()\n        return")
OTHER = TASK.replace("        return", "        if x.dtype is torch.float32 and not torch.compiler.is_exporting():\n"
                                       "            x = x + 1\n        return")  # fmt: skip

Place = Callable[[str], TaskRef]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "level1").mkdir()

    def written(text: str) -> TaskRef:
        (tmp_path / "level1" / "1_task.py").write_text(text)
        (found,) = KernelBench().tasks(tmp_path)
        return found

    return written


def timed(task: TaskRef, *against: str, target: str = "numba:cpu") -> Row:
    """By the steps that workers do, in this process."""
    threads = torch.get_num_threads()
    try:
        (sample,) = import_task("kernelbench", None, task, "asked", [target], 0)
        (work,) = sample.works
        made = steps.build(work)
        row = steps.check(work, made)
        assert row.correct, row.error
        of = TaskModule("kernelbench", None, task, "asked", 0, 0, sample.places, sample.random)
        made = replace(made, row=row)
        return timing.time(work, made, of, against, {"budget_s": 0.05, "warm_up_s": 0.01, "cache": "warm"})
    finally:
        torch.set_num_threads(threads)


def test_ours_and_the_module_are_timed_in_turns(place: Place) -> None:
    row = timed(place(TASK), "torch.eager")
    assert row.error is None and row.evidence == "timed" and row.time is not None
    (peer,) = row.time["peers"]
    assert peer["ratio"] > 0 and peer["ci_low"] <= peer["ratio"] <= peer["ci_high"] and peer["form"] == "the task's module"
    assert "samples_us" not in row.time and "samples_us" not in peer, "a suite's rows are short"


@pytest.mark.parametrize(("text", "said"), [(RAISES, "not in this mood"), (WRITES, "writes the arrays"),
                                            (OTHER, "computes something else")], ids=["raises", "writes", "other"])  # fmt: skip
def test_a_peer_that_fails_is_told_and_the_row_is_timed(place: Place, text: str, said: str) -> None:
    row = timed(place(text), "torch.eager")
    assert row.error is None and row.evidence == "timed" and row.time is not None
    (peer,) = row.time["peers"]
    assert said in peer["error"] and "ratio" not in peer


def test_weights_are_prepared_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is timed is a native call of the kernels that a call runs: no kernel that reads weights alone is among them."""
    contenders = []
    inner = timing.Session._ours
    monkeypatch.setattr(timing.ModuleSession, "_ours", lambda self: contenders.append(self) or inner(self), raising=False)
    convolution = TASK.replace("torch.nn.Linear(6, 5)", "torch.nn.ConvTranspose1d(4, 5, 3, stride=2)").replace(
        "torch.randn(6, 4).T", "torch.randn(2, 4, 7)").replace("torch.full((5,), 2.0)", "torch.full((5, 1), 2.0)")  # fmt: skip
    row = timed(place(convolution), target="cpp:cpu")
    (session,) = contenders
    assert row.time is not None and session.prepared[0].call is not None
    if session.made.preparation is not None:
        taken = {a.name for a in session.made.source.by_role("input")}
        assert {a.name for a in session.made.preparation.by_role("output")} & taken


def test_fingerprints_tell_bits() -> None:
    x = torch.arange(1 << 10, dtype=torch.float32)
    same = [fingerprint(x), fingerprint(x.clone()), fingerprint(x.reshape(2, -1).T.contiguous().T)]
    assert len(set(same)) == 1
    changed = [x.clone(), x.flip(0), x.clone()]
    changed[0][7] += 1e-3
    changed[2][0] = -0.0
    assert len({*same, *map(fingerprint, changed)}) == 4
    for odd in (torch.zeros(0), torch.tensor([True, False, True]), torch.zeros(3, dtype=torch.bfloat16)):
        assert fingerprint(odd) == fingerprint(odd.clone())
    assert fingerprint(torch.tensor([True, False, True])) != fingerprint(torch.tensor([True, True, True]))


@pytest.mark.slow
def test_an_interrupted_run_keeps_its_rows_and_times_what_is_left(
        tmp_path: Path, place: Place, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    place(TASK)
    (tmp_path / "level1" / "2_task.py").write_text(TASK)
    file = tmp_path / "rows.jsonl"
    keep = results.Keeper(file, resume=False)
    tasks = KernelBench().tasks(tmp_path)
    targets = registry().match("numba:cpu")
    timed_so = Timed(("torch.eager",), 0.3, "warm")
    run = running.run("kernelbench", tmp_path, tasks, targets, "reduced", timed=timed_so, sink=keep)
    first = next(run)
    assert isinstance(run, Generator)
    with pytest.raises(KeyboardInterrupt):
        run.throw(KeyboardInterrupt())
    assert first.time is not None and [r.task for r in results.read(file)] == [first.task]
    marked = "as it was checked before"
    checked = [json.loads(line) for line in file.read_text().splitlines()]
    for row in checked:  # as a run without --time leaves it
        row |= {"time": None, "evidence": "executed", "row": {**row["row"], "method": marked}}
    file.write_text("".join(json.dumps(row) + "\n" for row in checked))
    asked = ["suite", "run", "kernelbench", "--path", str(tmp_path), "--targets", "numba:cpu", "--out", str(file), "--resume",
             "--time", "--against", "torch.eager", "--budget", "0.3s", "--cache", "warm"]  # fmt: skip
    assert main(asked) == 0
    rows = {r.task: r for r in results.read(file)}
    assert len(rows) == 2 and all(r.evidence == "timed" and r.time for r in rows.values())
    assert (rows[first.task].row or {})["method"] == marked, "it was checked again"
    assert "fast_1" in capsys.readouterr().out
    assert main(asked) == 0 and len(file.read_text().splitlines()) == 3, "what is timed stays"
