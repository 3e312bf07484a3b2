"""Views at the edges of what goes to kernels: PyTorch has them for nothing, a kernel would copy.

What autograd saves for the backward are views of inputs and results, mostly.  Where kernels read a view too, it is there twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from portakern.torch_import.aten.without import base_of

VIEWS = frozenset({"aten.alias", "aten.detach", "aten.expand", "aten.permute", "aten.reshape", "aten.select", "aten.slice",
                   "aten.squeeze", "aten.t", "aten.transpose", "aten.unsqueeze", "aten.view", "aten._unsafe_view"})  # fmt: skip


def views_left(module: Any, goes: Callable[[Any], bool]) -> set[Any]:
    """The views that only PyTorch reads, of which there are new ones after this; ``goes`` says what else goes to kernels."""
    left: set[Any] = set()
    for node in reversed(list(module.graph.nodes)):
        if node.op != "call_function" or base_of(str(node.target)) not in VIEWS:
            continue
        away = [u for u in node.users if u in left or not goes(u)]
        if not away:
            continue
        viewed = node if len(away) == len(node.users) or not goes(node) else _twin(module.graph, node, away)
        _as_it_may_lie(viewed)
        left.add(viewed)
    return left


def _twin(graph: Any, node: Any, users: list[Any]) -> Any:
    """Another node like ``node``, which ``users`` read."""
    with graph.inserting_after(node):
        twin = graph.node_copy(node)
    for user in users:
        user.replace_input_with(node, twin)
    return twin


def _as_it_may_lie(node: Any) -> None:
    """A view of an array of PyTorch's layout may not be one of what kernels give, which is contiguous."""
    import torch

    if base_of(str(node.target)) in ("aten.view", "aten._unsafe_view") and len(node.args) == 2:
        node.target = torch.ops.aten.reshape.default
