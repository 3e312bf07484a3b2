"""Lines of an array of which a kernel reads, or stores, several parts: blocks have whole lines, which the kernel cuts itself.

Otherwise the host would copy each part out of the array, or all of them into one.  A rotation of the halves of every line,
say, reads and stores both of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from portakern.ir.core import Arg, Op
from portakern.ir.size import product
from portakern.ir.tile import BufferType, Index, Kernel, Load, Store, buffer_type, tile_type

from .blocks import Cut, Span
from .pieces import Assembly


def cuts_of(kernel: Kernel, spans: Mapping[str, Span], assemblies: Iterable[Assembly]) -> dict[Op, Cut]:
    """The loads and stores of ``kernel`` that mean a part of lines, of which it takes all parts."""
    ops = list(kernel.body.walk())
    return _reads([op for op in ops if isinstance(op, Load)], spans) | {
        op: cut for a in assemblies for op, cut in _writes(a, [op for op in ops if isinstance(op, Store)], spans)}  # fmt: skip


def _reads(loads: Sequence[Load], spans: Mapping[str, Span]) -> dict[Op, Cut]:
    """Those of arrays of which all loads are parts of lines, that make up the lines."""
    found: dict[Op, Cut] = {}
    for name, group in groupby(sorted(loads, key=_name), key=_name):
        parts = {op: _part(op, spans) for op in group}
        cuts = {op: Cut(name, first, count, line) for op, x in parts.items() if x is not None for first, count, line in [x]}
        if len(cuts) == len(parts) and _make_up_lines({(c.first, c.count, c.line) for c in cuts.values()}):
            found |= cuts
    return found


def _writes(assembly: Assembly, stores: Sequence[Store], spans: Mapping[str, Span]) -> list[tuple[Op, Cut]]:
    """The stores of the pieces of an array that one kernel makes, side by side along lines."""
    shape = assembly.array.type.shape if isinstance(assembly.array.type, BufferType) else ()
    by_name = {_name(op): op for op in stores}
    if not shape or len(assembly.pieces) < 2 or any(p.copied or p.name not in by_name for p in assembly.pieces):
        return []
    found: list[tuple[Op, Cut]] = []
    for piece in assembly.pieces:
        *around, (first, step, count) = piece.places
        op, line = by_name[piece.name], shape[-1]
        whole = around == [(0, 1, n) for n in shape[:-1]] and step == 1 and _part(op, spans) == (0, count, count)
        alike = op.indices == by_name[assembly.pieces[0].name].indices
        if not (whole and alike and isinstance(first, int) and isinstance(count, int) and isinstance(line, int)):
            return []
        found.append((op, Cut(assembly.array.name, first, count, line)))
    return found if _make_up_lines({(c.first, c.count, c.line) for _, c in found}) else []


def _make_up_lines(parts: set[tuple[int, int, int]]) -> bool:
    """Whether ``parts`` (first, count, of a line), several of them, are a whole line without overlap."""
    at = 0
    for first, count, _ in sorted(parts):
        if first != at:
            return False
        at += count
    return len(parts) > 1 and at == next(iter(parts))[2]


def _part(op: Load | Store, spans: Mapping[str, Span]) -> tuple[int, int, int] | None:
    """The part of lines that ``op`` means in one block: its first element, how many, and of how many."""
    dims = tuple(a for a, _ in (tile_type(op.value).dims if isinstance(op, Store) else op.dims))
    shape, index = buffer_type(op.buffer).shape, op.indices[-1] if op.indices else Index()
    if len(dims) != 2 or len(index.terms) != 1 or index.gather >= 0 or (isinstance(op, Load) and op.gathers):
        return None
    (term,), line = index.terms, shape[-1]
    if not isinstance(index.offset, int) or not isinstance(line, int):
        return None
    plain = (term.scale, term.div, term.mod) == (1, 1, 0)
    others = [i for i in op.indices[:-1] if set(i.axes) & set(dims)]
    if not plain or term.axis not in dims or len(others) != 1 or len(others[0].terms) != 1 or others[0].terms[0].scale != 1:
        return None
    span = spans[term.axis]
    alone = span.size == span.axis.extent and product(shape) != 0
    return (index.offset, span.size, line) if alone else None


def _name(op: Load | Store) -> str:
    assert isinstance(op.buffer, Arg)
    return op.buffer.name
