"""Which values of a block of nodes are read where, and so need no name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from portakern.ir.core import Op
from portakern.ir.tile import Store

from .elements import ELEMENTWISE, source, stored_value
from .plan import Compute, LocalStore, Node, Repeat, Step, Walk, Write


def once_used(nodes: Sequence[Node], after: Sequence[Op]) -> set[Op]:
    """Values read exactly once, in this same block or ``after`` it: they are written where they are used."""
    here = Counter(after)
    elsewhere = _handed_on_together(nodes)
    for node in nodes:
        here.update(reads(node))
        if isinstance(node, Walk | Repeat):
            elsewhere |= all_reads(node)
    return {op for op, n in here.items() if n == 1 and op not in elsewhere and isinstance(op, ELEMENTWISE)}


def _handed_on_together(nodes: Sequence[Node]) -> set[Op]:
    """What the end of a loop's step writes, where that is several values: one may read what another overwrites."""
    written = [n.what for n in nodes if isinstance(n, Write)]
    stores = [w.value for w in written if isinstance(w, LocalStore) and w.carried]
    steps = [w for w in written if isinstance(w, Step)]
    values = [v for step in steps for _, v in step.values]
    return {source(v) for v in (*stores, *values)} if len(stores) + len(steps) + len(values) > 2 else set()


def reads(node: Node) -> list[Op]:
    match node:
        case Compute(op):
            return [source(o) for o in op.operands]
        case Write(LocalStore(value)):
            return [value]
        case Write(Store() as s):
            return [stored_value(s)]
        case Write(Step(values)):
            return [v for _, v in values]
    return []


def head_reads(node: Repeat) -> list[Op]:
    """What a loop reads before its first step: the carried values' first ones, its bounds."""
    return [source(v) for v in (*node.loop.init, node.loop.lo, node.loop.hi) if v is not None]


def all_reads(node: Node) -> set[Op]:
    found = set(reads(node))
    if isinstance(node, Walk):
        found |= {source(r.x) for r in node.accumulate}
    if isinstance(node, Repeat):
        found.update(head_reads(node))
    if isinstance(node, Walk | Repeat):
        for inner in node.body:
            found |= all_reads(inner)
    return found
