"""Assembly, cut by the lines of the source that it was made from, where debug information says so."""

from __future__ import annotations

import base64
import gzip
import re

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]+)"', re.MULTILINE)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_PLACE = re.compile(r'^\s*//## File "([^"]+)", line (\d+)')
_NO_INSTRUCTION = re.compile(r"^\s*(?:\.|//|#|;|/\*|\$?[\w.$]+:\s*(?:[;#].*|//.*)?$|[{}()]|$)")
"""Directives, comments, labels and braces."""


def packed(text: str) -> str:
    """Compressed, as text: assembly is long, and few readers open it.  The page unpacks what is opened."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def by_line(assembly: str, source_name: str, count: int) -> dict[int, list[str]]:
    """The instructions of each of the ``count`` lines of the file whose name ends in ``source_name``; empty without debug
    information.

    ``.loc FILE LINE`` of GNU and PTX assembly, and ``//## File "F", line N`` of nvdisasm, speak of what follows them.
    """
    files = {number: name for number, name in _FILE.findall(assembly)}
    machine = "//## File" in assembly  # machine code is closer to the silicon than the PTX before it
    found: dict[int, list[str]] = {}
    line = 0
    for text in assembly.splitlines():
        if place := _PLACE.match(text):
            line = int(place[2]) if _same(place[1], source_name) else 0
        elif not machine and (loc := _LOC.match(text)):
            line = int(loc[2]) if _same(files.get(loc[1], source_name), source_name) else 0
        elif 0 < line <= count and not _NO_INSTRUCTION.match(text) and (not machine or "/*" in text):
            found.setdefault(line, []).append(" ".join(text.split()))
    return found


def _same(file: str, source_name: str) -> bool:
    return file.endswith(source_name)
