"""A model's study as plain text that fits the terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence

from portakern.model_study.places import Cell, side_by_side
from portakern.model_study.roof import words as roof_words
from portakern.model_study.study import KernelRow, ModelStudy, TargetPlan
from portakern.study.table import bytes_text, resources_text, us_text

LEAST, MOST = 80, 132
"""Widths between which a table takes the terminal's."""

NAMES = {"time": "time us", "estimate": "~estimate us", "bound": "at least us"}
"""What a column of each basis is called; an estimate and a bound have a sign before every figure, too."""
SIGNS = {"time": "", "estimate": "~", "bound": ">="}
OF = {"time": "of the time", "estimate": "of the estimate", "bound": "of the roofline time"}

Table = list[list[str]]


def study_text(study: ModelStudy, rows: int, width: int | None = None) -> str:
    wide = width or max(LEAST, min(MOST, shutil.get_terminal_size((MOST, 24)).columns))
    parts = ["\n".join(_wrapped(heading(study), wide, ""))]
    parts.append("\n".join(_aligned(targets_table(study), wide)))
    if sum(bool(p.rows) for p in study.plans) > 1:
        parts.append("\n".join(_aligned(places_table(study, rows), wide)))
    parts += ["\n".join(_section(p, rows, wide)) for p in study.plans]
    return "\n\n".join(parts)


def heading(study: ModelStudy) -> str:
    return (f"{study.model}, {study.shape}: {count_text(study.needs.flops)}FLOP, {bytes_text(study.needs.bytes)} of inputs and "
            f"outputs, {bytes_text(study.weights)} of that weights")  # fmt: skip


# ---- tables as cells, for text and page alike ----------------------------------------------------------------------------


def targets_table(study: ModelStudy) -> Table:
    """One line per target: what is known of the whole, each kind of figure in a column of its own."""
    head = ["target", "device", "evidence", "launches", "whole call us", "kernels us", "~estimate us", "roofline us", "gain"]
    lines = []
    for p in study.plans:
        bound, gain = p.total("bound"), p.gain(p.rows)
        lines.append([
            p.target, p.device, (p.evidence or "-") + (" !" if p.error else ""), str(p.launches or ""),
            us_text(p.whole["median_us"]) if p.whole else "", _total(p, "time"), _total(p, "estimate"),
            f">={us_text(bound)}" if bound else "", times_text(gain),
        ])  # fmt: skip
    return [head, *lines]


def _total(p: TargetPlan, basis: str) -> str:
    total = p.total(basis)
    if total is None or p.basis != basis:
        return ""
    pieces = sum(r.count for r in p.rows)
    return f"{SIGNS[basis]}{us_text(total)}" + (f" ({pieces - p.unknown()} of {pieces})" if p.unknown() else "")


def places_table(study: ModelStudy, rows: int) -> Table:
    """One line per place of the model, equal layers together; the share of each target's whole."""
    plans = [p for p in study.plans if p.rows]
    found = side_by_side(plans)
    head = ["us of all layers, share of the target", *(p.target for p in plans)]
    lines = [[name, *map(_cell, cells)] for name, cells in found[:rows]]
    if len(found) > rows:
        rest = [Cell.together([cells[n] for _, cells in found[rows:]]) for n in range(len(plans))]
        lines.append([f"{len(found) - rows} more", *map(_cell, rest)])
    return [head, *lines]


def _cell(cell: Cell) -> str:
    if cell.us is None:
        return "-"
    return f"{SIGNS[cell.basis]}{us_text(cell.us)}" + (f" {cell.share:4.0%}" if cell.share is not None else "")


def kernels_table(p: TargetPlan, rows: int) -> Table:
    """The kernels that take longest, each figure of one of its ``n``."""
    timed = p.basis == "time"
    used = any(resources_text(r.row) for r in p.rows) and not timed
    basis = [] if p.basis == "bound" else [NAMES[p.basis]]
    head = ["kernel", "#", "what", "n", *basis, "share", "bytes", "FLOP", "roofline us", "by"]
    head += ["reached", "gain"] if p.basis != "bound" else []
    head += ["resources"] if used else []
    ranked = p.ranked
    lines = [_line(p, r, used) for r in ranked[:rows]]
    if rest := ranked[rows:]:
        count, total = sum(r.count for r in rest), sum((r.us(p.basis) or 0.0) * r.count for r in rest)
        share = sum(p.share(r) or 0.0 for r in rest)
        figure = [f"{SIGNS[p.basis]}{us_text(total)}"] if basis else []
        lines.append([f"{len(rest)} more, all of them", "", "", str(count), *figure, f"{share:.1%}", *[""] * (len(head) - 5 - len(figure))])
    return [head, *lines]


def _line(p: TargetPlan, r: KernelRow, used: bool) -> list[str]:
    us, share, gain = r.us(p.basis), p.share(r), p.gain([r])
    basis = [] if p.basis == "bound" else ["?" if us is None else f"{SIGNS[p.basis]}{us_text(us)}"]
    roof = [f">={us_text(r.bound.us)}", r.bound.limiter] if r.bound else ["", ""]
    cells = [r.name, str(r.number), what(r), str(r.count), *basis, "" if share is None else f"{share:.1%}",
             bytes_text(r.needs.bytes), count_text(r.needs.flops), *roof]  # fmt: skip
    if p.basis != "bound":
        cells += [f"{r.bound.us / us:.0%}" if r.bound and us else "", times_text(gain)]
    return [*cells, resources_text(r.row)] if used else cells


def what(r: KernelRow) -> str:
    words = f"{r.what} of {r.launches} launches" if r.launches > 1 else r.what
    return f"{words} (weights)" if r.weights_only else words


def remarks(p: TargetPlan) -> list[str]:
    """What there is to say of a target beside its table, a sentence each."""
    found = [] if p.error is None else [f"{p.error['kind']}: {p.error['message']}" + (
        f"; hint: {p.error['hint']}" if p.error.get("hint") else "")]  # fmt: skip
    if not p.rows:
        return found
    found += [*_call(p), *_ceiling(p), *_hints(p)]
    return found + _lacking(p)


def _lacking(p: TargetPlan) -> list[str]:
    """Why kernels were not built, or have no estimate where others do; each reason once, with their numbers."""
    found: dict[str, list[KernelRow]] = {}
    for r in p.rows:
        if r.row.error is not None:
            found.setdefault(f"{r.row.error['kind']}: {r.row.error['message'].splitlines()[0]}", []).append(r)
        elif p.basis == "estimate" and r.us("estimate") is None:
            found.setdefault("no estimate: " + (r.row.method or "").partition("no estimate: ")[2], []).append(r)
    return [f"{', '.join(f'#{r.number}' for r in rows)}: {_short(why)}" for why, rows in found.items()]


def _short(text: str, most: int = 240) -> str:
    return text if len(text) <= most else f"{text[:most]}.. (the JSON has all of it)"


def _call(p: TargetPlan) -> list[str]:
    total = p.total()
    if p.whole is None or total is None or p.basis != "time":
        launches = f"{p.launches} launch{'es' if p.launches > 1 else ''} a call; " if p.launches else ""
        return [f"{launches}what queueing and the host add is known where the device is"]
    w = p.whole
    between = w["median_us"] - total
    told = [f"a call takes {us_text(w['median_us'])} us [{us_text(w['ci_low_us'])}, {us_text(w['ci_high_us'])}]",
            f"its kernels {us_text(total)} us"]  # fmt: skip
    told.append(f"launches, memory of temporaries and the rest {us_text(between)} us ({between / w['median_us']:.0%})"
                if between > 0 else "nothing is lost between them")  # fmt: skip
    if w.get("launch_us") is not None:
        told.append(f"the host is busy for {us_text(w['launch_us'])} us of it")
    if w.get("end_to_end_us") is not None:
        told.append(f"alone, from the host and back, {us_text(w['end_to_end_us'])} us")
    return ["; ".join(told), *([p.checked] if p.checked else [])]


def _ceiling(p: TargetPlan) -> list[str]:
    bound, gain = p.total("bound"), p.gain(p.rows)
    if bound is None:
        return ["no roofline: nothing states the bandwidth of this device, or measured it"]
    asked = sorted({part[2] for r in p.rows for part in r.needs.parts if part[1]})
    known = f"roofline of {roof_words(p.roof, asked)} ({p.roof.says}; launches are not in it)"
    absent = ", ".join(a.removeprefix("peak_") for a in asked if a not in p.roof.peaks)
    known += f"; no {absent} peak is known: that arithmetic bounds nothing" if absent else ""
    told = f"all kernels at it {us_text(bound)} us"
    if gain:
        of = " (of kernels whose time or estimate is known)" if p.unknown() else ""
        told += f", and so a call {times_text(gain) or '1x'} as fast{of}"
    moved = sum(r.needs.bytes * r.count for r in p.rows)
    floor = f"; kernels move {bytes_text(moved)}; the model as one kernel, {us_text(p.floor.us)} us" if p.floor else ""
    return [f"{known}: {told}{floor}"]


def _hints(p: TargetPlan) -> list[str]:
    """Where a performance engineer would look first."""
    weights = [r for r in p.rows if r.weights_only]
    copies = [r for r in p.rows if r.what == "copy" and not r.weights_only]
    cached = [r for r in p.rows if p.basis == "time" and r.bound and r.bound.limiter == "memory" and _us(r) < r.bound.us]
    spilling = [r for r in p.rows if (r.row.resources or {}).get("spills") or (r.row.resources or {}).get("scratch_bytes")]
    found = []
    moved = sum(r.needs.bytes * r.count for r in p.rows)
    if moved and p.rereads / moved > 0.05:
        found.append(f"{p.rereads / moved:.0%} of the bytes are arrays read by a third kernel or a later one: what these compute "
                     "anew could be stored")  # fmt: skip
    for words, rows, least in (
        ("is work on weights alone, which could be done once", weights, 0.01),
        ("is copies into another layout or place", copies, 0.01),
        ("is in kernels faster than memory: caches hold what they read", cached, 0.0),
        ("is in kernels that spill registers", spilling, 0.0),
    ):
        share = sum(p.share(r) or 0.0 for r in rows)
        if rows and share >= least:
            count = sum(r.count for r in rows)
            found.append(f"{share:.0%} {OF[p.basis]} {words} ({count} kernel{'' if count == 1 else 's'}: {_named(rows, p)})")
    return found


def _us(r: KernelRow) -> float:
    return r.us("time") or 0.0


def _named(rows: Sequence[KernelRow], p: TargetPlan) -> str:
    """The first of them in the table, and whether there are more."""
    first = max(rows, key=lambda r: (p.share(r) or 0.0))
    return f"#{first.number}" + (f" and {len(rows) - 1} more lines" if len(rows) > 1 else "")


def times_text(gain: float | None) -> str:
    """``1.24x``; nothing for what is no gain."""
    if gain is None or gain < 1.005:
        return ""
    return f"{gain:.2f}x" if gain < 10 else f"{gain:.0f}x"


def count_text(count: float) -> str:
    for unit in ("", "K", "M", "G"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} T"


# ---- lines ---------------------------------------------------------------------------------------------------------------


def _section(p: TargetPlan, rows: int, width: int) -> list[str]:
    lines = [f"{p.target}: {p.device}, {p.evidence or 'nothing reached'}"]
    for remark in remarks(p):
        lines += _wrapped(remark, width, "  ")
    if p.rows:
        lines += _aligned(kernels_table(p, rows), width, "  ")
    return lines


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


LEFT = ("target", "device", "evidence", "kernel", "what", "by", "resources")
SPARED = ("resources", "by", "FLOP", "device", "#", "bytes", "roofline us", "what")
"""Columns that a narrow terminal does without, in this order; JSON and page have them."""
NAME_ROOM = 30


def _aligned(table: Sequence[Sequence[str]], width: int, indent: str = "") -> list[str]:
    """Columns, those empty throughout left out; where they are too wide, some are spared and the first is cut."""
    columns = [c for c in zip(*table, strict=True) if any(c[1:])]
    for name in SPARED:
        if _width(columns, indent) - width > max(0, max(map(len, columns[0])) - NAME_ROOM):
            columns = [c for c in columns if c[0] != name]
    over = _width(columns, indent) - width
    if over > 0:
        room = max(16, max(map(len, columns[0])) - over)
        columns[0] = tuple(_cut(x, room) for x in columns[0])
    widths = [max(map(len, c)) for c in columns]
    left = [c[0] in LEFT or n == 0 for n, c in enumerate(columns)]
    return [(indent + "  ".join(x.ljust(w) if is_left else x.rjust(w) for x, w, is_left in zip(line, widths, left, strict=True))
             ).rstrip() for line in zip(*columns, strict=True)]  # fmt: skip


def _width(columns: Sequence[Sequence[str]], indent: str) -> int:
    return len(indent) + sum(max(map(len, c)) + 2 for c in columns) - 2


def _cut(text: str, room: int) -> str:
    """``text`` with its start left out: the end of a path and the line tell it from others."""
    return text if len(text) <= room else f"..{text[2 - room :]}"
