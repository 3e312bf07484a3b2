"""Which values get a name: those that are read twice, those that a loop inside would compute again, and long ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from portakern.emit.loops.elements import ELEMENTWISE
from portakern.emit.loops.plan import Compute, LocalStore, Node, Repeat, Walk, Write
from portakern.emit.loops.uses import all_reads, head_reads, reads
from portakern.emit.python_like import assignments
from portakern.ir.core import Op
from portakern.ir.tile import Cast, Load

HEAVIEST = 7
"""The most operations that an expression holds."""

INLINE = (*ELEMENTWISE, Load)


def weight(op: Op) -> int:
    """What an operation adds to the weight of an expression."""
    return 0 if isinstance(op, Cast | Load) else 1


def read_once(nodes: Sequence[Node], after: Sequence[Op]) -> set[Op]:
    """The values that only one statement of this same block reads, or what comes ``after`` it."""
    here = Counter(after)
    inside: set[Op] = set()
    for node in nodes:
        here.update(head_reads(node) if isinstance(node, Repeat) else reads(node))
        if isinstance(node, Walk):
            inside |= all_reads(node)
        if isinstance(node, Repeat):
            inside |= set().union(*map(all_reads, node.body))
    return {op for op, n in here.items() if n == 1 and op not in inside and isinstance(op, INLINE)}


def in_order(nodes: Sequence[Node], after: Sequence[Op]) -> list[Node]:
    """A block as it is printed: without values that nothing reads (a store rounds by itself), and with what overwrites a
    carried tile behind the computations around it, so that these may read the old one where they are used."""
    used = set(after)
    kept: list[Node] = []
    for node in reversed(nodes):
        if not (isinstance(node, Compute) and isinstance(node.op, INLINE) and node.op not in used):
            kept.append(node)
            used |= all_reads(node)
    return list(_local_stores_last(kept[::-1]))


def _local_stores_last(nodes: Sequence[Node]) -> Iterator[Node]:
    waiting: list[Node] = []
    for node in nodes:
        if isinstance(node, Write) and isinstance(node.what, LocalStore) and node.what.carried:
            waiting.append(node)
            continue
        if not isinstance(node, Compute):
            yield from waiting
            waiting = []
        yield node
    yield from waiting


def handed_on(pairs: Sequence[tuple[str, str, Collection[object]]]) -> list[str]:
    """Lines that give carried names their next values, each before a name it reads is overwritten; all at once where they
    exchange names.  ``pairs`` are names, values, and what the values read."""
    left = [(name, value, read) for name, value, read in pairs if name != value]
    lines: list[str] = []
    while left:
        free = next((p for p in left if not any(p[0] in read for name, _, read in left if name != p[0])), None)
        if free is None:
            return [*lines, *assignments([(name, value) for name, value, _ in left], hazard=True)]
        left.remove(free)
        lines.append(f"{free[0]} = {free[1]}")
    return lines
