"""Which values of a tile kernel become loops and arrays on a CPU: the analysis before any text is printed.

A tile value is *virtual* by default: its element is an expression of the loop variables, computed where it is used.
It is *stored* in a local array when it is an operand or result of a contraction, a reduction that keeps a dim, carried
by a loop, or an expensive value that two loops need. *Sinks* are what makes loops: stores, reductions and stored
values. Sinks in a row over the same axes share one loop nest, unless one needs the finished reduction of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from portakern.emit.python_like import named_values
from portakern.ir.core import Arg, Block, Op, Result, yielded
from portakern.ir.functions import COSTLY
from portakern.ir.tile import Binary, Dot, For, Kernel, Load, Reduce, Scan, Store, TileType, Unary, tile_type


def is_tile(op: Op) -> bool:
    """Whether a value has dims."""
    return isinstance(op.type, TileType) and bool(op.type.dims)


def is_scalar(op: Op) -> bool:
    return isinstance(op.type, TileType) and not op.type.dims


@dataclass
class Regions:
    """The decisions for one kernel.

    ``stored`` are tile values with a local array; ``named`` scalars with a name; ``oriented`` gives the dim order of
    operands of contractions.
    """

    kernel: Kernel
    stored: set[Op] = field(default_factory=set)
    named: set[Op] = field(default_factory=set)
    oriented: dict[Op, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        body = self.kernel.body
        self.block_of: dict[Op, Block] = {}
        self._place(body)
        heavy = named_values(body)
        for op in body.walk():
            if is_scalar(op) and (op in heavy or isinstance(op, Reduce)):
                self.named.add(op)
            if isinstance(op, Dot):
                self._dot(op)
            if isinstance(op, Reduce) and is_tile(op):
                self.stored.add(op)
            if isinstance(op, For):
                self.stored |= {v for v in yielded(op.body) if is_tile(v) and not isinstance(v, Arg | Result)}
        for _ in range(4):
            more = self._shared_expensive()
            if not more - self.stored:
                break
            self.stored |= more

    def _place(self, block: Block) -> None:
        for op in block.ops:
            self.block_of[op] = block
            for region in op.regions:
                self._place(region)

    def _dot(self, op: Dot) -> None:
        acc = tile_type(op.acc)
        left, right = (op.lhs, op.rhs) if acc.axes[0] in tile_type(op.lhs).axes else (op.rhs, op.lhs)
        self.oriented.setdefault(left, (acc.axes[0], op.axis))
        self.oriented.setdefault(right, (op.axis, acc.axes[1]))
        self.stored |= {left, right, op}

    def operands(self, op: Dot) -> tuple[Op, Op]:
        """The operands in the order rows times columns."""
        first = tile_type(op.acc).axes[0]
        return (op.lhs, op.rhs) if first in tile_type(op.lhs).axes else (op.rhs, op.lhs)

    # ---- virtual values

    def virtual(self, op: Op) -> bool:
        return is_tile(op) and op not in self.stored and not isinstance(op, Arg | Result)

    def inputs(self, sink: Op) -> tuple[Op, ...]:
        """The values a sink's loop computes with."""
        match sink:
            case Store(value=value):
                return (value,)
            case Reduce(x=x) | Scan(x=x):
                return (x,)
            case Dot(acc=acc):
                return (acc,)
        return sink.operands

    def closure(self, values: Iterable[Op]) -> Iterator[Op]:
        """Virtual values (and whatever ends them) that computing ``values`` per element visits, each once."""
        seen: set[Op] = set()
        stack = list(values)
        while stack:
            op = stack.pop()
            if op in seen or not isinstance(op.type, TileType):
                continue
            seen.add(op)
            yield op
            if self.virtual(op) or (is_scalar(op) and op not in self.named and not isinstance(op, Arg | Result)):
                stack += list(op.gathers) if isinstance(op, Load) else list(op.operands)

    def sinks(self) -> list[Op]:
        return [op for op in self.kernel.body.walk()
                if isinstance(op, Store | Reduce) or op in self.stored]  # fmt: skip

    def _shared_expensive(self) -> set[Op]:
        """Expensive virtual values that loops which cannot be one need."""
        users: dict[Op, list[Op]] = {}
        for sink in self.sinks():
            for op in self.closure(self.inputs(sink)):
                if self.virtual(op) and isinstance(op, Unary | Binary) and op.fn in COSTLY:
                    users.setdefault(op, []).append(sink)
        return {op for op, found in users.items() if self._apart(found)}

    def _apart(self, sinks: list[Op]) -> bool:
        first = sinks[0]
        return any(self.block_of.get(s) is not self.block_of.get(first) or self.space(s) != self.space(first)
                   or self.needs(s, first) for s in sinks[1:])  # fmt: skip

    def space(self, sink: Op) -> frozenset[str]:
        """The axes a sink's loop nest walks."""
        match sink:
            case Store(value=value):
                return frozenset(tile_type(value).axes)
            case Reduce(x=x) | Scan(x=x):
                return frozenset(tile_type(x).axes)
        return frozenset(tile_type(sink).axes)

    def needs(self, later: Op, earlier: Op) -> bool:
        """Whether ``later`` uses the finished result of ``earlier``, at any distance."""
        seen: set[Op] = set()
        stack = list(later.operands)
        while stack:
            op = stack.pop()
            if op is earlier:
                return True
            if op not in seen:
                seen.add(op)
                stack += op.operands
        return False

