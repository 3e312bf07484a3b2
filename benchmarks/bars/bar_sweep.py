"""Grids of cases on one GPU: each built, checked and timed by itself, written at once, and gone on with where a run ended."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import bar_verdicts
from bar_cases import Case
from bar_run import PARTS_ALONE, CaseRun, Place, told

AHEAD = 24
"""Cases that are compiled, and whose expected values are computed, ahead of the one that is timed."""

GOALS = {"cuda": (1.00, 0.90), "triton": (0.95, 0.80)}
"""Of a language on each grid: the geometric mean of the ratios, and the lowest of them."""

Build = Callable[[Case, str], str]
Entry = dict[str, Any]


def earlier(out: Path) -> list[Entry]:
    """What a file of an earlier run has; a line that was cut by its end is not an entry."""
    found = []
    for line in out.read_text().splitlines() if out.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


class Sweep:
    """Cases in their order, a few of them ahead in other processes."""

    def __init__(self, place: Place, targets: Sequence[str], pool: Executor, build: Build) -> None:
        self.place, self.targets, self.pool, self.build = place, targets, pool, build

    def run(self, cases: Iterable[Case], until: float) -> Iterator[Entry]:
        """An entry for each case that was begun before ``until`` (of ``time.monotonic``)."""
        waiting = deque(cases)
        ready: deque[tuple[Case, dict[str, Future[str]]]] = deque()
        while (waiting or ready) and time.monotonic() < until:
            while waiting and len(ready) < AHEAD:
                case = waiting.popleft()
                ready.append((case, {t: self.pool.submit(self.build, case, t) for t in self.targets}))
            case, built = ready.popleft()
            yield self._entry(case, built)

    def _entry(self, case: Case, built: dict[str, Future[str]]) -> Entry:
        """Whatever happens: one that breaks must not cost the others."""
        begun = time.monotonic()
        run = None
        try:
            run = CaseRun(case, self.place, self.targets)
            run.ask_oracle(self.pool)
            for f in built.values():
                f.result()
            entry = run.run(built)
        except Exception as error:
            entry = {"case": case.name, "rows": [{"target": t, "error": told(error), "bar": ""} for t in self.targets]}
        finally:
            if run is not None:
                run.sets, run.arrays = [], []
            self._free()
        for row in entry["rows"]:
            row.setdefault("met", False)
            row.setdefault("by", "")
        return entry | {"grid": case.operator, "seconds": round(time.monotonic() - begun, 1)}

    def _free(self) -> None:
        if self.place.torch_device != "cpu":
            import torch

            torch.cuda.empty_cache()


def sweep(found: Iterable[Entry], out: Path) -> list[Entry]:
    """Prints and writes each entry when it is there."""
    entries = []
    with out.open("a") as file:
        for entry in found:
            entries.append(entry)
            file.write(json.dumps(entry, default=str) + "\n")
            file.flush()
            for row in entry["rows"]:
                print(bar_verdicts.line(entry["case"], row), flush=True)
            if why := entry.get("peer_notes", {}).get(PARTS_ALONE):
                print(f"    {PARTS_ALONE}: {why}", flush=True)
            for name, why in entry.get("lost", {}).items():
                print(f"    {name} was not timed: {why}", flush=True)
    return entries


def summary(entries: Sequence[Entry]) -> str:
    """A line for each language: how many cases, their geometric mean, the slowest ones."""
    lines = []
    rows = [(e["case"], r) for e in entries for r in e["rows"]]
    for target in dict.fromkeys(r["target"] for _, r in rows):
        mine = [(name, r) for name, r in rows if r["target"] == target]
        timed = sorted(((r["ratio"], name) for name, r in mine if not r["error"] and "ratio" in r))
        failed = [f"{name}: {r['error']}" for name, r in mine if r["error"]]
        if timed:
            mean = math.exp(sum(math.log(x) for x, _ in timed) / len(timed))
            goal, least = GOALS.get(target.partition(":")[0], (1.0, 0.9))
            low = [f"{name} {x:.2f}" for x, name in timed if x < least]
            lines.append(f"{target}: {len(timed)} of {len(mine)} timed beside a peer, geometric mean {mean:.3f} "
                         f"(asked {goal:.2f}), {len(low)} under {least:.2f}{': ' if low else ''}{', '.join(low)}")  # fmt: skip
        lines += [f"{target}: failed: {f}" for f in failed]
    return "\n".join(lines)
