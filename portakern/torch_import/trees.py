"""Arguments and results as PyTorch nests them: lists, tuples and dicts of arrays, and objects that hold some.

PyTorch's trees end at an object of a class that was not registered with them.  Here one that holds arrays in its attributes, as
a cache of keys and values, is a node as well: its arrays are leaves, and what else it holds belongs to the form.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Form:
    """How leaves are nested: PyTorch's form of the tree, and which of its leaves, by number, are objects that hold arrays."""

    spec: Any
    objects: Mapping[int, Held]

    def __str__(self) -> str:
        return f"{self.spec}{''.join(f'; {n}: {o}' for n, o in self.objects.items())}"


@dataclass(frozen=True)
class Held:
    """An object that holds arrays: ``of``, as it was, with its attributes as leaves, ``None`` in the places of arrays."""

    of: Any
    leaves: tuple[Any, ...]
    form: Form

    def __str__(self) -> str:
        return f"{type(self.of).__qualname__}({', '.join(map(repr, self.leaves))}; {self.form})"

    def filled(self, arrays: Sequence[Any]) -> Any:
        """Another one with ``arrays`` in place of its own."""
        rest = iter(arrays)
        made = copy.copy(self.of)
        made.__dict__ = nested([next(rest) if x is None else x.value for x in self.leaves], self.form)
        return made


@dataclass(frozen=True)
class Other:
    """What is no array among the attributes of an object."""

    value: Any

    def __repr__(self) -> str:
        return repr(self.value)


def leaves(tree: Any) -> list[Any]:
    return flattened(tree)[0]


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    given, form = flattened(tree)
    return nested([function(x) for x in given], form)


def flattened(tree: Any) -> tuple[list[Any], Form]:
    """The leaves, and the form that :func:`nested` puts them into."""
    return _flattened(tree, frozenset())


def _flattened(tree: Any, inside: frozenset[int]) -> tuple[list[Any], Form]:
    from torch.utils import _pytree

    given, spec = _pytree.tree_flatten(tree)
    found: list[Any] = []
    objects: dict[int, Held] = {}
    for n, x in enumerate(given):
        opened = _opened(x, inside)
        if opened is None:
            found.append(x)
        else:
            objects[n] = opened[1]
            found += opened[0]
    return found, Form(spec, objects)


def nested(leaves: Sequence[Any], form: Form) -> Any:
    from torch.utils import _pytree

    rest = iter(leaves)
    places = [form.objects[n].filled([next(rest) for x in form.objects[n].leaves if x is None]) if n in form.objects
              else next(rest) for n in range(form.spec.num_leaves)]  # fmt: skip
    return _pytree.tree_unflatten(places, form.spec)


def plain(tree: Any) -> Any:
    """``tree`` with a list of its arrays in place of each object that holds some: a tree of PyTorch's, with the same leaves."""
    from torch.utils import _pytree

    def plainly(x: Any) -> Any:
        opened = _opened(x, frozenset())
        return x if opened is None else opened[0]

    return _pytree.tree_map(plainly, tree)


def _opened(x: Any, inside: frozenset[int]) -> tuple[list[Any], Held] | None:
    """The arrays that an object holds, and the rest of it; ``None`` for what holds none."""
    import torch

    if not _may_hold(x) or id(x) in inside:
        return None
    found, form = _flattened(vars(x), inside | {id(x)})
    arrays = [v for v in found if isinstance(v, torch.Tensor)]
    if not arrays:
        return None
    return arrays, Held(x, tuple(None if isinstance(v, torch.Tensor) else Other(v) for v in found), form)


def _may_hold(x: Any) -> bool:
    import torch

    if isinstance(x, torch.Tensor | torch.nn.Module | type | ModuleType) or callable(x):
        return False
    if not isinstance(getattr(x, "__dict__", None), dict):
        return False
    return type(x).__module__.partition(".")[0] not in ("torch", "builtins", "numpy")
