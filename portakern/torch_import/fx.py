"""Graphs of core ATen that others captured, read as exported ones are: every input is a user's, symbols are open dims of
their own names."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from portakern.errors import MissingRuleError
from portakern.ir.size import Size, Sym
from portakern.torch_import.capture import Captured
from portakern.torch_import.walk import Graph, Walk, read


@dataclass(frozen=True)
class _Kind:
    name: str


@dataclass(frozen=True)
class _Named:
    name: str


@dataclass(frozen=True)
class _Spec:
    arg: _Named
    kind: _Kind
    target: str | None = None


@dataclass(frozen=True)
class _Signature:
    input_specs: tuple[_Spec, ...]
    output_specs: tuple[_Spec, ...]


@dataclass(frozen=True)
class _Exported:
    """A graph module with the part of an exported program's face that is read."""

    graph_module: Any
    graph_signature: _Signature

    @property
    def graph(self) -> Any:
        return self.graph_module.graph


def graph_of(module: Any, name: str = "graph") -> Graph:
    """The tensor program of a graph module.  Raises as :func:`read` does."""
    return read(_captured(module), name)


def missing_of(module: Any) -> dict[Any, str]:
    """The nodes that cannot be imported, and why; empty for those that only follow from others."""
    walk = Walk(_captured(module), "graph")
    with contextlib.suppress(MissingRuleError):
        walk.graph()
    return {node: walk.why.get(node, "") for node in walk.refused}


def _captured(module: Any) -> Captured:
    inputs = tuple(_Spec(_Named(n.name), _Kind("USER_INPUT")) for n in module.graph.nodes if n.op == "placeholder")
    output = next(n for n in module.graph.nodes if n.op == "output").args[0]
    outputs = output if isinstance(output, list | tuple) else (output,)
    signature = _Signature(inputs, tuple(_Spec(_Named(str(o)), _Kind("USER_OUTPUT")) for o in outputs))
    return Captured(_Exported(module, signature), module, None, _symbols(module))


def _symbols(module: Any) -> dict[str, Size]:
    found: dict[str, Size] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            for size in getattr(node.meta.get("val"), "shape", ()):
                for symbol in () if isinstance(size, int) else size.node.expr.free_symbols:
                    found[str(symbol)] = Sym.named(str(symbol))
    return found
