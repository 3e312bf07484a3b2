"""The rooms of a backend, its folders and the modules beside them, import one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import portakern

BACKENDS = Path(portakern.__file__).parent / "backends"
NAMES = sorted(path.parent.name for path in BACKENDS.glob("*/__init__.py"))


def imported(module: Path, backend: Path) -> Iterator[str]:
    """The rooms of the backend that a module of it imports from, wherever the import stands."""
    package = ("portakern", "backends", *module.relative_to(backend.parent).parent.parts)
    for node in ast.walk(ast.parse(module.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            within = package[: len(package) + 1 - node.level] if node.level else ()
            names = [".".join((*within, *filter(None, [node.module]), alias.name)) for alias in node.names]
        for parts in (name.split(".") for name in names):
            if parts[:3] == ["portakern", "backends", backend.name] and len(parts) > 3:
                known = (backend / parts[3]).is_dir() or (backend / f"{parts[3]}.py").is_file()
                yield parts[3] if known else "__init__"


def rooms(backend: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for module in backend.rglob("*.py"):
        room = module.relative_to(backend).with_suffix("").parts[0]
        found.setdefault(room, set()).update(other for other in imported(module, backend) if other != room)
    return found


@pytest.mark.quick
@pytest.mark.parametrize("name", NAMES)
def test_the_rooms_of_a_backend_import_one_way(name: str) -> None:
    order = list(TopologicalSorter(rooms(BACKENDS / name)).static_order())  # raises CycleError, which names the circle
    assert len(order) > 3 and order[-1] == "__init__"
