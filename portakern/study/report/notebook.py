"""What notebooks show: pieces of HTML that need no style sheet and follow the notebook's own colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from portakern.study import table
from portakern.study.report.document import render
from portakern.study.row import Row

if TYPE_CHECKING:
    from portakern.study.built import Built
    from portakern.study.study import Study


def row_html(row: Row) -> str:
    return _table((row,), "")


def study_html(study: Study) -> str:
    return _table(study.rows, repr(study).strip("<>"))


def _table(rows: Sequence[Row], caption: str) -> str:
    columns = [(name, [of(r) for r in rows]) for name, of in table.COLUMNS]
    shown = [(name, found) for name, found in columns if any(found)]
    return str(render("notebook_table.html.j2", columns=shown, count=len(rows), caption=caption, notes=table.notes(rows)))


def built_html(built: Built) -> str:
    facts: list[tuple[str, Any]] = [("schedule", "; ".join(map(str, built.schedule)))]
    return _text(repr(built).strip("<>"), facts, "source", str(built.source))


def _text(title: str, facts: Sequence[tuple[str, Any]], name: str, text: str) -> str:
    return str(render("notebook_text.html.j2", title=title, facts=facts, what=name, text=text))
