"""How well default schedules of products and attention are chosen: cases of grids by every schedule near the listed ones.

    python benchmarks/choosing.py --targets cuda:h200,triton:h200 --part 1/4 --out c1      times them, into c1.jsonl
    python benchmarks/choosing.py --grid attention,layers --only 8192,paged --out c2       of attention, the same
    python benchmarks/choosing.py --report c1.jsonl c2.jsonl                               chosen against the best of its space

The space: what the backend lists, each with its sums (in attention its keys) in 1, 2, 4, .. parts as long as that gives units
more to do, and in Triton with and without programs that take several blocks.  Kernels are compiled in other processes, held
against the default's result, and timed in turns.  The report prints in how many cases the one chosen then is within 5% of the
best, the same of what this tree chooses, and how far the model of :mod:`portakern.emit.product_time` is off.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE / "bars"), *(p for p in sys.path if Path(p or ".").resolve() not in (HERE, HERE / "bars"))]

import argparse  # noqa: E402
import json  # noqa: E402
import multiprocessing  # noqa: E402
import os  # noqa: E402
import time  # noqa: E402
from collections.abc import Iterator, Sequence  # noqa: E402
from concurrent.futures import Future, ProcessPoolExecutor  # noqa: E402
from math import ceil, prod  # noqa: E402
from typing import Any  # noqa: E402

import bar_checks as checks  # noqa: E402
import bar_model  # noqa: E402
import bar_peers  # noqa: E402
from bar_cases import Case  # noqa: E402
from bar_grids import GRIDS, grid  # noqa: E402
from bar_place import place_of  # noqa: E402
from bar_run import Place, in_turns, told  # noqa: E402
from bar_sweep import earlier  # noqa: E402

import portakern as pk  # noqa: E402
from portakern.check.agreement import agreement  # noqa: E402
from portakern.ir.schedule import Nest, Schedule, Value  # noqa: E402
from portakern.registry import registry  # noqa: E402
from portakern.timing import Contender, ContenderError, Options, measure  # noqa: E402
from portakern.tuning.limits import refused  # noqa: E402
from portakern.tuning.tuner import nests_of  # noqa: E402

Asked = dict[str, Value]
MOST = {"contraction": 22, "attention": 32}
"""Schedules of a case that are tried, the listed ones first, by the family of its nest."""


def asked(s: Schedule) -> Asked:
    return {**dict(s.tiles), "stages": s.stages, "warps": s.warps, **dict(s.options)}


def nest_of(nests: Sequence[Nest]) -> Nest:
    return next(n for n in nests if n.family in MOST)


def space(nest: Nest, target: Any) -> list[Asked]:
    """The default (an empty request), then those around what is listed, without doubles."""
    device, language = target.device, registry().language(target.language)
    found: dict[str, Asked] = {}
    listed = language.schedules(nest, device)
    for s in (v for base in listed for v in (base, *_variants(base, nest, device))):
        if not refused(nest, s, device):
            found.setdefault(str(s), asked(s))
    return list(found.values())[: MOST[nest.family]]


def _variants(s: Schedule, nest: Nest, device: Any) -> Iterator[Schedule]:
    if nest.family == "attention":
        yield from _keys_in_parts(s, nest, device)
        return
    units = device.count("units", 128)
    (m,), (n,), (k,) = (nest.role(r) for r in "mnk")
    blocks = prod(ceil(a.extent / s.tile(a.name)) for a in (m, n))  # type: ignore[operator]
    steps = ceil(k.extent / s.tile(k.name))  # type: ignore[operator]
    plain = {name: v for name, v in s.options if name not in ("split_k", "programs")}
    yield Schedule(s.tiles, s.stages, s.warps, tuple(sorted(plain.items())))
    if "descriptors" in plain and blocks > units:
        yield Schedule(s.tiles, min(s.stages, 3), s.warps, tuple(sorted({**plain, "programs": units}.items())))
    for parts in (2, 3, 4, 6, 8, 12, 16, 24, 32, 64):
        if 0.4 * units <= blocks * parts <= 2 * units and steps // parts >= 2:
            yield Schedule(s.tiles, s.stages, s.warps, tuple(sorted({**plain, "split_k": parts}.items())))


def _keys_in_parts(s: Schedule, nest: Nest, device: Any) -> Iterator[Schedule]:
    units, (n,) = device.count("units", 128), nest.role("n")
    heads = prod(a.extent for a in nest.role("batch"))  # type: ignore[misc]
    steps = ceil(n.extent / s.tile(n.name))  # type: ignore[operator]
    plain = {name: v for name, v in s.options if name != "split_k"}
    for parts in (1, 2, 3, 4, 8, 16, 32, 64, 96):
        if parts == 1 or (0.7 * units <= heads * parts <= 10 * units and steps // parts >= 2):
            options = {**plain, "split_k": parts} if parts > 1 else plain
            yield Schedule(s.tiles, s.stages, s.warps, tuple(sorted(options.items())))


def build(case: Case, target: str, schedule: Asked | None) -> str:
    """Compiles into the cache; what went wrong, or ''.  Runs in a process of its own."""
    try:
        _ = pk.build(case.operator, target=target, dtype=case.dtype, schedule=schedule, **case.values).binary
    except Exception as error:
        return told(error)
    return ""


class Trial:
    """One case on one target."""

    def __init__(self, case: Case, target: str, pool: ProcessPoolExecutor) -> None:
        self.case, self.target = case, target
        self.work = bar_peers.work_of(case, target)
        self.nest = nest_of(nests_of(self.work))
        self.asked: list[Asked | None] = [None, *space(self.nest, registry().target(target))]
        self.built: list[Future[str]] = [pool.submit(build, case, target, a) for a in self.asked]

    def run(self, place: Place) -> dict[str, Any]:
        program = self.work.program
        inputs = checks.make_inputs(self.case, program, place.torch_device, 0)
        first, contenders, schedules, lost = None, [], {}, {}
        for number, (schedule, built) in enumerate(zip(self.asked, self.built, strict=True)):
            try:
                if message := built.result():
                    raise RuntimeError(message)
                kernel = pk.build(self.case.operator, target=self.target, dtype=self.case.dtype, schedule=schedule,
                                  **self.case.values)  # fmt: skip
                out = checks.make_outputs(program, place.torch_device)
                (held,) = (g.array for g in out.values())
                call = kernel.prepare(*(g.array for g in inputs.values()), out=held)
                call()
                place.wait()
                if first is None:
                    first = held
                elif message := agreement(first, held, (self.case.dtype,)).message:
                    raise RuntimeError(f"computes something else: {message}")
            except Exception as error:
                lost[str(schedule)] = told(error)
                continue
            name = f"{number}"
            schedules[name] = [str(s) for s in kernel._source.schedule]
            contenders.append(Contender(name, in_turns([call]), call.stream))
        times = _times(place, contenders, lost)
        return {"case": self.case.name, "values": dict(self.case.values), "dtype": self.case.dtype, "target": self.target,
                "times": times, "schedules": schedules, "lost": lost}  # fmt: skip


def _times(place: Place, contenders: list[Contender], lost: dict[str, str]) -> dict[str, float]:
    while contenders:
        try:
            return {t.name: t.median_us for t in measure(place.device, contenders, place.options).timings}
        except ContenderError as error:
            lost[error.contender] = told(error)
            contenders = [c for c in contenders if c.name != error.contender]
    return {}


def timed(given: argparse.Namespace) -> None:
    begun = time.monotonic()
    targets, out = given.targets.split(","), given.out.with_name(given.out.name + ".jsonl")
    place = place_of(targets, Options(budget_s=0.04, min_samples=12, max_samples=60, width=0.01), ())
    done = {(e["case"], e["target"]) for e in earlier(out)}
    words = [w for w in given.only.split(",") if w]
    cases = [c for c in grid(given.grid, given.part) if not words or any(w in c.name for w in words)]
    left = [(c, t) for c in cases for t in targets if (c.name, t) not in done]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.jobs, context) as pool, out.open("a") as file:
        trials: list[Trial] = []
        while (left or trials) and time.monotonic() - begun < given.limit:
            while left and len(trials) < 6:
                trials.append(Trial(*left.pop(0), pool))
            trial = trials.pop(0)
            try:
                entry = trial.run(place)
            except Exception as error:
                entry = {"case": trial.case.name, "target": trial.target, "error": told(error)}
            file.write(json.dumps(entry, default=str) + "\n")
            file.flush()
            print(line(entry), flush=True)
        pool.shutdown(cancel_futures=True)


def line(entry: dict[str, Any]) -> str:
    times = entry.get("times")
    if not times or "0" not in times:
        return f"{entry['case']:32} {entry['target']:14} {entry.get('error') or entry.get('lost')}"
    best = min(times, key=times.get)  # type: ignore[arg-type]
    return (f"{entry['case']:32} {entry['target']:14} {times['0']:8.1f} us, best of {len(times)} {times[best]:8.1f} us "
            f"{times[best] / times['0']:5.2f}  {entry['schedules'][best]}")  # fmt: skip


def report(files: Sequence[Path]) -> None:
    entries = [e for f in files for e in earlier(f)]
    for entry in sorted(entries, key=lambda e: (e["target"], e["case"])):
        print(line(entry))
    for target in dict.fromkeys(e["target"] for e in entries):
        mine = [e for e in entries if e["target"] == target and "0" in e.get("times", {})]
        near = sum(min(e["times"].values()) >= 0.95 * e["times"]["0"] for e in mine)
        print(f"{target}: chosen within 5% of the best of its space in {near} of {len(mine)} cases")
        print(f"{target}: what is chosen now was timed in {_now(mine)}")
        if off := [x for e in mine if e["case"].startswith("matmul") for x in bar_model.errors(e)]:
            print(f"{target}: the model is off by {sum(off) / len(off):.1%} in the mean of {len(off)} times")


def _now(entries: Sequence[dict[str, Any]]) -> str:
    """How the schedules that this tree chooses did among those that were timed."""
    cases, near, timed = {c.name: c for names in GRIDS.values() for c in names()}, 0, 0
    for e in entries:
        nest = nest_of(nests_of(bar_peers.work_of(cases[e["case"]], e["target"])))
        target = registry().target(e["target"])
        us = bar_model.time_of(e, registry().language(target.language).schedules(nest, target.device)[0])
        timed += us is not None
        near += us is not None and us <= min(e["times"].values()) / 0.95
    return f"{timed} of {len(entries)} cases, and within 5% of the best in {near} of these"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="cuda:h200,triton:h200")
    parser.add_argument("--grid", default="matmul", help="as for benchmarks/nvidia.py, of products and attention")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--only", default="", help="cases whose name contains one of these words, separated by commas")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--limit", type=float, default=540, help="seconds after which no further case is begun")
    parser.add_argument("--out", type=Path, default=Path("choosing"))
    parser.add_argument("--report", type=Path, nargs="+", metavar="FILE.jsonl")
    given = parser.parse_args()
    if given.report:
        report(given.report)
    else:
        timed(given)


if __name__ == "__main__":
    main()
