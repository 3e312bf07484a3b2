"""What came of tuning, in lines for a terminal."""

from __future__ import annotations

from portakern.study.table import case_text
from portakern.tuning.tuner import Tuning

SHOWN = 8


def lines(t: Tuning) -> list[str]:
    """The result first, then what it rests on."""
    row = t.work.row
    found = [f"{row.operator} {case_text(row)} {row.dtype} for {t.work.target}"]
    unit = "us" if t.by == "time" else "us estimated"
    if t.interrupted:
        found.append("  interrupted: --resume goes on; the best so far has not been checked and is not kept")
    found.append(f"  best     {_us(t.best_us)} {unit}  {t.best}")
    if t.default != t.best:
        found.append(f"  default  {_us(t.default_us)} {unit}  {t.default}")
    if t.ratio is not None:
        low, value, high = t.ratio
        found.append(f"  {value:.3f} times as fast as the default ({low:.3f} to {high:.3f}): {t.verdict}")
    for peer in t.peers:
        longer = f"{peer['us']:7.2f} us estimated, {peer['ratio']:.2f} times as long" if peer.get("ratio") else peer["error"]
        found.append(f"  {peer['name']:8} {longer}")
    kept = "kept: build, bench and check use it for this bucket of shapes"
    found.append(f"  {kept if t.stored else t.note or 'not kept'}")
    taken_over = f", {t.resumed} known from an earlier run" if t.resumed else ""
    found.append(f"  {t.space} schedules in the space ({t.proposer}); {t.proposed} proposed, {t.compiled} compiled"
                 f"{taken_over}, {t.samples} samples, {t.seconds:.1f} s")
    found += [f"  {count:5} dropped: {reason}" for reason, count in t.dropped.most_common()]
    timed = sorted((x for x in t.tried if x.relative is not None), key=lambda x: x.relative or 0.0)
    found += [f"  {x.relative:7.3f} of the default's time  {x.schedule}" for x in timed[:SHOWN] if x.relative is not None]
    return found


def _us(us: float | None) -> str:
    return "      ?" if us is None else f"{us:7.2f}"
