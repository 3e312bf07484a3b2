"""Searches that ask for batches, and what is kept of them."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import portakern as pk
from portakern.errors import UsageError
from portakern.search import Candidate, Grid, History, Trial, search
from portakern.study.task import Task
from tests.judge.attacks import cpp

SMALL = {"dtype": "f32", "M": 16, "N": 32}


@pytest.fixture(scope="module")
def task() -> Task:
    return pk.task("row_sum", "cpp:cpu", **SMALL)


class Tree:
    """Grows a tree of texts of two children each, some of them wrong; remembers what it was told."""

    def __init__(self, count: int, resumes: bool = False) -> None:
        self.count = count
        self.told: list[Trial] = []
        self.asked = 0
        if resumes:
            self.resume = self.take_up

    def take_up(self, trials: list[Trial], pending: list[Candidate]) -> None:
        self.told, self.asked = list(trials), len(trials) + len(pending)

    def ask(self, n: int) -> list[Candidate]:
        found = []
        while self.asked < self.count and len(found) < n:
            parent = self.told[(self.asked - 1) // 2].id if self.asked and len(self.told) > (self.asked - 1) // 2 else None
            if self.asked and parent is None:
                break
            body = "out[2] += 1;" if self.asked % 3 == 2 else ""
            found.append(Candidate(cpp(f"honest(x, out); {body} // {self.asked}"), None, f"number {self.asked}",
                                   (parent,) if parent else (), "grow", {"number": self.asked}))  # fmt: skip
            self.asked += 1
        return found

    def tell(self, trial: Trial) -> None:
        self.told.append(trial)


def test_batches_are_judged_and_every_text_row_and_edge_is_kept(task: Task, tmp_path: Path):
    file = tmp_path / "store.sqlite"
    tree = Tree(7)
    found = search(tree, task, level="quick", store=file, name="tree")
    assert sorted(t.candidate.meta["number"] for t in tree.told) == list(range(7))
    assert all(t.row.correct == (t.candidate.meta["number"] % 3 != 2) for t in found.trials)
    past = History(file).begin("tree", task.work, "quick")
    assert {t.id: (t.candidate, t.row) for t in past.told} == {t.id: (t.candidate, t.row) for t in tree.told}
    assert all(t.candidate.parents and t.candidate.parents[0] in {p.id for p in past.told} for t in past.told[1:])
    assert not past.pending


def test_a_search_of_another_task_does_not_take_the_name(task: Task, tmp_path: Path):
    file = tmp_path / "store.sqlite"
    search(Grid(task, 1), task, level="compile", store=file, name="mine")
    for other, level in ((pk.task("row_sum", "cpp:cpu", dtype="f32", M=16, N=33), "compile"), (task, "full")):
        with pytest.raises(UsageError, match="another task or level"):
            search(Grid(other, 1), other, level=level, store=file, name="mine")


def test_what_is_known_is_told_without_being_judged(task: Task, tmp_path: Path):
    file = tmp_path / "store.sqlite"
    first = search(Tree(3), task, level="quick", store=file, name="again")
    again = Tree(3)
    second = search(again, task, level="quick", store=file, name="again")
    assert [t.row for t in again.told] == [t.row for t in History(file).begin("again", task.work, "quick").told]
    assert len(second.trials) == len(first.trials) and all(t.known for t in second.trials)


KILLED = """
import sys
import portakern as pk
from portakern.search import search
from tests.search.test_search import SMALL, Tree
if __name__ == "__main__":
    search(Tree(9), pk.task("row_sum", "cpp:cpu", **SMALL), level="quick", store=sys.argv[1], name="killed")
"""


@pytest.mark.parametrize("resumes", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_search_that_is_killed_goes_on(task: Task, tmp_path: Path, resumes: bool):
    file = tmp_path / "store.sqlite"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(file)], cwd=Path(__file__).parents[2])
    until = time.monotonic() + 60
    while time.monotonic() < until and (not file.exists() or len(_told(file)) < 2):
        time.sleep(0.05)
    process.kill()
    process.wait()
    before = _told(file)
    assert 2 <= len(before) < 9
    tree = Tree(9, resumes)
    search(tree, task, level="quick", store=file, name="killed")
    after = _told(file)
    assert len(after) == 9 and {t.id: t.row for t in after}.items() >= {t.id: t.row for t in before}.items()
    assert sorted(t.candidate.meta["number"] for t in tree.told) == list(range(9))
    assert History(file).check() == "ok"


def _told(file: Path) -> list[Trial]:
    history = History(file)
    return [t for number, *_ in history.searches() for t in history.past(number).told]


class Twins:
    """Asks for the same text twice at once, and then for it again."""

    def __init__(self) -> None:
        self.batches = [[Candidate(cpp("honest(x, out);"))] * 2, [Candidate(cpp("honest(x, out);"), note="again")], []]
        self.told: list[Trial] = []

    def ask(self, n: int) -> list[Candidate]:
        return self.batches.pop(0) if self.batches else []

    def tell(self, trial: Trial) -> None:
        self.told.append(trial)


def test_the_same_text_is_judged_once_and_told_as_often_as_it_was_asked_for(task: Task):
    twins = Twins()
    assert len(search(twins, task, level="compile").trials) == 1 and len(twins.told) == 3


class Old:
    """Asks for one at a time."""

    def __init__(self) -> None:
        self.left = [cpp("honest(x, out);"), cpp("out[0] = 1;"), "no C++"]
        self.rows: list[bool | None] = []

    def ask(self) -> Candidate | None:
        return Candidate(self.left.pop(0)) if self.left else None

    def tell(self, row) -> None:
        self.rows.append(row.correct)


def test_one_at_a_time_goes_on_as_it_did(task: Task):
    old = Old()
    found = search(old, task, level="quick")
    assert old.rows == [True, False, None] and found.best is not None and len(found.tried) == 3


@pytest.mark.quick
def test_the_id_of_a_candidate_follows_from_its_text_and_entry():
    rng = random.Random(0)
    text = "".join(rng.choice("abc \n") for _ in range(100))
    assert Candidate(text).id == Candidate(text, note="x", parents=("y",), meta={"z": 1}).id
    assert len({Candidate(text).id, Candidate(text, "f").id, Candidate(text + " ").id}) == 3
