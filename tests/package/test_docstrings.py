"""Every public name says what it is, what it takes and what it raises."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

import pytest

import portakern as pk
from portakern.spec import functions

pytestmark = pytest.mark.quick

HEADS = re.findall(r"^- (.*?):", functions.__doc__ or "", re.MULTILINE)
SHARED = {name for head in HEADS for name in re.findall(r"``(\w+)``", head)}
FACE = [name for name in pk.__all__ if name not in {*pk._FUNCTIONS, *pk._DTYPES, "boolean", "__version__"}]


def called(name: str) -> Any:
    what = getattr(pk, name)
    return what._function if isinstance(what, ModuleType) and callable(what) else what


def parameters(what: Any) -> list[str]:
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [p.name for p in inspect.signature(what).parameters.values() if p.kind not in kinds]


@pytest.mark.parametrize("name", [*pk._FUNCTIONS, *FACE])
def test_it_says_what_it_is(name: str) -> None:
    doc = inspect.getdoc(called(name)) or ""
    assert doc and doc != inspect.getdoc(object)


@pytest.mark.parametrize("name", pk._FUNCTIONS)
def test_a_function_of_operators_explains_its_parameters(name: str) -> None:
    """In its own words, or by those that mean the same in all of them (portakern.spec.functions)."""
    doc = inspect.getdoc(called(name)) or ""
    assert [p for p in parameters(called(name)) if p not in SHARED and not re.search(rf"\b{p}\b", doc)] == []


@pytest.mark.parametrize("name", [n for n in FACE if inspect.isfunction(called(n))])
def test_a_function_of_the_face_says_what_it_takes_and_raises(name: str) -> None:
    doc = inspect.getdoc(called(name)) or ""
    assert [p for p in parameters(called(name)) if not re.search(rf"\b{p}\b", doc)] == []
    assert re.search(r"Raises:\n +\w*(Error|Missing|Fault)\b.*: ", doc)


def test_what_is_shared_is_used() -> None:
    taken = {p for name in pk._FUNCTIONS for p in parameters(called(name))}
    variadic = {"arrays", "values"}
    assert taken | variadic >= SHARED


def test_methods_of_public_classes_have_docstrings_too():
    classes = {name: what for name in FACE if inspect.isclass(what := getattr(pk, name))}
    without = [f"{n}.{m}" for n, c in classes.items() for m, f in vars(c).items()
               if not m.startswith("_") and inspect.isfunction(f) and not inspect.getdoc(f)]  # fmt: skip
    assert without == []
