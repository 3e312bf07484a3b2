"""Reductions of which every step of a walk joins the result to a total: the tiles are joined first, and reduced once.

Where threads share a tile, a reduction is an exchange between them, and one in every step keeps the loads of the next step
waiting.  Instead each thread carries its own elements of the tile, and what they hold is reduced after the loop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from portakern.dtypes import DTYPES
from portakern.emit.running import JOIN
from portakern.ir.core import Arg, Block, Op, Result, Type, Yield, yielded
from portakern.ir.tile import (
    ArgReduce,
    Binary,
    Broadcast,
    Const,
    For,
    Kernel,
    Reduce,
    Scan,
    ScanBy,
    SortBy,
    TileType,
    identity,
    tile_type,
)  # fmt: skip

CARRIED = 48
"""Registers of 32 bits that a thread may hold of carried tiles: three sums of 16 elements each, with room for what it loads."""


_EXCHANGES = (Reduce, ArgReduce, Scan, ScanBy, SortBy)


def reduced_once(kernel: Kernel, threads: int, lines: bool = True) -> Kernel:
    """``kernel``, if it is one of rows, with what its loops reduce in every step reduced after them, where the tiles so carried
    take no more than :data:`CARRIED` registers of each of ``threads`` threads.  ``lines``: tiles of one dim, too."""
    if kernel.family != "rows":
        return kernel
    return replace(kernel, body=_Walks(threads, lines).block(kernel.body))


def only_joined(reduce: Reduce, body: Block) -> int | None:
    """Which of the values that ``body`` carries is joined with ``reduce`` in every step, where neither is used for anything
    else: then parts of what is reduced may be joined first."""
    users = [x for x in body.walk() if reduce in x.operands]
    if len(users) != 1 or not isinstance(user := users[0], Binary) or user.fn != JOIN.get(reduce.fn):
        return None
    carried = [a for a in body.args if a in user.operands]
    again = [x for x in body.walk() for v in (user, *carried) if v in x.operands and x is not user and not isinstance(x, Yield)]
    given = [n for n, v in enumerate(yielded(body)) if v is user]
    return given[0] if len(carried) == 1 and not again and given == [body.args.index(carried[0])] else None


@dataclass
class _Walks:
    """One pass over a kernel, from inner loops to outer ones."""

    threads: int
    lines: bool
    new: dict[Op, Op] = field(default_factory=dict)

    def block(self, block: Block) -> Block:
        out: list[Op] = []
        totals: dict[tuple[Op, int], Op] = {}
        for old in block.ops:
            if isinstance(old, Result) and (self.new[old.source], old.index) in totals:
                self.new[old] = totals[self.new[old.source], old.index]
                continue
            self.new[old] = op = old.remap(lambda o: self.new.get(o, o), self.block)
            if isinstance(op, For) and (joined := self.joined(op)):
                self.new[old] = loop = _carrying_tiles(op, joined)
                out.append(loop)
                for n, reduce in joined.items():
                    out += (made := _reduced(op.init[n], Result(loop, n, loc=reduce.loc), reduce))
                    totals[loop, n] = made[-1]
            else:
                out.append(op)
        return Block(block.args, tuple(out))

    def joined(self, loop: For) -> dict[int, Reduce]:
        """What is reduced for the values of ``loop`` that are to be tiles instead, by their number; none where something else
        is exchanged in every step anyway."""
        found: dict[int, Reduce] = {}
        for op in loop.body.ops:
            if isinstance(op, Reduce) and (n := only_joined(op, loop.body)) is not None and _apart(loop.combine, n, op.fn):
                found[n] = op
        if any(isinstance(op, _EXCHANGES) and op not in found.values() for op in loop.body.walk()):
            return {}
        types = [tile_type(op.x) for op in found.values()]
        carried = sum(math.prod(size for _, size in x.dims) * max(1, DTYPES[x.dtype].bits // 32) for x in types)
        if carried > CARRIED * self.threads:
            return {}
        return {n: op for n, op in found.items() if self.lines or len(tile_type(op.x).dims) > 1}


def _apart(combine: Block, n: int, fn: str) -> bool:
    """Whether the ``n``-th values of two parts of a loop are joined by ``fn``, and nothing else is done with them."""
    if not combine.ops:
        return True
    half = len(combine.args) // 2
    join, mine = yielded(combine)[n], {combine.args[n], combine.args[half + n]}
    users = [x for x in combine.walk() if mine & {*x.operands}]
    return isinstance(join, Binary) and join.fn == JOIN[fn] and users == [join] and {*join.operands} == mine


def _reduced(before: Op, tile: Result, reduce: Reduce) -> tuple[Op, ...]:
    """The operations that give what ``tile``, carried out of a loop, makes of the value from ``before`` it."""
    whole = replace(reduce, x=tile)
    if _is_unit(before, reduce.fn):
        return tile, whole
    return tile, whole, Binary(JOIN[reduce.fn], before, whole, loc=reduce.loc)


def _is_unit(value: Op, fn: str) -> bool:
    while isinstance(value, Broadcast):
        value = value.x
    return isinstance(value, Const) and value.value == identity(fn, value.dtype)


def _carrying_tiles(loop: For, joined: Mapping[int, Reduce]) -> For:
    """``loop`` with tiles in place of what they are reduced to."""
    init = tuple(_unit(joined[n].fn, tile_type(joined[n].x)) if n in joined else v for n, v in enumerate(loop.init))
    types = [v.type for v in init]
    body = _with_args(loop.body, types, {r: r.x for r in joined.values()})
    return For(loop.axis, loop.lo, loop.hi, init, body, _with_args(loop.combine, types * 2, {}), loc=loop.loc)


def _unit(fn: str, of: TileType) -> Op:
    return Broadcast(Const(identity(fn, of.dtype), of.dtype), of.dims)


def _with_args(block: Block, types: Sequence[Type], same: Mapping[Op, Op]) -> Block:
    """``block`` with arguments of ``types``, and with operations in place of those that they are the ``same`` as."""
    if not block.ops:
        return block
    args = tuple(Arg(a.name, made) for a, made in zip(_named(block.args), types, strict=True))
    new: dict[Op, Op] = dict(zip(block.args, args, strict=True))

    def within(old: Block) -> Block:
        ops: list[Op] = []
        for op in old.ops:
            if op in same:
                new[op] = new.get(same[op], same[op])
            else:
                new[op] = made = op.remap(lambda o: new.get(o, o), within)
                ops.append(made)
        return Block(old.args, tuple(ops))

    return Block(args, within(block).ops)


def _named(args: Sequence[Op]) -> Sequence[Arg]:
    return [a for a in args if isinstance(a, Arg)]
