"""Text for terminals: tables and lines that fit the room there is, and stay as they are where nobody looks.

A pipe or a file has no width, so that what scripts read does not change with a window.  ``COLUMNS`` says one for anything, but
where ``LINES`` stands beside it: both are left by readline in whatever a Python process with a prompt starts.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Sequence

LEAST = 24
"""What is narrower is taken as so wide."""

WORD = 26
"""A column is never made so narrow that words of up to so many characters are broken."""

GAP = "  "


def room() -> int | None:
    """Columns of the terminal; ``None`` where standard output is none and ``COLUMNS`` does not say."""
    told = os.environ.get("COLUMNS", "")
    if told.isdigit() and int(told) and "LINES" not in os.environ:
        return max(LEAST, int(told))
    try:
        return max(LEAST, os.get_terminal_size(sys.stdout.fileno()).columns or 80) if sys.stdout.isatty() else None
    except (OSError, ValueError, AttributeError):
        return None


def fit(text: str, width: int | None = None) -> str:
    """``text`` with lines that are too long broken between words, what follows indented further than its line."""
    wide = width or room()
    return text if wide is None else "\n".join(part for line in text.split("\n") for part in _broken(line, wide))


def _broken(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    more = min(len(indent) + 4, width // 3)
    return textwrap.wrap(line.strip(), width, initial_indent=indent, subsequent_indent=" " * more, break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


def table(rows: Sequence[Sequence[str]], head: bool = True, keys: int = 1, width: int | None = None) -> str:
    """Left-aligned columns, two blanks apart.

    Where they are too wide, cells are broken over several lines; where that does not do, a row becomes a paragraph: its first
    ``keys`` cells, and the others with the names of their columns, which are the first of ``rows`` if there is a ``head``.
    """
    if not rows:
        return ""
    wide = width or room()
    natural = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if wide is None or _sum(natural) <= wide:
        return "\n".join(_line(row, natural) for row in rows)
    widths = _narrowed(natural, [max(map(_longest, column)) for column in zip(*rows, strict=True)], wide)
    if widths is not None:
        return "\n".join(line for row in rows for line in _lines(row, widths))
    names, body = (rows[0], rows[1:]) if head else (None, rows)
    return "\n".join(line for row in body for line in _paragraph(names, row, keys, wide))


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip()


def _narrowed(natural: Sequence[int], least: Sequence[int], wide: int) -> list[int] | None:
    """Widths that fit, taken from the widest columns first; ``None`` where words would have to be broken, or cells would be
    towers."""
    widths = list(natural)
    while _sum(widths) > wide:
        loose = [n for n, w in enumerate(widths) if w > min(least[n], WORD)]
        if not loose:
            return None
        widths[max(loose, key=lambda n: widths[n])] -= 1
    return widths if all(n <= 4 * w for n, w in zip(natural, widths, strict=True)) else None


_BREAKS = re.compile(r"(?<=[,;/])(?=\S)|\s+")


def _longest(cell: str) -> int:
    return max(map(len, _BREAKS.split(cell)))


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    parts = [_cell(c, w) for c, w in zip(row, widths, strict=True)]
    high = max(map(len, parts))
    return [_line([p[n] if n < len(p) else "" for p in parts], widths) for n in range(high)]


def _cell(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width``: between words, else behind a comma, else where it is full."""
    lines, line = [], ""
    for word in re.split(r"(?<=[,;/])(?=\S)|(?<=\s)", text):
        if line and len((line + word).rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += word
        while len(line.rstrip()) > width:
            lines.append(line[:width])
            line = line[width:]
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def _paragraph(names: Sequence[str] | None, row: Sequence[str], keys: int, width: int) -> list[str]:
    head = GAP.join(filter(str.strip, row[:keys]))
    rest = [(names[n] if names else "", c.strip()) for n, c in enumerate(row) if n >= keys and c.strip()]
    told = "; ".join(f"{name} {cell}".strip() for name, cell in rest)
    return [line for text in (head, f"    {told}" if told else "") if text for line in _broken(text, width)]
