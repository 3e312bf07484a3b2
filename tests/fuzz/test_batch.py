"""Batches of made-up programs, and how hypothesis makes a failing one small."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from portakern.fuzz.batch import Batch
from portakern.fuzz.program import FuzzProgram


@pytest.mark.quick
def test_a_batch_makes_the_same_programs_each_time_and_others_for_another_seed():
    first, again, other = (Batch(seed, 10).programs() for seed in (5, 5, 6))
    assert [p.digest for p in first] == [p.digest for p in again] and len(first) >= 5
    assert {p.digest for p in first} != {p.digest for p in other}


def test_shrinking_begins_at_the_program_found_and_ends_at_a_small_one(tmp_path: Path):
    batch = Batch(8, 24)
    def fails(program: FuzzProgram) -> bool:
        return "pk.sum" in program.case.text

    wanted = max((p for p in batch.programs() if fails(p)), key=lambda p: len(p.case.text))
    small = batch.shrink(wanted, fails, tmp_path / "db", limit_s=5)  # which it takes
    assert fails(small) and len(small.case.text) < len(wanted.case.text)
    assert small.variation.schedule is None and small.variation.layout is None


@pytest.mark.quick
def test_shrinking_ends_when_its_time_is_over(tmp_path: Path):
    batch = Batch(8, 30)
    wanted = batch.programs()[-1]
    tried: Counter[str] = Counter()

    def fails(program: FuzzProgram) -> bool:
        tried[program.digest] += 1
        return True

    assert batch.shrink(wanted, fails, tmp_path / "db", limit_s=0) == wanted and not tried
