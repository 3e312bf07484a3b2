"""Finding operators: by the name of one in the library, or as ``file.py:function``."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
import traceback
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from portakern.errors import PortakernError, SpecError, UsageError
from portakern.spec.location import short_path
from portakern.spec.operator import Operator

LIBRARY = Path(__file__).parents[1] / "operators"


def operator_names() -> tuple[str, ...]:
    """The library's operators, sorted; each is a file of its name."""
    return tuple(sorted(p.stem for p in LIBRARY.glob("*.py") if not p.stem.startswith("_")))


def library() -> tuple[Operator, ...]:
    return tuple(load_operator(n) for n in operator_names())


def load_operator(name: str | Operator) -> Operator:
    """The operator called ``name``: one of the library, ``file.py:function``, or ``file.py`` where that has only one.

    Raises:
        UsageError: there is no such operator, file or function, or the function is not decorated.
        SpecError: the file holds a mistake; at its line.
    """
    if isinstance(name, Operator):
        return name
    path, _, function = name.rpartition(":") if ".py:" in name else (name, "", "")
    if function or name.endswith(".py"):
        return _from_file(path or name, function)
    if name not in operator_names():
        near = difflib.get_close_matches(name, operator_names(), 3, 0.5)
        meant = f"did you mean {' or '.join(near)}?" if near else f"operators are {', '.join(operator_names())}"
        raise UsageError(f"unknown operator {name!r}", f"{meant} One in a file is given as file.py:function")
    return _decorated(importlib.import_module(f"portakern.operators.{name}"), name, name)


def _from_file(path: str, function: str) -> Operator:
    return _decorated(_file(path, "an operator", "file.py:function"), function, path)


def _file(path: str, what: str, form: str) -> ModuleType:
    file = Path(path).expanduser()
    if not file.is_file():
        raise UsageError(f"there is no file {path}", f"{what} in a file is given as {form}")
    return _module(str(file.resolve()), file.stat().st_mtime_ns)


def python_object(asked: str, what: str, form: str) -> Any:
    """What ``FILE.py:NAME`` names: ``what`` it should be, in which ``form`` it is given.  Raises as :func:`load_operator`."""
    path, _, name = asked.rpartition(":")
    if not path.endswith(".py"):
        raise UsageError(f"{asked!r} names no function of a file", f"{what} is given as {form}")
    module = _file(path, what, form)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        own = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
        near = difflib.get_close_matches(name, own, 1)
        raise UsageError(f"{path} has no function {name!r}",
                         f"did you mean {near[0]}?" if near else f"it has {', '.join(own) or 'none'}")
    return found


@lru_cache(maxsize=64)
def _module(file: str, _modified: int) -> ModuleType:
    name = f"portakern_user_{Path(file).stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    folder = str(Path(file).parent)
    sys.path.insert(0, folder)  # so that the file can import its neighbours
    try:
        spec.loader.exec_module(module)
    except PortakernError:
        raise
    except SyntaxError as error:
        raise SpecError(f"{error.msg}\n    {(error.text or '').strip()}", where=f"{short_path(file)}:{error.lineno}") from error
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        raise SpecError(f"{type(error).__name__}: {error}", where=f"{short_path(file)}:{lines[-1] if lines else 1}") from error
    finally:
        sys.path.remove(folder)
    return module


def _decorated(module: ModuleType, function: str, asked: str) -> Operator:
    operators = {n: v for n, v in vars(module).items() if isinstance(v, Operator)}
    if not function:
        if len(operators) == 1:
            return next(iter(operators.values()))
        listed = ", ".join(operators) or "none"
        raise UsageError(f"{asked} holds {len(operators)} operators ({listed})", f"name one: {asked}:function")
    found: Any = module
    for part in function.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Operator):
        return found
    if found is None:
        near = difflib.get_close_matches(function, operators, 1)
        raise UsageError(
            f"{asked} has no function {function!r}",
            f"did you mean {near[0]}?" if near else f"its operators are {', '.join(operators) or 'none'}",
        )
    raise UsageError(f"{function} in {asked} is not an operator", "decorate it with @pk.operator")
