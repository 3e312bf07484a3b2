"""The report: one HTML page with nothing outside it, readable on light and dark screens and without scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from portakern.study import table
from portakern.study.porting import PortingNote
from portakern.study.row import EVIDENCE, Row

_MEANINGS = {
    "emitted": "source text exists",
    "compiled": "machine code for that device exists; resources are read from it",
    "interpreted": "compiled, and its source ran correct in an interpreter of its language, which models no device",
    "simulated": "compiled, and the machine code ran correct off-silicon",
    "executed": "ran correct on the silicon named",
    "timed": "timed there, with an interval",
}

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --faint: #8881; --bad: #c0392b; --good: #1e8449; --mid: #2471a3; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th, td { white-space: nowrap; }
th { font-weight: 600; } tbody tr:hover { background: var(--faint); }
td.wide { white-space: normal; min-width: 16rem; }
.badge { border: 1px solid; border-radius: .8rem; padding: 0 .5rem; font-size: .85rem; color: var(--mid); }
.executed, .timed, .simulated { color: var(--good); } .wrong, .failed { color: var(--bad); }
.refused, .emitted { color: inherit; opacity: .7; }
.note { opacity: .75; font-size: .9rem; } .estimate { font-style: italic; opacity: .85; }
details { margin: .3rem 0; } summary { cursor: pointer; }
pre { overflow-x: auto; background: var(--faint); padding: .8rem; border-radius: .4rem; font-size: .85rem; line-height: 1.35; }
.error { white-space: pre-wrap; color: var(--bad); }
"""


def page(
    rows: tuple[Row, ...], environment: Mapping[str, Any], sources: Mapping[str, str], assemblies: Mapping[str, str],
    porting: Sequence[PortingNote] = (),
) -> str:  # fmt: skip
    """The whole page; ``sources`` and ``assemblies`` are texts by their hash."""
    operators = ", ".join(dict.fromkeys(r.operator for r in rows)) or "nothing"
    parts = [
        f'<p class="note">{escape(where(environment))}</p>',
        _levels(rows),
        _table(rows),
        _errors(rows),
        _porting(porting),
        machines([r.environment or {} for r in rows]),
        _texts("Sources", rows, sources, lambda r: r.source_hash),
        _texts("Assembly", rows, assemblies, lambda r: r.binary_hash),
    ]
    return document(operators, parts)


def document(title: str, parts: Sequence[str]) -> str:
    """A page with this title and the report's looks; empty parts are left out."""
    body = "\n".join(filter(None, [f"<h1>portakern: {escape(title)}</h1>", *parts]))
    return ('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>portakern: {escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n")


def where(environment: Mapping[str, Any]) -> str:
    """A line about the machine."""
    known = [environment.get(k) for k in ("processor", "system", "python")]
    version = environment.get("portakern")
    return f"portakern {version} on {', '.join(str(k) for k in known if k)}" if version else ""


def _levels(rows: tuple[Row, ...]) -> str:
    """What the levels that occur mean, with their counts."""
    found = [(name, sum(r.evidence == name for r in rows)) for name in EVIDENCE]
    items = "".join(f"<li>{mark(name)} {n}: {escape(_MEANINGS[name])}</li>" for name, n in found if n)
    return f"<ul>{items}</ul>"


def mark(name: str, text: str = "") -> str:
    """A level of evidence, or what became of a row, as a badge."""
    return f'<span class="badge {name}">{escape(text or name)}</span>'


def badge(row: Row) -> str:
    if row.refused:
        return mark("refused")
    if row.correct is False:
        return mark("wrong")
    if row.error is not None:
        return mark("failed", f"{row.evidence or 'nothing'}, then {row.error['kind']}")
    return mark(row.evidence or "failed", row.evidence or "nothing")


def _cell(text: str) -> str:
    return escape(text)


_COLUMNS: tuple[tuple[str, Callable[[Row], str], str], ...] = (
    ("operator", lambda r: _cell(r.operator), ""),
    ("target", lambda r: _cell(r.target), ""),
    ("device", lambda r: _cell(r.device or ""), ""),
    ("shape", lambda r: _cell(table.case_text(r)), ""),
    ("dtype", lambda r: _cell(r.dtype or ""), ""),
    ("evidence", badge, ""),
    ("error / bound", lambda r: _cell(table.error_text(r)), ""),
    ("time, us [95%]", lambda r: _cell(table.time_text(r)), ""),
    ("of peak", lambda r: _cell(table.roofline_text(r)), ""),
    ("against", lambda r: _cell(table.peers_text(r)), "wide"),
    ("estimate, us (no measurement)", lambda r: _estimate(r), ""),
    ("resources", lambda r: _cell(table.resources_text(r)), "wide"),
    ("occupancy", lambda r: _cell(table.occupancy_text(r)), ""),
    ("schedule", lambda r: _cell(r.schedule or ""), "wide"),
    ("how it was reached", lambda r: _cell(r.method or ""), "wide"),
)


def _estimate(row: Row) -> str:
    e = row.estimate
    if not e:
        return ""
    return f'<span class="estimate">{e["us"]:.1f}, {escape(str(e["model"]))} {escape(str(e["version"]))}</span>'


def _table(rows: tuple[Row, ...]) -> str:
    """Columns that are empty in every row are left out."""
    columns = [(name, [of(r) for r in rows], kind) for name, of, kind in _COLUMNS]
    shown = [(name, cells, kind) for name, cells, kind in columns if any(cells)]
    head = "".join(f"<th>{escape(name)}</th>" for name, _, _ in shown)
    lines = ["".join(f'<td class="{kind}">{cells[i]}</td>' if kind else f"<td>{cells[i]}</td>" for _, cells, kind in shown)
             for i in range(len(rows))]  # fmt: skip
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _errors(rows: tuple[Row, ...]) -> str:
    failed = [r for r in rows if r.error is not None]
    if not failed:
        return ""
    items = []
    for r in failed:
        assert r.error is not None
        hint = f"\nhint: {r.error['hint']}" if r.error.get("hint") else ""
        title = f"{r.operator} on {r.target}, {table.case_text(r)} {r.dtype}: {r.error['kind']}"
        items.append(f'<details open><summary>{escape(title)}</summary><p class="error">'
                     f"{escape(r.error['message'] + hint)}</p></details>")
    return "<h2>What went wrong</h2>\n" + "\n".join(items)


def _porting(notes: Sequence[PortingNote]) -> str:
    """What differs between the targets, by pairs."""
    if not notes:
        return ""
    parts = ["<h2>Moving the kernel</h2>"]
    for origin, target in dict.fromkeys((n.origin, n.target) for n in notes):
        mine = [n for n in notes if (n.origin, n.target) == (origin, target)]
        lines = "".join(f"<tr><td>{escape(n.topic)}</td><td class=\"wide\">{escape(n.text)}</td>"
                        f'<td class="wide note">{escape("; ".join(n.sources))}</td></tr>' for n in mine)  # fmt: skip
        parts.append(f"<h3>{escape(origin)} to {escape(target)}</h3>"
                     f'<div class="scroll"><table><tbody>{lines}</tbody></table></div>')  # fmt: skip
    return "\n".join(parts)


def machines(environments: Sequence[Mapping[str, Any]]) -> str:
    """The environments of the rows, each once."""
    found: dict[str, int] = {}
    for environment in environments:
        text = json.dumps(environment, indent=1, sort_keys=True)
        found[text] = found.get(text, 0) + 1
    items = (f"<details><summary>{n} row{'' if n == 1 else 's'}: {escape(where(json.loads(text)) or 'unknown')}</summary>"
             f"<pre>{escape(text)}</pre></details>" for text, n in found.items())  # fmt: skip
    return "<h2>Machines</h2>\n" + "\n".join(items)


def _texts(title: str, rows: tuple[Row, ...], texts: Mapping[str, str], key: Callable[[Row], str | None]) -> str:
    items = []
    for r in rows:
        text = texts.get(key(r) or "")
        if text:
            name = f"{r.operator} for {r.target}, {table.case_text(r)} {r.dtype}"
            items.append(f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>")
    return f"<h2>{escape(title)}</h2>\n" + "\n".join(items) if items else ""
