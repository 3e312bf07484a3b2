"""Keys and values in pages: picked by a table of integers, page by page or key by key, up to the length of each sequence."""

from __future__ import annotations

from portakern.fuzz.grammar.attention import attended
from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.table import production
from portakern.ir.size import Size

PAGE = (4, 8, 16, 2, 3)
INTEGERS = ("i32", "i64")


def _queries(s: FuzzScope, batch: Size, heads: Size | None, width: Size) -> tuple[Var, str]:
    """A few queries of each sequence, and the letters of their scores; keys are ``[batch, keys, heads, width]``, or have no
    heads."""
    rows = pick(s.draw, ((), (2,), (4,), (s.dim(),)), (50, 20, 15, 15))
    r = "r" * len(rows)
    if heads is None:
        return s.input((batch, *rows, width), hint="q"), f"b{r}d,bjd->b{r}j"
    group = pick(s.draw, ((), (2,), (4,)), (40, 35, 25))
    g = "g" * len(group)
    return s.input((batch, heads, *group, *rows, width), hint="q"), f"bh{g}{r}d,bjhd->bh{g}{r}j"


def _below_lengths(s: FuzzScope, q: Var, keys: Size) -> str:
    """Which keys count: those up to the length of the sequence; with a length of 0 perhaps none."""
    lengths = s.input((q.shape[0],), "i32", "length", below=keys)
    cut = f"{lengths}[:, {', '.join(['None'] * (q.rank - 1))}]"
    return f"pk.iota({{z}}.shape, -1) {pick(s.draw, ('<=', '<'), (85, 15))} {cut}"


def _table(s: FuzzScope, batch: Size, count: Size, pages: Size, size: int = 1) -> Var:
    """Numbers of pages (or of keys, ``size`` for each); some are outside now and then, as where a sequence has fewer."""
    below = pages * size if chance(s.draw, 80) else 0
    return s.input((batch, count), pick(s.draw, INTEGERS, (75, 25)), "table", below=below)


def _in_a_row(s: FuzzScope, pages: Var, table: Var) -> Var:
    """``[B, keys, ..]`` of pages ``[P, page, ..]``."""
    rest = "".join(f", {pages}.shape[{i}]" for i in range(2, pages.rank))
    line = f"({table}.shape[0], {table}.shape[1] * {pages}.shape[1]{rest})"
    picked = pick(s.draw, (f"pk.take({pages}, {table})", f"{pages}[{table}]", f"pk.take({pages}, {table}.reshape(-1))"))
    return s.let(f"pk.reshape({picked}, {line})", pages.range)


@production(2.0)
def keys_in_pages(s: FuzzScope) -> Var:
    """Pages put in a row, in rows of heads or heads first, of a dtype of their own or not."""
    pages, size, batch, count, width = s.fresh_dim(), pick(s.draw, PAGE), s.dim(), s.fresh_dim(), s.dim()
    heads: Size | None = s.dim() if chance(s.draw, 60) else None
    first = heads is not None and chance(s.draw, 25)
    shape = (pages, *(() if heads is None else (heads,)), size, width) if first else (
        pages, size, *(() if heads is None else (heads,)), width)  # fmt: skip
    q, letters = _queries(s, batch, heads, width)
    stored = [s.input(shape, hint=hint) for hint in "kv"]
    table = _table(s, batch, count, pages)
    if first:
        stored = [s.let(f"pk.swapaxes({x}, 1, 2)", x.range) for x in stored]
    keys, values = (_in_a_row(s, x, table) for x in stored)
    return attended(s, q, keys, values, letters, _below_lengths(s, q, count * size))


@production(1.5)
def keys_by_slot(s: FuzzScope) -> Var:
    """Where each key lies is given, or computed from its page."""
    pages, size, batch, count, width = s.fresh_dim(), pick(s.draw, PAGE), s.dim(), s.fresh_dim(), s.dim()
    heads: Size | None = s.dim() if chance(s.draw, 50) else None
    rest = (width,) if heads is None else (heads, width)
    q, letters = _queries(s, batch, heads, width)
    if chance(s.draw, 50):
        k, v = (s.input((pages, *rest), hint=hint) for hint in "kv")
        slots, total = str(_table(s, batch, count, pages)), count
    else:
        k, v = (s.input((pages * size, *rest), hint=hint) for hint in "kv")
        table = _table(s, batch, count, pages)
        places = f"{table}[:, :, None] * {size} + pk.arange({size}, {table}.dtype)"
        slots, total = f"({places}).reshape({table}.shape[0], {size} * {table}.shape[1])", count * size
    keys, values = (s.let(f"pk.take({x}, {slots})", x.range) for x in (k, v))
    return attended(s, q, keys, values, letters, _below_lengths(s, q, total))


@production(1.0)
def pages_of_one_cache(s: FuzzScope) -> Var:
    """Keys and values of a page side by side, perhaps of 8 bits with a scale for each key."""
    pages, size, batch, count, width = s.fresh_dim(), pick(s.draw, PAGE), s.dim(), s.fresh_dim(), s.dim()
    q, letters = _queries(s, batch, None, width)
    table = _table(s, batch, count, pages)
    narrow = chance(s.draw, 35)
    cache = s.input((pages, 2, size, width), "i8" if narrow else "", "cache")
    row = f"({table}.shape[0], {size} * {table}.shape[1], {cache}.shape[3])"
    parts = [f"pk.take({cache}, {table})[:, :, {i}].reshape({row})" for i in range(2)]
    if narrow:
        scale = s.input((pages, size), q.text, "scale")
        scales = f"pk.take({scale}, {table}).reshape({table}.shape[0], -1)[:, :, None]"
        parts = [f"pk.cast({x}, {scale}.dtype) * {scales} * 0.01" for x in parts]
    keys, values = (s.let(x, q.range) for x in parts)
    return attended(s, q, keys, values, letters, _below_lengths(s, q, count * size))


@production(1.0)
def pages_by_offsets(s: FuzzScope) -> Var:
    """Pages of all sequences in one line, from an offset for each on: each has as many as lie up to the next one."""
    pages, size, batch, width = s.fresh_dim(), pick(s.draw, PAGE), s.dim(), s.dim()
    total, most = s.fresh_dim(), pick(s.draw, (2, 3, 5))
    q, letters = _queries(s, batch, None, width)
    k, v = (s.input((pages, size, width), hint=hint) for hint in "kv")
    line = s.input((total,), "i32", "line", below=pages)
    offsets = s.input((batch + 1,), "i32", "offsets", below=total)
    table = s.let(f"pk.take({line}, {offsets}[:-1, None] + pk.arange({most}))", line.range, "table")
    length = f"(({offsets}[1:] - {offsets}[:-1]) * {size})[:, {', '.join(['None'] * (q.rank - 1))}]"
    keys, values = (_in_a_row(s, x, table) for x in (k, v))
    return attended(s, q, keys, values, letters, f"pk.iota({{z}}.shape, -1) < pk.maximum({length}, 1)")
