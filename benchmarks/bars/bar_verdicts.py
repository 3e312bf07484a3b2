"""Whether bars are met, and a row of benchmarks/nvidia.py as a line of text."""

from __future__ import annotations

from typing import Any

from bar_cases import Bar

HEAD = (f"{'case':36} {'target':12} {'ours us':>9} {'peer us':>9} {'peer':16} {'ratio':>6} {'interval':>15} {'verdict':9} "
        f"{'TB/s':>5} {'TFLOP/s':>7} {'of roof':>7}  {'bar':31} met")  # fmt: skip


def judged(bar: Bar, row: dict[str, Any]) -> tuple[bool | None, str]:
    """(met, by how much); ``None`` where nothing is asked.  What could not be measured is not met."""
    if bar == Bar():
        return None, ""
    met, words = True, []
    if bar.not_slower:
        met &= row.get("verdict") in ("FASTER", "SAME", "UNDECIDED")
        words.append(row.get("verdict", "no peer"))
    for asked, have in ((bar.ratio, row.get("ratio")), (bar.share, row.get("share"))):
        if asked is not None:
            met &= have is not None and have >= asked
            words.append("not measured" if have is None else f"{100 * (have / asked - 1):+.1f}%")
    return bool(met and not row["error"]), ", ".join(words)


def line(case: str, row: dict[str, Any]) -> str:
    if "us" not in row:
        return f"{case:36} {row['target']:12} {row['error']}  -> bar: {row['bar']}, not met"
    peer = f"{'-':>9} {'':16} {'':6} {'':15} {'':9}"
    if "peer" in row:
        low, high = row["ratio_ci"]
        peer = f"{row['peer_us']:9.2f} {row['peer'][:16]:16} {row['ratio']:6.3f} {low:7.3f}-{high:.3f}   {row['verdict']:9}"
    share = f"{100 * row['share']:6.1f}%" if "share" in row else f"{'-':>7}"
    met = {True: "yes", False: "NO", None: "-"}[row["met"]]
    error = f"  {row['error']}" if row["error"] else ""
    return (f"{case:36} {row['target']:12} {row['us']:9.2f} {peer} {row['gbs'] / 1e3:5.2f} {row['tflops']:7.1f} {share}  "
            f"{row['bar']:31} {met} {row['by']}{error}")  # fmt: skip
