"""What became of planted faults, as a report."""

from __future__ import annotations

from portakern.study.faults import MutantOutcome, report


def test_the_report_lists_shares_and_what_was_missed() -> None:
    made = [MutantOutcome("softmax", "cpp:cpu", "ragged", "f32", "wrong pad", "load", r, d) for r, d in
            (("caught", "values"), ("missed", "error ratio 0.5"), ("no effect", ""))]  # fmt: skip
    text = report(made)
    assert "wrong pad                          1       1          1        0     50%" in text
    assert "softmax ragged f32 cpp:cpu: wrong pad, load (error ratio 0.5)" in text
