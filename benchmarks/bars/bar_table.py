"""The measured table as Markdown, from the JSON that benchmarks/nvidia.py writes, and its place in a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portakern.registry import registry

MISSED = " ▾"
"""Behind a ratio or share that misses its bar."""

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
"""Around what a page has from a run."""


def into(page: str, text: str) -> str:
    """The page with ``text`` between its marks.  Raises :class:`ValueError` where it has not one of each, in order."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"a table goes between a line {BEGIN} and a later line {END}, and each is wanted once")
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{text.strip()}\n{END}{rest.split(END)[1]}"


def section(result: Mapping[str, Any]) -> str:
    """The table, and below it how many bars are met and under which conditions."""
    asked = [r for e in result["cases"] for r in e["rows"] if r.get("met") is not None]
    return f"{markdown(result)}\n{sum(r['met'] for r in asked)} of {len(asked)} bars are met. {conditions(result)}"


def markdown(result: Mapping[str, Any]) -> str:
    """One line per case: the faster peer, then each target's time, ratio and what it reaches; missed bars are marked."""
    targets = list(result["targets"])
    heads = [f"{registry().language(t.partition(':')[0]).title} us | × | reaches" for t in targets]
    lines = [f"| case | PyTorch us | by | {' | '.join(heads)} |", "|---|--:|---|" + "--:|--:|--:|" * len(targets)]
    for entry in result["cases"]:
        rows = {r["target"]: r for r in entry["rows"]}
        peer = next((r for r in rows.values() if "peer_us" in r), {})
        cells = [_cells(rows[t]) for t in targets]
        lines.append(f"| {entry['case']} | {_us(peer.get('peer_us'))} | {_by(peer)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _by(row: Mapping[str, Any]) -> str:
    """``compile``, ``eager``, ``cuDNN``: whose time the peer's is, in one word."""
    return row.get("peer", "").removeprefix("torch.").removeprefix("SDPA ")


def _cells(row: Mapping[str, Any]) -> str:
    if "us" not in row or row["error"]:
        return f"{row['error'][:40]}{MISSED} | | "
    missed = MISSED if row["met"] is False else ""
    ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
    reached = f"{row['share']:.0%} of {row['roof'].split()[0]}" if row.get("share") else reaches(row)
    return f"{_us(row['us'])} | {ratio}{missed} | {reached}"


def reaches(row: Mapping[str, Any]) -> str:
    """Bandwidth for what mostly moves, arithmetic for what mostly computes."""
    return f"{row['tflops']:.0f} TFLOP/s" if row["tflops"] > 10 else f"{row['gbs'] / 1000:.2f} TB/s"


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def conditions(result: Mapping[str, Any]) -> str:
    """On what it was measured, in one paragraph."""
    device, env = result["device"], result["environment"]
    libraries = env.get("libraries") or {}
    versions = ", ".join(f"{n} {libraries[n]}" for n in ("torch", "triton") if n in libraries)
    clocks = [c for e in result["cases"] for side in ("before", "after") if (c := (e.get("clocks") or {}).get(side) or {})]
    mhz = sorted(c["clock_mhz"] for c in clocks if c.get("clock_mhz"))
    throttled = sum(bool(c.get("throttled")) for c in clocks)
    roofs = ", ".join(f"{n} {v / 1e12:.2f} TB/s" for n, v in result["bandwidths"].items())
    where = f"{device['name']}, CUDA {device.get('version')}, {versions}"
    what = f"{where}, commit {str(env.get('commit'))[:10]}, {result['taken'][:10]}"
    clocked = f"; clocks between cases {mhz[0]}-{mhz[-1]} MHz, {throttled} of {len(clocks)} readings throttled" if mhz else ""
    return f"{what}; measured in the same run: {roofs}{clocked}."
