"""Verified kernels in a file, judged again from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import portakern as pk
from portakern.cli import main
from portakern.errors import UsageError
from portakern.search import History, Trial, dataset
from portakern.study.candidate import Candidate
from tests.judge.attacks import cpp

SMALL = {"dtype": "f32", "M": 16, "N": 32}


def filled(file: Path, *candidates: tuple[Candidate, bool]) -> None:
    """A store with a search that says of each candidate what is given, true or not."""
    task, history = pk.task("row_sum", "cpp:cpu", **SMALL), History(file)
    past = history.begin("said", task.work, "quick")
    history.asked(past.number, [c for c, _ in candidates])
    for c, correct in candidates:
        history.told(past.number, Trial(c, task.work.row.but(correct=correct, evidence="executed")))


RIGHT = Candidate(cpp("honest(x, out);"), None, "right", (), "start", {"by": "hand"})
WRONG = Candidate(cpp("honest(x, out); out[1] = 0;"), None, "wrong", (RIGHT.id,), "break")


def test_a_data_set_is_written_and_judged_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    store, file = str(tmp_path / "store.sqlite"), str(tmp_path / "kernels.jsonl")
    filled(Path(store), (RIGHT, True), (WRONG, True), (Candidate("never right"), False))
    assert main(["dataset", "export", file, "--store", store]) == 0
    assert [e.candidate for e in dataset.read(file)] == [RIGHT, WRONG]
    assert main(["dataset", "verify", file, "--level", "quick"]) == 1
    told = capsys.readouterr()
    assert "1 of 2 kernels hold" in told.err
    assert f"{RIGHT.id} row_sum cpp:cpu: holds" in told.out and f"{WRONG.id} row_sum cpp:cpu: FAILS" in told.out


@pytest.mark.quick
def test_a_task_that_is_not_here_is_said_of_its_kernels(tmp_path: Path):
    filled(tmp_path / "store.sqlite", (RIGHT, True))
    (entry,) = dataset.entries(History(tmp_path / "store.sqlite"))
    lost = dataset.Entry({**entry.task, "operator": "no_such_operator"}, entry.level, entry.candidate, entry.row)
    (found,) = dataset.verify([lost])
    assert not found.holds and found.row.error is not None and "no_such_operator" in found.row.error["message"]


@pytest.mark.quick
@pytest.mark.parametrize(("operator", "target", "values"), [
    ("row_sum", "cpp:cpu", {"M": 16, "N": pk.dynamic}), ("softmax", "hip:gfx942", {}),
    ("attention", "cpp:cpu", {"causal": True})])  # fmt: skip
def test_a_task_is_made_again_from_what_is_kept(operator: str, target: str, values: dict):
    from portakern.search.history import task_of

    work = pk.task(operator, target, "f32", **values).work
    again = dataset.work_of(json.loads(json.dumps(task_of(work))))
    assert again.program.digest == work.program.digest and again.row == work.row and again.sizes == work.sizes
    assert {n: repr(f) for n, f in again.families.items()} == {n: repr(f) for n, f in work.families.items()}


@pytest.mark.quick
@pytest.mark.parametrize("text", ["nonsense", "{}", '{"portakern_kernels": 99}', "[1]"])
def test_a_file_that_is_no_data_set_is_refused(text: str, tmp_path: Path):
    (tmp_path / "x.jsonl").write_text(text + "\n")
    with pytest.raises(UsageError, match=r"x\.jsonl:1"):
        list(dataset.read(tmp_path / "x.jsonl"))
