"""How fast a suite's tasks are beside PyTorch: fast_p as the suites define it, and the slowest.

fast_p is the share of all tasks that are correct and more than p times as fast as the peer.  A task's speed is the ratio of
medians, theirs over ours, and of several samples their geometric mean; against the better of both it is the smaller one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portakern.suite.results import TaskRow, by_task

P = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0, 4.0)
BEST = "better of both"
AGAINST = ("torch.eager", "torch.compile", BEST)
SLOWEST = 10


@dataclass(frozen=True)
class Ratio:
    """How many times as long as ours a peer takes, with its interval; ``peer`` is whose it is."""

    value: float
    low: float
    high: float
    peer: str

    @property
    def straddles(self) -> bool:
        """Whether the interval leaves open who is faster."""
        return self.low <= 1 <= self.high

    def to_dict(self) -> dict[str, Any]:
        return {"ratio": self.value, "ci_low": self.low, "ci_high": self.high, "peer": self.peer}


@dataclass(frozen=True)
class Speed:
    """A task on a target: whether it is correct, and its ratio to each of :data:`AGAINST` that was timed."""

    task: str
    level: str
    correct: bool
    ratios: Mapping[str, Ratio]
    median_us: float | None
    launches: int | None
    peer_launches: int | None


def speeds(rows: Sequence[TaskRow], target: str) -> list[Speed]:
    return [_speed(samples) for (_, of), samples in by_task(rows) if of == target]


def summary(found: Sequence[Speed]) -> dict[str, Any] | None:
    """Figures over tasks on one target, and by level; ``None`` where none of them was timed."""
    if not any(s.ratios for s in found):
        return None
    levels = list(dict.fromkeys(s.level for s in found))
    return {
        "timed": sum(bool(s.ratios) for s in found),
        "against": {peer: _against(found, peer) for peer in AGAINST},
        "levels": {level: {peer: _against([s for s in found if s.level == level], peer) for peer in AGAINST}
                   for level in levels} if len(levels) > 1 else {},
        "slowest": [{"task": s.task, **s.ratios[BEST].to_dict(), "median_us": s.median_us, "launches": s.launches,
                     "peer_launches": s.peer_launches} for s in slowest(found)],
    }  # fmt: skip


def slowest(found: Sequence[Speed], count: int = SLOWEST) -> list[Speed]:
    """Those that are slower than the better peer, the slowest first."""
    slower = [s for s in found if s.correct and BEST in s.ratios and s.ratios[BEST].value < 1]
    return sorted(slower, key=lambda s: s.ratios[BEST].value)[:count]


def text(said: Mapping[str, Any]) -> list[str]:
    """What :func:`summary` gives as lines."""
    heads = ["", *(f"fast_{p:g}" for p in P), "geomean", "of", "open"]
    table = [heads]
    parts = {"": said["against"], **said["levels"]}
    for level, by_peer in parts.items():
        table += [[f"{level} {peer}".strip(), *(f"{v:.2f}" for v in f["fast_p"].values()),
                   f"{f['geomean']:.2f}" if f["geomean"] else "-", str(f["timed"]), str(f["open"])]
                  for peer, f in by_peer.items()]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
             for row in table]  # fmt: skip
    if said["slowest"]:
        lines.append("slowest:")
        lines += [_slow(s) for s in said["slowest"]]
    return lines


def _slow(s: Mapping[str, Any]) -> str:
    launches = ", ".join(f"{n} {of}" for n, of in ((s["launches"], "launches"), (s["peer_launches"], "of torch.compile"))
                         if n is not None)  # fmt: skip
    return (f"  {s['task']}: {s['ratio']:.2f}x [{s['ci_low']:.2f}, {s['ci_high']:.2f}] {s['peer']}, {s['median_us']:.4g} us"
            f"{f', {launches}' if launches else ''}")  # fmt: skip


def _against(found: Sequence[Speed], peer: str) -> dict[str, Any]:
    ratios = [s.ratios[peer] for s in found if s.correct and peer in s.ratios]
    correct = sum(s.correct for s in found)
    shares = {f"{p:g}": (sum(r.value > p for r in ratios) if p else correct) / len(found) if found else 0.0 for p in P}
    return {"fast_p": shares, "geomean": geomean(r.value for r in ratios), "timed": len(ratios),
            "open": sum(r.straddles for r in ratios)}  # fmt: skip


def geomean(values: Iterable[float]) -> float | None:
    logs = [math.log(v) for v in values if v > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _speed(samples: Sequence[TaskRow]) -> Speed:
    each = [_ratios(s.time or {}) for s in samples]
    ratios = {peer: _mean([r[peer] for r in each]) for peer in AGAINST if all(peer in r for r in each)}
    times = [s.time["median_us"] for s in samples if s.time]
    first = samples[0]
    return Speed(first.task, first.level, all(s.correct for s in samples), ratios, geomean(times),
                 _most(s.launches for s in samples), _most(s.peer_launches for s in samples))  # fmt: skip


def _ratios(time: Mapping[str, Any]) -> dict[str, Ratio]:
    timed = [p for p in time.get("peers", ()) if p.get("ratio")]
    found = {p["name"]: Ratio(p["ratio"], p["ci_low"], p["ci_high"], p["name"]) for p in timed}
    return found | ({BEST: min(found.values(), key=lambda r: r.value)} if found else {})


def _mean(ratios: Sequence[Ratio]) -> Ratio:
    value, low, high = (geomean(getattr(r, part) for r in ratios) or 0.0 for part in ("value", "low", "high"))
    return Ratio(value, low, high, " and ".join(sorted({r.peer for r in ratios})))


def _most(counts: Iterable[int | None]) -> int | None:
    return max((c for c in counts if c is not None), default=None)
