"""Which lines of a text do which tile operation, so that two texts can be laid side by side.

Emitters keep the names of arrays, and each language has words for what tiles do; a line that has the word does the operation.
The words of a language are its manifest's (:attr:`portakern.backend.Language.words`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from portakern.study.operations import Operation

FUNCTION = r"(?<!\w){name}\w*\("
"""How a function of elements is called where a language says nothing else, alone or as a member of a module."""

_HEAD = re.compile(r"^\s*(?:def|class|@)|__restrict")
"""The head of a function: it names its arrays and does nothing with them."""

LONGEST = 30
"""Lines of a statement; what goes on for longer is a kernel's own bracket."""


def linked(text: str, suffix: str, operations: Sequence[Operation], words: Mapping[str, str]) -> list[tuple[int, ...]]:
    """For each line of ``text``, of a file that ends in ``suffix``, the numbers of the operations that it does."""
    patterns = [pattern(op, words) for op in operations]
    lines = text.splitlines()
    found: list[set[int]] = [set() for _ in lines]
    for first, parts in statements(lines, suffix):
        ends = list(accumulate(len(p) + 1 for p in parts))
        whole = " ".join(parts)
        if _HEAD.search(whole):
            continue
        for number, p in enumerate(patterns):
            for match in p.finditer(whole) if p is not None else ():
                for line in range(bisect_right(ends, match.start()), bisect_right(ends, match.end() - 1) + 1):
                    found[first + line].add(number)
    return [tuple(sorted(numbers)) for numbers in found]


def statements(lines: Sequence[str], suffix: str) -> Iterator[tuple[int, list[str]]]:
    """The code of lines, without comments, put together where a bracket goes over several: (number of the first, lines)."""
    comments, first, parts, depth = _PythonComments() if suffix == ".py" else _CComments(), 0, [], 0
    for number, line in enumerate(lines):
        code = comments.without(line)
        parts.append(code)
        depth += sum(map(code.count, "([")) - sum(map(code.count, ")]"))
        if depth <= 0 or len(parts) >= LONGEST:
            yield first, parts
            first, parts, depth = number + 1, [], 0
    if parts:
        yield first, parts


def pattern(op: Operation, words: Mapping[str, str]) -> re.Pattern[str] | None:
    """``kind name`` goes before ``kind``: a language may say ``reduce max`` in a way of its own."""
    form = words.get(f"{op.kind} {op.name}", words.get(op.kind, FUNCTION if op.kind == "function" else ""))
    if not form:
        return None
    name = re.escape(op.name)
    return re.compile(form.replace("{Name}", name[:1].upper() + name[1:]).replace("{name}", name))


class _CComments:
    """Leaves out what only speaks of code, to the end of a line."""

    def without(self, line: str) -> str:
        return line.partition("//")[0]


class _PythonComments:
    """Leaves out comments, and texts in three quotes."""

    def __init__(self) -> None:
        self.inside = False

    def without(self, line: str) -> str:
        quotes = line.count('"""')
        if self.inside or quotes:
            self.inside ^= quotes % 2 == 1
            return ""
        return line.partition("#")[0]
