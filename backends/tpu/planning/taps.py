"""Loops over the taps of windows, which the grid does not walk: a block holds all that its windows reach, once.

In the text they are Python loops, unrolled while the kernel is traced, so that every tap is a static slice of the block.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count
from math import prod

from portakern.ir.core import Block, Op, Result, Yield, yielded
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.tile import Cast, Coord, For, Kernel, Load, Mask, Start, Store, tile_type

MOST = 128
"""Taps that are unrolled; those of loops further out are walked by the grid."""


class TapLoop(For):
    """A loop over taps inside a step of the grid."""

    word = "taps"


def with_taps(kernel: Kernel) -> Kernel:
    """``kernel`` with the loops over taps innermost, as :class:`TapLoop` where they can be unrolled."""
    windows = [i for op in kernel.body.walk() if isinstance(op, Load) for i in op.indices if len(i.terms) > 1]
    if not windows:
        return kernel
    ways = {t.axis for i in windows for t in i.terms if kernel.axis[t.axis].kind == "loop" and kernel.axis[t.axis].tile == 1}
    kernel = _with_own_axes(kernel, ways)
    env: dict[Op, Op] = {}

    def visit(block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            new = op.remap(lambda o: env.get(o, o), visit)
            env[op] = _loop(new, kernel, ways) if isinstance(new, For) else new
            ops.append(env[op])
        return Block(block.args, tuple(ops))

    return canonicalise(replace(kernel, body=visit(kernel.body)), _tidy(kernel))


def _with_own_axes(kernel: Kernel, ways: set[str]) -> Kernel:
    """``kernel`` whose loops that store along one of ``ways`` walk an axis of their own: a block of an output is one step's, so
    that the grid walks them, and taps it does not."""
    taken = {a.name for a in kernel.axes}
    axes = list(kernel.axes)
    env: dict[Op, Op] = {}

    def visit(block: Block, names: dict[str, str]) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            inside = names
            if isinstance(op, For) and op.axis in ways and any(isinstance(x, Store) for x in op.body.walk()):
                own = next(n for i in count(2) if (n := f"{op.axis}{i}") not in taken)
                taken.add(own)
                axes.append(replace(kernel.axis[op.axis], name=own))
                inside = {**names, op.axis: own}
            env[op] = _along(op.remap(lambda o: env.get(o, o), partial(visit, names=inside)), inside)
            ops.append(env[op])
        return Block(block.args, tuple(ops))

    body = visit(kernel.body, {})
    return replace(kernel, axes=tuple(axes), body=body) if len(axes) > len(kernel.axes) else kernel


def _along(op: Op, names: dict[str, str]) -> Op:
    """``op`` with axes called by ``names``, along none of which a tile has a dim."""
    if isinstance(op, Load | Store):
        terms = [tuple(replace(t, axis=names.get(t.axis, t.axis)) for t in i.terms) for i in op.indices]
        indices = tuple(replace(i, terms=new) for i, new in zip(op.indices, terms, strict=True))
        return op if indices == op.indices else replace(op, indices=indices)
    if isinstance(op, Coord | Start | For) and op.axis in names:
        return replace(op, axis=names[op.axis])
    return op


def _loop(op: For, kernel: Kernel, ways: set[str]) -> For:
    """A loop whose body has been visited: marked, or inside the loop that it was around."""
    if op.axis not in ways or op.lo is not None or op.hi is not None:
        return op
    inner = [x for x in op.body.ops if isinstance(x, For)]
    if all(isinstance(x, TapLoop) for x in inner):
        mark = 0 < _taps(op, kernel) <= MOST
        return TapLoop(op.axis, None, None, op.init, op.body, op.combine, loc=op.loc) if mark else op
    op = _nested(op, inner[0])
    inner = [x for x in op.body.ops if isinstance(x, For)]
    if not _carries_on(op, inner[0]):
        return op
    # A sum knows no order: what is walked by the grid comes first.
    taps = _loop(replace(op, init=op.body.args, body=inner[0].body), kernel, ways)
    results = tuple(Result(taps, n) for n in range(len(op.init)))
    return replace(inner[0], init=op.init, body=Block(op.body.args, (taps, *results, Yield(results))))


def _taps(op: For, kernel: Kernel) -> int:
    extent = kernel.axis[op.axis].extent
    return (extent if isinstance(extent, int) else 0) * prod(_taps(x, kernel) for x in op.body.ops if isinstance(x, For))


def _nested(outer: For, inner: For) -> For:
    """``outer`` with nothing but ``inner`` in its body, if ``inner`` alone uses all else there: then it is computed inside."""
    between = tuple(x for x in outer.body.ops if x is not inner and not isinstance(x, Result | Yield))
    ends = yielded(outer.body)
    around = {*inner.operands, *ends}
    if not between or not all(x.pure for x in between) or not around.isdisjoint(between):
        return outer
    deep = replace(inner, body=Block(inner.body.args, (*between, *inner.body.ops)))
    new: dict[Op, Op] = {x: Result(deep, x.index) for x in outer.body.ops if isinstance(x, Result) and x.source is inner}
    body = (deep, *new.values(), Yield(tuple(new.get(x, x) for x in ends)))
    return replace(outer, body=Block(outer.body.args, body))


def _carries_on(outer: For, inner: For) -> bool:
    """Whether the body of ``outer`` is nothing but ``inner``, which goes on with all that ``outer`` carries."""
    ends = yielded(outer.body)
    through = all(isinstance(x, Result) and x.source is inner and x.index == n for n, x in enumerate(ends))
    alone = len(outer.body.ops) == 1 + len(ends) + 1 and len(ends) == len(inner.init)
    return through and alone and inner.init == outer.body.args and inner.lo is None and inner.hi is None


def _tidy(kernel: Kernel) -> Rules:
    """Masks along an axis whose block is exactly its extent hide nothing, and what was widened for them need not be."""
    rules = Rules()

    @rules.on(Mask)
    def idle(op: Mask) -> Op | None:
        axis = kernel.axis[op.axis]
        return op.x if isinstance(axis.extent, int) and axis.extent <= axis.tile else None

    @rules.on(Cast)
    def there_and_back(op: Cast) -> Op | None:
        x = op.x
        wider = isinstance(x, Cast) and x.dtype == "f32" and op.dtype in ("bf16", "f16") and tile_type(x.x).dtype == op.dtype
        return x.x if isinstance(x, Cast) and wider else None

    return rules
