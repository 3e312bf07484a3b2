"""Values: what a tile is computed from, as one Triton expression."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from portakern.dtypes import DTYPES
from portakern.emit.python_like import Expr, call, infix
from portakern.errors import MissingRuleError
from portakern.ir.core import Arg, Op, Result
from portakern.ir.size import Size
from portakern.ir.tile import (
    Binary,
    Bitcast,
    Broadcast,
    Cast,
    Compare,
    Const,
    Coord,
    Dims,
    Dot,
    Extent,
    Fma,
    Load,
    Mask,
    Permute,
    Reduce,
    Select,
    Start,
    TileType,
    Unary,
    tile_type,
)

from . import operations
from .axes import TritonAxisNames, TritonAxisText


def _as_type(x: Expr, dtype: str, scalar: bool) -> Expr:
    """``x`` as ``dtype``.  A scalar may be a loop's counter, which is Python's own number where a kernel is interpreted."""
    return call("tl.cast", x, dtype) if scalar else Expr(f"{x.at(14)}.to({dtype})")


@dataclass(frozen=True)
class TileValue:
    """Text of a tile and the axes its Triton tensor really has: '' is a dim of size 1, ``()`` a scalar.

    Triton broadcasts dims of size 1 and scalars by itself, so broadcasts are spelled out only where it does not.
    ``literal`` values are Python numbers.
    """

    expr: Expr
    have: tuple[str, ...] = ()
    literal: bool = False


@dataclass
class TritonValueText(TritonAxisText, ABC):
    """Expressions of values; which of them get names is decided by the statements."""

    values: dict[Op, TileValue] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)  # axes whose tile reaches past nothing here

    def _get(self, op: Op) -> TileValue:
        if op not in self.values:
            if not isinstance(op, Arg | Result | Const | Extent | Coord | Start) and op in self.named:
                op.fail("is used before it is computed")
            self.values[op] = self._value(op)
        return self.values[op]

    def _scalar(self, op: Op) -> Expr:
        return self._get(op).expr

    def _value(self, op: Op) -> TileValue:
        match op:
            case Arg():
                return TileValue(Expr(self.parameter[op]))
            case Const(value=value, dtype=dtype):
                return TileValue(operations.constant(value, dtype), (), True)
            case Extent(size=size, dtype=dtype):
                return self._extent_value(size, dtype)
            case Coord(axis=axis, dims=dims, dtype=dtype):
                return self._coordinate(self.axes[axis], dims, dtype)
            case Start(axis=axis):
                return TileValue(Expr(self.axes[axis].start), (), self.axes[axis].start == "0")
            case Load():
                return self._load(op)
            case Unary(fn=fn, x=x):
                v = self._tensor(x)
                return TileValue(operations.UNARY[fn](v.expr, tile_type(x).dtype), v.have)
            case Binary(fn=fn, lhs=lhs, rhs=rhs):
                a, b = self._operands(op, lhs, rhs)
                if fn == "add" and b.literal and b.expr.text == "0":
                    return a
                made = operations.binary(fn, a.expr, b.expr, tile_type(lhs).dtype)
                return TileValue(made or self._missing(op), joined(a, b))
            case Fma(x=x, y=y, z=z):
                a, b, c = self._operands(op, x, y, z)
                return TileValue(call("tl.fma", a.expr, b.expr, c.expr), joined(a, b, c))
            case Compare(fn=fn, lhs=lhs, rhs=rhs):
                a, b = self._operands(op, lhs, rhs)
                return TileValue(infix(operations.COMPARE[fn], a.expr, b.expr), joined(a, b))
            case Select(condition=condition, yes=yes, no=no):
                c, (a, b) = self._get(condition), self._operands(op, yes, no)
                return TileValue(call("tl.where", c.expr, a.expr, b.expr), joined(c, a, b))
            case Cast(x=x, dtype=dtype):
                return self._cast(self._get(x), tile_type(x).dtype, dtype)
            case Bitcast(x=x, dtype=dtype):
                v = self._tensor(x)
                return TileValue(Expr(f"{v.expr.at(14)}.to({operations.DTYPE[dtype]}, bitcast=True)"), v.have)
            case Broadcast(x=x, dims=dims):
                return self._broadcast(self._get(x), tile_type(x).dims, dims)
            case Permute(x=x, axes=axes):
                return self._permute(x, axes)
            case Mask(x=x, axis=axis) if axis in self.whole:
                return self._get(x)
            case Mask(x=x, axis=axis, value=value):
                v, dims = self._get(x), tile_type(x).dims
                inside = self._along(self._inside(self.axes[axis]), axis, dims)
                have = joined(v, TileValue(inside, tuple(a if a == axis else "" for a, _ in dims)))
                return TileValue(call("tl.where", inside, v.expr, operations.constant(value, tile_type(x).dtype)), have)
            case Reduce(fn=fn, x=x, axis=axis):
                dims = tile_type(x)
                made = operations.reduce(fn, self._full(x), dims.axes.index(axis), dims.dtype)
                return TileValue(made or self._missing(op), dims.without(axis).axes)
            case Dot():
                return self._dot(op)
        return TileValue(self._missing(op))

    def _missing(self, op: Op) -> Expr:
        what = f"{op.mnemonic()} {getattr(op, 'fn', '')}".strip()
        raise MissingRuleError("Triton has no rule for", missing=(what,), where=str(op.loc or ""))

    def _operands(self, user: Op, *operands: Op) -> tuple[TileValue, ...]:
        """Values for an operation on several operands, of which at least one must be a tensor and not a number."""
        values = tuple(self._get(o) for o in operands)
        fn, is_float = getattr(user, "fn", ""), tile_type(user).dtype in ("f32", "f64")
        if fn == "pow" or (fn == "rem" and is_float):  # what they call converts its arguments
            return tuple(map(self._tensor, operands))
        if all(v.literal for v in values):
            return (self._tensor(operands[0]), *values[1:])
        return values

    def _tensor(self, op: Op) -> TileValue:
        """The value as a tensor: a number becomes a scalar tensor of its dtype."""
        v = self._get(op)
        if not v.literal:
            return v
        return TileValue(call("tl.full", "()", v.expr, operations.DTYPE[tile_type(op).dtype]))

    def _full(self, op: Op) -> Expr:
        """The value with all the dims of its type spelled out."""
        return self._spelled_out(self._get(op), tile_type(op))

    def _spelled_out(self, v: TileValue, t: TileType) -> Expr:
        if v.have == t.axes and not v.literal:
            return v.expr
        shape = ", ".join(self._tile(self.kernel.axis[a]) for a in t.axes)
        shape += "," if len(t.axes) == 1 else ""
        if v.have:
            return call("tl.broadcast_to", v.expr, shape.rstrip(","))
        if v.expr.text in ("0", "0.0") and t.dims:
            return call("tl.zeros", f"({shape})", operations.DTYPE[t.dtype])
        return call("tl.full", f"({shape})", v.expr, operations.DTYPE[t.dtype])

    def _extent_value(self, size: Size, dtype: str) -> TileValue:
        """A size as a number of ``dtype``: open ones are 64-bit arguments, which would widen what they are added to."""
        text = self._size(size)
        narrow = not isinstance(size, int) and dtype == "i32"
        return TileValue(call("tl.cast", text, "tl.int32") if narrow else text, (), True)

    def _coordinate(self, a: TritonAxisNames, dims: Dims, dtype: str) -> TileValue:
        literal = a.name == "0"
        expr = Expr(a.name)
        if not literal and dtype == ("i32" if a.wide else "i64"):
            expr = _as_type(expr, operations.DTYPE[dtype], scalar=a.axis.tile == 1)
        return TileValue(expr, tuple(x for x, _ in dims), literal)

    def _cast(self, v: TileValue, old: str, new: str) -> TileValue:
        if v.literal and "8" not in new:
            return v
        if new == "bool":
            return TileValue(infix("!=", v.expr, Expr("0")), v.have)
        if new in operations.CHECKED_CASTS and old not in operations.CHECKED_CASTS:
            wide = v.expr if DTYPES[old].is_float else _as_type(v.expr, "tl.float32", not v.have)
            return TileValue(call(operations.CHECKED_CASTS[new], wide), v.have)
        return TileValue(_as_type(v.expr, operations.DTYPE[new], not v.have), v.have)

    def _broadcast(self, v: TileValue, old: Dims, new: Dims) -> TileValue:
        if not v.have or len(old) == len(new):
            return v
        kept = [a for a, _ in old]
        picks = ", ".join(":" if a in kept else "None" for a, _ in new)
        return TileValue(Expr(f"{v.expr.at(14)}[{picks}]"), tuple(a if a in kept else "" for a, _ in new))

    def _permute(self, x: Op, axes: tuple[str, ...]) -> TileValue:
        have = tile_type(x).axes
        if not self._get(x).have or axes == have:
            return self._get(x)
        order = [] if len(axes) == 2 else [str(have.index(a)) for a in axes]
        return TileValue(call("tl.trans", self._full(x), *order), axes)

    def _dot(self, op: Dot) -> TileValue:
        lhs, acc = tile_type(op.lhs), tile_type(op.acc)
        if len(acc.dims) != 2:
            raise MissingRuleError("Triton contracts tiles of two dims",
                                   missing=(f"dot giving {acc}",), where=str(op.loc or ""))  # fmt: skip
        left, right = (op.lhs, op.rhs) if acc.axes[0] in lhs.axes else (op.rhs, op.lhs)
        a, b = self._oriented(left, (acc.axes[0], op.axis)), self._oriented(right, (op.axis, acc.axes[1]))
        arguments = [a, b]
        start = self._get(op.acc)
        if not (start.literal and start.expr.text in ("0", "0.0")):
            arguments.append(self._full(op.acc))
        keywords: dict[str, str] = {}
        if lhs.dtype in ("f32", "f64"):
            keywords["input_precision"] = f'"{op.precision}"'
        if op.precision == "fp8_fast" and lhs.dtype.startswith("f8"):
            keywords["max_num_imprecise_acc"] = str(lhs.size(op.axis))  # summed in the matrix unit, for a whole step
        if acc.dtype != "f32":
            keywords["out_dtype"] = operations.DTYPE[acc.dtype]
        return TileValue(call("tl.dot", *arguments, **keywords), acc.axes)

    def _oriented(self, op: Op, axes: tuple[str, str]) -> Expr:
        full = self._full(op)
        return full if tile_type(op).axes == axes else call("tl.trans", full)

    @abstractmethod
    def _load(self, op: Load) -> TileValue:
        """The value of a load; memory is a part of its own."""


def joined(*values: TileValue) -> tuple[str, ...]:
    """The axes present in the broadcast of ``values``."""
    ranks = [v.have for v in values if v.have]
    if not ranks:
        return ()
    return tuple(next((h[i] for h in ranks if h[i]), "") for i in range(len(ranks[0])))
