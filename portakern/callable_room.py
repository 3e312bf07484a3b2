"""Rooms whose name is also that of a function of Python's face: ``pk.check(...)`` and ``portakern.check.stages`` both work.

Python binds a subpackage to its name in the parent once it is imported, so the room itself must be what is called.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableRoom(ModuleType):
    @property
    def _function(self) -> Any:
        return getattr(import_module("portakern.api"), self.__name__.rpartition(".")[2])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function)


def make_callable(name: str) -> None:
    """The module of this name calls the function of its last word in :mod:`portakern.api`."""
    sys.modules[name].__class__ = CallableRoom
