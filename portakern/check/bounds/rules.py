"""Which function bounds which operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from portakern.ir.core import Op
from portakern.ir.tensor import tensor_type

RULES: dict[type[Op], Callable[..., Any]] = {}


def rule(*classes: type[Op]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for cls in classes:
            RULES[cls] = function
        return function

    return register


def dtype_of(op: Op) -> str:
    return tensor_type(op).dtype
