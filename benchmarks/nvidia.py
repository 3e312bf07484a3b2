"""The table of bars on one GPU: every case beside PyTorch, eager and compiled, in one process and in turns.

    python benchmarks/nvidia.py                                  cuda:h200 and triton:h200, all cases, within ten minutes
    python benchmarks/nvidia.py --only matmul,gemv --budget 2    some of them, with more samples
    python benchmarks/nvidia.py --targets cpp:cpu --tiny         a dry run of this file without a GPU
    python benchmarks/nvidia.py --table nvidia.json --into README.md     puts the table of an earlier run into the README
    python benchmarks/nvidia.py --grid matmul,rows --part 1/4 --out g1   every fourth of 160 shapes nobody chose, into g1.jsonl;
                                                                         the same command again goes on where it ended
    python benchmarks/nvidia.py --summary g1.jsonl g2.jsonl              what grids came to

Kernels are compiled in parallel first.  Each is checked at the size that is timed (benchmarks/bars/bar_checks.py), then
timed cold, in random blocks with its peers and with a copy or read of the same bytes.  The peer is the faster one of eager
and torch.compile; for attention eager is each of PyTorch's backends alone.  Prints a table and writes JSON and a roofline
(SVG).  Exit status 1 where a kernel failed or is wrong; a bar that is missed is no failure of this program.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: `import nvidia`, by which other packages look for CUDA's libraries, would find this file.
sys.path[:] = [str(HERE / "bars"), *(p for p in sys.path if Path(p or ".").resolve() not in (HERE, HERE / "bars"))]

import argparse  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import multiprocessing  # noqa: E402
import os  # noqa: E402
import time  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from concurrent.futures import Future, ProcessPoolExecutor  # noqa: E402
from dataclasses import replace  # noqa: E402
from typing import Any  # noqa: E402

import bar_checks as checks  # noqa: E402
import bar_peers  # noqa: E402
import bar_verdicts  # noqa: E402
from bar_cases import Bar, Case, selected  # noqa: E402
from bar_grids import GRIDS, grid  # noqa: E402
from bar_place import place_of  # noqa: E402
from bar_plot import Point, Roof, svg  # noqa: E402
from bar_run import CaseRun, Place, told  # noqa: E402
from bar_sweep import Sweep, earlier, summary, sweep  # noqa: E402
from bar_table import into, section  # noqa: E402

import portakern as pk  # noqa: E402
from portakern.registry import registry  # noqa: E402
from portakern.study.provenance import environment, now  # noqa: E402
from portakern.study.timing import plain  # noqa: E402
from portakern.timing import Options, measure  # noqa: E402

# ---- building, in other processes


def prebuild(case: Case, target: str) -> str:
    """Compiles into the cache; what went wrong, or ''.  Runs in a process of its own."""
    try:
        _ = pk.build(case.operator, target=target, dtype=case.dtype, **case.values).binary
    except Exception as error:
        return told(error)
    return ""


# ---- the whole table


def plot(entries: Sequence[dict[str, Any]], bandwidths: dict[str, float], peaks: dict[str, float], device: str) -> str:
    points = []
    for e in entries:
        if not e.get("flops") or not e.get("bytes"):
            continue
        intensity = e["flops"] / e["bytes"]
        for row in e["rows"]:
            if "us" in row:
                kind = row["target"].partition(":")[0]
                points.append(Point(intensity, row["tflops"] * 1e12, kind, f"{e['case']} {row['target']}"))
        best = min((r["peer_us"] for r in e["rows"] if "peer_us" in r), default=None)
        if best:
            points.append(Point(intensity, e["flops"] / best * 1e6, "peer", f"{e['case']} peer"))
    roofs = [Roof(f"measured {n}: {v / 1e12:.2f} TB/s", slope=v) for n, v in bandwidths.items()]
    roofs += [Roof(f"{n}: {v / 1e12:.0f} TFLOP/s", level=v) for n, v in peaks.items()]
    return svg(f"Roofline on {device}, cold caches, medians", points, roofs)


def bandwidths_of(place: Place) -> dict[str, float]:
    """Bytes per second of a copy of 1 GiB each way and a read of 1 GiB, the faster form of each."""
    found = {}
    big = 1 << 30 if place.device.driver == "cuda" else 1 << 22
    for kind, moved in (("copy", 2 * big), ("read", big)):
        contenders = place.roofs.contenders(kind, moved)
        if contenders:
            m = measure(place.device, contenders, replace(place.options, budget_s=0.3))
            found[kind] = moved / min(t.median_us for t in m.timings) * 1e6
    place.roofs.free()
    return found


def launch(cases: Sequence[Case], targets: Sequence[str], place: Place, times: int) -> None:
    """For a profiler that waits for the start (``ncu --profile-from-start off``); the first call is not profiled."""
    import torch

    for case in cases:
        program = bar_peers.work_of(case, targets[0]).program
        inputs = checks.make_inputs(case, program, place.torch_device, 0)
        for target in targets:
            kernel = pk.build(case.operator, target=target, dtype=case.dtype, **case.values)
            call = kernel.prepare(*(g.array for g in inputs.values()))
            call()
            place.wait()
            if place.device.driver == "cuda":
                torch.cuda.profiler.start()
            for _ in range(times):
                call()
                place.wait()
            if place.device.driver == "cuda":
                torch.cuda.profiler.stop()
            print(f"{case.name} {target}: launched {times} times", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name contains one of these words, separated by commas")
    parser.add_argument("--targets", default="cuda:h200,triton:h200")
    parser.add_argument("--against", default=f"{bar_peers.EAGER},{bar_peers.COMPILED}")
    parser.add_argument("--budget", type=float, default=0.8, help="seconds of sampling per contender")
    parser.add_argument("--limit", type=float, default=570, help="seconds after which no further case is begun")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: a dry run")
    parser.add_argument(
        "--launch",
        type=int,
        default=0,
        metavar="N",
        help="times nothing: launches each kernel N times between cuProfilerStart and Stop",
    )
    parser.add_argument("--grid", default="", metavar="NAME,..", help=f"shapes nobody chose instead: {', '.join(GRIDS)}")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="of a grid: every N-th case, from the I-th")
    parser.add_argument("--summary", type=Path, nargs="+", metavar="FILE.jsonl", help="times nothing: what grids came to")
    parser.add_argument("--table", type=Path, help="times nothing: prints a JSON of an earlier run as Markdown")
    parser.add_argument("--into", type=Path, metavar="FILE.md", help="with --table: replaces the table in this file instead")
    parser.add_argument("--out", type=Path, default=Path("nvidia"), help="OUT.json and OUT.svg are written")
    return parser.parse_args()


def table(earlier: Path, page: Path | None) -> int:
    text = section(json.loads(earlier.read_text()))
    if page is None:
        print(text)
        return 0
    try:
        page.write_text(into(page.read_text(), text))
    except ValueError as error:
        print(f"{page}: {error}", file=sys.stderr)
        return 2
    return 0


def swept(given: argparse.Namespace, cases: Sequence[Case], place: Place, targets: Sequence[str], until: float) -> int:
    """``--grid``: those cases that its file does not have yet."""
    out = given.out.with_name(given.out.name + ".jsonl")
    before = earlier(out)
    done = {e["case"] for e in before}
    left = [c for c in cases if c.name not in done]
    if before:
        print(f"{out} has {len(before)} cases; {len(left)} are left", flush=True)
    print(bar_verdicts.HEAD, flush=True)
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn")) as pool:
        entries = sweep(Sweep(place, targets, pool, prebuild).run(left, until), out)
        pool.shutdown(cancel_futures=True)
    print(f"\n{summary([*before, *entries])}")
    return 1 if any(r["error"] for e in entries for r in e["rows"]) else 0


def main() -> int:
    begun = time.monotonic()
    given = arguments()
    if given.table:
        return table(given.table, given.into)
    if given.summary:
        print(summary([e for file in given.summary for e in earlier(file)]))
        return 0
    os.environ.setdefault("OMP_NUM_THREADS", "2")  # for the processes that compile and those that compute expected values
    targets = given.targets.split(",")
    words = [w for w in given.only.split(",") if w]
    cases = selected(words)
    if given.grid:
        cases = [c for c in grid(given.grid, given.part) if not words or any(w in c.name for w in words)]
    elif given.tiny:
        cases = [replace(c, name=f"tiny {c.name}", values=c.tiny, flops=None) for c in cases]
    options = Options(budget_s=given.budget, min_samples=40, max_samples=500, width=0.003)
    place = place_of(targets, options, [a for a in given.against.split(",") if a])
    if given.launch:
        launch(cases, targets, place, given.launch)
        return 0
    if given.grid:
        return swept(given, cases, place, targets, begun + given.limit)
    facts = place.device.facts
    entries: list[dict[str, Any]] = []
    # The JSON has no machine names and no paths.
    result: dict[str, Any] = {"taken": now(), "environment": environment(), "device": plain(facts), "options": plain(options),
                              "targets": targets, "tiny": given.tiny, "cases": entries}  # fmt: skip
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn")) as pool:
        built = {(c.name, t): pool.submit(prebuild, c, t) for c in cases for t in targets}
        runs = [CaseRun(c, place, targets) for c in cases]
        for run in sorted(runs, key=lambda r: r.case.operator != "cross_entropy"):  # its mean over everything takes longest
            run.ask_oracle(pool)
        for f in built.values():  # nothing else may use the cores while peers choose their kernels by time
            f.result()
        result["built_s"] = round(time.monotonic() - begun, 1)
        print(f"{facts.name}, driver {facts.version}, commit {environment().get('commit')}; {len(built)} kernels compiled in "
              f"{result['built_s']} s", flush=True)  # fmt: skip
        result["bandwidths"] = bandwidths_of(place)
        print(", ".join(f"{n} {v / 1e12:.3f} TB/s" for n, v in result["bandwidths"].items()), "\n", flush=True)
        print(bar_verdicts.HEAD, flush=True)
        for run in runs:
            if time.monotonic() - begun > given.limit:
                entry: dict[str, Any] = {"case": run.case.name, "rows": [_late(run.case, t) for t in targets]}
            else:
                entry = _tried(run, {t: built[run.case.name, t] for t in targets})
            entries.append(entry)
            for row in entry["rows"]:
                print(bar_verdicts.line(run.case.name, row), flush=True)
            for name, why in entry.get("lost", {}).items():
                print(f"    {name} was not timed: {why}", flush=True)
            write(given.out, result, facts.name)
    seconds = round(time.monotonic() - begun)
    rows = [r for e in entries for r in e["rows"]]
    asked = [r for r in rows if r.get("met") is not None]
    failed = [r for r in rows if r["error"]]
    print(f"\n{sum(r['met'] for r in asked)} of {len(asked)} bars met, {len(failed)} rows failed; {seconds} s; "
          f"{given.out}.json, {given.out}.svg")  # fmt: skip
    return 1 if failed else 0


def _late(case: Case, target: str) -> dict[str, Any]:
    return {"target": target, "bar": str(case.bars.get(target.partition(":")[0], Bar())), "met": False, "by": "",
            "error": "not run: out of time (--limit)"}  # fmt: skip


def _tried(run: CaseRun, built: dict[str, Future[str]]) -> dict[str, Any]:
    """The case's entry, whatever happens: one that breaks must not cost the others."""
    begun = time.monotonic()
    try:
        entry = run.run(built)
    except Exception as error:
        entry = {"case": run.case.name, "rows": [{**_late(run.case, t), "error": told(error)} for t in run.targets]}
    for row in entry["rows"]:
        if row["error"] or "met" not in row:
            row["met"] = None if row["bar"] == str(Bar()) else False
            row.setdefault("by", "")
    run.sets, run.arrays = [], []
    return entry | {"seconds": round(time.monotonic() - begun, 1)}


def write(out: Path, result: dict[str, Any], device: str) -> None:
    peaks = {}
    product = registry().target(result["targets"][0]).device
    for name in ("peak_bf16", "peak_f32"):
        if figure := product.figures.get(name):
            peaks[f"stated {name}"] = figure.value
    text = json.dumps(finite(result), indent=1, default=str)
    out.with_name(out.name + ".json").write_text(text + "\n")
    out.with_name(out.name + ".svg").write_text(plot(result["cases"], result["bandwidths"], peaks, device))


def finite(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    sys.exit(main())
