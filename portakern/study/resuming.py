"""Taking up a sweep again: rows that a store has already of the same text on this machine need not be timed anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from portakern.study import steps
from portakern.study.provenance import machine_id
from portakern.study.row import Row
from portakern.study.steps import Build
from portakern.study.store import ResultStore
from portakern.study.study import SourceFacts, Study, files_of
from portakern.study.under_way import CHECK_LIMIT_S
from portakern.study.work import Work


def kept(works: Sequence[Work], store: ResultStore, timing: Mapping[str, Any]) -> dict[int, tuple[Row, Build]]:
    """The newest row of the store for each work that has one, by its number, with what was emitted for it.

    A row counts where it was timed on this machine, of the text that is emitted now, at the same sizes, with caches treated
    alike and against at least the same peers.
    """
    found: dict[int, tuple[Row, Build]] = {}
    names = {w.row.operator for w in works}
    past = [s.row for name in sorted(names) for s in store.select(operator=name) if s.row.time]
    for number, work in enumerate(works):
        made = steps.emit_row(work)
        fitting = [row for row in past if made.source is not None and _fits(row, made.row, timing)]
        if fitting:
            found[number] = fitting[-1], made
    return found


def _fits(row: Row, now: Row, timing: Mapping[str, Any]) -> bool:
    time = row.time or {}
    peers = {p["name"] for p in time.get("peers") or () if p.get("ratio")}
    if (row.environment or {}).get("machine_id") != machine_id() or not peers >= set(timing["against"]):
        return False
    if not str(time.get("mode", "")).startswith(timing["options"]["cache"]):
        return False
    return _what(row) == _what(now)


def _what(row: Row) -> tuple[Any, ...]:
    return row.target, row.source_hash, row.dtype, dict(row.shape or {}), dict(row.params or {})


def joined(study: Study, past: Mapping[int, tuple[Row, Build]], works: Sequence[Work]) -> Study:
    """The rows in the order asked for: those that were taken now and those of the store."""
    now = iter(study.rows)
    rows = tuple(past[n][0] if n in past else next(now) for n in range(len(works)))
    emitted = [made for _, made in past.values() if made.source is not None]
    sources = {m.source.digest: m.source.text for m in emitted if m.source is not None}
    facts = {m.source.digest: SourceFacts(m.source.suffix, m.operations) for m in emitted if m.source is not None}
    return replace(study, rows=rows, sources={**sources, **study.sources}, source_facts={**facts, **study.source_facts},
                   files=files_of(works))  # fmt: skip


def time_limit(timing: dict) -> float:
    """Wall time of one row: its budgets, and what compiling peers and checking may take."""
    return CHECK_LIMIT_S + 2 * timing["options"]["budget_s"] * (1 + len(timing["against"])) + 200 * len(timing["against"])
