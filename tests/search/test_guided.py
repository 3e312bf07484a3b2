"""Searches through the generator's door: what they propose, and that it is judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

import portakern as pk
from portakern.search import Guided, search


def test_guided_search_proposes_kernels_that_are_judged():
    task = pk.task("row_sum", "numba:cpu", "f32", M=8, N=100)
    guided = Guided(task)
    first = guided.ask()
    assert first is not None and first.note == task.space[0]
    guided.tell(replace(task.work.row, correct=True, time={"median_us": 3.0}))
    notes = {first.note}
    while (more := guided.ask()) is not None:
        assert more.note not in notes
        notes.add(more.note)
        guided.tell(task.work.row)
    assert len(notes) > 1


@pytest.mark.slow
def test_guided_search_on_this_machine():
    task = pk.task("row_sum", "numba:cpu", "f32", M=8, N=100)
    outcome = search(Guided(task), task, budget_s=20)
    assert outcome.best is not None and outcome.best[1].correct
