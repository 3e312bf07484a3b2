"""One made-up operator: its text, and the sizes, dtype and parameters that it is tried with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ENTRY = "op"
"""The name of the operator in :attr:`FuzzCase.text`."""


@dataclass(frozen=True)
class FuzzCase:
    """A module with one operator, named :data:`ENTRY`, and how it is tried.

    Args:
        text: the module as Python text, at the level that users write.
        dims: a size for every named dim.
        dtype: what arrays without a dtype of their own have.
        open_dims: dims that stay open in the build; they are tried at their size in ``dims``.
        params: compile-time parameters.
        features: the productions of the grammar that it was made of, for steering.
    """

    text: str
    dims: Mapping[str, int]
    dtype: str
    open_dims: frozenset[str] = frozenset()
    params: Mapping[str, Any] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
