"""The examples run."""

from __future__ import annotations

import re
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
    targets = registry().match("cpp:cpu")  # numba takes seconds to compile one
    study = Runner("checked").run([w for case in small for w in works(of_case(operator, case), targets, ["f32"])])
    assert all(row.correct for row in study), study.table()


@pytest.mark.slow
def test_the_search_reaches_several_vendors():
    done = subprocess.run([sys.executable, str(EXAMPLES / "search_schedules.py"), "row_sum", "numba:cpu", "hip:gfx942"],
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("best:") == 2


QUANTISED = [(file.stem, name) for file in sorted((EXAMPLES / "quantised").glob("*.py"))
             for name in re.findall(r"^def (\w+)", file.read_text(), re.MULTILINE)]  # fmt: skip


@pytest.mark.parametrize(("file", "name"), QUANTISED)
def test_a_quantised_product_is_correct(file: str, name: str):
    """On numba, or where that has not its dtypes, in the interpreter of another language."""
    operator = load_operator(f"{EXAMPLES / 'quantised' / file}.py:{name}")
    dtype = operator.dtypes[0]
    (target,) = registry().match("numba:cpu" if not dtype.startswith("f8") else "cuda:sm_90a")
    language = registry().language(target.language)
    machine = language.runtime or language.simulator if target.language == "numba" else language.simulator
    if machine is None or not machine.available(target):
        pytest.skip(f"{target} runs nowhere here")
    study = Runner("checked").run(works(of_case(operator, operator.case("ragged")), [target], [dtype]))
    assert all(row.correct for row in study), study.table()
