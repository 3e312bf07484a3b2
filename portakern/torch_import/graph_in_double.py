"""The exported graph in float64: a second oracle where the code of a module depends on the dtype of its inputs.

Such a module run on float64 inputs makes other constants than the one that was imported (``torch.tensor(alpha,
dtype=x.dtype)``, ``torch.finfo(x.dtype)``, tables of rounded floats).  The graph has those of the import: what is made of no
input, and tables (:mod:`.tables`), are as PyTorch rounds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Interpreter, Node

from portakern.torch_import.tables import tables_of
from portakern.torch_import.trees import leaves, mapped

MAKERS = ("full_like", "new_full", "zeros_like", "ones_like", "new_zeros", "new_ones")
"""Operations whose results have of their tensor only shape and dtype."""


def graph_outputs(exported: Any, module: Any, given: Sequence[Any], double: bool) -> list[torch.Tensor]:
    """The user's outputs of an exported program.

    Args:
        exported: the ``torch.export.ExportedProgram``.
        module: whose parameters and buffers are read.
        given: the leaves of the inputs that it was exported on.
        double: whether floats that follow from inputs, parameters and buffers are computed in float64; else in their own dtype.
    """
    flat = _placeholders(exported, module, given)
    run = Interpreter(exported.graph_module)
    if double:
        held = {n: flat[n.name] for n in _constants(exported)}
        run = _InDouble(exported.graph_module, tables_of(exported.graph, held).values)
    with torch.no_grad():
        made = run.run(*flat.values())
    kinds = [spec.kind.name for spec in exported.graph_signature.output_specs]
    made = made if isinstance(made, list | tuple) else [made]
    return [x for kind, x in zip(kinds, made, strict=True) if kind == "USER_OUTPUT" and isinstance(x, torch.Tensor)]


def _placeholders(exported: Any, module: Any, given: Sequence[Any]) -> dict[str, Any]:
    """What stands for each placeholder of the graph, by name, in order."""
    live = {**exported.state_dict, **dict(module.named_parameters()), **dict(module.named_buffers())}
    users, found = iter(given), dict[str, Any]()
    for node, spec in zip(_inputs(exported), exported.graph_signature.input_specs, strict=True):
        kind, path = spec.kind.name, spec.target or ""
        value = next(users) if kind == "USER_INPUT" else live.get(path, exported.constants.get(path))
        found[node.name] = value.detach().cpu().clone() if isinstance(value, torch.Tensor) else value
    return found


def _inputs(exported: Any) -> list[Node]:
    return [n for n in exported.graph.nodes if n.op == "placeholder"]


def _constants(exported: Any) -> list[Node]:
    """Placeholders of tensors that the code made."""
    specs = exported.graph_signature.input_specs
    return [n for n, s in zip(_inputs(exported), specs, strict=True) if s.kind.name == "CONSTANT_TENSOR"]


class _InDouble(Interpreter):
    """Runs a graph with every float in float64, but for the ``tables`` by node."""

    def __init__(self, graph: Any, tables: Mapping[Any, Any]) -> None:
        super().__init__(graph)
        self.tables = tables

    def run_node(self, n: Node) -> Any:
        return mapped(_wide, self.tables[n] if n in self.tables else super().run_node(n))

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = leaves((args, kwargs))
        makes = any(word in str(target) for word in MAKERS) or not any(isinstance(x, torch.Tensor) for x in given)
        args, kwargs = mapped(lambda x: x if makes and isinstance(x, torch.dtype) else _wide(x), (args, dict(kwargs)))
        return super().call_function(target, args, kwargs)


def _wide(x: Any) -> Any:
    """Floats and their dtypes in float64, complex ones in complex128."""
    if isinstance(x, torch.dtype):
        return torch.complex128 if x.is_complex else torch.float64 if x.is_floating_point else x
    if not isinstance(x, torch.Tensor):
        return x
    return x.to(torch.complex128) if x.is_complex() else x.double() if x.is_floating_point() else x
