"""The Python of docs/writing-an-operator.md runs, and names every function there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import portakern as pk
from portakern.spec import functions

pytestmark = pytest.mark.quick

TEXT = (Path(__file__).parents[2] / "docs" / "writing-an-operator.md").read_text()


def test_its_operators_trace(tmp_path: Path) -> None:
    file = tmp_path / "documented.py"
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    file.write_text("import portakern as pk\n\n" + "\n".join(blocks))
    for name in ("rms_norm", "product", "scaled"):
        operator = pk.load_operator(f"{file}:{name}")
        assert all(operator.program(case.dims, case.params, "bf16").results for case in operator.cases)


def test_its_table_names_real_functions_and_forgets_none() -> None:
    table = TEXT.split("Functions, all as `pk.name`:")[1].split("Python code that depends on the numbers")[0]
    named = set(re.findall(r"\b[a-z]\w*\b", " ".join(re.findall(r"`([^`]*)`", table)))) - {"pk", "name"}
    operators = {"add", "subtract", "multiply", "divide", "floor_divide", "remainder", "negative", "equal", "not_equal",
                 "less", "less_equal", "greater", "greater_equal", "getitem"}  # fmt: skip
    assert named == set(functions.__all__) - operators
