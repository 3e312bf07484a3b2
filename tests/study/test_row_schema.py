"""Rows, their JSON Schema and their description in the docs are held together, and to rows as commands write them."""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import portakern
from portakern import error_kinds
from portakern.cli import main
from portakern.error_kinds import PATTERN
from portakern.errors import UsageError
from portakern.study import row_schema
from portakern.study.results import read_results
from portakern.study.row import Row
from portakern.study.study import Study

jsonschema = pytest.importorskip("jsonschema")

PACKAGE = Path(portakern.__file__).parent
ROOT = PACKAGE.parent
PAGE = ROOT / "docs" / "rows.md"
TABLES = re.compile(r"(<!-- fields:[^\n]*-->\n)(.*)(<!-- end of fields -->)", re.DOTALL)


# ---- the three say the same ----------------------------------------------------------------------------------------------


@pytest.mark.quick
def test_the_schema_of_the_package_is_that_of_the_types(request: pytest.FixtureRequest):
    if request.config.getoption("--update-golden"):
        row_schema.FILE.write_text(row_schema.text())
    assert row_schema.FILE.read_text() == row_schema.text(), "run this test with --update-golden and read the difference"
    jsonschema.Draft202012Validator.check_schema(row_schema.schema())


@pytest.mark.quick
def test_the_docs_have_every_field_and_kind(request: pytest.FixtureRequest):
    tables = f"\n{row_schema.described()}\n"
    page = PAGE.read_text()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page := TABLES.sub(lambda m: m[1] + tables + m[3], page))
    found = TABLES.search(page)
    assert found is not None and found[2] == tables, "run this test with --update-golden and read the difference"


@pytest.mark.quick
def test_the_command_prints_the_schema(capsys: pytest.CaptureFixture[str]):
    assert main(["results", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == row_schema.schema()


# ---- kinds of errors ------------------------------------------------------------------------------------------------------


def sources() -> Iterator[Path]:
    folders = [PACKAGE, *sorted((ROOT / "backends").iterdir())]
    for folder in folders:
        yield from (p for p in folder.rglob("*.py") if not p.is_relative_to(PACKAGE / "backends"))


def kinds_given(text: str) -> set[str]:
    """Words that a module gives errors as their kind: the first argument of an error that takes it there, ``kind=`` of
    another, and the ``default_kind`` of a class."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            values = [k.value for k in node.keywords if k.arg == "kind" and re.search("(Error|Fault|Missing|Dtype)$", name)]
            values += node.args[:1] if name in ("PortakernError", "Refused", "DriverError") else []
            if name == "__init__" and "PortakernError" in text:  # super().__init__(kind, ...), or PortakernError's with self
                values += [a for a in node.args[:2] if isinstance(a, ast.Constant) and re.fullmatch(PATTERN, str(a.value))][:1]
            found |= {w for v in values for w in _words(v)}
        elif isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "default_kind" for t in node.targets):
            found |= set(_words(node.value))
    return found - {"error"}  # that of the abstract class


def _words(value: ast.expr) -> list[str]:
    """Texts that an expression may be; not what a condition compares with, nor parts of a text."""
    if isinstance(value, ast.IfExp):
        return [*_words(value.body), *_words(value.orelse)]
    return [value.value] if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value else []


@pytest.mark.quick
def test_every_kind_that_is_given_is_described():
    missing = {f"{kind} ({path.name})" for path in sources() for kind in kinds_given(path.read_text())
               if not error_kinds.known(kind)}  # fmt: skip
    assert not missing, f"portakern/error_kinds.py does not say what these mean: {sorted(missing)}"


@pytest.mark.quick
def test_every_kind_that_is_described_is_given():
    native = [*ROOT.joinpath("csrc").rglob("*.cpp"), *ROOT.joinpath("csrc").rglob("*.hpp")]
    whole = "\n".join(p.read_text() for p in [*sources(), *native] if p.name != "error_kinds.py")
    assert not [k for k in error_kinds.KINDS if f'"{k}"' not in whole]


# ---- rows as commands write them --------------------------------------------------------------------------------------------


def closed(schema: Any) -> Any:
    """The schema, with objects that have no keys but those described: a row must not hold what the docs do not say.

    Figures of one platform stand beside the common resources."""
    if isinstance(schema, list):
        return [closed(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    found = {k: closed(v) for k, v in schema.items()}
    if "properties" in schema and "registers" not in schema["properties"] and schema.get("type") == "object":
        found["additionalProperties"] = False
    return found


def hold(data: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(closed(row_schema.schema())).validate(data)
    for row in data["rows"]:
        assert row["error"] is None or error_kinds.known(row["error"]["kind"])


def run(folder: Path, *words: str) -> dict[str, Any]:
    """What a command writes, run in this process and a folder of its own."""
    with contextlib.chdir(folder):
        assert main([*words, "--json", "rows.json"]) in (0, 1)
    return json.loads((folder / "rows.json").read_text())


SMALL = ("--shape", "M=8,N=64", "--dtype", "f32")
QUICK = ("--budget", "0.05s", "--store", "mine.sqlite")


@pytest.mark.slow
def test_rows_of_compare_are_of_the_schema(tmp_path: Path):
    data = run(tmp_path, "compare", "row_sum", "-t", "numba:cpu,hip:gfx942,hip:gfx1201,pallas:v6e", *SMALL, *QUICK)
    hold(data)
    assert data["porting"] and any(r["estimate"] for r in data["rows"]) and any(r["time"] for r in data["rows"])


@pytest.mark.parametrize("peers", ["numpy", pytest.param("numpy,torch.compile", marks=pytest.mark.slow)])
def test_rows_of_bench_and_what_the_store_has_of_them_are_of_the_schema(tmp_path: Path, peers: str):
    data = run(tmp_path, "bench", "row_sum", "-t", "cpp:cpu,cuda:sm_90a", "--against", peers, "--samples", *SMALL, *QUICK)
    hold(data)
    timed, refused = data["rows"]
    assert len(timed["time"]["samples_us"]) == timed["time"]["samples"] and refused["error"]["kind"] == "not-timed"
    kept = run(tmp_path, "results", "--store", "mine.sqlite")
    hold(kept)
    assert kept["rows"][0]["time"]["peers"]


def test_rows_of_check_and_of_a_strangers_kernel_are_of_the_schema(tmp_path: Path):
    hold(run(tmp_path, "check", "softmax", "-t", "cpp:cpu,hip:gfx90a", "--shape", "M=2,N=8", "--dtype", "f8e5m2,bf16"))
    assert main(["emit", "row_sum", "-t", "cpp:cpu", *SMALL, "-o", str(tmp_path / "k.cpp")]) == 0
    judged = run(tmp_path, "evaluate", "row_sum", "-t", "cpp:cpu", "--source", "k.cpp", *SMALL, *QUICK)
    hold(judged)
    assert judged["rows"][0]["time"]["judged"] and judged["rows"][0]["secret"]


# ---- other versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.quick
def test_files_without_a_version_are_read_and_later_ones_refused(tmp_path: Path):
    data = json.loads(json.dumps(Study((Row("softmax", "cpp:cpu"),)).to_dict()))
    file = tmp_path / "rows.json"
    for change in ({}, {"schema": None}):
        old = {k: v for k, v in (data | change).items() if v is not None}
        file.write_text(json.dumps(old))
        assert read_results(file)[0].operator == "softmax"
    for wrong in (row_schema.SCHEMA + 1, "1", 0):
        file.write_text(json.dumps(data | {"schema": wrong}))
        with pytest.raises(UsageError, match="schema") as refused:
            read_results(file)
        assert refused.value.hint


@pytest.mark.quick
def test_rows_of_an_earlier_version_go_through_every_change(monkeypatch: pytest.MonkeyPatch):
    changes = (lambda row: row | {"first": True}, lambda row: row | {"second": row.get("first", False)})
    monkeypatch.setattr(row_schema, "UPGRADES", changes)
    monkeypatch.setattr(row_schema, "SCHEMA", 3)
    assert row_schema.upgraded({}, 1, "here") == {"first": True, "second": True}
    assert row_schema.upgraded({}, 2, "here") == {"second": False}
    assert row_schema.upgraded({}, 3, "here") == {}


@pytest.mark.quick
def test_there_is_one_change_for_each_version():
    assert len(row_schema.UPGRADES) == row_schema.SCHEMA - 1
