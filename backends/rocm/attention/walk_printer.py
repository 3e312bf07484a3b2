"""The text of walks over strips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from portakern.emit.clike import Printer
from portakern.emit.clike import plan as p
from portakern.emit.clike.flat import substituted
from portakern.emit.clike.printer import indented
from portakern.emit.clike.terms import Name, PlanTerm, is_zero, number

from .plan import KeyStrip
from .walk import Halves, StripWalk, Turns


def loaded_ahead(loop: p.Loop) -> tuple[list[p.LoadTile], list[p.Statement]]:
    """Vectors that a step of ``loop`` loads, whose addresses follow from its number, and what else it does.

    Loads arrive in the order in which they set out: a vector that is used at once would wait for the next step's operands.
    """
    scalars: dict[str, PlanTerm] = {}
    for s in loop.body:
        if isinstance(s, p.Scalar) and s.define:
            scalars[s.name] = substituted(s.value, scalars)
    made = frozenset().union(*map(p.made, loop.body)) - scalars.keys()
    found: list[p.LoadTile] = []
    for s in loop.body:
        if isinstance(s, p.LoadTile) and s.define and s.place.side != "tile" and not s.picks:
            ahead = substituted(s, scalars)
            if made.isdisjoint(p.reads(ahead)):
                found.append(ahead)
    names = {s.name for s in found}
    return found, list(p.used([s for s in loop.body if not (isinstance(s, p.LoadTile) and s.name in names)], loop.pipeline))


def strip_type(printer: Printer, s: KeyStrip, threads: int) -> str:
    way = "cols" if s.straight else "rows"
    return f"pk::Strip<{printer.dialect.type(s.dtype)}, {s.rows}, {s.cols}, pk::Depth::along_{way}, {threads}>"


@dataclass(frozen=True)
class _Names:
    """What a walk calls its own: where it begins and ends, the next step, what loads a step's vectors, and how each is loaded
    anew, or taken over where it was loaded a step ahead."""

    first: str
    end: str
    next: str
    load: str
    again: Mapping[str, list[str]]
    took: Sequence[str]


def print_walk(printer: Printer, k: StripWalk) -> list[str]:
    fresh = printer.names.fresh
    known = number(k.begin) == 0
    vectors, body = loaded_ahead(k)
    # Copies that no register sees are waited for all at once: the next vectors set out before them, to registers of their own.
    called = {v.name: fresh(f"{v.name.removesuffix('_tile')}_next") if k.direct else v.name for v in vectors}
    first, end, next_ = "0" if known else fresh(f"first_{k.var}"), fresh(f"end_{k.var}"), fresh(f"next_{k.var}")
    load = fresh("load_vectors") if vectors else ""
    again = {v.name: _vector(printer, replace(substituted(v, {k.var: Name(next_)}), define=False)) for v in vectors}
    took = [f"auto {v.name} = {called[v.name]};" for v in vectors if k.direct]
    x = _Names(first, end, next_, load, {} if k.direct else again, took)
    begin = [f"const int64_t {x.end} = {k.end};", *([] if known else [f"const int64_t {x.first} = {k.begin};"])]
    kind = "StripFeed" if k.direct else "HeldStripFeed"
    own = ""
    if k.follows and k.turns is not None:
        own = fresh("anew")
        begin.append(f"const pk::Anew {own};  // no address of this walk is in registers in the one before")
        own = f", {own}"
    for s in k.strips:
        begin += [f"pk::{kind} {s.feed}({s.name}, {s.origin}, {s.stride}, {k.extent}, {s.features}{own});",
                  f"pk::StripReader {s.reader}({s.name}{own});",
                  f"decltype({s.reader})::Part {s.part};  // what this wave holds of a tile"]  # fmt: skip
    begin += [f"pk::Tile<{printer.dialect.type(v.dtype)}, {printer.place(v.place)}> {called[v.name]};" for v in vectors]
    if vectors:
        loads = [line for v in vectors for line in _vector(printer, replace(v, name=called[v.name], define=False))]
        begin += [f"const auto {x.load} = [&](int64_t {k.var}) PK_INLINE {{", *indented(loads), "};",
                  f"if ({x.first} < {x.end}) {x.load}({x.first});"]  # fmt: skip

    def left(part: Sequence[p.Statement]) -> tuple[p.Statement, ...]:
        return tuple(s for s in part if not isinstance(s, p.LoadTile) or s.name not in called)

    if k.turns is not None:
        return [*begin, *_in_turns(printer, k, replace(k.turns, between=left(k.turns.between)), x)]
    if k.halves is not None:
        halves = replace(k.halves, early_rest=left(k.halves.early_rest), late_rest=left(k.halves.late_rest))
        return [*begin, *_in_halves(printer, k, halves, x)]
    return [*begin, *_one_by_one(printer, k, body, x)]


def _vector(printer: Printer, v: p.LoadTile) -> list[str]:
    """The text of a vector's load; of columns some of which are outside, one without branches."""
    a = v.access
    plain = a.left and number(a.strides[0]) == 1 and v.dtype == "f32" and (a.pad is None or is_zero(a.pad))
    if v.place.side != "col" or not plain:
        return printer.on_LoadTile(v)
    return [f"{v.name} = {printer.word('load_within', printer.place(v.place), a.origin, a.left[0])};"]


def _head(k: StripWalk, x: _Names) -> list[str]:
    return ["#pragma unroll 1", f"for (int64_t {k.var} = {x.first}; {k.var} < {x.end}; {k.var} += {k.step}) {{"]


def _vectors(k: StripWalk, x: _Names) -> list[str]:
    """What a step does first about vectors: those of the next one are loaded ahead, or else behind their last use."""
    next_ = f"{k.var} + {k.step}"
    if x.again:
        return [f"const int64_t {x.next} = {next_} < {x.end} ? {next_} : {k.var};"]
    return [f"if ({next_} < {x.end}) {x.load}({next_});"] if x.load else []


def _stated(printer: Printer, part: Sequence[p.Statement], x: _Names) -> list[str]:
    """The text of ``part``, with vectors loaded anew behind their last use in it."""
    last = {name: max((n for n, s in enumerate(part) if name in p.reads(s)), default=-1) for name in x.again}
    lines: list[str] = []
    for n, s in enumerate(part):
        lines += printer.statements([s])
        lines += [line for name, at in last.items() if at == n for line in x.again[name]]
    return lines


def _all(strips: Sequence[KeyStrip], call: str) -> list[str]:
    return [" ".join(f"{s.feed}.{call};" for s in strips)] if strips else []


# ---- one barrier a step ------------------------------------------------------------------------------------------------


def _one_by_one(printer: Printer, k: StripWalk, body: Sequence[p.Statement], x: _Names) -> list[str]:
    bring = "start" if k.direct else "fetch"
    put = [] if k.direct else _all(k.strips, "put()")
    step = [
        "pk::wait_for_copies<0>();" if k.direct else "pk::wait_for_lds();",
        "pk::turn();  // this step's operands are complete, and the other slot has been read",
        *x.took,
        *_vectors(k, x),
        *_all(k.strips, f"{bring}({k.var} + {k.step})"),
        *([] if k.direct else [_FIRST]),
        *_multiplied(printer, k, body, x),
        *put,
    ]
    landed = ["pk::wait_for_copies<0>();"] if k.direct else []
    return [*_all(k.strips, f"{bring}({x.first})"), *put, *_head(k, x), *indented(step), "}", *landed]


_APART = "__builtin_amdgcn_sched_barrier(0);  // both halves at once would hold more registers than there are"
_FIRST = "__builtin_amdgcn_sched_barrier(0);  // all of that sets out before anything else"


def _multiplied(printer: Printer, k: StripWalk, body: Sequence[p.Statement], x: _Names, first: bool = True) -> list[str]:
    """Each strip is read while what stands before its product is computed; the ``first`` one here, or it has been.

    Where copies go straight to LDS the compiler must not see the reads, and waits are written."""
    strips = {s.name: s for s in k.strips}
    order = [strips[name] for name in dict.fromkeys(s.b.name for s in body if isinstance(s, p.Dot))]
    if not k.direct:
        return _seen(printer, k, body, order, x)
    coming = order[1:]
    lines = [_read(order[0])] if first else []
    arrived = 0
    for s in body:
        if not isinstance(s, p.Dot):
            lines += printer.statements([s])
            continue
        strip = strips[s.b.name]
        if arrived < len(order) and order[arrived] is strip:
            word = "arrived_meanwhile" if arrived else "arrived"
            lines += [f"pk::{word}({strip.part});"]
            lines += [_read(coming[arrived])] if arrived < len(coming) else []
            arrived += 1
        lines.append(f"pk::dot({s.acc}, {s.a.name}, {strip.part});")
    return lines


def _seen(printer: Printer, k: StripWalk, body: Sequence[p.Statement], strips: Sequence[KeyStrip], x: _Names) -> list[str]:
    by_name: dict[str, KeyStrip] = {s.name: s for s in strips}
    apart = next(iter(k.halves.soon), None) if k.halves is not None else None
    lines: list[str] = []
    last = {name: max((n for n, s in enumerate(body) if name in p.reads(s)), default=-1) for name in x.again}
    for n, s in enumerate(body):
        if isinstance(s, p.Dot):
            strip = by_name[s.b.name]
            lines += [_APART] if s == apart else []
            lines += [f"{strip.reader}.load({strip.part});", f"pk::dot({s.acc}, {s.a.name}, {strip.part});"]
        else:
            lines += printer.statements([s])
        lines += [line for name, at in last.items() if at == n for line in x.again[name]]
    return lines


def _read(x: KeyStrip) -> str:
    return f"{x.reader}.read({x.part});"


# ---- in turns ----------------------------------------------------------------------------------------------------------


def _in_turns(printer: Printer, k: StripWalk, turns: Turns, x: _Names) -> list[str]:
    """Of the two waves of a SIMD one multiplies while the other one computes what stands between its products.

    A slot is filled anew after the barrier behind the turn in which the later waves have read it, and has landed before the one
    in front of the turn in which the earlier waves read it.  Copies straight to LDS have three slots, and the first operand is
    read before the wave multiplies; with two slots all are read while it does.
    """
    by_name = {s.name: s for s in k.strips}
    names = [[s.b.name for s in part if isinstance(s, p.Dot)] for part in (turns.ahead, turns.behind)]
    ahead, behind = ([by_name[n] for n in part] for part in names)
    again = [replace(s, define=False) if isinstance(s, p.Fill) else s for s in turns.ahead]
    products = _multiplied(printer, k, [*turns.behind, *again], x, first=not k.direct)
    step = k.step

    def at(tiles: int) -> str:
        return f"{k.var} + {tiles * step}"

    def from_first(tiles: int) -> str:
        return f"{x.first} + {tiles * step}" if tiles else x.first

    if k.direct:
        begin = [line for n in range(3) for line in _all(ahead, f"start({from_first(n)})")]
        begin += [line for n in range(2) for line in _all(behind, f"start({from_first(n)})")]
        begin += ["pk::wait_for_copies<0>();"]
        bring = [*_all(behind, f"start({at(2)})"), *_all(ahead, f"start({at(3)})")]
        before, after = [_read(behind[0])], ["pk::wait_for_copies<0>();", "pk::wait_for_lds();"]
        landed = ["pk::wait_for_copies<0>();"]
    else:
        both = [*ahead, *behind]
        begin = [*_all(both, f"fetch({x.first})"), *_all(both, "put()"), *_all(ahead, f"fetch({from_first(1)})")]
        begin += [*_all(ahead, "put()"), *_all(behind, f"fetch({from_first(1)})"), *_all(ahead, f"fetch({from_first(2)})")]
        begin += ["pk::wait_for_lds();"]
        bring = [*_all(both, "put()"), *_all(behind, f"fetch({at(2)})"), *_all(ahead, f"fetch({at(3)})")]
        before, after, landed = [], [], []
    lines = [
        *begin,
        "pk::turn();",
        *_multiplied(printer, k, turns.ahead, x),
        "pk::turn();",
        "if (pk::wave_number() >= 4) pk::turn();  // from now on these waves multiply while others compute, and the reverse",
        *_head(k, x),
        *indented([
            *x.took,
            *([] if k.direct else _vectors(k, x)),
            *before,
            *_stated(printer, turns.between, x),
            *after,
            "pk::turn();",
            "",
            "// This tile's products, and the next one's that need none of its results.",
            *(_vectors(k, x) if k.direct else []),
            *bring,
            "__builtin_amdgcn_s_setprio(1);",
            *products,
            "__builtin_amdgcn_s_setprio(0);",
            *([] if k.direct else ["pk::wait_for_lds();"]),
            "pk::turn();",
        ]),
        "}",
        "if (pk::wave_number() < 4) pk::turn();  // all waves are level again",
        *landed,
    ]  # fmt: skip
    return lines


# ---- in halves ---------------------------------------------------------------------------------------------------------


def _in_halves(printer: Printer, k: StripWalk, h: Halves, x: _Names) -> list[str]:
    """One wave on a SIMD: what is computed stands between products that do not hang on it.

    One barrier a step, behind which the slots are filled that were read before it.
    """
    by_name = {s.name: s for s in k.strips}
    products = (h.last, h.late, h.soon, h.ahead)
    last, late, soon, ahead = ([by_name[s.b.name] for s in part if isinstance(s, p.Dot)] for part in products)
    again = [replace(s, define=False) if isinstance(s, p.Fill) else s for s in h.ahead]

    def at(tiles: int, base: str = k.var) -> str:
        return f"{base} + {tiles * k.step}" if tiles else base

    every = [*last, *soon, *late, *ahead]
    return [
        *printer.statements(h.zeros),
        *_all([*ahead, *last, *soon], f"fetch({x.first})"), *_all(late, f"fetch(int64_t({k.extent}))"), *_all(every, "put()"),
        *_all(ahead, f"fetch({at(1, x.first)})"), *_all(ahead, "put()"),
        *_all([*last, *soon], f"fetch({at(1, x.first)})"), *_all(ahead, f"fetch({at(2, x.first)})"),
        *_all(late, f"fetch({x.first})"),
        "pk::wait_for_lds();",
        "pk::turn();",
        *_multiplied(printer, k, h.ahead, x),
        *_head(k, x),
        *indented([
            "pk::wait_for_lds();",
            "pk::turn();  // this step's operands are complete, and other slots have been read",
            *_vectors(k, x),
            *_all(every, "put()"),
            *_all([*last, *soon], f"fetch({at(2)})"), *_all(ahead, f"fetch({at(3)})"), *_all(late, f"fetch({at(1)})"),
            _FIRST,
            *_multiplied(printer, k, [*h.last, *h.late, *h.early_rest, *h.soon, *again, *h.late_rest], x),
        ]),
        "}",
        "pk::wait_for_lds();",
        "pk::turn();  // the products of the last tile that are left",
        *_multiplied(printer, k, h.late, x),
    ]  # fmt: skip
