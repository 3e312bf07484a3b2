"""Loops that reduce or scan what they load, as Triton's compiler takes them.

In a loop of ``total = total + tl.sum(tl.load(..), axis=-1)`` Triton gives every lane a running value of its own, and joins them
after the loop.
With 3.6 the compiler fails where the result has not one use (seen here; mended by triton-lang/triton#11682), and its authors
found it wrong where the running value is read within the loop, as scans do (#11836, not seen here).  It looks for
the reduction of a load and of nothing else, so what is loaded there is masked by a ``tl.where`` and not by the load.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from portakern.ir.core import Arg, Block, Op, Result
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.tile import Broadcast, Cast, For, Kernel, Load, Mask, Reduce, Scan, ScanBy, identity, tile_type, yielded


def masked_apart(kernel: Kernel) -> Kernel:
    """``kernel`` with the loads masked apart that such a loop reduces or scans."""
    uses = _uses(kernel.body)
    loops = [op for op in kernel.body.walk() if isinstance(op, For)]
    kept = all(_once(loop, number, uses) for loop in loops for number in _running(loop))
    return canonicalise(kernel, _SCANS if kept else _SCANS + _REDUCTIONS)


_SCANS, _REDUCTIONS = Rules(), Rules()


@_SCANS.on(Scan)
def scanned_load(op: Scan) -> Op | None:
    return replace(op, x=_apart(op)) if _of_a_load(op) else None


@_SCANS.on(ScanBy)
def scanned_loads(op: ScanBy) -> Op | None:
    if not any(isinstance(x, Load) and tile_type(x).axes[1:][-1:] == (op.axis,) for x in op.xs):
        return None
    return replace(op, xs=tuple(Mask(replace(x, pad=None), op.axis, 0) if isinstance(x, Load) else x for x in op.xs))


@_REDUCTIONS.on(Reduce)
def reduced_load(op: Reduce) -> Op | None:
    return replace(op, x=_apart(op)) if _of_a_load(op) else None


def _of_a_load(op: Op) -> bool:
    """Whether ``op`` runs over a loaded tile of several dims along the last one."""
    return isinstance(op, Reduce | Scan) and isinstance(op.x, Load) and tile_type(op.x).axes[1:][-1:] == (op.axis,)


def _apart(op: Reduce | Scan) -> Op:
    assert isinstance(op.x, Load)
    return Mask(replace(op.x, pad=None), op.axis, identity(op.fn, tile_type(op.x).dtype))


def _running(loop: For) -> list[int]:
    """The numbers of the carried values that are joined with a reduced load at each step."""
    return [n for n, x in enumerate(yielded(loop.body)) if any(isinstance(o, Reduce) and _of_a_load(o) for o in x.operands)]


def _once(loop: For, number: int, uses: dict[Op, Counter[Op]]) -> bool:
    """Whether result ``number`` of ``loop`` has one use, whose text stands in one place, and nothing in the loop reads it."""
    found = Counter[Op]()
    for op in uses.get(loop, ()):
        if isinstance(op, Result) and op.index == number:
            found += uses.get(op, Counter())
    if found.total() != 1 or uses.get(loop.body.args[number], Counter()).total() != 1:
        return False
    (user,) = found
    return not isinstance(user, Broadcast | Cast) or uses.get(user, Counter()).total() == 1


def _uses(block: Block) -> dict[Op | Arg, Counter[Op]]:
    """Who uses what, and how often, in all blocks."""
    found: dict[Op | Arg, Counter[Op]] = {}
    for op in block.walk():
        for o in op.operands:
            found.setdefault(o, Counter())[op] += 1
    return found
