"""The measured table as Markdown, from the JSON that benchmarks/nvidia.py writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MISSED = " ▾"
"""Behind a ratio or share that misses its bar."""


def markdown(result: Mapping[str, Any]) -> str:
    """One line per case: the faster peer, then each target's time, ratio and what it reaches; missed bars are marked."""
    targets = list(result["targets"])
    heads = [f"{t} us | × | reaches" for t in targets]
    lines = [f"| case | PyTorch us | by | {' | '.join(heads)} |", "|---|--:|---|" + "--:|--:|--:|" * len(targets)]
    for entry in result["cases"]:
        rows = {r["target"]: r for r in entry["rows"]}
        peer = next((r for r in rows.values() if "peer_us" in r), {})
        cells = [_cells(rows[t]) for t in targets]
        lines.append(f"| {entry['case']} | {_us(peer.get('peer_us'))} | {peer.get('peer', '')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


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
