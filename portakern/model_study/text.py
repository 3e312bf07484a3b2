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
            f">={us_text(bound)}" if bound else "", f"{gain:.1f}x" if gain else "",
        ])  # fmt: skip
    return [head, *lines]


def _total(p: TargetPlan, basis: str) -> str:
    total = p.total(basis)
    if total is None or p.basis != basis:
        return ""
    return f"{SIGNS[basis]}{us_text(total)}" + (f" (of {p.unknown()} kernels nothing)" if p.unknown() else "")


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
    head += ["gain"] if p.basis != "bound" else []
    head += ["resources"] if used else []
    ranked = p.ranked
    lines = [_line(p, r, used) for r in ranked[:rows]]
    if rest := ranked[rows:]:
        count, total = sum(r.count for r in rest), sum((r.us(p.basis) or 0.0) * r.count for r in rest)
        share = sum(p.share(r) or 0.0 for r in rest)
        figure = [f"{SIGNS[p.basis]}{us_text(total)} in all"] if basis else []
        lines.append([f"{len(rest)} more", "", "", str(count), *figure, f"{share:.1%}", *[""] * (len(head) - 5 - len(figure))])
    return [head, *lines]


def _line(p: TargetPlan, r: KernelRow, used: bool) -> list[str]:
    us, share, gain = r.us(p.basis), p.share(r), p.gain([r])
    basis = [] if p.basis == "bound" else ["?" if us is None else f"{SIGNS[p.basis]}{us_text(us)}"]
    cells = [r.name, str(r.number), what(r), str(r.count), *basis, "" if share is None else f"{share:.1%}", bytes_text(r.needs.bytes),
             count_text(r.needs.flops), f">={us_text(r.bound.us)}" if r.bound else "", r.bound.limiter if r.bound else ""]  # fmt: skip
    if p.basis != "bound":
        cells.append("" if gain is None or gain < 1.005 else f"{gain:.2f}x")
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
    errors = dict.fromkeys(f"{r.row.error['kind']}: {r.row.error['message']}" for r in p.rows if r.row.error)
    return found + [f"not built, {e.splitlines()[0]}" for e in errors]


def _call(p: TargetPlan) -> list[str]:
    total = p.total()
    if p.whole is None or total is None or p.basis != "time":
        launches = f"{p.launches} launches a call; " if p.launches else ""
        return [f"{launches}what queueing and the host add is known where the device is"]
    w = p.whole
    between = w["median_us"] - total
    told = [f"a call takes {us_text(w['median_us'])} us [{us_text(w['ci_low_us'])}, {us_text(w['ci_high_us'])}]",
            f"its kernels {us_text(total)} us"]  # fmt: skip
    told.append(f"the {p.launches} launches and what lies between them {us_text(between)} us ({between / w['median_us']:.0%})"
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
    told = f"all kernels at it {us_text(bound)} us" + (f", {gain:.1f} times as fast" if gain else "")
    floor = f"; as one kernel at it the model {us_text(p.floor.us)} us" if p.floor else ""
    return [f"{known}: {told}{floor}"]


def _hints(p: TargetPlan) -> list[str]:
    """Where a performance engineer would look first."""
    found = []
    for words, rows in (("on weights alone, which could be done once", [r for r in p.rows if r.weights_only]),
                        ("are copies into another layout or place", [r for r in p.rows if r.what == "copy" and not r.weights_only])):  # fmt: skip
        share = sum(p.share(r) or 0.0 for r in rows)
        if share >= 0.01:
            found.append(f"{share:.0%} {words} ({sum(r.count for r in rows)} kernels)")
    cached = [r for r in p.rows if p.basis == "time" and r.bound and (r.us("time") or 0.0) < r.bound.us and r.bound.limiter == "memory"]
    if cached:
        found.append(f"{sum(r.count for r in cached)} kernels are faster than memory: what they read is in caches")
    spilled = [r for r in p.rows if (r.row.resources or {}).get("spills") or (r.row.resources or {}).get("scratch_bytes")]
    if spilled:
        found.append(f"{sum(r.count for r in spilled)} kernels spill registers, "
                     f"{max(spilled, key=lambda r: p.share(r) or 0.0).name} first")  # fmt: skip
    return ["; ".join(found)] if found else []


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
SPARED = ("resources", "by", "FLOP", "bytes", "device", "#", "roofline us")
"""Columns that a narrow terminal does without, in this order; JSON and page have them."""
NAME_ROOM = 30


def _aligned(table: Sequence[Sequence[str]], width: int, indent: str = "") -> list[str]:
    """Columns, those empty throughout left out; where they are too wide, some are spared and the first is cut in its middle."""
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
    """``text`` with its middle left out; the line at its end and the start of its path tell it from others."""
    if len(text) <= room:
        return text
    end = (room - 2) * 2 // 3
    return f"{text[: room - 2 - end]}..{text[-end:]}"
