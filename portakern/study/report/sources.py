"""The texts of a study, line by line, with the tile operations that tie them to each other, and their assembly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.study.operations import Operation
from portakern.study.report import assembly, highlighting, linking
from portakern.study.row import Row
from portakern.study.table import case_text

if TYPE_CHECKING:
    from portakern.study.study import SourceFacts, Study


MOST = 60
"""Texts of a page: with those of a thousand rows it would be too large to send, and nobody would read them."""


@dataclass(frozen=True)
class Line:
    """``operations`` are numbers of those of the page, ``made`` the instructions that came of the line."""

    code: Markup
    operations: tuple[int, ...]
    made: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """One text.  ``packed`` is its whole assembly, compressed, which has ``assembly_lines`` lines."""

    row: int
    name: str
    lines: tuple[Line, ...]
    packed: str
    assembly_lines: int
    debug: bool


@dataclass(frozen=True)
class Tie:
    """A tile operation that texts of the page do: its title, the operator's line, and in how many texts it is found."""

    title: str
    line: str
    texts: int


@dataclass(frozen=True)
class Listings:
    """``left`` and ``right`` are the numbers of the texts that are shown first, ``left_out`` how many are not in the page."""

    texts: tuple[Listing, ...]
    ties: tuple[Tie, ...]
    left: int = 0
    right: int = 1
    left_out: int = 0


def listings(study: Study) -> Listings:
    """The text of each row once, in the rows' order, and what ties them."""
    seen: dict[str, tuple[int, Row]] = {}
    for n, row in enumerate(study.rows):
        if row.source_hash in study.sources:
            seen.setdefault(row.source_hash, (n, row))
    left_out = max(0, len(seen) - MOST)
    seen = dict(list(seen.items())[:MOST])
    several = len({r.operator for _, r in seen.values()}) > 1
    same_case = len({(case_text(r), r.dtype) for _, r in seen.values()}) == 1
    order: dict[tuple[str, str], int] = {}
    known: dict[int, Operation] = {}
    found = []
    for digest, (n, row) in seen.items():
        facts = study.source_facts.get(digest)
        name = " ".join(filter(None, [row.target, row.operator if several else "", "" if same_case else case_text(row),
                                      "" if same_case else row.dtype]))  # fmt: skip
        for op in facts.operations if facts else ():
            known.setdefault(order.setdefault((op.kind, op.name), len(order)), op)
        found.append(_listing(n, name, row, study, facts, order))
    counts = [sum(any(number in line.operations for line in text.lines) for text in found) for number in range(len(order))]
    ties = tuple(Tie(known[n].title, known[n].line, counts[n]) for n in range(len(order)))
    return Listings(tuple(found), ties, *_first_pair(study, [row for _, row in seen.values()]), left_out)


def _first_pair(study: Study, rows: Sequence[Row]) -> tuple[int, int]:
    """The two languages between which a kernel is said to move, else the first two texts."""
    targets = [r.target for r in rows]
    for note in study.porting:
        if note.origin in targets and note.target in targets:
            return targets.index(note.origin), targets.index(note.target)
    return 0, min(1, len(rows) - 1)


def _listing(number: int, name: str, row: Row, study: Study, facts: SourceFacts | None,
             order: dict[tuple[str, str], int]) -> Listing:  # fmt: skip
    text = study.sources[row.source_hash or ""]
    suffix = facts.suffix if facts else ".py" if "import " in text else ".cpp"
    machine = study.assemblies.get(row.binary_hash or "", "")
    operations = facts.operations if facts else ()
    done = linking.linked(text, suffix, operations, _words(row))
    made = assembly.by_line(machine, suffix, len(done)) if machine else {}
    code = highlighting.lines(text, suffix)
    lines = tuple(
        Line(html, tuple(order[operations[n].kind, operations[n].name] for n in numbers), tuple(made.get(place, ())))
        for place, (html, numbers) in enumerate(zip(code, done, strict=True), 1)
    )
    return Listing(number, name, lines, assembly.packed(machine) if machine else "", machine.count("\n"), bool(made))


def _words(row: Row) -> dict[str, str]:
    """How the row's language speaks; nothing of a language that is not here."""
    try:
        return dict(registry().language(registry().target(row.target).language).words)
    except PortakernError:
        return {}


