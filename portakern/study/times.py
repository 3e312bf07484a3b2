"""Times as plain text: a block per row, narrow enough for any terminal, with all that is needed to judge a figure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from portakern.study.layout import fit, room, table
from portakern.study.row import Row
from portakern.study.table import case_text, evidence_text, notes, open_sizes_text, ratio_text, us_text

WIDTH = 80


def times_text(rows: Sequence[Row]) -> str:
    """Every timed row's block, one line for each other row, then each error once."""
    parts = [block(r) if r.time else fit(_heading(r)) for r in rows]
    return "\n\n".join(parts) + "\n".join(["", *map(fit, notes(rows))]).rstrip("\n") if parts else "no rows"


def block(row: Row) -> str:
    """One timed row: contenders, then where the time is spent, how near the roof it is, and how it was taken."""
    t: Mapping[str, Any] = row.time or {}
    lines = [*_wrapped(_heading(row), ""), *_contenders(t)]
    lines += _wrapped(_spent(t), "  ")
    for label, text in (("roofline", _roofline(t.get("roofline"))), ("taken", _taken(t)), ("clocks", _clocks(t))):
        if text:
            lines += _wrapped(text, f"  {label}: ")
    for p in t.get("peers") or ():
        if text := _about(p):
            lines += _wrapped(text, f"  {p['name']}: ")
    lines += [x for s in t.get("suspicions") or () for x in _wrapped(s, "  suspicious: ")]
    return "\n".join(lines)


def _heading(row: Row) -> str:
    where = f" on {row.device}" if row.device and row.time else ""
    return f"{row.operator}  {row.target}  {case_text(row)}  {row.dtype}{where}{'' if row.time else f'  {evidence_text(row)}'}"


def _contenders(t: Mapping[str, Any]) -> list[str]:
    cells = [["", "median us", "95% interval", "ratio", ""], ["portakern", *_time(t), "", ""]]
    whole = False
    for p in sorted(t.get("peers") or (), key=lambda p: p.get("ours_us") is not None):
        if p.get("ours_us") is not None and not whole:
            whole = True
            mine = {k: p.get(f"ours_{k.removeprefix('median_')}") for k in ("median_us", "ci_low_us", "ci_high_us")}
            cells.append(["portakern, whole calls", *_time(mine), "", ""])
        if p.get("ratio"):
            cells.append([p["name"], *_time(p), ratio_text(p), p["verdict"]])
        else:
            cells.append([p["name"], "absent", "", "", ""])
    widths = [max(len(c[i]) for c in cells) for i in range(len(cells[0]))]
    sides = [str.ljust, str.rjust, str.rjust, str.rjust, str.ljust]
    aligned = [("  " + "  ".join(side(c, w) for side, c, w in zip(sides, line, widths, strict=True))).rstrip()
               for line in cells]  # fmt: skip
    wide = room()
    if wide is None or max(map(len, aligned)) <= wide:
        return aligned
    return [f"  {line}" for line in table(cells, width=wide - 2).splitlines()]


def _time(t: Mapping[str, Any]) -> list[str]:
    if t.get("ci_low_us") is None:
        return [us_text(t["median_us"]), ""]
    return [us_text(t["median_us"]), f"[{us_text(t['ci_low_us'])}, {us_text(t['ci_high_us'])}]"]


def _spent(t: Mapping[str, Any]) -> str:
    named = [("launch", "launch_us"), ("end to end", "end_to_end_us"), ("empty launch", "empty_us"),
             ("overhead per sample", "overhead_us")]  # fmt: skip
    parts = [f"{words} {us_text(t[key])} us" for words, key in named if t.get(key) is not None]
    return ", ".join(parts)


def _roofline(r: Mapping[str, Any] | None) -> str:
    if not r:
        return ""
    parts = []
    if r.get("share_of_measured_copy") is not None:
        parts.append(f"{r['share_of_measured_copy']:.1%} of the measured copy ({r['measured_copy_gbs']:.4g} GB/s)")
    stated = r.get("stated") or {}
    for name, figure in stated.items():
        if isinstance(figure, Mapping):
            unit, scale = ("GB/s", 1e9) if name == "bandwidth" else ("TFLOP/s", 1e12)
            parts.append(f"{figure['share']:.1%} of the stated {figure['value'] / scale:.4g} {unit} of {stated['product']}")
    reached = f"{r['gbs']:.4g} GB/s, {_flops(r['gflops'])}" if r.get("gbs") is not None else ""
    return "; ".join(filter(None, [*parts, reached, f"limited by {r['limiter']}" if r.get("limiter") else ""]))


def _flops(gflops: float) -> str:
    return f"{gflops / 1e3:.4g} TFLOP/s" if gflops >= 1e3 else f"{gflops:.4g} GFLOP/s"


def _taken(t: Mapping[str, Any]) -> str:
    marked = f", {t['throttled']} of them marked" if t.get("throttled") else ""
    stopped = f", stopped by {t['stopped']}" if t.get("stopped") else ""
    return f"{open_sizes_text(t)}{t['samples']} samples{marked}{stopped}; {t['mode']}"


def _clocks(t: Mapping[str, Any]) -> str:
    """What the driver said of the device before and after."""
    told = t.get("clocks") or {}
    before, after = told.get("before") or {}, told.get("after") or {}
    parts = [f"{before.get(k, '?')} to {after[k]} {unit}" for k, unit in (("clock_mhz", "MHz"), ("temperature_c", "C"))
             if after.get(k) is not None]  # fmt: skip
    if after.get("throttled"):
        parts.append(f"throttled: {after.get('reason') or 'the driver gives no reason'}")
    return ", ".join(parts)


def _about(p: Mapping[str, Any]) -> str:
    """Why a peer is absent; how it was compiled, and where it differs from the operator."""
    if p.get("error"):
        return f"not timed: {p['error']}"
    parts = [p["form"]] if p.get("form") else []
    if p.get("mode"):
        parts.append(f"mode {p['mode']}, compiled in {p.get('compile_s', 0):.1f} s (not timed)")
    parts += [p["measured"]] if p.get("measured") else []
    parts += p.get("notes") or []
    parts += [f"suspicious: {s}" for s in p.get("suspicions") or ()]
    return "; ".join(parts)


def _wrapped(text: str, prefix: str) -> list[str]:
    if not text:
        return []
    return textwrap.wrap(text, min(WIDTH, room() or WIDTH), initial_indent=prefix, subsequent_indent="    ",
                         break_long_words=False)  # fmt: skip
