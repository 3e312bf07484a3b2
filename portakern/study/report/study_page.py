"""The page of a study: what each section shows, as data for the templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from portakern.study.porting import PortingNote
from portakern.study.report import cells, sources
from portakern.study.report.commands import command
from portakern.study.report.document import machines, render, where
from portakern.study.report.plots import drawing, roofline, sweeps, times
from portakern.study.row import EVIDENCE, Row
from portakern.study.table import case_text, levels

if TYPE_CHECKING:
    from portakern.study.study import Study


def page(study: Study) -> str:
    """The whole page."""
    rows = study.rows
    numbered = list(enumerate(rows))
    plots = drawing.available()
    found = sweeps.sweeps(numbered) if plots else []
    facets = roofline.facets(rows) if plots else []
    swept = {n for s in found for n in s.rows}
    return str(render(
        "study.html.j2",
        title=", ".join(dict.fromkeys(r.operator for r in rows)) or "nothing",
        facts=facts(study),
        missing="" if plots else drawing.MISSING,
        facets=facets,
        left_out=len(rows) - len({s.row for f in facets for s in f.spots}),
        sweeps=found,
        charts=times.charts([(n, r) for n, r in numbered if n not in swept]) if plots else [],
        common=_common(rows),
        columns=cells.shown(rows),
        lines=[line(n, r, rows, study) for n, r in numbered],
        levels=[(name, sum(cells.level(r) == name for r in rows), text) for name, text in cells.LEVELS.items()
                if any(cells.level(r) == name for r in rows)],
        failed=failures(rows),
        listings=sources.listings(study),
        porting=pairs(study.porting),
        machines=machines([r.environment or {} for r in rows]),
    )) + "\n"  # fmt: skip


def facts(study: Study) -> list[tuple[str, str]]:
    """What one wants to know of a page before reading it."""
    rows = study.rows
    taken = sorted(t for r in rows if (t := ((r.time or {}).get("provenance") or {}).get("taken")))
    commit = study.environment.get("commit")
    told = [
        ("Rows", f"{len(rows)} on {len({r.target for r in rows})} targets: {levels(rows)}" if rows else "none"),
        ("Machine", where(study.environment)),
        ("Commit", f"{commit[:10]}{' with changes' if study.environment.get('dirty') else ''}" if commit else ""),
        ("Timed", _span(taken)),
        ("Written", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
    ]
    return [(name, text) for name, text in told if text]


def _span(taken: Sequence[str]) -> str:
    if not taken:
        return ""
    first, last = taken[0][:16].replace("T", " "), taken[-1][:16].replace("T", " ")
    return f"{first} UTC" if first == last else f"{first} to {last} UTC"


@dataclass(frozen=True)
class Line:
    """A row of the table: its name in two parts, its badge, and what stands behind it."""

    number: int
    target: str
    case: str
    level: str
    badge: str
    order: int
    command: str
    details: list[tuple[str, str]]
    search: str


def line(number: int, row: Row, rows: Sequence[Row], study: Study) -> Line:
    name = cells.level(row)
    ended = row.error is not None and name == row.evidence
    badge = f"{row.evidence}, then {row.error['kind']}" if row.error and ended else name
    badge += " in part" if row.part is not None and name == row.evidence and not ended else ""
    order = EVIDENCE.index(row.evidence) if row.evidence in EVIDENCE and name == row.evidence else -1
    case = "" if _common(rows) else _case(row, several=len({r.operator for r in rows}) > 1)
    taken = ((row.time or {}).get("provenance") or {}).get("taken") or ""
    details = [
        ("Device", row.device or ""), ("How it was reached", row.method or ""), ("Schedule", _schedule(row)),
        ("Timed", " ".join(filter(None, [taken[:19].replace("T", " "), (row.time or {}).get("mode", "")]))),
        ("Estimate", "; ".join(filter(None, [(row.estimate or {}).get("limiter") and f"limited by {row.estimate['limiter']}",
                                            (row.estimate or {}).get("confidence")])) if row.estimate else ""),
        ("Resources from", str((row.resources or {}).get("source") or "")), ("Machine", where(row.environment or {})),
        ("Hashes", " ".join(filter(None, [f"source {row.source_hash[:12]}" if row.source_hash else "",
                                          f"binary {row.binary_hash[:12]}" if row.binary_hash else ""]))),
    ]  # fmt: skip
    search = " ".join([_case(row), row.target, row.device or "", name]).lower()
    return Line(number, row.target, case, name, badge, order, command(row, study.files), [d for d in details if d[1]], search)


def _case(row: Row, several: bool = True) -> str:
    return " ".join(filter(None, [row.operator if several else "", case_text(row), row.dtype]))


def _common(rows: Sequence[Row]) -> str:
    """The case of all rows, where it is one, which need not be said at each."""
    cases = {_case(r) for r in rows}
    return cases.pop() if len(cases) == 1 else ""


def _schedule(row: Row) -> str:
    origin = f" ({row.schedule_from})" if row.schedule_from else ""
    return f"{row.schedule}{origin}" if row.schedule else ""


def failures(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Every error once, with the rows it ended."""
    found: dict[tuple[str, str, str], list[tuple[int, Row]]] = {}
    for n, r in enumerate(rows):
        if r.error is not None:
            found.setdefault((r.error["kind"], r.error["message"], r.error.get("hint") or ""), []).append((n, r))
    return [{"kind": kind, "message": message, "hint": hint,
             "rows": [(n, f"{r.operator} on {r.target}, {case_text(r)} {r.dtype or ''}") for n, r in hit]}
            for (kind, message, hint), hit in found.items()]  # fmt: skip


def pairs(notes: Sequence[PortingNote]) -> list[dict[str, Any]]:
    """The porting notes by pairs of targets, their sources numbered through all of them."""
    numbers: dict[str, int] = {}
    made: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for n in notes:
        marks = [(numbers.setdefault(s, len(numbers) + 1), s) for s in n.sources]
        made.setdefault((n.origin, n.target), []).append({"topic": n.topic, "text": n.text, "marks": marks})
    return [{"origin": a, "target": b, "notes": found} for (a, b), found in made.items()]
