"""The JSON of commands that are not about rows: types, JSON Schemas, docs and what is written, held together."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from portakern.cli import main
from portakern.study import command_schema
from tests.study.test_row_schema import ROOT, TABLES, closed

jsonschema = pytest.importorskip("jsonschema")

PAGE = ROOT / "docs" / "json.md"
COMMANDS = sorted(command_schema.FORMS)


@pytest.mark.quick
@pytest.mark.parametrize("command", COMMANDS)
def test_the_schema_of_the_package_is_that_of_the_types(command: str, request: pytest.FixtureRequest):
    if request.config.getoption("--update-golden"):
        command_schema.FOLDER.mkdir(exist_ok=True)
        (command_schema.FOLDER / f"{command}.json").write_text(command_schema.text(command))
    assert command_schema.installed(command) == command_schema.text(command), "run this test with --update-golden and read it"
    jsonschema.Draft202012Validator.check_schema(command_schema.schema(command))


@pytest.mark.quick
def test_the_docs_have_every_key(request: pytest.FixtureRequest):
    tables, page = f"\n{command_schema.described()}\n", PAGE.read_text()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page := TABLES.sub(lambda m: m[1] + tables + m[3], page))
    found = TABLES.search(page)
    assert found is not None and found[2] == tables, "run this test with --update-golden and read the difference"


@pytest.mark.quick
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_print_their_schema_whatever_else_they_need(command: str, capsys: pytest.CaptureFixture[str]):
    try:
        assert main([command, "--schema"]) == 0
    except SystemExit as end:
        assert not end.code
    assert json.loads(capsys.readouterr().out) == command_schema.schema(command)


def hold(command: str, folder: Path, *words: str) -> dict[str, Any]:
    """What a command writes, held against its schema, in which no key may be missing."""
    with contextlib.chdir(folder):
        assert main([command, *words, "--json", "told.json"]) in (0, 1)
    told = json.loads((folder / "told.json").read_text())
    jsonschema.Draft202012Validator(open_trials(closed(command_schema.schema(command)))).validate(told)
    assert told["schema"] == command_schema.FORMS[command][1]
    return told


def open_trials(schema: dict[str, Any]) -> dict[str, Any]:
    """What a search knows of a candidate stands beside the common keys."""
    if "TrialFields" in schema["$defs"]:
        schema["$defs"]["TrialFields"].pop("additionalProperties")
    return schema


def test_doctor(tmp_path: Path):
    assert hold("doctor", tmp_path)["languages"]


@pytest.mark.quick
def test_targets(tmp_path: Path):
    assert len(hold("targets", tmp_path, "all")["targets"]) > 20
    assert hold("targets", tmp_path, "hip:mi300x")["targets"][0]["matrix"]


@pytest.mark.quick
def test_cache(tmp_path: Path):
    assert "kinds" in hold("cache", tmp_path, "size")
    assert hold("cache", tmp_path, "prune", "--dry-run", "--age", "5000d", "--size", "9000GB")["removed"] == 0


def test_inspect(tmp_path: Path):
    kernel = tmp_path / "k.hip"
    assert main(["emit", "row_sum", "-t", "hip:gfx942", "--shape", "M=4,N=64", "--dtype", "f32", "-o", str(kernel)]) == 0
    (found,) = hold("inspect", tmp_path, "k.hip", "-t", "hip:gfx942", "--args", "x=f32[4,64],y=f32[4]")["findings"]
    assert found["kernels"] and found["estimate"] and found["ran"], found
    kernel.write_text("no C++")
    (found,) = hold("inspect", tmp_path, "k.hip", "-t", "hip:gfx942")["findings"]
    assert found["error"]


def test_tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PORTAKERN_TUNED", str(tmp_path / "tuned.sqlite"))
    how = ("--shape", "M=8,N=64", "--dtype", "f32", "--budget", "1s", "--no-store")
    search, refused = hold("tune", tmp_path, "row_sum", "-t", "cpp:cpu,triton:sm_90", *how)["tunings"]
    assert search["tried"] and search["by"] == "time" and refused["error"]
