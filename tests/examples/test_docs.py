"""What the pages show works: their Python runs, their commands succeed, their links lead somewhere.

A block is left out where the line before it is ``<!-- not run: why -->``.  Commands run are those of ``console`` blocks; where
one finds something wrong, as it should, the line before its block is ``<!-- exits 1: what it finds -->``.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?:<!-- (not run|exits 1)[^\n]*-->\n)?```(python|console)\n(.*?)```", re.DOTALL)
OWN_TESTS = {"writing-an-operator.md", "tile-vocabulary.md"}  # tests/spec/test_docs.py; a fragment of a class


def blocks(page: Path, language: str) -> list[str]:
    return [text for mark, kind, text in BLOCK.findall(page.read_text()) if kind == language and mark != "not run"]


def commands(page: Path) -> list[tuple[str, int]]:
    """Commands with the exit status that they should have; one may go on over lines that end in a backslash."""
    found = [(text.replace("\\\n", " "), mark) for mark, kind, text in BLOCK.findall(page.read_text()) if kind == "console"]
    return [(line[2:], int(mark == "exits 1")) for text, mark in found if mark != "not run" for line in text.splitlines()
            if line.startswith("$ ")]  # fmt: skip


COMMANDS = [pytest.param(page, *x, id=f"{page.stem}: {x[0]}") for page in PAGES for x in commands(page)]
WITH_PYTHON = [p for p in PAGES if blocks(p, "python") and p.name not in OWN_TESTS]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run; what one writes the next may read."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda p: p.stem)
def test_the_python_of_a_page_runs(page: Path, place: Path):
    script = place / f"{page.stem}.py"
    script.write_text("\n\n".join(blocks(page, "python")))
    done = subprocess.run([sys.executable, str(script)], cwd=place, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("page", "command", "status"), COMMANDS)
def test_a_command_of_a_page_does_what_it_shows(page: Path, command: str, status: int, place: Path):
    words = shlex.split(command)
    if words[0] != "portakern" or "c:cpu" in command:
        pytest.skip("tests/conformance/test_out_of_tree.py does this")
    done = subprocess.run([sys.executable, "-m", "portakern", *words[1:]], cwd=place, capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_links_and_paths_lead_somewhere(page: Path):
    text = page.read_text()
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)\)", prose):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
    for path in re.findall(r"`((?:portakern|backends|docs|examples|tests|csrc)/[\w./-]*)`", text):
        assert (ROOT / path).exists() or path.startswith("backends/x"), f"{page.name} names {path}"
