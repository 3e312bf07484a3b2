"""Attention of few queries over many keys, as when one word follows another."""

from __future__ import annotations

from portakern.fuzz.grammar.attention import attended
from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.ranges import Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.sizes import Need
from portakern.fuzz.grammar.table import production
from portakern.ir.size import Size

MANY = (300, 129, 600)
"""Keys: several tiles, for parts to have some of them each."""

FEW_ROWS = ((), (2,), (3,), (7,))


def _cache(s: FuzzScope, shape: tuple[Size, ...], axis: int, least: int) -> tuple[Var, Var]:
    """Keys and values of which there are ``least`` along ``axis`` at least."""
    k, v = (s.input(shape, hint=hint) for hint in "kv")
    k = s.let(f"{k} * 0.5", k.range, needs=[Need(shape[axis], least)])
    return k, v


def _seen(s: FuzzScope, batch: tuple[Size, ...], rank: int, keys: Size) -> str:
    """Which keys count: all, those up to a length, those since a few before it, or those of a mask."""
    nones = ", ".join(["None"] * (rank - len(batch)))
    kind = pick(s.draw, ("all", "lengths", "window", "mask"), (25, 35, 15, 25))
    if kind == "all":
        return ""
    if kind == "mask":
        mask = s.input((*batch, keys), "bool", "mask")
        ones = ", ".join([*(":" for _ in batch), *["None"] * (rank - len(batch) - 1)])
        return f"{mask}[{ones}]" if ones else str(mask)
    lengths = s.input(batch, "i32", "length", below=keys) if batch else s.scalar("length", "i32")
    cut = f"{lengths}[{', '.join([*(':' for _ in batch), nones])}]" if batch else f"pk.maximum({lengths}, 0)"
    j = "pk.iota({z}.shape, -1)"
    return f"{j} <= {cut}" if kind == "lengths" else f"({j} <= {cut}) & ({j} > {cut} - 40)"


@production(2.5)
def decoding(s: FuzzScope) -> Var:
    """A few rows of queries for each sequence and head; heads of queries may share those of keys."""
    batch: tuple[Size, ...] = (s.dim(),) if chance(s.draw, 60) else ()
    heads: tuple[Size, ...] = (s.dim(),) if chance(s.draw, 50) else ()
    group = pick(s.draw, ((), (4,), (2,)), (50, 25, 25)) if heads else ()
    rows = pick(s.draw, FEW_ROWS[1:] if not (batch or heads) else FEW_ROWS)
    keys, width = s.fresh_dim(), s.dim()
    b, h, g, r = "b" * len(batch), "h" * len(heads), "g" * len(group), "i" * len(rows)
    heads_first = chance(s.draw, 50)
    shape = (*batch, *heads, keys, width) if heads_first else (*batch, keys, *heads, width)
    letters = f"{b}{h}jd" if heads_first else f"{b}j{h}d"
    q = s.input((*batch, *heads, *group, *rows, width), hint="q")
    k, v = _cache(s, shape, shape.index(keys), pick(s.draw, MANY))
    return attended(s, q, k, v, f"{b}{h}{g}{r}d,{letters}->{b}{h}{g}{r}j", _seen(s, batch, q.rank, keys))


@production(1.0)
def decoding_biased(s: FuzzScope) -> Var:
    """With a number for each key added to the scores: of the key alone, or of its sequence too."""
    batch, keys, width = s.dim(), s.fresh_dim(), s.dim()
    q = s.input((batch, pick(s.draw, (1, 2, 5)), width), hint="q")
    k, v = _cache(s, (batch, keys, width), 1, pick(s.draw, MANY))
    whole = chance(s.draw, 50)
    bias = s.input((batch, keys) if whole else (keys,), "f32" if chance(s.draw, 50) else "", "bias")
    added = f"{bias}[:, None]" if whole else str(bias)
    if chance(s.draw, 30):
        added = f"-pk.abs({added})"
    z = s.let(f"pk.matmul({q}, pk.swapaxes({k}, 1, 2), dtype=pk.f32) * 0.2 + {added}", Range(-500.0, 500.0), "s")
    p = s.let(f"pk.softmax({z})", Range(0.0, 1.0), "p")
    return s.let(f"pk.cast({p}, {v}.dtype) @ {v}", Range(-5.0, 5.0))


@production(1.0)
def decoding_after_appending(s: FuzzScope) -> Var:
    """The newest key and value are put behind the others, or where a number says, before they are attended to."""
    batch, keys, width = s.dim(), s.fresh_dim(), s.dim()
    q = s.input((batch, width), hint="q")
    k, v = _cache(s, (batch, keys, width), 1, pick(s.draw, (*MANY[1:], 40)))
    new = [s.input((batch, 1, width), hint=hint) for hint in ("nk", "nv")]
    kind = pick(s.draw, ("behind", "at the end", "at a place"))
    if kind == "behind":
        k, v = (s.let(f"pk.concat([{x}, {n}], 1)", x.range) for x, n in zip((k, v), new, strict=True))
    elif kind == "at the end":
        k, v = (s.let(f"pk.update({x}, {n}, (0, {x}.shape[1] - 1, 0))", x.range) for x, n in zip((k, v), new, strict=True))
    else:
        at = s.input((batch,), "i32", "at", below=keys)
        k, v = (s.let(f"pk.where(pk.iota({x}.shape, 1) == {at}[:, None, None], {n}, {x})", x.range)
                for x, n in zip((k, v), new, strict=True))  # fmt: skip
    return attended(s, q, k, v, "bd,bjd->bj")


@production(1.0)
def decoding_of_few_bits(s: FuzzScope) -> Var:
    """Keys and values of 8 or 4 bits with a scale for each key."""
    batch, keys, width = s.dim(), s.fresh_dim(), s.fresh_dim() * 2
    q = s.input((batch, pick(s.draw, (1, 2, 4)), width), hint="q")
    kind = pick(s.draw, ("i8", "i4", "u4"))
    least = pick(s.draw, MANY)

    def widened(hint: str) -> Var:
        x, scale = s.input((batch, keys, width), kind, hint), s.input((batch, keys), hint="scale")
        text = f"pk.cast({x}, {q}.dtype) * ({scale} * 0.02)[:, :, None]"
        return s.let(text, Range(-10.0, 10.0), needs=[Need(keys, least)])

    k, v = widened("k"), widened("v")
    return attended(s, q, k, v, "bid,bjd->bij", pick(s.draw, ("", "pk.iota({z}.shape, -1) < 200")))
