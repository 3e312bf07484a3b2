"""The rooms of backends/rocm/amdgcn import each other only as the backend's README draws it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from portakern.backends import rocm

FOLDER = Path(rocm.__file__).parent
HOUSE = FOLDER / "amdgcn"


def drawn() -> dict[str, set[str]]:
    lines = re.findall(r"^(\w+) +-> (.+)$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    return {room: set(others.split(", ")) for room, others in lines}


def imported(file: Path) -> set[str]:
    """The rooms that a module of a room imports from others."""
    nodes = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.ImportFrom) and n.level == 2]
    return {n.module.partition(".")[0] if n.module else a.name for n in nodes for a in n.names}


def test_rooms_import_what_is_drawn() -> None:
    rooms = {file.parent for file in HOUSE.glob("*/__init__.py")}
    assert rooms, HOUSE
    found = {room.name: set().union(*(imported(file) for file in room.glob("*.py"))) for room in rooms}
    assert {room: others for room, others in found.items() if others} == drawn()
