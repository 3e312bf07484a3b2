"""What the table says of a row: each cell with the text it shows and the value it sorts by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from portakern.study import table
from portakern.study.report.roofs import least_us, product_of
from portakern.study.row import Row

LEVELS = {
    "emitted": "source text exists",
    "compiled": "machine code for that device exists; resources are read from it",
    "interpreted": "compiled, and its source ran correct in an interpreter of its language, which models no device",
    "simulated": "compiled, and the machine code ran correct off-silicon",
    "executed": "ran correct on the silicon named",
    "timed": "timed there, with an interval",
    "wrong": "its results are not within the bounds",
    "refused": "the device cannot have the dtype, by rule",
    "failed": "nothing was reached; the error says why",
}
"""What a row's badge means."""


@dataclass(frozen=True)
class Bar:
    """A share from 0 to 1 (more is drawn as full), ``kind`` says what it is for the colour."""

    share: float
    kind: str = ""

    @property
    def percent(self) -> float:
        return round(100 * min(max(self.share, 0.0), 1.0), 1)


@dataclass(frozen=True)
class Part:
    """A piece of a cell: a label, a text, and a bar where the text is a share of something."""

    text: str
    label: str = ""
    bar: Bar | None = None
    kind: str = ""


@dataclass(frozen=True)
class Cell:
    parts: tuple[Part, ...] = ()
    sort: Any = None


def level(row: Row) -> str:
    """The evidence of a row, or what became of it instead."""
    if row.refused:
        return "refused"
    if row.correct is False:
        return "wrong"
    return row.evidence or "failed"


def error_cell(row: Row) -> Cell:
    """The largest error as a share of the bound."""
    ratio = row.max_error_ratio
    if ratio is None:
        return Cell()
    return Cell((Part(table.error_text(row), bar=Bar(ratio, "bad" if ratio > 1 else "")),), ratio)


def time_cell(row: Row) -> Cell:
    if not row.time:
        return Cell()
    t = row.time
    parts = [Part(table.us_text(t["median_us"]), kind="main")]
    if t.get("ci_low_us") is not None:
        parts.append(Part(f"[{table.us_text(t['ci_low_us'])}, {table.us_text(t['ci_high_us'])}]", kind="soft"))
    parts += [Part(f"suspicious: {s}", kind="warn") for s in t.get("suspicions") or ()]
    return Cell(tuple(parts), t["median_us"])


def peers_cell(row: Row) -> Cell:
    peers = (row.time or {}).get("peers") or []
    parts = []
    for p in peers:
        if p.get("ratio"):
            parts.append(Part(f"{table.ratio_text(p)} {p['verdict']}", label=p["name"], kind=p["verdict"].lower()))
        else:
            parts.append(Part(str(p.get("error", "not run")), label=p["name"], kind="soft"))
    best = min((p["ratio"] for p in peers if p.get("ratio")), default=None)
    return Cell(tuple(parts), best)


def peak_cell(row: Row) -> Cell:
    r = (row.time or {}).get("roofline") or {}
    shares = [(r.get("share_of_measured_copy"), "of a copy"), (r.get("share_of_stated_peak"), "of stated peak")]
    parts = tuple(Part(f"{share:.0%} {word}", bar=Bar(share)) for share, word in shares if share is not None)
    return Cell(parts, max((s for s, _ in shares if s is not None), default=None))


def estimate_cell(row: Row) -> Cell:
    """A model's time with its version, what the model makes of others, and below what no kernel goes."""
    e, least = row.estimate, least_us(row)
    bound = [Part(f"\u2265 {table.us_text(least)}", kind="soft")] if least is not None else []
    if not e:
        return Cell(tuple(bound), least)
    parts = [Part(f"~{table.us_text(e['us'])}", kind="main estimate"), Part(f"{e['model']} {e['version']}", kind="soft")]
    parts += [Part(f"~{table.us_text(p['us'])}, {p['ratio']:.2f}x", label=p["name"], kind="estimate")
              for p in e.get("peers") or () if p.get("ratio")]  # fmt: skip
    return Cell((*parts, *bound), e["us"])


def occupancy_cell(row: Row) -> Cell:
    share, limiter = ((row.resources or {}).get(k) for k in ("occupancy", "limiter"))
    if share is None:
        return Cell()
    why = [Part(f"limited by {limiter}", kind="soft")] if limiter else []
    return Cell((Part(f"{share:.0%}", bar=Bar(share)), *why), share)


def resources_cell(row: Row) -> Cell:
    """Registers and shared memory as shares of what the device has, spills and scratch, and the size of the code."""
    r = row.resources or {}
    device = product_of(row)

    def share(used: float, figure: str) -> Bar | None:
        most = device.figures.get(figure) if device is not None else None
        return Bar(used / most.value, "full" if used > 0.95 * most.value else "") if most is not None and most.value else None

    parts = []
    if r.get("registers") is not None:
        parts.append(Part(str(r["registers"]), "registers", share(r["registers"], "registers_per_thread")))
    if r.get("agprs"):
        parts.append(Part(str(r["agprs"]), "of them accumulate"))
    if r.get("shared_bytes"):
        parts.append(Part(table.bytes_text(r["shared_bytes"]), "shared", share(r["shared_bytes"], "shared_bytes_per_block")))
    if r.get("spills"):
        parts.append(Part(str(r["spills"]), "spilled", kind="warn"))
    if r.get("scratch_bytes"):
        parts.append(Part(table.bytes_text(r["scratch_bytes"]), "scratch", kind="warn"))
    if r.get("code_bytes") is not None:
        parts.append(Part(table.bytes_text(r["code_bytes"]), "code"))
    return Cell(tuple(parts), r.get("registers"))


COLUMNS = (
    ("error", "Error / bound", error_cell), ("time", "Time, \u00b5s [95 %]", time_cell), ("peers", "Against peers", peers_cell),
    ("peak", "Of peak", peak_cell), ("estimate", "Estimate or bound, \u00b5s", estimate_cell),
    ("occupancy", "Occupancy", occupancy_cell), ("resources", "Resources", resources_cell),
)  # fmt: skip
"""Key, title and cell of each column behind the row's name and evidence."""


def shown(rows: Sequence[Row]) -> list[tuple[str, str, list[Cell]]]:
    """The columns that hold something in some row."""
    made = [(key, title, [cell(r) for r in rows]) for key, title, cell in COLUMNS]
    return [column for column in made if any(c.parts for c in column[2])]
