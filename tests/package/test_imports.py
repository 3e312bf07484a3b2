"""Who may import whom: the rooms of portakern stand in one order, and a module imports from its own room or a lower one.

A room is a folder of ``portakern/``, or a module beside them; ``portakern`` is the package's own face.  Every import counts,
at the top of a module, inside a function or for type checkers alone, and so does a function that a worker is told to call by
its name (``"portakern.study.steps:build"``): each is something that must be known to read the module.  What is found at run
time does not count: backends through entry points, operators and commands by the name a user gives.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import portakern

ROOT = Path(portakern.__file__).parent

ROOMS = (
    "errors", "error_kinds", "callable_room", "_version", "version", "dtypes", "dtype_names", "device", "_native", "native",
    "ir", "spec", "gradients", "array_program", "torch_import",
    "backend", "registry",
    "emit", "lower",
    "tools", "referee", "launch", "timing", "check", "tuned",
    "torch_autograd", "torch_op", "study",
    "tuning", "search", "testing", "suite", "model_study",
    "torch_swap", "api", "cache", "portakern", "operators", "torch_compile",
    "fuzz", "jobs", "fleet", "serve", "cli", "__main__",
)  # fmt: skip
"""Lowest first.  ``_native`` is the compiled core, ``_version`` what the build writes."""

CALLED = re.compile(r"portakern(?:\.\w+)+:\w+")


def room_of(name: str) -> str:
    """The room of a dotted name: ``portakern.ir.size.Size`` is in ``ir``, ``portakern.build`` in the package's face."""
    first = name.split(".")[1] if "." in name else ""
    return first if first in ROOMS or first == "backends" else "portakern"


def imported(module: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of what a module of ``portakern/`` names of portakern."""
    package = ("portakern", *module.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom():
                within = package[: len(package) + 1 - node.level] if node.level else ()
                base = ".".join((*within, *filter(None, [node.module])))
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
            case ast.Constant(value=str() as text) if CALLED.fullmatch(text):
                yield node.lineno, text.partition(":")[0]


@cache
def imports() -> tuple[tuple[str, str, str], ...]:
    """(place, room, room that is imported from) of every import of portakern inside it."""
    found = []
    for module in sorted(ROOT.rglob("*.py")):  # does not follow the link to the backends
        parts = module.relative_to(ROOT).with_suffix("").parts
        if parts[0] == "backends":
            continue
        room = "portakern" if parts == ("__init__",) else parts[0]
        for line, name in imported(module):
            if name.partition(".")[0] == "portakern":
                found.append((f"{module.relative_to(ROOT)}:{line}", room, room_of(name)))
    return tuple(found)


def test_every_room_has_its_place():
    rooms = {p.stem if p.suffix == ".py" else p.name for p in ROOT.iterdir() if p.suffix == ".py" or any(p.rglob("*.py"))}
    assert rooms - {"__init__", "backends", "_version"} == set(ROOMS) - {"_native", "_version", "portakern"}


def test_imports_go_downwards():
    upwards = [f"{place}: {room} imports from {other}" for place, room, other in imports()
               if other in ROOMS and ROOMS.index(other) > ROOMS.index(room)]  # fmt: skip
    assert not upwards, "\n".join(upwards)


def test_no_neutral_module_imports_a_backend():
    assert [place for place, _, other in imports() if other == "backends"] == []


def test_the_drawing_shows_this_order():
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    drawing = page.partition("## The order of rooms")[2].partition("```\n")[2].partition("```")[0]
    drawn = [line.partition("|")[0].split() for line in drawing.splitlines()]
    assert [room for line in reversed(drawn) for room in line] == list(ROOMS)


def test_imports_are_found_wherever_they_stand(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("tests.package.test_imports.ROOT", tmp_path)
    (tmp_path / "check").mkdir()
    module = tmp_path / "check" / "faults.py"
    module.write_text("from .stages import x\nfrom ..study import steps\nfrom portakern import native\n"
                      "def f(pool):\n    import portakern.lower\n    pool.call('portakern.study.faults:sites')\n")
    assert [room_of(name) for _, name in imported(module)] == ["check", "study", "native", "lower", "study"]
