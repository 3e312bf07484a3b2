"""What the pages show works: their Python runs, their commands succeed, their links lead somewhere.

A block is left out where a line before it is ``<!-- not run: why -->``, and belongs to the slow tier where it is
``<!-- slow: why -->``.  Commands run are those of ``console`` blocks; where one finds something wrong, as it should, a line
before its block is ``<!-- exits 1: what it finds -->``.  A Python block that begins with ``# name.py`` is that file, too.  What
a tutorial shows as printed is what is printed, figures aside; ``...`` stands for the rest of a line, or for lines.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MARK = r"<!-- (?:not run|exits 1|slow): [^\n]*-->\n"
BLOCK = re.compile(rf"((?:{MARK})*)```(python|console)\n(.*?)```", re.DOTALL)
PRINTED = re.compile(r"<!-- prints -->\n```\n(.*?)```", re.DOTALL)
BUDGET = re.compile(r"\bbudget_s=\d+")  # of a search, which takes all of it
TIMES = re.compile(r"\bpk\.(?:compare|evaluate)\([^()]*\)")
TIMING = {"bench", "compare", "evaluate"}  # commands that time for two seconds where nothing else is said
WRITTEN = {"api.md", "command-line.md"}  # by docs/_site, for the site
OWN_TESTS = {"writing-an-operator.md", "tile-vocabulary.md"}  # tests/spec/test_docs.py; a fragment of a class


def blocks(page: Path, language: str) -> list[tuple[str, str]]:
    """(marks, text) of the blocks that are run."""
    found = [(marks, text) for marks, kind, text in BLOCK.findall(page.read_text()) if kind == language]
    return [(marks, text) for marks, text in found if "<!-- not run" not in marks]


def commands(page: Path, slow: bool) -> list[tuple[str, int, str]]:
    """Commands, the exit status of each and what is shown below it; one may go on over lines that end in a backslash."""
    found: list[tuple[str, int, str]] = []
    for marks, text in blocks(page, "console"):
        if ("<!-- slow" in marks) == slow:
            parts = text.replace("\\\n", " ").removeprefix("$ ").split("\n$ ")
            found += [(line, int("<!-- exits 1" in marks), shown) for line, _, shown in (p.partition("\n") for p in parts)]
    return found


def masked(line: str) -> str:
    """A line without its figures and its spaces."""
    return " ".join(re.sub(r"[~\d][\d.,]*(e-?\d+)?", "#", line).split())


def check_shown(shown: str, printed: str) -> None:
    """Raises where a line that is shown was not printed after the one before it."""
    lines = iter(map(masked, printed.splitlines()))
    for line in map(masked, shown.splitlines()):
        if line in ("", "..."):
            continue
        start = line.removesuffix("...").rstrip()
        assert any(p.startswith(start) if start != line else p == line for p in lines), f"not printed: {line}\n\n{printed}"


def ours(command: str) -> bool:
    """Whether it is run here; tests/conformance/test_out_of_tree.py does what installs a backend."""
    return command.startswith("portakern ") and "c:cpu" not in command


def with_commands(slow: bool) -> list[Path]:
    return [p for p in PAGES if any(ours(c) for c, *_ in commands(p, slow))]


WITH_PYTHON = [p for p in PAGES if blocks(p, "python") and p.name not in OWN_TESTS]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "examples").symlink_to(ROOT / "examples")
    for page in WITH_PYTHON:
        for _, text in blocks(page, "python"):
            if named := re.match(r"# (\w+\.py)\n", text):
                (folder / named[1]).write_text(text)
    return folder


LONG = {"commands": {"report", "results", "tpu", "fuzzing", "from-cuda", "amd", "targets", "benchmarking", "gradients"},
        "python": {"python", "tuning", "from-torch", "targets", "from-a-module", "timing", "judging", "generator"}}
"""Pages whose blocks take half a minute; what they show has tests of its own."""


def tiers(pages: Iterable[Path], what: str) -> list[Any]:
    return [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] * (p.stem in LONG[what])) for p in pages]


@pytest.mark.parametrize("page", tiers(WITH_PYTHON, "python"))
def test_the_python_of_a_page_runs(page: Path, place: Path):
    script = place / f"{page.stem}.py"
    text = BUDGET.sub("budget_s=4", "\n\n".join(text for _, text in blocks(page, "python")))
    script.write_text(TIMES.sub(lambda m: m[0] if "budget=" in m[0] else f"{m[0][:-1]}, budget=0.2)", text))
    done = subprocess.run([sys.executable, str(script)], cwd=place, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    for shown in PRINTED.findall(page.read_text()):
        check_shown(shown, done.stdout)


@pytest.mark.parametrize("page", tiers(with_commands(slow=False), "commands"))
def test_the_commands_of_a_page_do_what_they_show(page: Path, place: Path):
    run_commands(page, place, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", with_commands(slow=True), ids=lambda p: p.stem)
def test_the_slow_commands_of_a_page_do_what_they_show(page: Path, place: Path):
    run_commands(page, place, slow=True)


def run_commands(page: Path, place: Path, slow: bool) -> None:
    """One after the other in one test: what one writes the next may read, and workers share out tests."""
    for command, status, shown in commands(page, slow):
        if ours(command):
            words = shlex.split(command)[1:]
            briefly = ["--budget", "0.2s"] if words[0] in TIMING and not {"--budget", "--from", ">", "|"} & {*words} else []
            done = subprocess.run([sys.executable, "-m", "portakern", *words, *briefly], cwd=place,
                                  capture_output=True, text=True, timeout=300)  # fmt: skip
            assert done.returncode == status, f"$ {command}\n{done.stdout}{done.stderr}"
            if page.parent.name == "tutorials":
                check_shown(shown, done.stdout)


def test_what_is_shown_is_compared() -> None:
    check_shown("b 1.5 us\n...\nd  ...", "a\nb  2 us\nc\nd e")
    for shown in ("b\na", "b x", "e", "c d ..."):
        with pytest.raises(AssertionError):
            check_shown(shown, "a\nb\nc\nd")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_links_and_paths_lead_somewhere(page: Path):
    text = page.read_text()
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)\)", prose):
        assert (page.parent / target).exists() or target in WRITTEN, f"{page.name} links to {target}"
    for path in re.findall(r"`((?:portakern|backends|docs|examples|tests|csrc)/[\w./-]*)`", text):
        assert (ROOT / path).exists() or path.startswith("backends/x"), f"{page.name} names {path}"
