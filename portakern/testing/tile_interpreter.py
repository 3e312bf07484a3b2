"""Runs tile programs with numpy, one grid point after the other: what an emitter's text has to compute.

Slow and literal.  What the IR leaves undefined (outside an extent, after a load without pad) is filled with a value
that would show up in a result that used it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from portakern.dtypes import numpy_dtype
from portakern.ir import tile as t
from portakern.ir.core import Block, Op, Result, yielded
from portakern.ir.functions import BINARY, COMPARE, UNARY
from portakern.ir.program import Program, turns
from portakern.ir.size import evaluate

JUNK = 12345.0

REDUCE = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod, "any": np.any, "all": np.all}


def run(program: Program, inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
    """The outputs of ``program`` by name, for ``inputs`` by name and open dims of these ``sizes``.

    Raises:
        AssertionError: the program does what the IR forbids: it reads outside an array where it said it would not, say.
        NotImplementedError: an operation that no lowering makes yet.
    """
    sizes = sizes or {}
    arrays = {k: np.asarray(v) for k, v in inputs.items()}
    for a in program.by_role("output", "temporary"):
        arrays[a.name] = np.full(program.shape(a.name, sizes), JUNK if a.init is None else a.init).astype(numpy_dtype(a.dtype))
    with np.errstate(all="ignore"):
        for turn in turns(len(program.kernels), program.repeats, sizes):
            _Run(program.kernels[turn.number], {n: arrays[turn.array(n)] for n in arrays}, turn.sizes).all()
    return {a.name: arrays[a.name] for a in program.by_role("output")}


def dtype_of(op: Op) -> str:
    return t.tile_type(op).dtype


class _Run:
    def __init__(self, kernel: t.Kernel, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> None:
        self.kernel, self.sizes = kernel, sizes
        self.base: dict[Op, np.ndarray] = {}
        for arg in kernel.args:
            if isinstance(arg.type, t.BufferType):
                shape = tuple(evaluate(s, sizes) for s in arg.type.shape)
                self.base[arg] = arrays[arg.name].reshape(shape)
            else:
                self.base[arg] = arrays[arg.name]
        self.start: dict[str, int] = {a.name: 0 for a in kernel.axes if a.kind == "whole"}

    def all(self) -> None:
        ranges = [range(0, evaluate(a.extent, self.sizes), a.tile) for a in self.kernel.grid]
        for point in itertools.product(*ranges):
            self.start.update(zip((a.name for a in self.kernel.grid), point, strict=True))
            self.env: dict[Op, Any] = dict(self.base)
            self.block(self.kernel.body)

    def extent(self, axis: str) -> int:
        return evaluate(self.kernel.axis[axis].extent, self.sizes)

    def coord(self, axis: str) -> np.ndarray:
        return self.start[axis] + np.arange(self.kernel.axis[axis].tile)

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.env[op] = self.op(op)

    def op(self, op: Op) -> Any:
        v = [self.env[o] for o in op.operands] if not isinstance(op, t.For | t.Load | t.Store) else []
        match op:
            case t.Const():
                return np.asarray(op.value, numpy_dtype(op.dtype))
            case t.Extent():
                return np.asarray(evaluate(op.size, self.sizes), numpy_dtype(op.dtype))
            case t.Start():
                return np.asarray(self.start[op.axis], numpy_dtype(op.dtype))
            case t.Coord():
                c = self.coord(op.axis).astype(numpy_dtype(op.dtype))
                return c if op.dims else c[0]
            case t.Unary():
                x = v[0].astype(np.float64) if op.fn == "erf" else v[0]  # a series, which needs the digits
                return np.asarray(UNARY[op.fn].exact(x)).astype(numpy_dtype(dtype_of(op)))
            case t.Binary():
                assert dtype_of(op) in ("f32", "f64", "i32", "i64", "bool"), op.type
                return np.asarray(BINARY[op.fn].exact(*v)).astype(numpy_dtype(dtype_of(op)))
            case t.Compare():
                return COMPARE[op.fn].exact(*v)
            case t.Select():
                return np.where(*v)
            case t.Cast():
                return np.asarray(v[0]).astype(numpy_dtype(op.dtype))
            case t.Bitcast():
                return np.asarray(v[0]).view(numpy_dtype(op.dtype))
            case t.Broadcast():
                have = t.tile_type(op.x).axes
                shape = [n if a in have else 1 for a, n in op.dims]
                return np.broadcast_to(np.asarray(v[0]).reshape(shape), [n for _, n in op.dims])
            case t.Permute():
                have = t.tile_type(op.x).axes
                return np.transpose(v[0], [have.index(a) for a in op.axes])
            case t.Mask():
                out = np.array(v[0])
                where = t.tile_type(op.x).axes.index(op.axis)
                bad = self.coord(op.axis) >= self.extent(op.axis)
                out[(slice(None),) * where + (bad,)] = op.value
                return out
            case t.Reduce():
                return REDUCE[op.fn](v[0], axis=t.tile_type(op.x).axes.index(op.axis)).astype(numpy_dtype(dtype_of(op)))
            case t.Scan():
                return self.scan(op, *v)
            case t.ScanBy():
                return self.scan_by(op, v)
            case t.SortBy():
                where = t.tile_type(op.xs[0]).axes.index(op.axis)
                order = np.argsort(v[0], where, kind="stable")
                order = np.take(order, np.arange(op.dims[where][1]) % order.shape[where], where)
                return tuple(np.take_along_axis(x, order, where) for x in v)
            case t.Dot():
                return self.dot(op, *v)
            case Result():
                return self.env[op.source][op.index]
            case t.Load():
                return self.load(op)
            case t.Store():
                return self.store(op)
            case t.For():
                return self.loop(op)
        if op.mnemonic() == "give":
            return None
        raise NotImplementedError(op.mnemonic())

    def scan(self, op: t.Scan, x: np.ndarray, carry: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        where = t.tile_type(op.x).axes.index(op.axis)
        join = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[op.fn]
        x = np.flip(x, where) if op.reverse else x
        full = np.concatenate([np.expand_dims(np.asarray(carry, x.dtype), where), x], where)
        run = join.accumulate(full, where, dtype=x.dtype)
        steps = run.shape[where]
        tile = np.take(run, range(steps - 1) if op.exclusive else range(1, steps), where)
        return np.flip(tile, where) if op.reverse else tile, np.take(run, steps - 1, where)

    def scan_by(self, op: t.ScanBy, xs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        where = t.tile_type(op.xs[0]).axes.index(op.axis)
        lines = [np.moveaxis(x, where, 0) for x in xs]
        run = [tuple(line[0] for line in lines)]
        for i in range(1, lines[0].shape[0]):
            self.env.update(zip(op.join.args, (*run[-1], *(line[i] for line in lines)), strict=True))
            self.block(op.join)
            run.append(tuple(self.env[v] for v in yielded(op.join)))
        return (*(np.stack(x, where) for x in zip(*run, strict=True)), *run[-1])

    def dot(self, op: t.Dot, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        names: dict[str, str] = {}
        for axis in (*t.tile_type(op.lhs).axes, *t.tile_type(op.rhs).axes):
            names.setdefault(axis, "abcdefgh"[len(names)])
        spec = ["".join(names[x] for x in t.tile_type(o).axes) for o in (op.lhs, op.rhs, op.acc)]
        kind, product = numpy_dtype(dtype_of(op)), f"{spec[0]},{spec[1]}->{spec[2]}"
        full = np.einsum(product, a.astype(kind), b.astype(kind))
        # What is outside the extent must be zero in both operands.  The weights of a row whose largest score is NaN are NaN
        # everywhere, and so is its product: there they change nothing.
        inside = np.einsum(product, *(self.cleared(op, o, x).astype(kind) for o, x in ((op.lhs, a), (op.rhs, b))))
        assert np.array_equal(np.isnan(full), np.isnan(inside)), f"a NaN outside {op.axis} reaches numbers of {op.mnemonic()}"
        return c + full

    def cleared(self, op: t.Dot, o: Op, x: np.ndarray) -> np.ndarray:
        """An operand of a product with zeros outside the extent, where it has nothing but zeros and NaN."""
        where = t.tile_type(o).axes.index(op.axis)
        outside = self.coord(op.axis) >= self.extent(op.axis)
        x = np.array(x).swapaxes(0, where)
        assert not np.any(np.nan_to_num(x[outside], nan=0.0)), f"{o.mnemonic()} is not zero outside {op.axis}"
        x[outside] = 0
        return x.swapaxes(0, where)

    def places(self, op: t.Load | t.Store, dims: t.Dims) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
        """The elements of the buffer a tile's elements are at, which of them there are, which lie inside the extents of
        the axes they are accessed along, and which were gathered from outside."""
        shape = t.buffer_type(op.buffer).shape
        axes = [a for a, _ in dims]
        out, inside = [], np.ones([n for _, n in dims], bool)
        meant, checked = inside, ~inside
        for index, size in zip(op.indices, shape, strict=True):
            total = np.asarray(evaluate(index.offset, self.sizes))
            if index.gather >= 0:
                assert isinstance(op, t.Load)
                total = total + self.gathered(op.gathers[index.gather], dims)
            for term in index.terms:
                c = self.coord(term.axis)
                known = c < self.extent(term.axis)
                c = (c // term.div % term.mod if term.mod else c // term.div) * evaluate(term.scale, self.sizes)
                where = [1] * len(axes)
                if term.axis in axes:
                    where[axes.index(term.axis)] = len(c)
                else:
                    c, known = c[:1], known[:1]
                total, meant = total + c.reshape(where), meant & known.reshape(where)
            there = (total >= 0) & (total < evaluate(size, self.sizes))
            checked = checked | ((index.gather >= 0) & ~there)  # no bounds check is asked for: it is always made
            inside = inside & there
            out.append(total)
        return out, inside, meant, checked

    def gathered(self, op: Op, dims: t.Dims) -> np.ndarray:
        """The coordinates in a gathered tile, with a dim for each of ``dims``."""
        have = t.tile_type(op).axes
        return np.asarray(self.env[op]).reshape([n if a in have else 1 for a, n in dims])

    def load(self, op: t.Load) -> np.ndarray:
        where, inside, meant, checked = self.places(op, op.dims)
        data = self.env[op.buffer]
        picked = np.broadcast_arrays(inside, *where)[1:] if where else []
        result = np.full(inside.shape, JUNK if op.pad is None else op.pad).astype(data.dtype)
        if not np.all(inside | checked):
            assert self.kernel.may_overrun(op), f"{op.buffer} is read outside, and may_overrun says it cannot be"
        result[inside] = data[tuple(p[inside] for p in picked)] if where else data
        result[inside & ~meant] = np.asarray(JUNK).astype(data.dtype)  # an element of the array, and not one that was asked for
        return result

    def store(self, op: t.Store) -> None:
        where, inside, meant, _ = self.places(op, t.tile_type(op.value).dims)
        inside = inside & meant
        data = self.env[op.buffer]
        picked = np.broadcast_arrays(inside, *where)[1:] if where else []
        at = tuple(p[inside] for p in picked) if where else ...
        value = np.broadcast_to(self.env[op.value], inside.shape)[inside if where else ...]
        join = {"set": None, "add": np.add, "max": np.maximum}[op.mode]
        data[at] = value if join is None else join(data[at], value)  # a tile's elements go to places of their own

    def loop(self, op: t.For) -> tuple[Any, ...]:
        axis = self.kernel.axis[op.axis]
        lo = int(self.env[op.lo]) if op.lo is not None else 0
        hi = min(int(self.env[op.hi]) if op.hi is not None else 10**18, self.extent(op.axis))
        carried = tuple(self.env[v] for v in op.init)
        for start in range(lo // axis.tile * axis.tile, hi, axis.tile):
            self.start[op.axis] = start
            self.env.update(zip(op.body.args, carried, strict=True))
            self.block(op.body)
            carried = tuple(self.env[v] for v in yielded(op.body))
        return carried
