"""The ptxas that has a fault is not used where a newer one lies beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from portakern.backends.triton.compile import assembler


def tools(folder: Path, **versions: str) -> str:
    for name, version in versions.items():
        tool = folder / name.replace("_", "-")
        tool.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release 1, V{version}'\n")
        tool.chmod(0o755)
    return str(folder)


@pytest.mark.quick
def test_the_newer_tool_is_taken_where_the_usual_one_has_the_fault(tmp_path: Path) -> None:
    folder = tools(tmp_path, ptxas="12.8.93", ptxas_blackwell="12.9.86")
    assert assembler.assembler(folder) == str(tmp_path / "ptxas-blackwell")


@pytest.mark.quick
@pytest.mark.parametrize("versions", [{"ptxas": "12.9.86", "ptxas_blackwell": "13.4.59"}, {"ptxas": "12.8.93"}, {},
                                      {"ptxas": "12.8.93", "ptxas_blackwell": "12.8.93"}])  # fmt: skip
def test_nothing_is_chosen_where_there_is_nothing_better(tmp_path: Path, versions: dict[str, str]) -> None:
    assert assembler.assembler(tools(tmp_path, **versions)) is None


@pytest.mark.quick
def test_who_names_a_tool_is_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(assembler.CHOICE, "/elsewhere/ptxas")
    monkeypatch.setattr(assembler, "_folder", lambda: Path(tools(tmp_path, ptxas="12.8.93", ptxas_blackwell="12.9.86")))
    assembler.use_sound_assembler()
    assert os.environ[assembler.CHOICE] == "/elsewhere/ptxas"


@pytest.mark.quick
def test_the_tool_in_use_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(assembler.CHOICE, raising=False)
    assert assembler.named(tools(tmp_path, ptxas="12.8.93", ptxas_blackwell="12.9.86")) == "ptxas 12.9.86"
    assert assembler.named(str(tmp_path / "none")) == ""
