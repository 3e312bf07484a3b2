"""Dims that several axes count together (``16*patch + pixel``) seen as a dim for each: then tiles lie along one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from portakern.ir.core import Arg, Block, Op
from portakern.ir.size import Size, divides
from portakern.ir.tile import BufferType, Index, Kernel, Load, Store, Term, buffer_type, tile_type


def with_split_dims(kernel: Kernel) -> Kernel:
    """``kernel`` with views of the arrays that it reads and writes along joined dims, where every access counts them alike.

    What loops walk stays: windows have blocks of their own (:mod:`.windows`).
    """
    accesses = [op for op in kernel.body.walk() if isinstance(op, Load | Store)]
    found = {arg: _lines(kernel, arg, [op for op in accesses if op.buffer is arg]) for arg in kernel.args}
    lines: dict[Op, Lines] = {arg: dims for arg, dims in found.items() if dims}
    return _seen(kernel, lines) if lines else kernel


Lines = Mapping[int, int]
"""Of dims that are split the size of the inner one."""


def _lines(kernel: Kernel, arg: Op, accesses: Sequence[Load | Store]) -> Lines:
    if not isinstance(arg.type, BufferType) or not accesses:
        return {}
    found: dict[int, int] = {}
    for dim, size in enumerate(arg.type.shape):
        joined = [op.indices[dim] for op in accesses if _joins(kernel, op, dim)]
        line = min(_steps(joined), default=1)
        if line > 1 and divides(line, size) and all(_apart(kernel, op.indices[dim], line) for op in accesses):
            found[dim] = line
    return found


def _joins(kernel: Kernel, op: Load | Store, dim: int) -> bool:
    """Whether a tile lies along a dim that another axis of the grid counts as well."""
    index, tiled = op.indices[dim], {a for a, _ in tile_type(op.value if isinstance(op, Store) else op).dims}
    return len(index.terms) > 1 and bool(tiled & set(index.axes)) and all(kernel.axis[a].kind == "grid" for a in index.axes)


def _steps(indices: Sequence[Index]) -> list[int]:
    """How far apart the lines are that the outer axes count; 1 where one of them counts otherwise."""
    scales = ([t.scale if isinstance(t.scale, int) and (t.div, t.mod) == (1, 0) else 1 for t in i.terms] for i in indices)
    return [sorted(s)[1] for s in scales]


def _apart(kernel: Kernel, index: Index, line: int) -> tuple[Index, Index] | None:
    """``index`` as the number of a line and the place in it."""
    if index.gather >= 0 or not isinstance(index.offset, int) or index.offset < 0:
        return None
    outer: list[Term] = []
    inner: list[Term] = []
    end = index.offset % line
    for t in index.terms:
        extent = kernel.axis[t.axis].extent
        if not isinstance(t.scale, int) or t.scale < 1 or (t.div, t.mod) != (1, 0):
            return None
        if t.scale % line == 0:
            outer.append(replace(t, scale=t.scale // line))
        elif isinstance(extent, int):
            inner.append(t)
            end += t.scale * (extent - 1)
        else:
            return None
    return (Index(tuple(outer), index.offset // line), Index(tuple(inner), index.offset % line)) if end < line else None


def _seen(kernel: Kernel, lines: Mapping[Op, Lines]) -> Kernel:
    env: dict[Op, Op] = {arg: _view(arg, dims) for arg, dims in lines.items()}

    def block(old: Block) -> Block:
        ops = []
        for op in old.ops:
            if isinstance(op, Load | Store) and op.buffer in lines:
                # In one step: with old indices the new view would not hold together.
                given = {"value": env.get(op.value, op.value)} if isinstance(op, Store) else {
                    "gathers": tuple(env.get(g, g) for g in op.gathers)}  # fmt: skip
                env[op] = replace(op, buffer=env[op.buffer], indices=_indices(kernel, op, lines[op.buffer]), **given)
            else:
                env[op] = op.remap(lambda o: env.get(o, o), block)
            ops.append(env[op])
        return Block(tuple(env.get(a, a) for a in old.args), tuple(ops))

    return replace(kernel, body=block(kernel.body))


def _view(arg: Op, lines: Lines) -> Arg:
    assert isinstance(arg, Arg)
    have = buffer_type(arg)
    shape: list[Size] = []
    for dim, size in enumerate(have.shape):
        line = lines.get(dim)
        shape += [size // line, line] if line else [size]
    return Arg(arg.name, replace(have, shape=tuple(shape)), loc=arg.loc)


def _indices(kernel: Kernel, op: Load | Store, lines: Lines) -> tuple[Index, ...]:
    found: list[Index] = []
    for dim, index in enumerate(op.indices):
        parts = _apart(kernel, index, lines[dim]) if dim in lines else None
        found += parts or (index,)
    return tuple(found)
