"""From a Vega-Lite specification to SVG inside a page.

Vega draws while the page is written and not in the reader's browser: a page carries a few kilobytes of SVG for each plot and
no plot library (Vega with Vega-Lite would be 0.8 MB of script, plotly 4.5 MB), prints, and works where scripts do not run.
Colours are CSS variables of the page, so that one drawing serves light and dark screens.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from markupsafe import Markup

MISSING = "The plots are drawn by vl-convert-python, which is not installed: pip install 'portakern[report]'."

CONFIG: dict[str, Any] = {
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--soft)", "titleColor": "var(--soft)", "titleFontWeight": "normal", "gridColor": "var(--grid)",
        "domainColor": "var(--edge)", "tickColor": "var(--edge)", "labelFontSize": 12, "titleFontSize": 12,
        "labelFont": "system-ui, sans-serif", "titleFont": "system-ui, sans-serif", "labelLimit": 260, "titlePadding": 8,
    },
    "text": {"color": "var(--soft)", "fontSize": 12, "font": "system-ui, sans-serif"},
}  # fmt: skip

KINDS = ("timed", "peer", "estimated", "bound")
"""What a mark stands for, each with a shape of its own."""

SHAPES = {"timed": "circle", "peer": "square", "estimated": "diamond", "bound": "M0,-1.3L0,1.3"}
COLOURS = {"timed": "var(--timed)", "peer": "var(--peer)", "estimated": "var(--estimated)", "bound": "var(--bound)"}

SHAPE = {"field": "kind", "scale": {"domain": list(KINDS), "range": [SHAPES[k] for k in KINDS]}, "legend": None}
STROKE = {"field": "kind", "scale": {"domain": list(KINDS), "range": [COLOURS[k] for k in KINDS]}, "legend": None}
FILL = {"field": "kind", "legend": None,
        "scale": {"domain": list(KINDS), "range": ["var(--timed)", "var(--paper)", "var(--paper)", "none"]}}  # fmt: skip


def available() -> bool:
    return importlib.util.find_spec("vl_convert") is not None


def drawn(spec: Mapping[str, Any], label: str) -> Markup:
    """The drawing as an image that is called ``label``.

    Marks whose data have ``row`` and ``says`` carry the row's number in ``data-row`` and show the words when pointed at.
    """
    import vl_convert

    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "background": None, "config": CONFIG, **spec}
    return Markup(_inline(vl_convert.vegalite_to_svg(whole), label))


def points(**encoding: Any) -> dict[str, Any]:
    """The layer of marks, which tell their kind by shape, filling and colour."""
    return {
        "mark": {"type": "point", "size": 90, "strokeWidth": 2, "opacity": 1},
        "encoding": {"shape": SHAPE, "stroke": STROKE, "fill": FILL, "href": {"field": "row"}, "description": {"field": "says"},
                     **encoding},
    }  # fmt: skip


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Powers of ten for an axis, thinned to ``most``."""
    first, last = _power(low), _power(high)
    step = max(1, -(-(last - first + 1) // most))
    return [10.0**n for n in range(first, last + 1, step)]


def _power(x: float) -> int:
    from math import floor, log10

    return floor(log10(x))


_LINK = re.compile(r'<a xlink:href="[^"]*?row-(\d+)">(.*?)</a>', re.DOTALL)
_WORDS = re.compile(r'<path aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="point"(.*?)/>', re.DOTALL)
_NOISE = re.compile(r' (?:role|aria-roledescription|aria-label|aria-hidden|pointer-events)="[^"]*"| opacity="1"')
_EMPTY = re.compile(r'<path class="(?:foreground|background)"[^>]*/>')
_LONG = re.compile(r"(\d+\.\d\d)\d+")


def _inline(svg: str, label: str) -> str:
    """The image for a page: no namespaces, no link to anywhere, words for those who point at a mark, short numbers."""
    svg = _LINK.sub(r'<g data-row="\1">\2</g>', svg)
    svg = _WORDS.sub(r"<path\2><title>\1</title></path>", svg)
    svg = _NOISE.sub("", _EMPTY.sub("", svg))
    svg = _LONG.sub(r"\1", svg)
    size = re.search(r'width="(\d+)" height="(\d+)"', svg)
    width, height = size.groups() if size else ("300", "150")
    head = (f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {width} {height}" '
            f'style="max-width:{width}px" class="plot">')  # fmt: skip
    return re.sub(r"<svg[^>]*>", head, svg, count=1)


def merged(layers: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    return {"layer": list(layers), **more}
