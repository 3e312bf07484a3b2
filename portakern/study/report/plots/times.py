"""Times as a dot plot: each kernel above the peers that were timed in turns with it, estimates and bounds by other shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from portakern.study.report.plots.drawing import drawn, log_ticks, points
from portakern.study.report.roofs import least_us
from portakern.study.row import Row
from portakern.study.table import case_text, ratio_text, us_text

WIDE, NARROW = 700, 230
"""Width between the axes; a page shows the narrow drawing on narrow screens."""

STEP = 26
LONGEST = 34
"""Characters of a label that are shown."""

APART = 6
"""Cases that have a plot of their own each."""

MOST = 60
"""Lines of one plot.  What is beyond stays in the table."""


@dataclass(frozen=True)
class Line:
    """A line of the plot: whose time, in microseconds, and the words behind it."""

    row: int
    label: str
    kind: str
    us: float
    low: float | None
    high: float | None
    words: str
    says: str
    bound: float | None


@dataclass(frozen=True)
class Chart:
    title: str
    lines: int
    left_out: int
    wide: Markup
    narrow: Markup


def charts(rows: Sequence[tuple[int, Row]]) -> list[Chart]:
    """One plot for each case, in the order of the rows, or for each operator where there are many cases.  Rows of which nothing
    is known have no line, and where nothing was timed or estimated there is no plot."""
    cases: dict[str, list[tuple[int, Row]]] = {}
    for number, row in rows:
        cases.setdefault(f"{row.operator} {_case(row)}".strip(), []).append((number, row))
    together = len(cases) > APART
    if together:
        cases = {name: [(n, r) for n, r in rows if r.operator == name] for name in dict.fromkeys(r.operator for _, r in rows)}
    found = []
    for title, mine in cases.items():
        lines = [replace(line, label=f"{_case(row)} {line.label}" if together and line.kind != "peer" else line.label)
                 for number, row in mine for line in lines_of(number, row)]  # fmt: skip
        if any(line.kind != "bound" for line in lines):
            shown = lines[:MOST]
            wide, narrow = (_drawn(title, shown, width) for width in (WIDE, NARROW))
            found.append(Chart(title, len(lines), len(lines) - len(shown), wide, narrow))
    return found


def _case(row: Row) -> str:
    return f"{case_text(row)} {row.dtype or ''}".strip()


def lines_of(number: int, row: Row) -> list[Line]:
    if row.correct is False or row.refused:
        return []
    bound = least_us(row)
    if row.time:
        t = row.time
        own = Line(number, row.target, "timed", t["median_us"], t.get("ci_low_us"), t.get("ci_high_us"),
                   us_text(t["median_us"]), f"{row.target} timed {_interval(t)} us", bound)  # fmt: skip
        return [own, *(_peer(number, row, p) for p in t.get("peers") or () if p.get("median_us"))]
    if row.estimate:
        us = row.estimate["us"]
        return [Line(number, row.target, "estimated", us, None, None, f"~{us_text(us)}",
                     f"{row.target} estimated {us_text(us)} us by the model {row.estimate['model']}", bound)]  # fmt: skip
    if bound is None or row.evidence is None:
        return []
    says = f"{row.target} neither timed nor estimated; no kernel takes less than {us_text(bound)} us"
    return [Line(number, row.target, "bound", bound, None, None, f"\u2265 {us_text(bound)}", says, None)]


def _peer(number: int, row: Row, p: Any) -> Line:
    """A peer on another clock is compared with whole calls of the kernel, which take longer than its time."""
    whole = p.get("ours_us")
    ratio = f", {ratio_text(p)} {p['verdict']}" if p.get("ratio") else ""
    of = f" of whole calls, which take {us_text(whole)} us" if whole else ""
    words = [us_text(p["median_us"]), f"{p['ratio']:.2f}x" if p.get("ratio") else "", "whole calls" if whole else ""]
    return Line(number, f"  vs {p['name']}", "peer", p["median_us"], p.get("ci_low_us"), p.get("ci_high_us"),
                " \u00b7 ".join(filter(None, words)), f"{p['name']} beside {row.target} {_interval(p)} us{ratio}{of}",
                None)  # fmt: skip


def _interval(t: Any) -> str:
    text = us_text(t["median_us"])
    return f"{text} [{us_text(t['ci_low_us'])}, {us_text(t['ci_high_us'])}]" if t.get("ci_low_us") is not None else text


def _drawn(title: str, lines: Sequence[Line], width: int) -> Markup:
    known = [x for s in lines for x in (s.us, s.low, s.high, s.bound) if x]
    low, high = min(known), max(known)
    log = high > 12 * low
    beyond = 0.65 if width == NARROW else 0.2  # of the axis, for the words behind the last mark
    end = high * (high / low) ** beyond if log else high * (1 + 1.3 * beyond)
    domain = [low / (high / low) ** 0.05, end] if log else [0, end]
    axis: dict[str, Any] = {"title": "microseconds (log)" if log else "microseconds", "grid": True, "format": ".6~g"}
    axis |= {"values": log_ticks(low, high)} if log and high / low > 100 else {"tickCount": 5}
    across = {"field": "us", "type": "quantitative", "axis": axis,
              "scale": {"type": "log", "domain": domain, "nice": False} if log else {"domain": domain}}  # fmt: skip
    data = [_data(s, n) for n, s in enumerate(lines)]
    names = [d["label"] for d in data]
    # Fonts of the reader may be wider than those that Vega measures with.
    room = 10 + 7 * min(max(len(s.label) for s in lines), LONGEST)
    up = {"field": "label", "type": "nominal", "sort": names, "scale": {"domain": names},
          "axis": {"title": None, "domain": False, "ticks": False, "grid": False, "labelPadding": 6, "labelColor": "var(--ink)",
                   "minExtent": room, "labelLimit": 7 * LONGEST}}  # fmt: skip
    where = {"x": across, "y": up}
    spread = [d for d in data if d["low"] is not None]
    least = [{**d, "us": d["bound"]} for d in data if d["bound"]]
    layers: list[dict[str, Any]] = []
    if least:
        tick = {"type": "tick", "thickness": 3, "size": 15, "color": "var(--bound)", "opacity": 1}
        layers.append({"data": {"values": least}, "mark": tick, "encoding": where})
    if spread:
        layers.append({"data": {"values": spread}, "mark": {"type": "rule", "strokeWidth": 2, "stroke": "var(--ink)"},
                       "encoding": {**where, "x": {**across, "field": "low"}, "x2": {"field": "high"}}})  # fmt: skip
    layers.append({"data": {"values": data}, **points(**where)})
    layers.append({"data": {"values": data}, "mark": {"type": "text", "align": "left", "dx": 10, "dy": 1},
                   "encoding": {**where, "x": {**across, "field": "end"}, "text": {"field": "words"}}})  # fmt: skip
    label = f"Times of {title} in microseconds. " + "; ".join(s.says for s in lines[:12])
    return drawn({"width": width, "height": {"step": STEP}, "layer": layers}, label)


def _data(line: Line, number: int) -> dict[str, Any]:
    # Labels are the places on the axis and must differ: a space of no width tells equal ones apart.
    return {"row": f"row-{line.row}", "label": line.label + "\u200b" * (number + 1), "kind": line.kind, "us": line.us,
            "low": line.low, "high": line.high, "words": line.words, "says": line.says, "bound": line.bound,
            "end": max(line.us, line.high or 0.0)}  # fmt: skip
