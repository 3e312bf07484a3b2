"""The text of attention whose waves take turns."""

from __future__ import annotations

from dataclasses import dataclass

from portakern.emit.clike import Printer
from portakern.emit.clike.printer import indented

from .plan import AttentionPlan, ReadTurn
from .walk_printer import strip_type


@dataclass(frozen=True)
class _Names:
    """What the walk calls its own."""

    soft: str
    ahead: str
    weights: str
    end: str
    mask: str


def print_attention(printer: Printer, k: AttentionPlan) -> list[str]:
    """Lines of the kernel; ``printer`` prints the statements inside."""
    fresh = printer.names.fresh
    x = _Names(fresh("soft"), fresh("ahead"), fresh("weights"), fresh("end"), fresh("mask"))
    begin, turns = (_direct_start, _direct) if k.direct else (_held_start, _held)
    body = [
        *printer.usings(k), *(f"__shared__ {strip_type(printer, s, k.threads)} {s.name}[2];" for s in k.strips), "",
        *printer.statements(k.before), *_state(printer, k, x), *_mask(printer, k, x), "",
        *begin(k, x), *_walk(k, x, turns(k)), *_end(k, x), *printer.statements(k.after),
    ]  # fmt: skip
    return [*printer.opening(k), *indented(body), "}"]


def _state(printer: Printer, k: AttentionPlan, x: _Names) -> list[str]:
    keys, values = k.strips
    scores = k.score_layout.name
    kind = "StripFeed" if k.direct else "HeldStripFeed"
    feeds = [f"pk::{kind} {s.feed}({s.name}, {s.origin}, {s.stride}, {k.keys}, {s.features});" for s in k.strips]
    return [
        *feeds,
        *(f"pk::StripReader {s.reader}({s.name});" for s in k.strips),
        f"decltype({keys.reader})::Part {keys.part};  // what this wave holds of a tile",
        f"decltype({values.reader})::Part {values.part};",
        f"pk::OnlineSoftmax<{scores}> {x.soft}({k.factor});",
        f"pk::Tile<float, {scores}> {k.scores}, {x.ahead};",
        f"pk::Tile<{printer.dialect.type(keys.dtype)}, {scores}> {x.weights};",
        f"const int {x.end} = int({k.end});",
    ]


def _mask(printer: Printer, k: AttentionPlan, x: _Names) -> list[str]:
    if not k.mask:
        return []
    whole = printer.names.fresh("whole")
    note = "// Every row sees all keys of the tiles that begin before."
    bound = [note, f"const int {whole} = int({k.whole});"] if k.whole else []
    skip = [f"if ({k.var} < {whole}) return;"] if k.whole else []
    head = f"const auto {x.mask} = [&](pk::Tile<float, {k.score_layout.name}>& {k.scores}, int {k.var}) PK_INLINE {{"
    return [*bound, head, *indented([*skip, *printer.statements(k.mask)]), "};"]


def _direct_start(k: AttentionPlan, x: _Names) -> list[str]:
    """Copies from memory to LDS, in the order of the walk's turns."""
    keys, values = k.strips
    step, ahead = keys.rows, keys.copies + values.copies
    return [
        f"{keys.feed}.start(0); {keys.feed}.start({step}); {values.feed}.start(0);",
        f"pk::wait_for_copies<{ahead}>();  // the first keys have landed",
        *_first(k, x, f"pk::wait_for_copies<{values.copies}>();  // and the second ones"),
        f"{keys.reader}.read({keys.part});",
        f"{keys.feed}.start({2 * step}); {values.feed}.start({step});",
        f"pk::wait_for_copies<{ahead}>();  // the first values",
        f"pk::arrived({keys.part});",
        "pk::turn();",
    ]


def _held_start(k: AttentionPlan, x: _Names) -> list[str]:
    """Copies through registers, which are put into LDS one turn after they were fetched."""
    keys, values = k.strips
    step = keys.rows
    return [
        f"{keys.feed}.fetch(0); {values.feed}.fetch(0);",
        f"{keys.feed}.put(); {values.feed}.put();",
        f"{keys.feed}.fetch({step});",
        f"{keys.feed}.put();",
        f"{keys.feed}.fetch({2 * step}); {values.feed}.fetch({step});",
        "pk::wait_for_lds();",
        *_first(k, x, ""),
        f"{keys.reader}.read({keys.part});",
        f"{keys.feed}.put(); {values.feed}.put();",
        f"pk::arrived({keys.part});",
        "pk::turn();",
    ]


def _first(k: AttentionPlan, x: _Names, landed: str) -> list[str]:
    """The first tile's scores, and what can be done of their weights."""
    keys = k.strips[0]
    return [
        "pk::turn();",
        f"{keys.reader}.read({keys.part});",
        f"pk::arrived({keys.part});",
        f"pk::score({k.scores}, {k.query}, {keys.part});",
        *([f"{x.mask}({k.scores}, 0);"] if k.mask else []),
        f"pk::begin({x.soft}, {k.scores});",
        *([landed] if landed else []),
        "pk::turn();",
    ]


def _direct(k: AttentionPlan) -> list[list[str]]:
    def turn(t: ReadTurn) -> list[str]:
        return [f"{t.reads.reader}.read({t.reads.part});", f"{t.sends.feed}.start({_from(k, t)});",
                f"pk::wait_for_copies<{t.wait}>();", f"pk::arrived({t.reads.part});"]  # fmt: skip

    return [turn(t) for t in k.turns]


def _held(k: AttentionPlan) -> list[list[str]]:
    first, second = k.turns
    fetched = " ".join(f"{t.sends.feed}.fetch({_from(k, t)});" for t in k.turns)
    put = " ".join(f"{t.sends.feed}.put();" for t in k.turns)
    return [[f"{t.reads.reader}.read({t.reads.part});", sends, f"pk::arrived({t.reads.part});"]
            for t, sends in ((first, fetched), (second, put))]  # fmt: skip


def _from(k: AttentionPlan, t: ReadTurn) -> str:
    """Where what a turn sends begins: the walk's variable is one tile ahead of the values that are weighed."""
    return f"{k.var} + {(t.farther - 1) * k.strips[0].rows}"


def _walk(k: AttentionPlan, x: _Names, turns: list[list[str]]) -> list[str]:
    keys, values = k.strips
    body = [
        "// The scores of this tile, the weights of the one before; meanwhile the other wave of the SIMD reads.",
        f"pk::score_while_finishing({x.ahead}, {k.query}, {keys.part}, {x.soft}, {x.weights}, {k.scores});",
        "pk::turn();",
        *turns[0],
        "pk::turn();",
        "",
        "// The values of the tile before, with those weights.",
        *([f"{x.mask}({x.ahead}, {k.var});"] if k.mask else []),
        f"pk::weigh_while_beginning({k.acc}, {x.weights}, {values.part}, {x.soft}, {k.scores}, {x.ahead});",
        "pk::turn();",
        *turns[1],
        "pk::turn();",
    ]
    return [
        "if (pk::wave_number() >= 4) pk::turn();  // from now on these waves multiply while the others read, and the reverse",
        "#pragma unroll 1",
        f"for (int {k.var} = {keys.rows}; {k.var} < {x.end}; {k.var} += {keys.rows}) {{",
        *indented(body),
        "}",
    ]


def _end(k: AttentionPlan, x: _Names) -> list[str]:
    """The last tile; what was copied of those beyond the end is waited for."""
    values = k.strips[1]
    return [
        f"pk::finish({x.soft}, {x.weights}, {k.scores});",
        "pk::turn();",
        f"{values.reader}.read({values.part});",
        *(["pk::wait_for_copies<0>();"] if k.direct else []),
        f"pk::arrived({values.part});",
        "pk::turn();",
        f"pk::dot({k.acc}, {x.weights}, {values.part});",
        "if (pk::wave_number() < 4) pk::turn();  // all waves are level again",
        f"auto {k.total} = {x.soft}.total();",
    ]
