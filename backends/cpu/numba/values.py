"""Values: an element of a tile at the loop variables, as an expression or a local that holds it."""

from __future__ import annotations

from portakern.emit.loops.elements import is_leaf, source
from portakern.emit.loops.plan import KernelLoopPlan, Storage
from portakern.emit.python_like import Expr, call, hint_of, infix, size_expr, ternary, total
from portakern.errors import MissingRuleError
from portakern.ir.core import Arg, Op, yielded
from portakern.ir.size import Size
from portakern.ir.tile import (
    Binary,
    Bitcast,
    Cast,
    Compare,
    Const,
    Coord,
    Dot,
    Extent,
    For,
    Index,
    Load,
    Reduce,
    Select,
    Start,
    Store,
    Unary,
    buffer_type,
    tile_type,
)

from . import words
from .axes import NumbaAxisText


class NumbaValueText(NumbaAxisText):
    """Prints elements and scalars as expressions.

    ``known`` holds what every value in scope is called, or its expression; ``arrays`` which array a value lies in;
    ``hints`` what a value is to be called.
    """

    def __init__(self, plan: KernelLoopPlan) -> None:
        super().__init__(plan.kernel)
        self.plan = plan
        self.known: dict[Op, Expr] = {}
        self.arrays: dict[Op, Storage] = dict(plan.stored)
        self.hints: dict[Op, str] = {}
        self.users: dict[Op, list[Op]] = {}
        for op in self.kernel.body.walk():
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)
            if isinstance(op, For):
                for arg, value in zip(op.body.args, yielded(op.body), strict=True):
                    self.hints[source(value)] = f"new_{getattr(arg, 'name', 'value')}"
        self.array_names = {s: self.names.fresh(self._array_hint(s)) for s in plan.storages}

    def _value(self, op: Op) -> Expr:
        """An element of ``op`` at the loop variables: its name, its array's element or its expression."""
        op = source(op)
        if op in self.known:
            return self.known[op]
        if op in self.arrays:
            return self._element_of(self.arrays[op])
        if isinstance(op, Arg):
            return Expr(self.parameter[op])
        if not is_leaf(op):
            op.fail(f"{op.mnemonic()} is not known where it is used", hint="this is a fault of the emitter")
        return self._compute(op)

    def _element_of(self, s: Storage) -> Expr:
        return Expr(f"{self.array_names[s]}[{', '.join(map(self._local_index, s.axes)) or '0'}]")

    def _local_index(self, axis: str) -> str:
        a = self.axes[axis]
        return a.name if a.start == "0" else f"{a.name} - {a.start}"

    def _compute(self, op: Op) -> Expr:
        """The expression of ``op`` from those of its operands."""
        value = self._value
        match op:
            case Const(value=number, dtype=dtype):
                return words.constant(number, dtype)
            case Extent(size=size):
                return self._size(size)
            case Coord(axis=axis):
                return Expr(self.axes[axis].name)
            case Start(axis=axis):
                a = self.axes[axis]
                return Expr(a.name if a.axis.tile == 1 else a.start)
            case Load():
                return self._load(op)
            case Unary(fn=fn, x=x):
                return words.UNARY[fn](value(x), tile_type(x).dtype)
            case Binary(fn=fn, lhs=lhs, rhs=rhs):
                left, right = value(lhs), value(rhs)
                if fn == "add" and right.text == "0":
                    return left
                made = words.binary(fn, left, right, tile_type(lhs).dtype)
                if made is None:
                    raise MissingRuleError("numba has no rule for", missing=(f"binary {fn}",), where=str(op.loc or ""))
                return made
            case Compare(fn=fn, lhs=lhs, rhs=rhs):
                return infix(words.COMPARE[fn], value(lhs), value(rhs))
            case Select(condition=condition, yes=yes, no=no):
                return ternary(value(condition), value(yes), value(no))
            case Cast(x=x, dtype=dtype):
                return self._cast(value(x), tile_type(x).dtype, dtype)
            case Bitcast(x=x, dtype=dtype):
                return self._bitcast(value(x), tile_type(x).dtype, dtype)
        raise MissingRuleError("numba has no rule for", missing=(op.mnemonic(),), where=str(op.loc or ""))

    def _bitcast(self, x: Expr, old: str, new: str) -> Expr:
        """The same bits as another dtype; f16 and bf16, which are float32 while they are computed with, by their bits."""
        if old == new:
            return x
        bits = Expr(f"np.uint16(to_{old}({x}))" if old in words.HALF_FLOATS else f"{words.NUMPY[old]}({x})")
        if new in words.HALF_FLOATS:
            return call(f"from_{new}", bits)
        return Expr(f"{bits}.view({words.NUMPY[new]})")

    def _cast(self, x: Expr, old: str, new: str) -> Expr:
        if old == new:
            return x
        if new in words.HALF_FLOATS:
            narrow = x if old in ("f32", *words.HALF_FLOATS) else words.scalar(x, "f32")
            return call(f"round_{new}", narrow)
        if new == "bool":
            return infix("!=", x, Expr("0"))
        if new == "f32" and old in words.HALF_FLOATS:
            return x
        return words.scalar(x, new)

    def _load(self, op: Load) -> Expr:
        dtype = buffer_type(op.buffer).dtype
        element = words.from_memory(self._place(op), dtype)
        checks = self._checks(op)
        if checks is None:
            return element
        pad = words.constant(op.pad if op.pad is not None else 0, dtype)
        return ternary(Expr(checks, 3), element, pad)

    def _place(self, op: Load | Store) -> Expr:
        """The element of the buffer an access touches."""
        assert isinstance(op.buffer, Arg)
        indices = [self._index(i, op) for i in op.indices]
        return Expr(f"{self.parameter[op.buffer]}[{', '.join(map(str, indices)) or '0'}]")

    def _index(self, index: Index, op: Load | Store) -> Expr:
        parts: list[Expr] = []
        for term in index.terms:
            expr = Expr(self.axes[term.axis].name)
            if term.div != 1:
                expr = infix("//", expr, Expr(str(term.div)))
            if term.mod:
                expr = infix("%", expr, Expr(str(term.mod)))
            if term.scale != 1 and expr.text != "0":
                expr = infix("*", expr, size_expr(term.scale, self.sizes))
            if expr.text != "0":
                parts.append(expr)
        if index.gather >= 0 and isinstance(op, Load):
            parts.append(self._value(op.gathers[index.gather]))
        if isinstance(index.offset, int) and index.offset < 0 and parts:
            return infix("-", total(parts), Expr(str(-index.offset)))
        if index.offset != 0:
            parts.append(size_expr(index.offset, self.sizes))
        return total(parts)

    def _checks(self, op: Load | Store) -> str | None:
        """The condition under which an access is inside its buffer, where walking within the extents does not say so."""
        over = set(self.kernel.may_overrun(op))
        found: list[str] = []
        for index, size in zip(op.indices, buffer_type(op.buffer).shape, strict=True):
            plain = index.plain
            if plain is not None and self.kernel.axis[plain].extent == size:
                continue
            if over & set(index.axes) or index.gather >= 0:
                found.append(f"0 <= {self._index(index, op).at(6)} < {size_expr(size, self.sizes).at(6)}")
        return " and ".join(found) or None

    def _size(self, size: Size) -> Expr:
        """The name of the only axis of this extent; of several it is not known which is meant, so a number says it."""
        alike = [a for a in self.kernel.axes if isinstance(size, int) and size > 1 and a.extent == size]
        return self._extent(alike[0]) if len(alike) == 1 else size_expr(size, self.sizes)

    def _hint(self, op: Op) -> str:
        return self.hints.get(op) or hint_of(op, lambda x: self.users.get(x, []))

    def _array_hint(self, s: Storage) -> str:
        """What an array is called: as the carried value or the reduction in it, or by what it holds a tile of."""
        op = next((op for op, at in self.plan.stored if at is s), None)
        if op is None:
            return s.name
        if isinstance(op, Arg):
            return op.name
        return self._hint(op) if isinstance(op, Reduce | Dot) else f"{self._hint(op)}_tile"

    def _allocation(self, s: Storage) -> str:
        shape = ", ".join(self._tile(self.kernel.axis[x]) for x in s.axes) or "1"
        shape = f"({shape})" if len(s.axes) > 1 else shape
        return f"{self.array_names[s]} = np.empty({shape}, {words.NUMPY[s.dtype]})"
