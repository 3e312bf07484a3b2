"""Which functions ran: of lowering and of an emitter, by module and name.

A trace function that asks for no lines is called once per call of a Python function, which costs little beside what the
functions of a compiler do.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

LOWERING = "portakern.lower."
EMITTING = "portakern.emit."


@contextmanager
def reaching(found: set[str], prefixes: tuple[str, ...]) -> Iterator[None]:
    """Adds ``module:function`` to ``found`` for every function called inside whose module begins with one of ``prefixes``."""
    codes: dict[int, tuple[CodeType, str]] = {}

    def called(frame: Any, event: str, arg: Any) -> None:
        code = frame.f_code
        if id(code) not in codes:
            codes[id(code)] = code, frame.f_globals.get("__name__", "")

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)
        for code, module in codes.values():
            if module.startswith(prefixes) and "<" not in code.co_qualname:
                found.add(f"{module}:{code.co_qualname}")


@cache
def functions_of(module: str) -> frozenset[str]:
    """All functions and methods of a module as ``module:function``, those inside functions left out."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin:
        return frozenset()
    found: set[str] = set()

    def walk(nodes: list[ast.stmt], inside: str) -> None:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                walk(node.body, f"{inside}{node.name}.")
            elif isinstance(node, ast.FunctionDef) and not _only_typed(node):
                found.add(f"{module}:{inside}{node.name}")

    walk(ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body, "")
    return frozenset(found)


def _only_typed(node: ast.FunctionDef) -> bool:
    """A method of a protocol: its body is ``...``."""
    last = node.body[-1]
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant) and last.value.value is ...
