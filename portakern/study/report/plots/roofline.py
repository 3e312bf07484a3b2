"""Rooflines: one small plot for each product, all on the same axes, with the roofs of the others faint behind its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from portakern.study.report.plots.drawing import drawn, log_ticks, points
from portakern.study.report.roofs import Roof, cost_of, roof_of
from portakern.study.row import Row
from portakern.study.table import case_text, us_text

WIDTH, HEIGHT = 250, 170

INTENSITY = {"field": "x", "type": "quantitative"}
SPEED = {"field": "y", "type": "quantitative"}


@dataclass(frozen=True)
class Spot:
    """A mark: what was reached at an intensity, how it is known, and of which row."""

    row: int
    kind: str
    x: float
    y: float
    says: str

    def data(self) -> dict[str, Any]:
        return {"row": f"row-{self.row}", "kind": self.kind, "x": self.x, "y": self.y, "says": self.says}


@dataclass(frozen=True)
class Facet:
    """One plot: a product's roof and the marks of the rows on it."""

    title: str
    targets: tuple[str, ...]
    roof: Roof | None
    spots: tuple[Spot, ...]
    drawing: Markup | None = None


def facets(rows: Sequence[Row]) -> list[Facet]:
    """The plots of all rows that compute something and whose speed or device is known, in the order of the rows; none where
    nothing was timed or estimated, since bounds alone are their roofs."""
    found: dict[str, tuple[Roof | None, dict[str, None], list[Spot]]] = {}
    for number, row in enumerate(rows):
        roof, spots = roof_of(row), spots_of(number, row)
        if not spots:
            continue
        key = f"{roof.product} {roof.peak}" if roof else row.target
        _, targets, mine = found.setdefault(key, (roof, {}, []))
        targets[row.target] = None
        mine += spots
    if all(s.kind == "bound" for _, _, spots in found.values() for s in spots):
        return []
    plain = [Facet(r.product if r else t, tuple(targets), r, tuple(s)) for t, (r, targets, s) in found.items()]
    return [Facet(f.title, f.targets, f.roof, f.spots, _drawn(f, plain)) for f in plain]


def spots_of(number: int, row: Row) -> list[Spot]:
    """The measured time with its peers, else the estimate, else the roof itself, which is a bound."""
    cost, roof = cost_of(row), roof_of(row)
    if cost is None or cost.flops <= 0 or row.correct is False or row.refused or row.evidence is None:
        return []

    def spot(kind: str, us: float, what: str) -> Spot:
        speed = cost.flops / us * 1e6
        of = roof.at(cost.intensity) if roof else None
        share = f", {speed / of:.0%} of the roof" if of else ""
        says = f"{row.operator} {case_text(row)} {row.dtype}: {what}, {flops_text(speed)}{share}"
        return Spot(number, kind, cost.intensity, speed, says)

    if row.time:
        peers = [p for p in row.time.get("peers") or () if p.get("median_us")]
        return [spot("timed", row.time["median_us"], f"{row.target} timed {us_text(row.time['median_us'])} us"),
                *(spot("peer", p["median_us"], f"{p['name']} beside {row.target} {us_text(p['median_us'])} us") for p in peers)]
    if row.estimate:
        us = row.estimate["us"]
        return [spot("estimated", us, f"{row.target} estimated {us_text(us)} us by the model {row.estimate['model']}")]
    reach = roof.at(cost.intensity) if roof else None
    if reach is None:
        return []
    us = cost.flops / reach * 1e6
    return [spot("bound", us, f"{row.target} neither timed nor estimated; no kernel takes less than {us_text(us)} us")]


def flops_text(per_s: float) -> str:
    for scale, unit in ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")):
        if per_s >= scale:
            return f"{per_s / scale:.3g} {unit}"
    return f"{per_s:.3g} FLOP/s"


def bytes_text(per_s: float) -> str:
    return f"{per_s / 1e12:.3g} TB/s" if per_s >= 1e12 else f"{per_s / 1e9:.3g} GB/s"


# ---- drawing -----------------------------------------------------------------------------------------------------------


def _window(all_facets: Sequence[Facet]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ranges that hold every mark and every ridge."""
    xs = [s.x for f in all_facets for s in f.spots]
    ys = [s.y for f in all_facets for s in f.spots]
    for f in all_facets:
        if f.roof and f.roof.memory and f.roof.peak:
            xs.append(f.roof.peak / f.roof.memory)
        ys += [y for y in (f.roof and f.roof.peak, f.roof and f.roof.at(min(xs))) if y]
    x = (min(xs) / 3, max(xs) * 4)
    return x, (min(ys) / 3, max(ys) * 4)


def _line(roof: Roof | None, x: tuple[float, float], name: str) -> list[dict[str, Any]]:
    """The corners of a roof between the ends of the axis."""
    if roof is None:
        return []
    corners = [x[0], x[1]]
    if roof.memory and roof.peak and x[0] < roof.peak / roof.memory < x[1]:
        corners.insert(1, roof.peak / roof.memory)
    return [{"x": c, "y": y, "roof": name} for c in corners if (y := roof.at(c)) is not None]


def _drawn(f: Facet, all_facets: Sequence[Facet]) -> Markup:
    x, y = _window(all_facets)
    axis: dict[str, Any] = {"grid": True, "tickCount": 5}
    across = {**INTENSITY, "scale": {"type": "log", "domain": list(x), "nice": False},
              "axis": {**axis, "values": log_ticks(*x), "format": ".6~g", "title": "FLOP per byte"}}  # fmt: skip
    up = {**SPEED, "scale": {"type": "log", "domain": list(y), "nice": False},
          "axis": {**axis, "values": log_ticks(*y), "format": "~s", "title": "FLOP/s"}}  # fmt: skip
    where = {"x": across, "y": up}
    others = [p for n, o in enumerate(all_facets) if o is not f for p in _line(o.roof, x, str(n))]
    own = _line(f.roof, x, "own")
    line = {"type": "line", "clip": True, "interpolate": "linear"}
    layers: list[dict[str, Any]] = []
    if others:
        layers.append({"data": {"values": others}, "mark": {**line, "stroke": "var(--grid)", "strokeWidth": 1.5},
                       "encoding": {**where, "detail": {"field": "roof"}}})  # fmt: skip
    if own:
        dash = {} if f.roof and f.roof.bandwidth else {"strokeDash": [5, 4]}
        layers.append({"data": {"values": own}, "mark": {**line, "stroke": "var(--ink)", "strokeWidth": 1.5, **dash},
                       "encoding": where})  # fmt: skip
        layers += _captions(f.roof, own, where)
    gaps = [{"x": s.x, "y": s.y, "to": top} for s in f.spots
            if s.kind != "bound" and f.roof and (top := f.roof.at(s.x)) and top > s.y]  # fmt: skip
    if gaps:
        layers.append({"data": {"values": gaps}, "mark": {"type": "rule", "stroke": "var(--soft)", "strokeDash": [1, 3]},
                       "encoding": {**where, "y2": {"field": "to"}}})  # fmt: skip
    layers.append({"data": {"values": [s.data() for s in f.spots]}, **points(**where)})
    reached = "; ".join(s.says for s in f.spots[:4])
    return drawn({"width": WIDTH, "height": HEIGHT, "layer": layers}, f"Roofline of {f.title}. {reached}")


def _captions(roof: Roof | None, own: Sequence[dict[str, Any]], where: dict[str, Any]) -> list[dict[str, Any]]:
    """The peak written at the right end of its roof, and the bandwidth along the slope."""
    layers = []
    if roof and roof.peak and own[-1]["y"] == roof.peak:
        layers.append({"data": {"values": [own[-1]]}, "encoding": where,
                       "mark": {"type": "text", "text": flops_text(roof.peak), "align": "right", "dy": -8, "fontSize": 11}})
    if roof and roof.memory:
        words = bytes_text(roof.memory) + ("" if roof.bandwidth else " copy")
        layers.append({"data": {"values": [own[0]]}, "encoding": where,
                       "mark": {"type": "text", "text": words, "align": "left", "dx": 8, "dy": -14, "fontSize": 11}})
    return layers
