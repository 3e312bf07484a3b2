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
BUDGET = re.compile(r"\bbudget_s=\d+")  # of a search, which takes all of it
OWN_TESTS = {"writing-an-operator.md", "tile-vocabulary.md"}  # tests/spec/test_docs.py; a fragment of a class


def blocks(page: Path, language: str) -> list[str]:
    return [text for mark, kind, text in BLOCK.findall(page.read_text()) if kind == language and mark != "not run"]


def commands(page: Path) -> list[tuple[str, int]]:
    """Commands with the exit status that they should have; one may go on over lines that end in a backslash."""
    found = [(text.replace("\\\n", " "), mark) for mark, kind, text in BLOCK.findall(page.read_text()) if kind == "console"]
    return [(line[2:], int(mark == "exits 1")) for text, mark in found if mark != "not run" for line in text.splitlines()
            if line.startswith("$ ")]  # fmt: skip


def ours(command: str) -> bool:
    """Whether it is run here; tests/conformance/test_out_of_tree.py does what installs a backend."""
    return command.startswith("portakern ") and "c:cpu" not in command


WITH_COMMANDS = [p for p in PAGES if any(ours(c) for c, _ in commands(p))]
WITH_PYTHON = [p for p in PAGES if blocks(p, "python") and p.name not in OWN_TESTS]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda p: p.stem)
def test_the_python_of_a_page_runs(page: Path, place: Path):
    script = place / f"{page.stem}.py"
    script.write_text(BUDGET.sub("budget_s=10", "\n\n".join(blocks(page, "python"))))
    done = subprocess.run([sys.executable, str(script)], cwd=place, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda p: p.stem)
def test_the_commands_of_a_page_do_what_they_show(page: Path, place: Path):
    """One after the other in one test: what one writes the next may read, and workers share out tests."""
    for command, status in commands(page):
        if ours(command):
            done = subprocess.run([sys.executable, "-m", "portakern", *shlex.split(command)[1:]], cwd=place,
                                  capture_output=True, text=True, timeout=300)  # fmt: skip
            assert done.returncode == status, f"$ {command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_links_and_paths_lead_somewhere(page: Path):
    text = page.read_text()
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)\)", prose):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
    for path in re.findall(r"`((?:portakern|backends|docs|examples|tests|csrc)/[\w./-]*)`", text):
        assert (ROOT / path).exists() or path.startswith("backends/x"), f"{page.name} names {path}"
