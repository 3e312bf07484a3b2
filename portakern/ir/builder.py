"""Builds blocks operation by operation; used by lowering, tests and authors of kernels by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from portakern.ir import tile as t
from portakern.ir.core import Arg, Block, Op, Result, Type, Yield
from portakern.ir.size import Size

OpT = TypeVar("OpT", bound=Op)


class Builder:
    """Appends operations to the block under construction; nested blocks are built by callbacks."""

    def __init__(self, axes: Sequence[t.Axis]) -> None:
        self.axis = {a.name: a for a in axes}
        self.stack: list[list[Op]] = [[]]

    def add(self, op: OpT) -> OpT:
        self.stack[-1].append(op)
        return op

    @property
    def ops(self) -> tuple[Op, ...]:
        return tuple(self.stack[-1])

    def dims(self, *axes: str) -> t.Dims:
        """The dims of a tile over ``axes``; those whose tile is 1 give none."""
        return tuple((a, self.axis[a].tile) for a in axes if self.axis[a].tile > 1)

    # ---- values

    def const(self, value: float | int | bool, dtype: str) -> Op:
        return self.add(t.Const(value, dtype))

    def coord(self, axis: str, dtype: str = "i32") -> Op:
        return self.add(t.Coord(axis, self.dims(axis), dtype))

    def load(self, buffer: Op, indices: Sequence[t.Index | str], pad: float | None = None,
             axes: Sequence[str] | None = None) -> Op:
        """Load with dims in the order the axes appear in ``indices``, or in the order ``axes``."""
        full = tuple(t.Index.of(i) if isinstance(i, str) else i for i in indices)
        order = tuple(dict.fromkeys(a for i in full for a in i.axes)) if axes is None else tuple(axes)
        return self.add(t.Load(buffer, full, self.dims(*order), pad))

    def store(self, value: Op, buffer: Op, indices: Sequence[t.Index | str]) -> None:
        self.add(t.Store(value, buffer, tuple(t.Index.of(i) if isinstance(i, str) else i for i in indices)))

    def unary(self, fn: str, x: Op) -> Op:
        return self.add(t.Unary(fn, x))

    def binary(self, fn: str, a: Op, b: Op) -> Op:
        a, b = self.together(a, b)
        return self.add(t.Binary(fn, a, b))

    def compare(self, fn: str, a: Op, b: Op) -> Op:
        a, b = self.together(a, b)
        return self.add(t.Compare(fn, a, b))

    def select(self, condition: Op, yes: Op, no: Op) -> Op:
        condition, yes, no = self.together(condition, yes, no)
        return self.add(t.Select(condition, yes, no))

    def cast(self, x: Op, dtype: str) -> Op:
        return x if t.tile_type(x).dtype == dtype else self.add(t.Cast(x, dtype))

    def broadcast(self, x: Op, dims: t.Dims) -> Op:
        return x if t.tile_type(x).dims == dims else self.add(t.Broadcast(x, dims))

    def permute(self, x: Op, axes: Sequence[str]) -> Op:
        return x if t.tile_type(x).axes == tuple(axes) else self.add(t.Permute(x, tuple(axes)))

    def together(self, *values: Op) -> tuple[Op, ...]:
        """``values`` with equal dims: each is broadcast to all the dims that appear, in the order of a value that has
        them all, else in the order in which the axes are declared.

        Scalars stay scalars where another value has dims, since elementwise operations take them as they are.
        """
        widest = max(values, key=lambda v: len(t.tile_type(v).dims))
        dims = dict(t.tile_type(widest).dims)
        for v in values:
            dims.update(dict(t.tile_type(v).dims))
        order = t.tile_type(widest).dims
        if len(order) < len(dims):
            order = tuple((a, dims[a]) for a in self.axis if a in dims)
        return tuple(self.fit(v, order) if t.tile_type(v).dims else v for v in values)

    def fit(self, x: Op, dims: t.Dims) -> Op:
        """``x`` permuted and broadcast to ``dims``."""
        have = t.tile_type(x).axes
        return self.broadcast(self.permute(x, [a for a, _ in dims if a in have]), dims)

    def full(self, value: float, dtype: str, dims: t.Dims) -> Op:
        return self.broadcast(self.const(value, dtype), dims)

    # ---- control

    def block(self, types: Sequence[tuple[str, Type]], fill: Callable[[tuple[Op, ...]], Sequence[Op]]) -> Block:
        """A block with the named arguments whose yielded values ``fill`` computes."""
        args = tuple(Arg(name, of) for name, of in types)
        self.stack.append([])
        self.add(Yield(tuple(fill(args))))
        return Block(args, tuple(self.stack.pop()))

    def loop(self, axis: str, init: Sequence[tuple[str, Op]], body: Callable[[tuple[Op, ...]], Sequence[Op]],
             lo: Op | None = None, hi: Op | None = None,
             combine: Callable[[tuple[Op, ...], tuple[Op, ...]], Sequence[Op]] | None = None) -> tuple[Op, ...]:
        """A ``For`` over ``axis`` carrying the named values; gives its results."""
        types = [(name, v.type) for name, v in init]
        inner = self.block(types, body)
        joined = Block((), ())
        if combine is not None:
            n = len(types)
            both = [(f"{name}_{side}", of) for side in ("left", "right") for name, of in types]
            joined = self.block(both, lambda args: combine(args[:n], args[n:]))
        loop = self.add(t.For(axis, lo, hi, tuple(v for _, v in init), inner, joined))
        return tuple(self.add(Result(loop, i)) for i in range(len(types)))

    def scalar_size(self, size: Size, dtype: str = "i32") -> Op:
        return self.add(t.Extent(size, dtype))
