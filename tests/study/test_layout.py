"""Tables and lines fit the room there is, say the same at every width, and are left alone where there is none."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portakern.study.layout import fit, room, table

pytestmark = pytest.mark.quick

WORDS = st.lists(st.text("abcxyz0123456789=.", min_size=1, max_size=14), max_size=6).map(" ".join)


def words(text: str) -> list[str]:
    """What is said, whatever lines it is on and whatever stands between cells."""
    return sorted(re.sub(r"[;\s,]+", " ", text).split())


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([40, 60, 80, 120]))
def test_a_table_fits_and_loses_nothing(data: st.DataObject, width: int):
    columns = data.draw(st.integers(1, 8))
    rows = data.draw(st.lists(st.lists(WORDS, min_size=columns, max_size=columns), min_size=1, max_size=5))
    names = [f"name{n}" for n in range(columns)]
    found = table([names, *rows], width=width)
    assert all(len(line) <= width for line in found.splitlines())
    said = words(found)
    for cell in (c for row in rows for c in row):
        for word in words(cell):
            assert word in said


def test_one_that_fits_is_left_as_it_is():
    rows = [["a", "bbb"], ["cccc", ""]]
    assert table(rows, width=60) == "a     bbb\ncccc" == table(rows)


def test_cells_are_broken_before_columns_are_given_up():
    rows = [["target", "gives"], ["sycl:pvc", "machine code for Intel GPUs and what else there is to be said of them"]]
    assert table(rows, width=44) == ("target    gives\n"
                                     "sycl:pvc  machine code for Intel GPUs and\n"
                                     "          what else there is to be said of\n"
                                     "          them")  # fmt: skip


def test_with_too_many_columns_rows_become_paragraphs_that_name_them():
    rows = [["operator", "evidence", "resources", "occupancy", "of peak"],
            ["softmax", "simulated", "41 registers", "100% (waves)", ""]]  # fmt: skip
    assert table(rows, keys=2, width=40) == "softmax  simulated\n    resources 41 registers; occupancy\n        100% (waves)"


def test_long_lines_are_broken_with_what_follows_further_in():
    text = "short\n  a topic: " + "word " * 12
    lines = fit(text, 30).splitlines()
    assert lines[0] == "short" and lines[1].startswith("  a topic:") and all(x.startswith("      word") for x in lines[2:])
    assert max(map(len, lines)) <= 30
    assert fit("  /a/path/that/is/far/too/long/for/this", 24).strip() == "/a/path/that/is/far/too/long/for/this"


def test_there_is_no_width_in_a_pipe_unless_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    assert room() is None and fit("x " * 500) == "x " * 500
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "24")
    assert room() is None
    monkeypatch.delenv("LINES")
    assert room() == 60
    monkeypatch.setenv("COLUMNS", "3")
    assert room() == 24
