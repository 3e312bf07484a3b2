"""Arguments and results as PyTorch nests them: lists, tuples and dicts of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def leaves(tree: Any) -> list[Any]:
    from torch.utils import _pytree

    return _pytree.tree_leaves(tree)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    from torch.utils import _pytree

    return _pytree.tree_map(function, tree)


def flattened(tree: Any) -> tuple[list[Any], Any]:
    """The leaves, and the form that :func:`nested` puts them into."""
    from torch.utils import _pytree

    return _pytree.tree_flatten(tree)


def nested(leaves: Sequence[Any], form: Any) -> Any:
    from torch.utils import _pytree

    return _pytree.tree_unflatten(leaves, form)
