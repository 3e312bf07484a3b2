"""The tile operations of a program that a reader looks for in its text, by which texts in two languages are laid side by side.

What moves, folds, multiplies or computes with a function that has a name is one; plain arithmetic is on every line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from portakern.ir import tile as t
from portakern.ir.core import Arg, Op
from portakern.ir.program import Program

PLAIN = frozenset({"add", "sub", "mul", "div", "neg", "and", "or", "xor", "not", "shl", "shr", "floordiv", "mod"})


@dataclass(frozen=True)
class Operation:
    """``kind`` and ``name`` say which one: ``load x``, ``reduce max``, ``function exp``, ``dot``.

    ``line`` is the operator's line that it comes from, ``where`` the place of that line.
    """

    kind: str
    name: str = ""
    where: str = ""
    line: str = ""

    @property
    def title(self) -> str:
        return {"function": self.name, "reduce": f"{self.name} over a dim", "scan": f"running {self.name}"}.get(
            self.kind, f"{self.kind} {self.name}".strip())


def operations(program: Program) -> tuple[Operation, ...]:
    """Those of all kernels in order, each kind and name once."""
    found: dict[tuple[str, str], Operation] = {}
    for kernel in program.kernels:
        for op in kernel.body.walk():
            for kind, name in _told(op):
                loc = op.loc
                line = loc.text.strip() if loc is not None else ""
                found.setdefault((kind, name), Operation(kind, name, str(loc or ""), line))
    return tuple(found.values())


def _told(op: Op) -> Iterator[tuple[str, str]]:
    match op:
        case t.Load(buffer=Arg(name=name)):
            yield "load", name
        case t.Store(buffer=Arg(name=name)):
            yield "store", name
        case t.Reduce(fn=fn) | t.ArgReduce(fn=fn):
            yield "reduce", f"arg{fn}" if isinstance(op, t.ArgReduce) else fn
        case t.Scan(fn=fn):
            yield "scan", fn
        case t.ScanBy():
            yield "scan", ""
        case t.SortBy():
            yield "sort", ""
        case t.Dot():
            yield "dot", ""
        case t.Unary(fn=fn) | t.Binary(fn=fn) if fn not in PLAIN:
            yield "function", fn
