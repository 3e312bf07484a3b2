"""A model's study as plain text that fits the terminal."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Sequence

from portakern.model_study.remarks import remarks
from portakern.model_study.study import ModelStudy, TargetPlan
from portakern.model_study.tables import heading, kernels_table, places_table, targets_table

LEAST, MOST = 40, 132
"""Widths between which a table takes the terminal's."""

LEFT = ("target", "device", "evidence", "kernel", "what", "by", "resources")
"""Columns of words."""

SPARED = ("resources", "by", "FLOP", "device", "#", "bytes", "roofline us", "what")
"""Columns that a narrow terminal does without, in this order; JSON and page have them."""

NAME_ROOM = 36
"""What the first column keeps before others are spared."""


def study_text(study: ModelStudy, rows: int, width: int | None = None) -> str:
    wide = width or max(LEAST, min(MOST, shutil.get_terminal_size((MOST, 24)).columns))
    parts = [_wrapped(heading(study), wide, ""), _aligned(targets_table(study), wide)]
    if sum(bool(p.rows) for p in study.plans) > 1:
        parts.append(_aligned(places_table(study, rows), wide))
    parts += [_section(p, rows, wide) for p in study.plans]
    return "\n\n".join("\n".join(lines) for lines in parts)


def _section(p: TargetPlan, rows: int, width: int) -> list[str]:
    lines = [f"{p.target}: {p.device}, {p.evidence or 'nothing reached'}"]
    lines += [line for remark in remarks(p) for line in _wrapped(remark, width, "  ")]
    return [*lines, *(_aligned(kernels_table(p, rows), width, "  ") if p.rows else [])]


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False)


def _aligned(table: Sequence[Sequence[str]], width: int, indent: str = "") -> list[str]:
    """Columns, those empty throughout left out; where they are too wide, some are spared and the first is cut."""
    columns = [c for c in zip(*table, strict=True) if any(c[1:])]
    for name in SPARED:
        if _width(columns, indent) - width > max(0, _widest(columns[0]) - NAME_ROOM):
            columns = [c for c in columns if c[0] != name]
    over = _width(columns, indent) - width
    if over > 0:
        columns[0] = tuple(_cut(x, max(16, _widest(columns[0]) - over)) for x in columns[0])
    sides = [str.ljust if c[0] in LEFT or n == 0 else str.rjust for n, c in enumerate(columns)]
    lines = zip(*([side(x, _widest(c)) for x in c] for side, c in zip(sides, columns, strict=True)), strict=True)
    return [(indent + "  ".join(line)).rstrip() for line in lines]


def _width(columns: Sequence[Sequence[str]], indent: str) -> int:
    return len(indent) + sum(_widest(c) + 2 for c in columns) - 2


def _widest(column: Sequence[str]) -> int:
    return max(map(len, column))


def _cut(text: str, room: int) -> str:
    """``text`` without the folders of its line, then without its start: a path's end and the line tell it from others."""
    if len(text) > room:
        text = re.sub(r"\([^()]*/", "(", text)
    return text if len(text) <= room else f"..{text[2 - room :]}"
