"""What the writers share: a function line by line, and the notation that numpy, torch and jax have in common."""

from __future__ import annotations

import builtins
import math
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any

from portakern.errors import PortakernError
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Arg, Block, Op, Result, Yield, yielded
from portakern.ir.oracle import static
from portakern.ir.tensor import TensorProgram, TensorType, tensor_type


@dataclass
class Writer:
    """Writes a function line by line; each library is a subclass with a method per operation, by its class's name."""

    program: TensorProgram
    lines: list[str] = field(default_factory=list)
    names: dict[Op, str] = field(default_factory=dict)
    known: dict[Op, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    library = ""
    head = ""

    @property
    def name(self) -> str:
        return self.program.name if self.program.name.isidentifier() else "program"

    def scope(self) -> dict[str, Any]:
        raise NotImplementedError

    def write(self) -> str:
        """The function's text."""
        self.taken |= {*self.scope(), *dir(builtins)}
        for a in self.program.args:
            name = self.names[a] = self.fresh(a.name)
            if a.name in self.program.scalars or not tensor_type(a).shape:  # which callers may have as a number
                self.lines.append(f"{name} = {self.scalar(name, tensor_type(a).dtype)}")
        for op in self.program.body.ops:
            if not isinstance(op, Yield):
                self.operation(op)
        results = ", ".join(self.whole(r) for r in self.program.results)
        body = [*self.lines, f"return {results}"]
        arguments = ", ".join(self.names[a] for a in self.program.args)
        return f"{self.head}def {self.name}({arguments}):\n" + "".join(f"    {line}\n" for line in body)

    def fresh(self, name: str) -> str:
        """``name``, with underscores after it where an input, a module or Python itself has it."""
        while name in self.taken or iskeyword(name):
            name += "_"
        self.taken.add(name)
        return name

    def operation(self, op: Op) -> None:
        if not isinstance(op, Result) and op.operands and all(o in self.known for o in op.operands) and not shape_of(op):
            self.known[op] = oracle.apply(op, [self.known[o] for o in op.operands])  # arithmetic on constants
            return
        if isinstance(op, t.Literal | t.DimSize):
            self.known[op] = oracle.apply(op, [])
            return
        rule = getattr(self, type(op).__name__, None)
        if rule is None:
            raise self.no_counterpart(op)
        name = self.fresh(f"v{len(self.names)}")
        self.lines.append(f"{name} = {rule(op)}")
        self.names[op] = name

    def function(self, block: Block) -> str:
        """The name of a function of two tuples that ``block``, which takes the elements of both, becomes, inside this one."""
        name, n = self.fresh(f"join{len(self.names)}"), len(block.args) // 2
        self.names |= {a: f"{name}_{i}" for i, a in enumerate(block.args)}
        start = len(self.lines)
        for op in block.ops:
            if not isinstance(op, Yield):
                self.operation(op)
        given = ", ".join(map(self.array, yielded(block)))
        parts = (("left", block.args[:n]), ("right", block.args[n:]))
        sides = [f"({', '.join(map(self, args))},) = {side}" for side, args in parts]
        body = [*sides, *self.lines[start:], f"return ({given},)"]
        self.lines[start:] = [f"def {name}(left, right):", *("    " + line for line in body)]
        return name

    def step(self, op: t.Recur) -> str:
        """The name of a function of the carries and the elements at hand, inside this one, that gives new carries and what is
        shown."""
        name, (carries, elements, captured) = self.fresh(f"step{len(self.names)}"), op.given
        for outside, inside in zip(op.captured, captured, strict=True):
            self.names[inside] = self.array(outside)
        self.names |= {a: f"{name}_{i}" for i, a in enumerate((*carries, *elements))}
        start = len(self.lines)
        for inner in op.step.ops:
            if not isinstance(inner, Yield):
                self.operation(inner)
        sides = [f"({', '.join(map(self, args))},) = {side}" for side, args in (("carry", carries), ("x", elements)) if args]
        new, shown = (f"({''.join(f'{self.carried(v)}, ' for v in part)})" for part in op.gives)
        body = [*sides, *self.lines[start:], f"return {new}, {shown}"]
        self.lines[start:] = [f"def {name}(carry, x):", *("    " + line for line in body)]
        return name

    def carried(self, op: Op) -> str:
        """What a step hands on."""
        return self.array(op)

    def listed(self, ops: Iterable[Op]) -> str:
        """A tuple of arrays."""
        return f"({''.join(f'{self.array(o)}, ' for o in ops)})"

    def no_counterpart(self, op: Op) -> PortakernError:
        return PortakernError("no-peer", f"{self.library} has no counterpart to {op.mnemonic()} in {self.program.name}",
                              hint="write one: FILE.py:FUNCTION", where=str(op.loc or ""))

    def __call__(self, op: Op) -> str:
        """How an operand is written: its name, or a constant."""
        return self.constant(self.known[op], tensor_type(op).dtype) if op in self.known else self.names[op]

    def array(self, op: Op) -> str:
        """An operand as an array, a constant too."""
        return self.full(op) if op in self.known else self.names[op]

    def keep(self, value: Any) -> str:
        """A name for something that has no text."""
        name = self.fresh(f"c{len(self.constants)}")
        self.constants[name] = value
        return name

    # ---- what the libraries differ in

    def scalar(self, name: str, dtype: str) -> str:
        raise NotImplementedError

    def constant(self, value: Any, dtype: str) -> str:
        raise NotImplementedError

    def full(self, op: Op) -> str:
        raise NotImplementedError

    def whole(self, op: Op) -> str:
        """A result as an array of its own: views are copied, since that is the work."""
        raise NotImplementedError

    # ---- what they share

    def Reshape(self, op: t.Reshape) -> str:
        return f"{self.array(op.x)}.reshape({static(op.shape)})"

    def Slice(self, op: t.Slice) -> str:
        parts = zip(static(op.starts), static(op.stops), op.steps, strict=True)
        return f"{self(op.x)}[{', '.join(f'{a}:{b}:{s}' for a, b, s in parts)}]"

    def Result(self, op: Result) -> str:
        return f"{self(op.operands[0])}[{op.index}]"

    def _placed(self, op: t.Expand) -> tuple[int, ...]:
        """The shape of ``op.x`` with ones where the result has dims that it lacks."""
        shape = [1] * len(op.shape)
        for size, dim in zip(shape_of(op.x), op.dims, strict=True):
            shape[dim] = size
        return tuple(shape)


def shape_of(op: Op) -> tuple[int, ...]:
    return static(tensor_type(op).shape) if isinstance(op.type, TensorType) else (-1,)


def piece_slices(op: t.Assemble) -> Iterator[str]:
    """Where each piece lies in the whole, as an index."""
    for part, (offsets, steps) in zip(op.parts, op.places, strict=True):
        each = zip(static(offsets), steps, shape_of(part), strict=True)
        yield ", ".join(f"{o}:{o + s * (n - 1) + 1 if n else o}:{s}" for o, s, n in each)


def python_text(value: Any) -> str:
    """A number as Python text."""
    value = value.item() if hasattr(value, "item") else value
    return f"float('{value}')" if isinstance(value, float) and not math.isfinite(value) else repr(value)


def letters(op: t.Contract) -> tuple[str, str, str]:
    """The operands and the result of a contraction in the notation of einsum."""
    fresh = iter(string.ascii_letters)
    left = {i: next(fresh) for i in range(tensor_type(op.lhs).rank)}
    right = {j: left[i] for i, j in zip((*op.lhs_batch, *op.lhs_axes), (*op.rhs_batch, *op.rhs_axes), strict=True)}
    right |= {j: next(fresh) for j in op.rhs_free}
    result = [left[i] for i in (*op.lhs_batch, *op.lhs_free)] + [right[j] for j in op.rhs_free]
    return "".join(left[i] for i in sorted(left)), "".join(right[j] for j in sorted(right)), "".join(result)


def is_product(op: t.Contract, right: bool) -> bool:
    """Whether a contraction is ``a @ b`` (``right``), or ``a @ b.mT``, of arrays of one rank."""
    rank = tensor_type(op.lhs).rank
    leading = tuple(range(rank - 2))
    return (rank >= 2 and tensor_type(op.rhs).rank == rank and op.lhs_batch == op.rhs_batch == leading
            and op.lhs_axes == (rank - 1,) and op.rhs_axes == ((rank - 2,) if right else (rank - 1,)))  # fmt: skip


INFIX = {
    "add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>", "eq": "==", "ne": "!=",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "pow": "**",
}  # fmt: skip


def may_be_view(op: Op) -> bool:
    """Whether an operation gives memory of its operand in these libraries."""
    return isinstance(op, Arg | t.Reshape | t.Expand | t.Slice | t.Transpose | t.BitConvert | t.Flip | Result)
