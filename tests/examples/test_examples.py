"""The examples run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study.study import Runner
from portakern.study.work import of_case, works

EXAMPLES = Path(__file__).parents[2] / "examples"
OPERATORS = sorted(p.stem for p in EXAMPLES.glob("*.py") if "@pk.operator" in p.read_text())


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_correct(name: str):
    operator = load_operator(str(EXAMPLES / f"{name}.py"))
    small = [c for c in operator.cases if c.name in ("ragged", "tiny", "zero")] or operator.cases[:2]
    targets = registry().match("numba:cpu")
    study = Runner("checked").run([w for case in small for w in works(of_case(operator, case), targets, ["f32"])])
    assert all(row.correct for row in study), study.table()


def test_the_search_reaches_several_vendors():
    done = subprocess.run([sys.executable, str(EXAMPLES / "search_schedules.py"), "row_sum", "numba:cpu", "hip:gfx942"],
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("best:") == 2
