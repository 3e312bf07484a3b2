"""Assembly, cut by the lines of the source that it was made from, where debug information says so."""

from __future__ import annotations

import base64
import gzip
import re

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]+)"', re.MULTILINE)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)(?:\s+(\d+))?(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_CHAIN = re.compile(r"@\[.*?([^\s\[\]]+):(\d+):\d+[\s\]]*$")
_PLACE = re.compile(r'^\s*//## File "([^"]+)", line (\d+)')
_NO_INSTRUCTION = re.compile(r"^\s*(?:\.|//|#|;|\$?[\w.$]+:\s*(?:[;#].*|//.*)?$|[{}()]|$)")
"""Directives, comments, labels and braces."""

Place = tuple[str, ...]


def packed(text: str) -> str:
    """Compressed, as text: assembly is long, and few readers open it.  The page unpacks what is opened."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def by_line(assembly: str, suffix: str, count: int) -> dict[int, list[str]]:
    """The instructions of each of the ``count`` lines of the file that ends in ``suffix``; empty without debug information.

    ``.loc FILE LINE`` of PTX and GNU assembly and ``//## File "F", line N`` of nvdisasm speak of what follows them.  What was
    inlined belongs to the line of the call: PTX says where that is, LLVM writes it into a comment, ``@[ kernel.hip:10:19 ]``.
    """
    if "//## File" in assembly:  # machine code is closer to the silicon than the PTX before it
        return _of_machine_code(assembly, suffix, count)
    files = dict(_FILE.findall(assembly))
    callers: dict[Place, Place] = {}
    found: dict[int, list[str]] = {}
    line = 0
    for text in assembly.splitlines():
        if loc := _LOC.match(text):
            here, caller = loc.group(1, 2, 3), loc.group(4, 5, 6)
            if caller[0] is not None:
                callers[here] = caller
            if chain := _CHAIN.search(text):
                file, number = chain[1], chain[2]
            else:
                number, file = _outermost(caller if caller[0] is not None else here, callers)[1::-1]
                file = files.get(file, suffix)
            line = int(number) if file.endswith(suffix) else 0
        elif 0 < line <= count and not _NO_INSTRUCTION.match(text):
            found.setdefault(line, []).append(" ".join(text.split()))
    return found


def _outermost(place: Place, callers: dict[Place, Place]) -> Place:
    """Where the call stands in which ``place`` was inlined in the end."""
    for _ in range(len(callers)):
        if place not in callers:
            break
        place = callers[place]
    return place


def _of_machine_code(assembly: str, suffix: str, count: int) -> dict[int, list[str]]:
    """The outermost place of a chain of inlined ones is the last of several in a row."""
    found: dict[int, list[str]] = {}
    line = 0
    for text in assembly.splitlines():
        if place := _PLACE.match(text):
            line = int(place[2]) if place[1].endswith(suffix) else 0
        elif 0 < line <= count and "/*" in text and not _NO_INSTRUCTION.match(text):
            found.setdefault(line, []).append(" ".join(text.split()))
    return found
