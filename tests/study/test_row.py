"""Rows: evidence, what counts as reached, resources of several kernels, and the way to JSON and back."""

from __future__ import annotations

import json

import pytest

from portakern.backend import Resources
from portakern.errors import UnsupportedDtype
from portakern.study.row import EVIDENCE, Row, resources_dict, success
from portakern.study.table import occupancy_text, resources_text, summary, text_table

pytestmark = pytest.mark.quick

ROW = Row("softmax", "hip:gfx942", shape={"M": 4, "B": [2, 3], "N": None}, dtype="bf16", evidence="compiled")


def test_each_level_contains_the_ones_before():
    for place, level in enumerate(EVIDENCE):
        row = ROW.but(evidence=level)
        assert [row.reached(e) for e in EVIDENCE] == [True] * (place + 1) + [False] * (len(EVIDENCE) - place - 1)
    assert not ROW.but(evidence=None).reached("emitted")


@pytest.mark.parametrize(("changes", "reached"), [
    ({}, {"emitted", "compiled", "compared"}),
    ({"evidence": "emitted"}, {"emitted", "compared"}),
    ({"evidence": "interpreted", "correct": True}, {"emitted", "compiled", "checked", "compared"}),
    ({"correct": False}, {"emitted", "compiled"}),
    ({"error": {"kind": "compile", "message": "", "hint": ""}}, set()),
    ({"evidence": None, "error": {"kind": "unsupported-dtype", "message": "", "hint": ""}},
     {"emitted", "compiled", "checked", "timed", "compared"}),
])  # fmt: skip
def test_success_is_what_was_asked_and_reached(changes: dict, reached: set[str]):
    """A row that was never run is not checked: no skipped check counts as passed."""
    goals = ("emitted", "compiled", "checked", "timed", "compared")
    assert {g for g in goals if success(ROW.but(**changes), g)} == reached


def test_json_and_back():
    row = ROW.but(correct=True, time={"median_us": 1.5}, resources={"registers": 3})
    assert Row.from_dict(json.loads(json.dumps(row.to_dict()))) == row


def test_an_error_keeps_what_was_reached():
    row = ROW.failed(UnsupportedDtype("no f16", hint="use bf16"))
    assert row.evidence == "compiled" and row.refused and row.error == {
        "kind": "unsupported-dtype", "message": "no f16", "hint": "use bf16"}


def test_resources_of_several_kernels_are_the_most_demanding_ones():
    first = Resources("a", registers=10, spills=0, code_bytes=100, occupancy=1.0, source="ELF")
    second = Resources("b", registers=90, spills=2, code_bytes=50, occupancy=0.25, limiter="registers", source="ELF",
                       extra=(("agprs", 4),))  # fmt: skip
    both = resources_dict([first, second])
    assert both is not None
    assert (both["registers"], both["spills"], both["code_bytes"]) == (90, 2, 150)
    assert (both["occupancy"], both["limiter"]) == (0.25, "registers")
    assert both["kernels"][1]["agprs"] == 4
    assert resources_dict([first])["kernel"] == "a"  # type: ignore[index]
    assert resources_dict([]) is None


def test_the_table_shows_open_dims_errors_once_and_no_empty_columns():
    rows = [ROW, ROW.but(dtype="f32").failed(UnsupportedDtype("no f32", hint="use bf16")),
            ROW.but(dtype="f64").failed(UnsupportedDtype("no f32", hint="use bf16"))]  # fmt: skip
    text = text_table(rows)
    assert "M=4,B=2x3,N=?" in text and "time us" not in text
    assert text.count("no f32") == 1 and "and 1 more row" in text
    assert summary(rows, "compiled") == "3 of 3 rows compiled: 1 compiled, 2 refused by rule"


def test_accumulation_registers_and_scratch_are_shown_where_there_are_such():
    each = [Resources(n, registers=r, scratch_bytes=0, shared_bytes=512, occupancy=0.25, limiter="LDS", extra=(("agprs", a),))
            for n, r, a in (("a", 100, 0), ("b", 96, 32))]  # fmt: skip
    row = Row("op", "hip:gfx942", resources=resources_dict(each))
    assert resources_text(row) == "100 regs (32 acc), 0 B scratch, 512 B shared"
    assert occupancy_text(row) == "25% (LDS)"
    plain = Row("op", "cuda:sm_90a", resources=resources_dict([Resources("a", registers=10, scratch_bytes=0)]))
    assert resources_text(plain) == "10 regs"
