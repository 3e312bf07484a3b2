"""The site has every page in one place, and those that are written from the code name all there is."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import portakern as pk
from portakern.cli import COMMANDS

ROOT = Path(__file__).parents[2]
NAV = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
WRITTEN = {"api.md", "command-line.md", *(f"backend-{p.parent.name}.md" for p in (ROOT / "backends").glob("*/README.md"))}


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs" / "_site" / "pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.quick
def test_every_page_has_its_place() -> None:
    there = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert sorted(NAV) == sorted(there | WRITTEN)


@pytest.mark.quick
def test_the_reference_names_everything_public(pages: ModuleType) -> None:
    text = pages.api()
    assert [n for n in pk.__all__ if n != "__version__" and not re.search(rf"pk\.{n}\b", text)] == []
    assert ":func:" not in text and ":class:" not in text and "**Raises**" in text


@pytest.mark.quick
def test_the_command_line_is_what_its_parsers_say(pages: ModuleType) -> None:
    text = pages.command_line()
    assert [name for name in COMMANDS if f"## portakern {name}\n" not in text] == []
    assert text.count("usage: portakern ") == len(COMMANDS)
    assert "--targets" in text and "examples:" in text


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_asks_the_network_for_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    fetched = re.compile(r"<(?:script|img|link rel=.stylesheet.)[^>]*(?:src|href)=.https?:")
    assert [p.name for p in (tmp_path / "site").rglob("*.html") if fetched.search(p.read_text())] == []
