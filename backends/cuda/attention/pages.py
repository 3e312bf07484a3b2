"""Keys and values that lie in pages, which a table names: the copy engine brings a tile of them page by page.

Row i of a tile lies in page ``table[i // height]``, at place ``i % height``.  A page whose number is outside of the array is
filled with zeros by the engine, as any box that lies outside.  Boxes begin at multiples of eight rows, since that is what the
places of chunks in shared memory repeat after (pk::Shared).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from portakern.emit.clike import plan as p
from portakern.emit.clike.terms import PlanTerm
from portakern.ir import tile as t
from portakern.ir.size import Size

from ..hopper.planning import FIRST

EIGHT = 8
"""Rows of 128 bytes after which swizzled places repeat."""


@dataclass(frozen=True)
class Pages(p.StatementPart):
    """``table`` is where the entries of a walk's keys begin, ``count`` how many there are, ``step`` elements apart.  Pages
    have ``height`` rows, and the array has ``among`` of them."""

    table: PlanTerm
    count: Size
    step: Size
    height: int
    among: Size

    def __str__(self) -> str:
        return f"pages of {self.height} rows by {self.count} entries at {self.table}"


@dataclass(frozen=True)
class PagedLoad:
    """A load whose rows lie in pages: ``plain`` reads the same of the first page; ``entry`` is the index of the table's dim
    along which a walk goes."""

    plain: t.Load
    table: t.Load
    entry: int
    page: int
    height: int


def paged(load: t.Load, key: str, rows: int) -> PagedLoad | str:
    """``load``, tiles of ``rows`` along ``key``, as one of pages; or why it is none."""
    buffer = t.buffer_type(load.buffer)
    if len(load.gathers) != 1 or not isinstance(table := load.gathers[0], t.Load) or table.gathers:
        return "its rows are not picked by one table"
    page = next(n for n, i in enumerate(load.indices) if i.gather == 0)
    within = [n for n, i in enumerate(load.indices) if key in i.axes]
    entries = [n for n, i in enumerate(table.indices) if key in i.axes]
    if load.indices[page] != t.Index(gather=0) or len(within) != 1 or len(entries) != 1:
        return "its rows lie otherwise than in pages"
    height = buffer.shape[within[0]]
    found = load.indices[within[0]], table.indices[entries[0]]
    if not isinstance(height, int) or found != (t.Index((t.Term(key, 1, 1, height),)), t.Index((t.Term(key, 1, height),))):
        return "its rows lie otherwise than in pages"
    if height % EIGHT or max(height, rows) % min(height, rows):
        return f"pages of {height} rows are no parts of tiles of {rows} in multiples of {EIGHT}"
    indices = list(load.indices)
    indices[page], indices[within[0]] = FIRST, t.Index.of(key)
    return PagedLoad(replace(load, indices=tuple(indices), gathers=()), table, entries[0], page, height)
