"""Speed over a sweep: rows that differ in one size only, as lines over that size, with the points at which two lines cross."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from typing import Any

from markupsafe import Markup

from portakern.study.report.plots.drawing import drawn, log_ticks
from portakern.study.report.roofs import cost_of
from portakern.study.row import Row
from portakern.study.table import us_text

FEWEST = 3
"""Points that make a sweep."""

WIDE, NARROW, HEIGHT = 700, 260, 260

DASHES = ([1, 0], [7, 3], [2, 3], [9, 3, 2, 3], [4, 4], [12, 4])
"""Lines are told apart by dashes too, not by colour alone."""

COLOURS = ("var(--a)", "var(--b)", "var(--c)", "var(--d)", "var(--e)", "var(--f)")


@dataclass(frozen=True)
class Point:
    """``speed`` of a contender at a size; ``low`` and ``high`` bound it."""

    size: int
    speed: float
    low: float
    high: float
    row: int
    says: str


@dataclass(frozen=True)
class Crossing:
    """Where the faster of two contenders changes: between two sizes that were tried, about at ``size``."""

    size: float
    below: str
    above: str
    between: tuple[int, int]


@dataclass(frozen=True)
class Key:
    """How the line of a contender is drawn."""

    name: str
    colour: str
    dash: str


@dataclass(frozen=True)
class Sweep:
    title: str
    dim: str
    unit: str
    rows: frozenset[int]
    crossings: tuple[Crossing, ...]
    keys: tuple[Key, ...]
    wide: Markup
    narrow: Markup


def sweeps(rows: Sequence[tuple[int, Row]]) -> list[Sweep]:
    """Every group of rows that differ in the size of one dim alone, with at least three sizes."""
    found = []
    for title, dim, mine in _groups(rows):
        lines, unit = _lines(dim, mine)
        if not any(len(points) >= FEWEST for points in lines.values()):
            continue
        crossed = tuple(crossings(lines))
        label = f"{unit} of {title} over {dim}. " + "; ".join(f"{n}: {p[0].says} to {p[-1].says}" for n, p in lines.items())
        keys = tuple(Key(name, _turn(COLOURS, n), " ".join(map(str, _turn(DASHES, n)))) for n, name in enumerate(lines))
        found.append(Sweep(title, dim, unit, frozenset(n for n, _ in mine), crossed, keys,
                           *(_drawn(lines, dim, unit, crossed, width, label) for width in (WIDE, NARROW))))  # fmt: skip
    return found


def _turn(of: Sequence[Any], number: int) -> Any:
    return of[number % len(of)]


def _groups(rows: Sequence[tuple[int, Row]]) -> Iterator[tuple[str, str, list[tuple[int, Row]]]]:
    """The rows by what they have in common when one dim is left out of their shapes, each row in the largest group only."""
    groups: dict[tuple[Any, ...], list[tuple[int, Row]]] = {}
    for n, r in rows:
        shape = dict(r.shape or {})
        for dim, size in shape.items():
            if isinstance(size, int) and (r.time or r.estimate) and r.correct is not False:
                rest = ",".join(f"{k}={v}" for k, v in shape.items() if k != dim)
                key = (dim, r.operator, rest, r.dtype, str(dict(r.params or {})))
                groups.setdefault(key, []).append((n, r))
    taken: set[int] = set()
    for (dim, operator, rest, dtype, _), mine in sorted(groups.items(), key=lambda g: -_sizes(g[0][0], g[1])):
        left = [(n, r) for n, r in mine if n not in taken]
        if _sizes(dim, left) >= FEWEST:
            taken |= {n for n, _ in left}
            yield " ".join(filter(None, [operator, rest, dtype])), dim, left


def _sizes(dim: str, rows: Sequence[tuple[int, Row]]) -> int:
    return len({(r.shape or {})[dim] for _, r in rows})


def _lines(dim: str, rows: Sequence[tuple[int, Row]]) -> tuple[dict[str, list[Point]], str]:
    """The points of each contender by size: operations a second, or bytes where an operator computes nothing."""
    costs = [cost_of(r) for _, r in rows]
    flops = all(c is not None and c.flops > 4 * c.bytes for c in costs)
    known = all(c is not None for c in costs)
    unit = "TFLOP/s" if flops else "GB/s" if known else "calls a second"
    lines: dict[str, list[Point]] = {}
    for (n, r), cost in zip(rows, costs, strict=True):
        amount = 1e6 if cost is None or not known else cost.flops / 1e6 if flops else cost.bytes / 1e3
        size = r.shape[dim]  # type: ignore[index]

        def put(name: str, us: float, low: float | None, high: float | None, n: int = n, size: int = size,
                amount: float = amount) -> None:  # fmt: skip
            says = f"{name} at {dim}={size}: {us_text(us)} us, {amount / us:.4g} {unit}"
            lines.setdefault(name, []).append(Point(size, amount / us, amount / (high or us), amount / (low or us), n, says))

        if r.time:
            put(r.target, r.time["median_us"], r.time.get("ci_low_us"), r.time.get("ci_high_us"))
            for p in r.time.get("peers") or ():
                if p.get("median_us") and p.get("ours_us") is None:  # on the same clock
                    put(f"{p['name']} ({r.target})", p["median_us"], p.get("ci_low_us"), p.get("ci_high_us"))
        elif r.estimate:
            put(f"{r.target} (estimate)", r.estimate["us"], None, None)
    return {name: sorted(points, key=lambda p: p.size) for name, points in lines.items()}, unit


def crossings(lines: dict[str, list[Point]]) -> Iterator[Crossing]:
    """Where the order of two contenders changes and their intervals are apart on both sides."""
    names = list(lines)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            if not _comparable(first, second):
                continue
            theirs = {p.size: p for p in lines[second]}
            both = [(p, theirs[p.size]) for p in lines[first] if p.size in theirs]
            apart = [(p, q) for p, q in both if p.low > q.high or q.low > p.high]
            for (p, q), (p2, q2) in pairwise(apart):
                if (p.speed > q.speed) != (p2.speed > q2.speed):
                    low, high = (first, second) if p.speed > q.speed else (second, first)
                    yield Crossing(_meeting(p, q, p2, q2), low, high, (p.size, p2.size))


def _comparable(first: str, second: str) -> bool:
    """Kernels with kernels and each with its own peers; times with times."""
    (target, _, kind), (target2, _, kind2) = (_parts(name) for name in (first, second))
    if "estimate" in (kind, kind2):
        return kind == kind2
    return target == target2 or kind == kind2 == ""


def _parts(name: str) -> tuple[str, str, str]:
    """(target, peer, ``estimate`` or ``peer`` or nothing) of a line's name."""
    head, _, tail = name.removesuffix(")").partition(" (")
    if tail == "estimate":
        return head, "", tail
    return (tail, head, "peer") if tail else (head, "", "")


def _meeting(p: Point, q: Point, p2: Point, q2: Point) -> float:
    """The size at which straight lines on logarithmic axes meet."""
    a, b = log(p.speed / q.speed), log(p2.speed / q2.speed)
    return exp(log(p.size) + (log(p2.size) - log(p.size)) * a / (a - b))


def _drawn(lines: dict[str, list[Point]], dim: str, unit: str, crossed: Sequence[Crossing], width: int, label: str) -> Markup:
    data = [{"name": name, "size": p.size, "speed": p.speed, "low": p.low, "high": p.high, "row": f"row-{p.row}",
             "says": p.says} for name, points in lines.items() for p in points]  # fmt: skip
    names = list(lines)
    sizes = sorted({d["size"] for d in data})
    across = {"field": "size", "type": "quantitative", "scale": {"type": "log", "base": 2, "nice": False},
              "axis": {"title": dim, "values": sizes if len(sizes) <= width // 45 else sizes[:: 1 + len(sizes) * 45 // width],
                       "format": "d", "grid": False}}  # fmt: skip
    speeds = [d["speed"] for d in data]
    log_scale = max(speeds) > 30 * min(speeds)
    ticks = {"values": log_ticks(min(speeds), max(speeds))} if log_scale else {"tickCount": 5}
    up = {"field": "speed", "type": "quantitative", "scale": {"type": "log"} if log_scale else {"zero": True},
          "axis": {"title": unit, "format": ".6~g", **ticks}}  # fmt: skip
    stroke = {"field": "name", "scale": {"domain": names, "range": [_turn(COLOURS, n) for n in range(len(names))]},
              "legend": None}  # fmt: skip
    dash = {"field": "name", "scale": {"domain": names, "range": [_turn(DASHES, n) for n in range(len(names))]}, "legend": None}
    where = {"x": across, "y": up}
    layers: list[dict[str, Any]] = [
        {"data": {"values": data}, "mark": {"type": "line", "strokeWidth": 2},
         "encoding": {**where, "stroke": stroke, "strokeDash": dash}},
        {"data": {"values": data}, "mark": {"type": "rule", "strokeWidth": 1.5},
         "encoding": {"x": across, "y": {**up, "field": "low"}, "y2": {"field": "high"}, "stroke": stroke}},
        {"data": {"values": data}, "mark": {"type": "point", "size": 45, "filled": True, "opacity": 1},
         "encoding": {**where, "color": {**stroke}, "href": {"field": "row"}, "description": {"field": "says"}}},
    ]  # fmt: skip
    if crossed:
        marks = [{"size": c.size} for c in crossed]
        layers.append({"data": {"values": marks}, "mark": {"type": "rule", "strokeDash": [2, 3], "stroke": "var(--soft)"},
                       "encoding": {"x": across}})  # fmt: skip
    return drawn({"width": width, "height": HEIGHT, "layer": layers}, label)
