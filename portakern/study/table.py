"""Rows as plain text: aligned columns, evidence first, and what went wrong below the table in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from portakern.study.layout import fit, table
from portakern.study.row import Row, success

Column = tuple[str, Callable[[Row], str]]


def shape_text(shape: Mapping[str, Any] | None) -> str:
    """``M=4,N=8,B=2x3``, with ``?`` for an open dim."""
    return ",".join(f"{k}={size_text(v)}" for k, v in (shape or {}).items())


def size_text(size: Any) -> str:
    if isinstance(size, list | tuple):
        return "x".join(map(size_text, size)) or "()"
    return "?" if size is None else str(size)


def case_text(row: Row) -> str:
    """Shape and parameters, save those that are None."""
    params = [f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in (row.params or {}).items() if v is not None]
    return " ".join(filter(None, (shape_text(row.shape), *params)))


def evidence_text(row: Row) -> str:
    if row.refused:
        return "refused"
    if row.correct is False:
        return "WRONG"
    return f"{row.evidence or '-'}{_part(row)}{' !' if row.error else ''}"


def _part(row: Row) -> str:
    return " in part" if row.part is not None else ""


def resources_text(row: Row) -> str:
    """Registers, spills, scratch and shared memory, as far as the binary tells.

    Where a part of the registers only accumulates, that part is shown, and scratch even where there is none.
    """
    r = row.resources or {}
    parts = []
    parted = r.get("agprs") is not None
    if r.get("registers") is not None:
        parts.append(f"{r['registers']} regs" + (f" ({r['agprs']} acc)" if parted else ""))
    if r.get("spills"):
        parts.append(f"{r['spills']} spilled")
    if r.get("scratch_bytes") or (parted and r.get("scratch_bytes") is not None):
        parts.append(f"{bytes_text(r['scratch_bytes'])} scratch")
    if r.get("shared_bytes"):
        parts.append(f"{bytes_text(r['shared_bytes'])} shared")
    if r.get("code_bytes") is not None:
        parts.append(f"{bytes_text(r['code_bytes'])} code")
    return ", ".join(parts)


def bytes_text(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GB"


def occupancy_text(row: Row) -> str:
    """The share of a unit's thread slots, and what keeps it from being higher."""
    share, limiter = ((row.resources or {}).get(k) for k in ("occupancy", "limiter"))
    return "" if share is None else f"{share:.0%}" + (f" ({limiter})" if limiter else "")


def error_text(row: Row) -> str:
    """The largest error as a share of the bound."""
    if row.max_error_ratio is None:
        return ""
    return f"{row.max_error_ratio:.3f}" if row.max_error_ratio < 1000 else f"{row.max_error_ratio:.1e}"


def us_text(us: float) -> str:
    """Microseconds with about four digits."""
    return f"{us:.3f}" if us < 10 else f"{us:.2f}" if us < 100 else f"{us:.1f}" if us < 1e5 else f"{us:.0f}"


def time_text(row: Row) -> str:
    t = row.time
    if not t:
        return ""
    at = open_sizes_text(t).removesuffix(", ")
    return f"{us_text(t['median_us'])} [{us_text(t['ci_low_us'])}, {us_text(t['ci_high_us'])}]" + (f" {at}" if at else "")


def open_sizes_text(time: Mapping[str, Any]) -> str:
    """``at M=1024, `` where dims are open; else nothing."""
    return f"at {shape_text(time['sizes'])}, " if time.get("sizes") else ""


def peers_text(row: Row) -> str:
    peers = (row.time or {}).get("peers") or []
    return "; ".join(
        f"{p['verdict']} {ratio_text(p)} {p['name']}" if p.get("ratio") else f"{p['name']}: {p.get('error', 'not run')}"
        for p in peers
    )


def ratio_text(peer: Mapping[str, Any]) -> str:
    """How many times as long the peer takes, with its interval, in digits enough to tell them apart."""
    digits = 2 if peer["ci_high"] - peer["ci_low"] > 0.02 else 3
    return f"{peer['ratio']:.{digits}f}x [{peer['ci_low']:.{digits}f}, {peer['ci_high']:.{digits}f}]"


def roofline_text(row: Row) -> str:
    """Shares of what was measured and of what is stated, each by its name."""
    r = (row.time or {}).get("roofline") or {}
    shares = [(r.get("share_of_measured_copy"), "copy"), (r.get("share_of_stated_peak"), "stated")]
    return ", ".join(f"{share:.0%} {word}" for share, word in shares if share is not None)


def estimate_text(row: Row) -> str:
    e = row.estimate
    return f"~{e['us']:.1f} ({e['model']})" if e else ""


def estimated_peers_text(row: Row) -> str:
    """What others make of the operator under the same model; never beside a time."""
    peers = (row.estimate or {}).get("peers") or []
    return "; ".join(f"{p['ratio']:.2f}x {p['name']} (~{p['us']:.1f})" if p.get("ratio") else f"{p['name']}: {p.get('error')}"
                     for p in peers)  # fmt: skip


COLUMNS: tuple[Column, ...] = (
    ("operator", lambda r: r.operator),
    ("target", lambda r: r.target),
    ("shape", case_text),
    ("dtype", lambda r: r.dtype or ""),
    ("evidence", evidence_text),
    ("error/bound", error_text),
    ("resources", resources_text),
    ("occupancy", occupancy_text),
    ("estimate us", estimate_text),
    ("estimated against", estimated_peers_text),
    ("time us", time_text),
    ("of peak", roofline_text),
    ("against", peers_text),
)


KEYS = ("operator", "target", "shape", "dtype", "evidence")
"""Columns that say which row it is."""


def text_table(rows: Sequence[Row], origins: Sequence[str] = ()) -> str:
    """The table, leaving out columns that are empty in every row, then each error once.

    ``origins`` says of each row where it comes from, for rows of several machines.
    """
    if not rows:
        return "no rows"
    columns = [(name, [of(r) for r in rows]) for name, of in COLUMNS]
    columns.append(("from", list(origins) or [""] * len(rows)))
    shown = [(name, cells) for name, cells in columns if any(cells)]
    keys = sum(name in KEYS for name, _ in shown)
    lines = [[name for name, _ in shown], *([cells[i] for _, cells in shown] for i in range(len(rows)))]
    return "\n".join([table(lines, keys=keys), *map(fit, notes(rows))])


def notes(rows: Sequence[Row]) -> list[str]:
    """Every error with the rows it ended; those that share one are counted, not repeated."""
    errors: dict[tuple[str, str, str], list[Row]] = {}
    for r in rows:
        if r.error is not None:
            key = (r.error["kind"], r.error["message"], r.error.get("hint", ""))
            errors.setdefault(key, []).append(r)
    lines: list[str] = []
    for (kind, message, hint), hit in errors.items():
        first = hit[0]
        more = f" and {len(hit) - 1} more row{'s' if len(hit) > 2 else ''}" if len(hit) > 1 else ""
        lines.append(f"\n{first.operator} on {first.target}, {case_text(first)} {first.dtype}{more}: {kind}")
        lines += ["  " + line for line in message.splitlines()]
        if hint:
            lines.append(f"  hint: {hint}")
    return lines


def levels(rows: Sequence[Row]) -> str:
    """How many rows reached which evidence: ``2 timed, 1 simulated``."""
    found: dict[str, int] = {}
    for r in rows:
        name = "refused by rule" if r.refused else "wrong" if r.correct is False else f"{r.evidence or 'failed'}{_part(r)}"
        found[name] = found.get(name, 0) + 1
    return ", ".join(f"{n} {name}" for name, n in found.items())


def summary(rows: Sequence[Row], goal: str) -> str:
    """One line: how many rows reached what was asked, and at which evidence."""
    reached = sum(success(r, goal) for r in rows)
    return f"{reached} of {len(rows)} rows {goal}: {levels(rows)}" if rows else "no rows"
