"""Which operations of a graph go to kernels."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from portakern.torch_import.fx import missing_of
from portakern.torch_import.rules import rule_for

MOVES = frozenset({"alias", "clone", "detach", "expand", "permute", "reshape", "select", "slice", "split", "split_with_sizes",
                   "squeeze", "t", "transpose", "unbind", "unsqueeze", "view", "_unsafe_view", "full", "empty", "scalar_tensor",
                   "arange", "lift_fresh_copy", "_to_copy", "unfold", "as_strided", "diagonal"})  # fmt: skip
"""Operations that PyTorch does without a kernel, or with one that ours would only repeat."""


def supported(left_out: frozenset[Any]) -> Any:
    """What torch's partitioner asks: nodes with a rule, without those that are ``left_out``."""
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
            return found is not None and not found.__module__.endswith(".random") and _of_arrays(node)

    return Supported()


def unimportable(module: Any) -> frozenset[Any]:
    """The nodes that a rule refuses in the form that they have here."""
    return frozenset(missing_of(module))


def is_worth_it(operations: Sequence[str]) -> bool:
    """Whether anything is computed."""
    return any(o.split(".")[1] not in MOVES for o in operations if o.startswith("aten."))


def _of_arrays(node: Any) -> bool:
    value = node.meta.get("val")
    each = value if isinstance(value, list | tuple) else (value,)
    return any(hasattr(v, "shape") for v in each)
