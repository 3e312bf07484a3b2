"""The text of walks over strips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from portakern.emit.clike import Printer
from portakern.emit.clike import plan as p
from portakern.emit.clike.flat import substituted
from portakern.emit.clike.printer import indented
from portakern.emit.clike.terms import PlanTerm, number

from .plan import KeyStrip
from .walk import StripWalk, Turns


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
    """What a walk calls its own: where it begins and ends, what loads a step's vectors, and these one step ahead."""

    first: str
    end: str
    load: str
    ahead: Mapping[str, str]


def print_walk(printer: Printer, k: StripWalk) -> list[str]:
    fresh = printer.names.fresh
    known = number(k.begin) == 0
    vectors, body = loaded_ahead(k)
    ahead = {v.name: fresh(f"{v.name.removesuffix('_tile')}_next") for v in vectors}
    x = _Names("0" if known else fresh(f"first_{k.var}"), fresh(f"end_{k.var}"), fresh("load_vectors") if vectors else "", ahead)
    begin = [f"const int64_t {x.end} = {k.end};", *([] if known else [f"const int64_t {x.first} = {k.begin};"])]
    for s in k.strips:
        begin += [f"pk::StripFeed {s.feed}({s.name}, {s.origin}, {s.stride}, {k.extent}, {s.features});",
                  f"pk::StripReader {s.reader}({s.name});",
                  f"decltype({s.reader})::Part {s.part};  // what this wave holds of a tile"]  # fmt: skip
    begin += [f"pk::Tile<{printer.dialect.type(v.dtype)}, {printer.place(v.place)}> {ahead[v.name]};" for v in vectors]
    if vectors:
        loads = [line for v in vectors for line in printer.on_LoadTile(replace(v, name=ahead[v.name], define=False))]
        begin += [f"const auto {x.load} = [&](int64_t {k.var}) PK_INLINE {{", *indented(loads), "};",
                  f"if ({x.first} < {x.end}) {x.load}({x.first});"]  # fmt: skip
    took = [f"auto {v.name} = {ahead[v.name]};" for v in vectors]
    if k.turns is not None:
        kept = replace(k.turns, between=tuple(s for s in body if s in k.turns.between))
        return [*begin, *_in_turns(printer, k, kept, x, took)]
    return [*begin, *_one_by_one(printer, k, body, x, took)]


def _head(k: StripWalk, x: _Names) -> list[str]:
    return ["#pragma unroll 1", f"for (int64_t {k.var} = {x.first}; {k.var} < {x.end}; {k.var} += {k.step}) {{"]


def _vectors(k: StripWalk, x: _Names) -> list[str]:
    next_ = f"{k.var} + {k.step}"
    return [f"if ({next_} < {x.end}) {x.load}({next_});"] if x.load else []


def _all(strips: Sequence[KeyStrip], call: str) -> list[str]:
    return [" ".join(f"{s.feed}.{call};" for s in strips)] if strips else []


# ---- one barrier a step ------------------------------------------------------------------------------------------------


def _one_by_one(printer: Printer, k: StripWalk, body: Sequence[p.Statement], x: _Names, took: Sequence[str]) -> list[str]:
    bring = "start" if k.direct else "fetch"
    put = [] if k.direct else _all(k.strips, "put()")
    step = [
        "pk::wait_for_copies<0>();" if k.direct else "pk::wait_for_lds();",
        "pk::turn();  // this step's operands are complete, and the other slot has been read",
        *took,
        *_vectors(k, x),
        *_all(k.strips, f"{bring}({k.var} + {k.step})"),
        *_multiplied(printer, body, {s.name: s for s in k.strips}),
        *put,
    ]
    landed = ["pk::wait_for_copies<0>();"] if k.direct else []
    return [*_all(k.strips, f"{bring}({x.first})"), *put, *_head(k, x), *indented(step), "}", *landed]


def _multiplied(printer: Printer, body: Sequence[p.Statement], strips: Mapping[str, KeyStrip], first: bool = True) -> list[str]:
    """Each strip is read while what stands before its product is computed; the ``first`` one here, or it has been."""
    order = list(dict.fromkeys(strips[s.b.name].name for s in body if isinstance(s, p.Dot)))
    lines = [_read(strips[order[0]])] if first else []
    arrived = 0
    for s in body:
        if not isinstance(s, p.Dot):
            lines += printer.statements([s])
            continue
        x = strips[s.b.name]
        if arrived < len(order) and order[arrived] == x.name:
            arrived += 1
            word = "arrived_meanwhile" if arrived > 1 else "arrived"
            lines += [f"pk::{word}({x.part});"] if first or arrived > 1 else []
            lines += [_read(strips[order[arrived]])] if arrived < len(order) else []
        lines.append(f"pk::dot({s.acc}, {s.a.name}, {x.part});")
    return lines


def _read(x: KeyStrip) -> str:
    return f"{x.reader}.read({x.part});"


# ---- in turns ----------------------------------------------------------------------------------------------------------


def _in_turns(printer: Printer, k: StripWalk, turns: Turns, x: _Names, took: Sequence[str]) -> list[str]:
    """Of the two waves of a SIMD one multiplies while the other one computes what stands between its products.

    A slot is filled anew after the barrier behind the turn in which the later waves have read it, and has landed before the one
    in front of the turn in which the earlier waves read it.  Copies straight to LDS have three slots, and the first operand is
    read before the wave multiplies; with two slots all are read while it does.
    """
    by_name = {s.name: s for s in k.strips}
    names = [[s.b.name for s in part if isinstance(s, p.Dot)] for part in (turns.ahead, turns.behind)]
    ahead, behind = ([by_name[n] for n in part] for part in names)
    again = [replace(s, define=False) if isinstance(s, p.Fill) else s for s in turns.ahead]
    products = _multiplied(printer, [*turns.behind, *again], by_name, first=not k.direct)
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
        before, after = [_read(behind[0])], ["pk::wait_for_copies<0>();", f"pk::arrived({behind[0].part});"]
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
        *_multiplied(printer, turns.ahead, by_name),
        "pk::turn();",
        "if (pk::wave_number() >= 4) pk::turn();  // from now on these waves multiply while the others compute, and the reverse",
        *_head(k, x),
        *indented([
            *took,
            *before,
            *printer.statements(turns.between),
            *after,
            "pk::turn();",
            "",
            "// This tile's products, and the next one's that need none of its results.",
            *_vectors(k, x),
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
