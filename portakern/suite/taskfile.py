"""A task as a file: a class ``Model``, and the functions ``get_inputs`` and ``get_init_inputs``.

What may be made smaller are the whole numbers outside of classes: those assigned at the file's own level and those in
``get_inputs`` and ``get_init_inputs``, so that a number that two places share stays one.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portakern.suite.adapter import LoadedTask
from portakern.suite.shrink import SHARED, SMALL, Numbers, reduced, said, stays


@dataclass(frozen=True)
class TaskFile:
    """A task's file and the sites in it that may be made smaller."""

    path: str
    text: str

    @staticmethod
    def read(path: Path) -> TaskFile:
        return TaskFile(str(path), path.read_text())

    @property
    def parts(self) -> tuple[int, ...]:
        named = [(s.targets[0], s.value) for s in ast.parse(self.text).body if isinstance(s, ast.Assign)]
        return tuple(v.value for t, v in named if SHARED.search(getattr(t, "id", "")) and isinstance(v, ast.Constant)
                     and type(v.value) is int)  # fmt: skip

    @property
    def sites(self) -> tuple[tuple[str, int], ...]:
        """(name that the number is assigned to, or the function's; its value)."""
        return tuple((name, node.value) for name, node in _sites(ast.parse(self.text)))  # type: ignore[misc]

    def run(self, numbers: Numbers) -> dict[str, Any]:
        """The names of the file, executed with ``numbers`` in place."""
        tree = ast.parse(self.text)
        for index, (_, node) in enumerate(_sites(tree)):
            node.value = numbers.get(index, node.value)
        return executed(tree, self.path)

    def made(self, numbers: Numbers) -> tuple[Any, tuple[Any, ...]]:
        scope = self.run(numbers)
        return scope["Model"](*entries(scope, "get_init_inputs")), tuple(entries(scope, "get_inputs"))

    def loaded(self, size: str, seed: int) -> LoadedTask:
        """The task at its own sizes, or the smallest that are found; weights and inputs are drawn by ``seed``."""
        import torch

        numbers = reduced(self) if size == "reduced" else {}
        scope = self.run(numbers)
        torch.manual_seed(seed)
        model = scope["Model"](*entries(scope, "get_init_inputs"))
        torch.manual_seed(seed + 1)
        args = tuple(entries(scope, "get_inputs"))
        return LoadedTask(model, args, size="reduced" if numbers else "asked", note=said(self, numbers))


def executed(tree: ast.Module, path: str, beside: str = "") -> dict[str, Any]:
    """The names of a file of Python, executed as a module that stands at ``path``, or for its own code at ``beside``, where it
    finds other files."""
    module = types.ModuleType(f"portakern_task_{Path(path).stem}")
    module.__file__ = beside or path
    sys.modules[module.__name__] = module  # dataclasses and the like look their module up
    exec(compile(tree, path, "exec"), module.__dict__)
    return module.__dict__


def entries(scope: Mapping[str, Any], name: str) -> list[Any]:
    """What the function ``name`` gives; nothing where there is none."""
    return list(scope[name]()) if name in scope else []


def _sites(tree: ast.Module) -> list[tuple[str, ast.Constant]]:
    found = []
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.FunctionDef):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement
            name = getattr(target, "id", getattr(target, "name", "")) or getattr(getattr(target, "target", None), "id", "")
            for node in ast.walk(statement):
                plain = isinstance(node, ast.Constant) and type(node.value) is int and node.value > SMALL
                if plain:
                    found.append((name, node))
    names = {name for name, _ in found}
    sizes = [(name, node) for name, node in found if not stays(name, names)]
    return sorted(sizes, key=lambda f: (f[1].lineno, f[1].col_offset))
