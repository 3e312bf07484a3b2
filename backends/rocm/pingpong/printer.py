"""The text of a product whose waves take turns."""

from __future__ import annotations

from portakern.emit.clike import Printer
from portakern.emit.clike import plan as p
from portakern.emit.clike.printer import indented
from portakern.emit.clike.terms import size_term

from .interleave import print_quarters
from .operand import StagedOperand
from .plan import PingPongPlan, Turn

_OF_TURN = {
    (0, 0): "upper rows by left columns", (0, 1): "upper rows by right columns",
    (1, 0): "lower rows by left columns", (1, 1): "lower rows by right columns",
}  # fmt: skip


def print_pingpong(printer: Printer, k: PingPongPlan) -> list[str]:
    """Lines of the kernel; ``printer`` prints the statements inside."""
    a, b = k.operands
    sizes = [s for s in k.before if isinstance(s, p.Scalar)]
    body = [
        *printer.usings(k), *_slabs(printer, k), "", *_tile(printer, k), *printer.statements(sizes), *_operands(k), "",
        *printer.statements([s for s in k.before if s not in sizes]),
        f"decltype({a.reader})::Fragments {'rows' if k.turns else 'upper, lower'};  // what this wave holds of one half",
        f"decltype({b.reader})::Fragments left, right;",
        *(_interleaved(k) if k.quarters else _direct(k) if k.direct else _held(printer.names.fresh("slot"), k)),
        *printer.statements(k.after),
    ]  # fmt: skip
    return [*printer.opening(k), *indented(body), "}"]


def _slabs(printer: Printer, k: PingPongPlan) -> list[str]:
    lines: list[str] = []
    threads = "" if k.turns else f", {k.threads}"
    for x in k.operands:
        way = "cols" if x.straight else "rows"
        kind = f"pk::Slab<{printer.dialect.type(x.dtype)}, {x.rows}, {x.cols}, pk::Depth::along_{way}, {x.parts}{threads}>"
        lines.append(f"__shared__ {kind} {x.name}[2];  // {x.parts} waves share each half")
    return lines


def _tile(printer: Printer, k: PingPongPlan) -> list[str]:
    counts = ", ".join(str(size_term(n)) for n in (k.tiles if k.tiles[2] != 1 else k.tiles[:2]))
    note = f"in bands of {k.band} rows" + (f"; each of {k.dies} dies takes neighbours" if k.dies > 1 else "")
    lines = [f"const auto tile = pk::tile_at<{k.dies}, {k.band}>(blockIdx.x, {counts});  // {note}"] if k.places else []
    return [*lines, *printer.statements(k.places)]


def _operands(k: PingPongPlan) -> list[str]:
    across = k.operands[1].parts
    lines = [f"const int wave_row = pk::wave_number() / {across}, wave_col = pk::wave_number() % {across};"]
    for x in k.operands:
        feed = "const pk::Feed" if k.direct else "pk::HeldFeed"
        lines.append(f"{feed} {x.feed}({x.name}, {x.origin}, {x.stride}, {x.left}, {size_term(k.depth)});")
    lines += [f"const pk::Reader {x.reader}({x.name}, wave_{'row' if x.side == 'rows' else 'col'});" for x in k.operands]
    return lines


def _direct(k: PingPongPlan) -> list[str]:
    """Copies from memory to LDS: the loop needs no other end, since copies of what lies beyond are zeros."""
    a, b = k.operands
    fa, fb = a.feed, b.feed
    lines = [
        "// Two steps set out, but for the last half.",
        f"{fb}.start<0>(0); {fa}.start<0>(0); {fb}.start<1>(0); {fa}.start<1>(0);",
        f"{fb}.start<0>(1); {fa}.start<0>(1); {fb}.start<1>(1);",
        f"pk::wait_for_copies<{k.turns[-1].wait}>();  // the first two halves have landed",
        *_skew(b),
        "#pragma unroll 1",
        f"for (int step = 0; step < {-(-k.depth // k.slice)}; ++step) {{",
    ]
    turns: list[str] = []
    for turn in k.turns:
        assert turn.sends is not None
        operand, half, ahead = turn.sends
        sends = [f"{operand.feed}.start<{half}>(step + {ahead});", f"pk::wait_for_copies<{turn.wait}>();"]
        turns += ["", *_turn(turn, "(step + 1) % 2" if turn.ahead else "step % 2", sends, k.acc)]
    return [*lines, *indented(turns[1:]), "}", *_level(["pk::wait_for_copies<0>();"])]


def _interleaved(k: PingPongPlan) -> list[str]:
    """Two slices a step, so that slots are known; what is beyond the end is zeros here too."""
    a, b = k.operands
    fa, fb = a.feed, b.feed
    return [
        *(f"{fa}.start<0>({n}); {fa}.start<1>({n}); {fb}.start<0>({n}); {fb}.start<1>({n});" for n in (0, 1)),
        f"pk::wait_for_copies<{2 * (a.copies + b.copies)}>();  // the first slice has landed",
        "pk::turn();",
        f"{a.reader}.read<0>(upper, 0);",
        f"{b.reader}.read<0>(left, 0);",
        "#pragma unroll 1",
        f"for (int step = 0; step < {-(-k.depth // k.slice)}; step += 2) {{",
        *indented(print_quarters(k.quarters, k.acc)),
        "}",
        "pk::wait_for_copies<0>();",
        "pk::arrived(upper, left);  // what was read of the slice beyond the end",
        "pk::sync();",
    ]


def _held(slot: str, k: PingPongPlan) -> list[str]:
    """Copies through registers: two slices are fetched at a time, and put into LDS one after the other."""
    a, b = k.operands
    lines = [
        *(f"{x.feed}.fetch(0);" for x in (b, a)),  # in the order of the loop, so that its waits are exact
        "pk::turn();",
        *(f"{x.feed}.put(0);" for x in (b, a)),
        "pk::wait_for_lds();",
        *_skew(b),
        "#pragma unroll 1",
        f"for (int step = 0; step < {-(-k.depth // (2 * k.slice))}; ++step) {{",
        "    #pragma unroll",
        f"    for (int {slot} = 0; {slot} < 2; ++{slot}) {{",
    ]
    turns: list[str] = []
    for turn in k.turns:
        sends: list[str] = []
        if turn.sends is not None:
            feed = turn.sends[0].feed
            sends = [f"{feed}.put(1 - {slot});  // the next slice", f"if ({slot} == 0) {feed}.fetch(step + 1);"]
        turns += ["", *_turn(turn, f"1 - {slot}" if turn.ahead else slot, sends, k.acc)]
    return [*lines, *indented(indented(turns[1:])), "    }", "}", *_level([])]


def _level(waits: list[str]) -> list[str]:
    return [
        "if (wave_row == 0) pk::turn();  // all waves are level again",
        *waits,
        "pk::arrived(left);  // what the last turn read of the slice beyond the end",
        "pk::sync();",
    ]


def _skew(b: StagedOperand) -> list[str]:
    return [
        "pk::turn();",
        "if (wave_row == 1) pk::turn();  // from now on these waves multiply while the others read, and the reverse",
        f"{b.reader}.read<0>(left, 0);",
    ]


def _turn(turn: Turn, slot: str, sends: list[str], acc: str) -> list[str]:
    arrive = [f"pk::arrived({', '.join(turn.needs)});"] if turn.needs else []
    i, j = turn.quarter
    return [
        f"{turn.reads.reader}.read<{turn.half}>({turn.into}, {slot});",
        *sends,
        *(arrive if turn.looks else []),
        "pk::turn();",
        *([] if turn.looks else arrive),
        f"pk::multiply<{i}, {j}>({acc}, rows, {turn.cols});  // {_OF_TURN[turn.quarter]}",
        "pk::turn();",
    ]
