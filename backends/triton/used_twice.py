"""Loops that reduce what they load, and whose result is used more than once.

Triton 3.6 gives every lane a running value of its own in a loop of ``total = total + tl.sum(tl.load(..), axis=-1)``, and takes
the result to be used once: where it is not, the compiler fails (mended by triton-lang/triton#11682; 3.9 compiles).  It looks
for the reduction of a load and of nothing else, so what is loaded there is masked by a ``tl.where`` and not by the load.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from portakern.ir.core import Block, Op, Result
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.tile import Broadcast, Cast, For, Kernel, Load, Mask, Reduce, identity, tile_type, yielded


def masked_apart(kernel: Kernel) -> Kernel:
    """``kernel`` with the loads masked apart that such a loop reduces."""
    uses = _uses(kernel.body)
    loops = [op for op in kernel.body.walk() if isinstance(op, For)]
    if not any(_several(loop, number, uses) for loop in loops for number, _ in _running(loop)):
        return kernel
    return canonicalise(kernel, _MASKED)


_MASKED = Rules()


@_MASKED.on(Reduce)
def reduced_load(op: Reduce) -> Op | None:
    if not _is_reduced_load(op):
        return None
    nothing = identity(op.fn, tile_type(op).dtype)
    return Reduce(op.fn, Mask(replace(op.x, pad=None), op.axis, nothing), op.axis, loc=op.loc)  # type: ignore[type-var]


def _is_reduced_load(op: Op) -> bool:
    """Whether ``op`` reduces a loaded tile of several dims along the last one."""
    return isinstance(op, Reduce) and isinstance(op.x, Load) and tile_type(op.x).axes[1:][-1:] == (op.axis,)


def _running(loop: For) -> list[tuple[int, Op]]:
    """The carried values that are joined with a reduced load at each step, with their numbers."""
    return [(n, x) for n, x in enumerate(yielded(loop.body)) if any(_is_reduced_load(o) for o in x.operands)]


def _several(loop: For, number: int, uses: dict[Op, Counter[Op]]) -> bool:
    """Whether result ``number`` of ``loop`` has more than one use, or one whose text may stand in several places."""
    found = Counter[Op]()
    for op in uses.get(loop, ()):
        if isinstance(op, Result) and op.index == number:
            found += uses.get(op, Counter())
    if found.total() != 1:
        return found.total() > 1
    (user,) = found
    return isinstance(user, Broadcast | Cast) and uses.get(user, Counter()).total() > 1


def _uses(block: Block) -> dict[Op, Counter[Op]]:
    """Who uses what, and how often, in all blocks."""
    found: dict[Op, Counter[Op]] = {}
    for op in block.walk():
        for o in op.operands:
            found.setdefault(o, Counter())[op] += 1
    return found
