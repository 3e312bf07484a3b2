"""Which operations of a graph go to kernels."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from portakern.torch_import.aten.without import base_of, why_not
from portakern.torch_import.rules import rule_for

MOVES = frozenset({"alias", "clone", "detach", "expand", "permute", "reshape", "select", "slice", "split", "split_with_sizes",
                   "squeeze", "t", "transpose", "unbind", "unsqueeze", "view", "_unsafe_view", "full", "empty", "scalar_tensor",
                   "arange", "lift_fresh_copy", "_to_copy", "unfold", "as_strided", "diagonal"})  # fmt: skip
"""Operations that PyTorch does without a kernel, or with one that ours would only repeat."""


def supported(left_out: Iterable[Any]) -> Any:
    """What torch's partitioner asks: all nodes of arrays without random ones and those that are ``left_out``, as what has no
    rule is."""
    from torch.fx.passes.operator_support import OperatorSupportBase

    class Supported(OperatorSupportBase):
        def __init__(self) -> None:
            self.left_out = set(left_out)

        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            if node.op != "call_function" or node in self.left_out:
                return False
            if node.target is operator.getitem:
                return self.is_node_supported(submodules, node.args[0])
            found = rule_for(str(node.target))
            return (found is None or not found.__module__.endswith(".random")) and _of_arrays(node)

    return Supported()


def left_to_pytorch(module: Any, goes: Callable[[Any], bool], refused: Mapping[Any, str]) -> dict[tuple[str, str], int]:
    """How often PyTorch does which operation, and why, of those that do not go to kernels."""
    found: Counter[tuple[str, str]] = Counter()
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem or goes(node) or not _of_arrays(node):
            continue
        name = str(node.target)
        if base_of(name).partition(".")[2] in MOVES:
            continue
        rule = rule_for(name)
        drawn = "random numbers stay PyTorch's" if rule is not None and rule.__module__.endswith(".random") else ""
        found[name, refused.get(node) or drawn or why_not(name)] += 1
    return found


def is_worth_it(operations: Sequence[str]) -> bool:
    """Whether anything is computed."""
    return any(o.split(".")[1] not in MOVES for o in operations if o.startswith("aten."))


def _of_arrays(node: Any) -> bool:
    value = node.meta.get("val")
    each = value if isinstance(value, list | tuple) else (value,)
    return any(hasattr(v, "shape") for v in each)
