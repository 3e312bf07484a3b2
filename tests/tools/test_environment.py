"""What doctor reports: found without importing, and whatever a backend does when asked."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from portakern import cli
from portakern.cli import doctor
from portakern.native import driver_names
from portakern.registry import registry
from portakern.study import command_schema
from portakern.tools import environment
from portakern.tools.cache import Cache
from portakern.tools.environment import Ability
from tests.study.test_row_schema import closed

MANIFEST = """
import os
from pathlib import Path
from portakern.backend import Availability, Backend, Language
from portakern.errors import ToolMissing

class Tools:
    def available(self, target):
        return Availability(target.device.name == "abacus1", f"abacus compiler for {target}")

class Refuses:
    def available(self, target):
        raise ToolMissing("the abacus has no beads", hint="buy some")

class Dies:
    def available(self, target):
        os.abort()

def language(name, **parts):
    return Language(name, f"{name} title", ("abacus1", "abacus2"), None, None, extra="torch",
                    environment={"ABACUS": "1"}, **parts)

backend = Backend("abacus", (
    language("beads", toolchain=Tools(), runtime=Refuses(), tools={"sh": "a shell", "pk-no-such-tool": "nothing"}),
    language("rods", simulator=Dies()),
), Path(__file__).parent / "devices")
"""

DEVICE = """name = "NAME"
vendor = "Antiquity"
kind = "cpu"
title = "An abacus"
dtypes = ["i32"]
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[doctor.Report]:
    """What is said of a machine with a backend from elsewhere, installed as pip would leave it, and one that is broken."""
    tmp_path = tmp_path_factory.mktemp("site-packages")
    package = tmp_path / "abacus_backend"
    (package / "devices").mkdir(parents=True)
    (package / "__init__.py").write_text(MANIFEST)
    for name in ("abacus1", "abacus2"):
        (package / "devices" / f"{name}.toml").write_text(DEVICE.replace("NAME", name))
    info = tmp_path / "abacus_backend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[portakern.backends]\nabacus = abacus_backend:backend\nruin = abacus_backend:no_such_name\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        patch.setenv("PORTAKERN_CACHE", str(tmp_path / "cache"))
        importlib.invalidate_caches()
        registry.cache_clear()
        yield doctor.doctor()
    registry.cache_clear()
    sys.modules.pop("abacus_backend", None)


def test_a_backend_from_elsewhere_is_asked_part_by_part(report: doctor.Report):
    beads = next(language for language in report.languages if language.name == "beads")
    assert beads.abilities[:2] == (
        Ability("beads", "toolchain", "abacus1", True, "abacus compiler for beads:abacus1"),
        Ability("beads", "toolchain", "abacus2", False, "abacus compiler for beads:abacus2"),
    )
    assert [ability.ok for ability in beads.abilities[2:]] == [False, False]
    assert "the abacus has no beads\n  hint: buy some" in beads.abilities[2].detail


def test_a_backend_that_dies_when_asked_is_a_line(report: doctor.Report):
    rods = next(language for language in report.languages if language.name == "rods")
    assert {(ability.part, ability.ok) for ability in rods.abilities} == {("simulator", False)}
    assert "SIGABRT" in rods.abilities[0].detail


def test_a_backend_that_cannot_be_loaded_is_named(report: doctor.Report):
    assert "no_such_name" in report.broken["ruin"]
    assert not report.healthy
    assert "backend ruin cannot be loaded: AttributeError" in doctor.text(report)


def test_text_says_what_works_what_does_not_and_why(report: doctor.Report):
    lines = doctor.text(report).splitlines()
    row = next(line for line in lines if line.startswith("beads"))
    assert row.split() == ["beads", "yes", "1", "of", "2", "no", "-", "-", "abacus1", "abacus2"]
    assert any(line.startswith("  beads cannot compile for abacus2: abacus compiler") for line in lines)
    assert any(line.startswith("  beads cannot run for abacus1 abacus2: the abacus has no beads") for line in lines)
    assert any(line.split()[:2] == ["pk-no-such-tool", "not"] for line in lines)


def test_json_is_whole(report: doctor.Report):
    data = json.loads(json.dumps(report.to_dict()))
    assert data["healthy"] is False and data["machine"]["cores"] >= 1
    assert {driver["name"] for driver in data["drivers"]} == set(driver_names())
    torch = next(extra for extra in data["extras"] if extra["name"] == "torch")
    assert torch["command"] == "pip install 'portakern[torch]'"
    assert "beads title: compile, run for abacus1, abacus2" in torch["gives"]


def test_the_command_prints_json_and_tells_health_by_its_status(
    report: doctor.Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(doctor, "doctor", lambda: report)
    assert cli.main(["doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["broken"].keys() >= {"ruin"}
    pytest.importorskip("jsonschema").validate(told, closed(command_schema.schema("doctor")))
    assert cli.main(["doctor", "--json", str(tmp_path / "no" / "file")]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_a_missing_extra_says_what_it_lacks_gives_and_costs(report: doctor.Report, monkeypatch: pytest.MonkeyPatch):
    def version(name: str) -> str:
        if name == "torch":
            raise environment.importlib.metadata.PackageNotFoundError(name)
        return "0.0.1"

    monkeypatch.setattr(environment.importlib.metadata, "version", version)
    extras = {extra.name: extra for extra in environment.extras()}
    assert not extras["torch"].complete
    assert {package.version for package in extras["cpp"].packages} == {"0.0.1"} and not extras["cpp"].complete
    lacking = doctor.text(replace(report, extras=tuple(extras.values())))
    assert "torch: lacks torch" in lacking and "pip install 'portakern[torch]'" in lacking
    assert "ziglang 0.0.1, wanted >=0.15" in lacking


def test_an_unusable_cache_is_a_finding(tmp_path: Path):
    (tmp_path / "file").touch()
    state = environment.cache_state(Cache(tmp_path / "file"))
    assert "cannot write the cache" in state.error and "PORTAKERN_CACHE" in state.hint
    good = environment.cache_state(Cache(tmp_path / "new"))
    assert good.error == "" and good.free_bytes
