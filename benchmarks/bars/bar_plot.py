"""A roofline as SVG, written by hand, so that nothing needs to be installed for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 960, 600
LEFT, RIGHT, TOP, BOTTOM = 80, 250, 40, 60
_OPEN = '<svg xmlns="http://www.w3.org/2000/svg"'
COLOURS = {"cuda": "#1b7837", "triton": "#2166ac", "peer": "#b2182b"}


@dataclass(frozen=True)
class Point:
    """A kernel: operations per byte, operations per second, whose it is (a key of ``COLOURS``), and its name."""

    intensity: float
    flops_per_s: float
    kind: str
    name: str


@dataclass(frozen=True)
class Roof:
    """A ceiling: ``slope`` in bytes per second, or ``level`` in operations per second."""

    name: str
    slope: float = 0.0
    level: float = 0.0


class Axes:
    """Logarithmic axes over the points and roofs."""

    def __init__(self, points: Sequence[Point], roofs: Sequence[Roof]) -> None:
        xs = [p.intensity for p in points] + [0.1]
        ys = [p.flops_per_s for p in points] + [r.level for r in roofs if r.level]
        self.x0, self.x1 = math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs) * 1.5))
        self.y0, self.y1 = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))

    def x(self, value: float) -> float:
        return LEFT + (math.log10(value) - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - self.y0) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM)


def svg(title: str, points: Sequence[Point], roofs: Sequence[Roof]) -> str:
    """The page.  Points of no operations or no time are left out."""
    points = [p for p in points if p.intensity > 0 and p.flops_per_s > 0]
    if not points:
        return f'{_OPEN} width="{WIDTH}" height="40"><text x="8" y="24">nothing timed</text></svg>\n'
    axes = Axes(points, roofs)
    body = [*_grid(axes), *(_roof(axes, r, n) for n, r in enumerate(roofs)), *_dots(axes, points), *_legend(points)]
    return (f'{_OPEN} width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n'
            f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>\n' + "\n".join(body) + "\n</svg>\n")  # fmt: skip


def _grid(a: Axes) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    lines = []
    for e in range(a.x0, a.x1 + 1):
        x = a.x(10.0**e)
        lines.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#ddd"/>'
                     f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{10.0**e:g}</text>')  # fmt: skip
    for e in range(a.y0, a.y1 + 1):
        y = a.y(10.0**e)
        lines.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#ddd"/><text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
                     f"{10.0 ** (e - 12):g}</text>")  # fmt: skip
    lines.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 16}" text-anchor="middle">operations per byte</text>')
    lines.append(f'<text x="20" y="{HEIGHT / 2}" transform="rotate(-90 20 {HEIGHT / 2})" text-anchor="middle">TFLOP/s</text>')
    return lines


def _roof(a: Axes, r: Roof, number: int) -> str:
    left, right = 10.0**a.x0, 10.0**a.x1
    if r.slope:
        low = max(left, 10.0**a.y0 / r.slope)
        high = min(right, 10.0**a.y1 / r.slope)
        ends = (low, low * r.slope), (high, high * r.slope)
    else:
        ends = (left, r.level), (right, r.level)
    (x1, y1), (x2, y2) = ends
    at = (f'x="{a.x(right) + 6:.1f}" y="{a.y(r.level) + 4:.1f}"' if r.level else
          f'x="{a.x(x2) + 6:.1f}" y="{a.y(y2) + 14 + 16 * number:.1f}"')  # fmt: skip
    return (f'<path d="M{a.x(x1):.1f} {a.y(y1):.1f}L{a.x(x2):.1f} {a.y(y2):.1f}" stroke="#555" fill="none"/>'
            f"<text {at} fill=\"#555\">{escape(r.name)}</text>")  # fmt: skip


def _dots(a: Axes, points: Sequence[Point]) -> list[str]:
    return [f'<circle cx="{a.x(p.intensity):.1f}" cy="{a.y(p.flops_per_s):.1f}" r="4" fill="{COLOURS.get(p.kind, "#888")}" '
            f'fill-opacity="0.7"><title>{escape(p.name)}: {p.flops_per_s / 1e12:.4g} TFLOP/s at {p.intensity:.4g}</title>'
            "</circle>"
            for p in points]  # fmt: skip


def _legend(points: Sequence[Point]) -> list[str]:
    kinds = list(dict.fromkeys(p.kind for p in points))
    return [f'<circle cx="{LEFT + 16}" cy="{TOP + 16 + 18 * n}" r="4" fill="{COLOURS.get(k, "#888")}"/>'
            f'<text x="{LEFT + 26}" y="{TOP + 20 + 18 * n}">{escape(k)}</text>' for n, k in enumerate(kinds)]  # fmt: skip
