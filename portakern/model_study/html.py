"""A model's study as one page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from portakern.model_study.remarks import remarks
from portakern.model_study.study import ModelStudy, TargetPlan
from portakern.model_study.tables import heading, kernels_table, places_table, targets_table
from portakern.study.report import document, machines, mark, where

ALL = 1 << 30
"""Rows of a table: a page has room for every one."""


def study_page(study: ModelStudy) -> str:
    """The whole page: the targets, places side by side, and every kernel of each target."""
    parts = [f'<p class="note">{escape(where(study.environment))}</p>', f"<p>{escape(heading(study))}</p>",
             _table(targets_table(study))]  # fmt: skip
    if sum(bool(p.rows) for p in study.plans) > 1:
        parts += ["<h2>Places of the model side by side</h2>", _table(places_table(study, ALL))]
    parts += [_section(p) for p in study.plans]
    parts.append(machines([study.environment]))
    return document(study.model, parts)


def _section(p: TargetPlan) -> str:
    notes = "".join(f"<li>{escape(text)}</li>" for text in remarks(p))
    level = mark(p.evidence or "failed", p.evidence or "nothing reached")
    table = _table(kernels_table(p, ALL)) if p.rows else ""
    return f"<h2>{escape(p.target)}: {escape(p.device)} {level}</h2>\n<ul>{notes}</ul>\n{table}"


def _table(table: Sequence[Sequence[str]]) -> str:
    columns = [c for c in zip(*table, strict=True) if any(c[1:])]
    head, *lines = zip(*columns, strict=True)
    cells = "".join(f"<th>{escape(c)}</th>" for c in head)
    body = "\n".join("<tr>" + "".join(map(_cell, line)) + "</tr>" for line in lines)
    name = escape(", ".join(filter(None, head[:2])))
    return (f'<div class="scroll" tabindex="0" role="group" aria-label="{name}"><table><thead><tr>{cells}</tr></thead>\n'
            f"<tbody>{body}</tbody></table></div>")  # fmt: skip


def _cell(text: str) -> str:
    """An estimate or a bound is set apart from times, as everywhere in the report."""
    kind = ' class="estimate"' if text.startswith(("~", ">=")) else ""
    return f"<td{kind}>{escape(text)}</td>"
