"""The table of bars on one GPU: every case beside PyTorch, eager and compiled, in one process and in turns.

    python benchmarks/nvidia.py                                  cuda:h200 and triton:h200, all cases, within ten minutes
    python benchmarks/nvidia.py --only matmul,gemv --budget 2    some of them, with more samples
    python benchmarks/nvidia.py --targets cpp:cpu --tiny         a dry run of this file without a GPU

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
from collections.abc import Callable, Sequence  # noqa: E402
from concurrent.futures import Executor, Future, ProcessPoolExecutor  # noqa: E402
from dataclasses import dataclass, field, replace  # noqa: E402
from typing import Any  # noqa: E402

import bar_checks as checks  # noqa: E402
from bar_cases import Bar, Case, selected  # noqa: E402
from bar_plot import Point, Roof, svg  # noqa: E402
from bar_roofs import Roofs  # noqa: E402
from bar_table import conditions, markdown  # noqa: E402

import portakern as pk  # noqa: E402
from portakern.api import split  # noqa: E402
from portakern.check.agreement import agreement  # noqa: E402
from portakern.launch import device_of  # noqa: E402
from portakern.native import Device, open_device  # noqa: E402
from portakern.registry import registry  # noqa: E402
from portakern.spec.cost import cost  # noqa: E402
from portakern.spec.load import load_operator  # noqa: E402
from portakern.study.provenance import environment, now  # noqa: E402
from portakern.study.timing import plain  # noqa: E402
from portakern.study.work import Ask, works  # noqa: E402
from portakern.timing import Contender, ContenderError, Measurement, Options, measure  # noqa: E402
from portakern.timing import peers as peer_forms  # noqa: E402

SETS = 2
"""Sets of inputs that calls take in turns."""

COMPILED = "torch.compile"
SDPA = {"cuDNN": "CUDNN_ATTENTION", "Flash": "FLASH_ATTENTION", "memory-efficient": "EFFICIENT_ATTENTION"}


# ---- building, in other processes


def prebuild(case: Case, target: str) -> str:
    """Compiles into the cache; what went wrong, or ''.  Runs in a process of its own."""
    try:
        _ = pk.build(case.operator, target=target, dtype=case.dtype, **case.values).binary
    except Exception as error:
        return _line(error)
    return ""


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def work_of(case: Case, target: str) -> Any:
    op = load_operator(case.operator)
    dims, params = split(op, case.values)
    return works(Ask(op, dims, params), [registry().target(target)], [case.dtype])[0]


# ---- one case


@dataclass
class Ours:
    """One target's kernel, with its row of the table."""

    target: str
    row: dict[str, Any]
    calls: list[Any] = field(default_factory=list)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    first: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Place:
    """Where everything runs."""

    device: Device
    torch_device: str
    options: Options
    roofs: Roofs
    against: Sequence[str]

    def wait(self) -> None:
        self.device.synchronize(self.options.deadline_s)


class CaseRun:
    """Everything about one case: inputs, kernels, peers, check, times."""

    def __init__(self, case: Case, place: Place, targets: Sequence[str], seed: int = 0) -> None:
        self.case, self.place, self.targets, self.seed = case, place, targets, seed
        self.work = work_of(case, targets[0])
        self.program = self.work.program
        self.peer_notes: dict[str, Any] = {}
        self.lost: dict[str, str] = {}

    def ask_oracle(self, pool: Executor) -> None:
        inputs = checks.make_inputs(self.case, self.program, self.place.torch_device, self.seed)
        self.place.wait()
        self.wanted = checks.expect(self.program, inputs, pool)

    def run(self, built: dict[str, Future[str]]) -> dict[str, Any]:
        """The case's entry of the JSON, with one row per target."""
        self.sets = [checks.make_inputs(self.case, self.program, self.place.torch_device, self.seed + n) for n in range(SETS)]
        self.arrays = [[g.array for g in s.values()] for s in self.sets]
        self.place.wait()
        self.reference = checks.traced(self.program, self.sets[0])
        ours = [self._made(t, built[t]) for t in self.targets]
        self.reference = {}
        peers = self._peers(next((o for o in ours if o.calls), None))
        alive = [o for o in ours if o.calls]
        entry: dict[str, Any] = {"case": self.case.name, "rows": [o.row for o in ours], "peer_notes": self.peer_notes}
        if alive:
            entry |= self._timed(alive, peers)
            self._recheck(alive)
        entry["lost"] = self.lost
        return entry

    # -- ours

    def _made(self, target: str, built: Future[str]) -> Ours:
        """The kernel, prepared on every set and checked on the first; its row says why where that fails."""
        language = target.partition(":")[0]
        bar = self.case.bars.get(language, Bar())
        ours = Ours(target, {"target": target, "bar": str(bar), "error": ""})
        try:
            if message := built.result():
                raise RuntimeError(message)
            kernel = pk.build(self.case.operator, target=target, dtype=self.case.dtype, **self.case.values)
            ours.row |= {"schedule": [str(s) for s in kernel._source.schedule] if not isinstance(kernel._source.schedule, str)
                         else [kernel._source.schedule], "schedule_from": kernel.schedule_from}  # fmt: skip
            ours.calls = [self._prepared(kernel, arrays, ours) for arrays in self.arrays]
            found = checks.check(ours.calls[0], self.program, self.sets[0], ours.outputs[0], self.wanted, self.reference,
                                 self.place.wait)  # fmt: skip
            ours.row |= {"correct": not found.message, "max_error_ratio": found.max_error_ratio, "parts": found.parts,
                         "worst_difference": found.worst_difference}  # fmt: skip
            if found.message:
                raise RuntimeError(f"incorrect: {found.message}")
            ours.first = [found.first, *(self._outputs(ours, n) for n in range(1, SETS))]
        except Exception as error:
            ours.row["error"] = _line(error)
            ours.calls = []
        return ours

    def _prepared(self, kernel: Any, arrays: Sequence[Any], ours: Ours) -> Any:
        outputs = checks.make_outputs(self.program, self.place.torch_device)
        ours.outputs.append(outputs)
        held = [g.array for g in outputs.values()]
        return kernel.prepare(*arrays, out=held if len(held) > 1 else held[0])

    def _outputs(self, ours: Ours, n: int) -> dict[str, Any]:
        ours.calls[n]()
        self.place.wait()
        return {name: g.array.clone() for name, g in ours.outputs[n].items()}

    def _recheck(self, alive: Sequence[Ours]) -> None:
        """After the loop outputs are, to the bit, what they were before it."""
        self.place.wait()
        for o in alive:
            for n, outputs in enumerate(o.outputs):
                for name, g in outputs.items():
                    if not checks.same_bits(g.array, o.first[n][name]):
                        o.row |= {"correct": False, "error": f"unstable: {name} of set {n} has changed after timing"}

    # -- peers

    def _peers(self, beside: Ours | None) -> list[tuple[str, Callable[..., Any]]]:
        """Those that run and compute the same; the others go to ``lost`` with the reason."""
        subject = peer_forms.Subject(self.program, self.work.torch, self.work.row.params or {})
        found = []
        for name, make in self._candidates(subject):
            if beside is None:
                break
            try:
                call = make()
                begun = time.monotonic()
                theirs = call(*self.arrays[0])
                self.place.wait()
                self.peer_notes.setdefault(name, {})["first_call_s"] = round(time.monotonic() - begun, 2)
                given = theirs if isinstance(theirs, tuple | list) else (theirs,)
                for output, x in zip(self.program.outputs, given, strict=True):
                    if message := agreement(beside.first[0][output], x, subject.dtypes).message:
                        raise RuntimeError(f"computes something else: {message}")
                found.append((name, call))
            except Exception as error:
                self.lost[name] = _line(error)
        return found

    def _candidates(self, subject: Any) -> list[tuple[str, Callable[[], Callable[..., Any]]]]:
        found: list[tuple[str, Callable[[], Callable[..., Any]]]] = []
        if "torch.eager" in self.place.against:
            if self.case.eager == "sdpa":
                found += [(f"SDPA {name}", lambda b=backend: sdpa(b)) for name, backend in SDPA.items()]
            else:
                found.append(("torch.eager", lambda: peer_forms.find("torch.eager", subject).call))
        if COMPILED in self.place.against:
            found.append((COMPILED, lambda: self._compiled(subject)))
        return found

    def _compiled(self, subject: Any) -> Callable[..., Any]:
        import torch

        plain_call = sdpa("") if self.case.eager == "sdpa" else peer_forms.find(COMPILED, subject).call
        mode = peer_forms.COMPILE_MODES[subject.has_products]
        self.peer_notes[COMPILED] = {"mode": mode}
        peer_forms.fresh_compiler()
        return torch.compile(plain_call, mode=mode, dynamic=False)

    # -- times

    def _timed(self, alive: list[Ours], peers: list[tuple[str, Callable[..., Any]]]) -> dict[str, Any]:
        needs = cost(self.program)
        moved, flops = int(needs.bytes), self.case.flops or int(needs.flops)  # type: ignore[arg-type]
        roofs = self.place.roofs.contenders(self.case.roof, moved) if self.case.roof else []
        contenders = [Contender(o.target, _native(o.calls), o.calls[0].stream) for o in alive]
        contenders += [Contender(name, self._rotating(call), alive[0].calls[0].stream) for name, call in peers] + roofs
        found = self._measured(contenders, {o.target for o in alive})
        entry: dict[str, Any] = {
            "bytes": moved, "flops": flops, "stopped": found.stopped, "mode": found.timings[0].mode,
            "clocks": {"before": plain(found.health_before), "after": plain(found.health_after)},
            "times": [_time(t) for t in found.timings],
        }  # fmt: skip
        names = [t.name for t in found.timings]
        here = {name for name, _ in peers} & set(names)
        over = {c.name for c in roofs} & set(names)
        for index, o in enumerate(alive):
            self._row(o, index, found, here, over, moved, flops)
        return entry

    def _rotating(self, call: Callable[..., Any]) -> Callable[[int], Any]:
        arrays = self.arrays
        return lambda i: call(*arrays[i % SETS])

    def _measured(self, contenders: list[Contender], needed: set[str]) -> Measurement:
        """A peer that fails in the loop is left out and named."""
        while True:
            try:
                return measure(self.place.device, contenders, self.place.options)
            except ContenderError as error:
                if error.contender in needed or error.kind in ("timeout", "device-lost"):
                    raise
                self.lost[error.contender] = _line(error)
                contenders = [c for c in contenders if c.name != error.contender]

    def _row(self, o: Ours, index: int, found: Measurement, here: set[str], over: set[str], moved: int, flops: int) -> None:
        mine = found.timings[index]
        others = {c.name: c for c in found.comparisons(index)}
        whole = {t.name for t in found.timings if not t.incomplete}
        peer = min((others[n] for n in here & whole), key=lambda c: c.ratio, default=None)
        roof = min((others[n] for n in over & whole), key=lambda c: c.ratio, default=None)
        row = o.row
        row |= {"us": mine.median_us, "ci_us": [mine.ci_low_us, mine.ci_high_us], "gbs": moved / mine.median_us / 1e3,
                "tflops": flops / mine.median_us / 1e6, "suspicions": list(mine.suspicions), "samples": len(mine.samples_us),
                "end_to_end_us": mine.end_to_end_us, "launch_us": mine.launch_us}  # fmt: skip
        if peer is not None:
            us = next(t.median_us for t in found.timings if t.name == peer.name)
            row |= {"peer": peer.name, "peer_us": us, "ratio": peer.ratio, "ratio_ci": [peer.ci_low, peer.ci_high],
                    "verdict": peer.verdict}  # fmt: skip
        if roof is not None:
            row |= {"roof": roof.name, "share": roof.ratio, "share_ci": [roof.ci_low, roof.ci_high]}
        if mine.incomplete:
            row["error"] = "its time cannot be all of its work: " + "; ".join(mine.suspicions)
        row["met"], row["by"] = judged(self.case.bars.get(o.target.partition(":")[0], Bar()), row)


def sdpa(backend: str) -> Callable[..., Any]:
    """PyTorch's causal attention by one backend; by whichever it chooses where none is named."""
    import contextlib

    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def call(q: Any, k: Any, v: Any) -> Any:
        with sdpa_kernel([getattr(SDPBackend, backend)]) if backend else contextlib.nullcontext():
            return F.scaled_dot_product_attention(q[:, :, 0], k, v, is_causal=True)[:, :, None]

    return call


def _native(prepared: Sequence[Any]) -> Any:
    calls = [p.call for p in prepared]
    return calls if all(c is not None for c in calls) else lambda i: prepared[i % len(prepared)]()


def _time(t: Any) -> dict[str, Any]:
    return {"name": t.name, "median_us": t.median_us, "ci_us": [t.ci_low_us, t.ci_high_us], "samples": len(t.samples_us),
            "quantiles_us": {str(k): float(v) for k, v in t.quantiles_us.items()}, "correction_us": t.correction_us,
            "mode": t.mode, "suspicions": list(t.suspicions), "flagged": sum(1 for f in t.flags if f)}  # fmt: skip


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


# ---- the whole table


HEAD = (f"{'case':36} {'target':12} {'ours us':>9} {'peer us':>9} {'peer':16} {'ratio':>6} {'interval':>15} {'verdict':9} "
        f"{'TB/s':>5} {'TFLOP/s':>7} {'of roof':>7}  {'bar':31} met")  # fmt: skip


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


def place_of(targets: Sequence[str], options: Options, against: Sequence[str]) -> Place:
    import torch

    # Runtimes are loaded before the device: some prepare the process first.
    target = registry().target(targets[0])
    runtime = registry().language(target.language).runtime
    assert runtime is not None
    if not (found := runtime.available(target)):
        raise SystemExit(f"{target} cannot be run here: {found.detail}")
    cpu = target.device.kind == "cpu"
    device = device_of(runtime, target) or open_device("host")
    torch_device = "cpu" if cpu else f"cuda:{device.ordinal}"
    if not cpu:
        torch.zeros(1, device=torch_device)
    return Place(device, torch_device, options, Roofs(device), against)


def launch(cases: Sequence[Case], targets: Sequence[str], place: Place, times: int) -> None:
    """For a profiler that waits for the start (``ncu --profile-from-start off``); the first call is not profiled."""
    import torch

    for case in cases:
        program = work_of(case, targets[0]).program
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
    parser.add_argument("--against", default=f"torch.eager,{COMPILED}")
    parser.add_argument("--budget", type=float, default=0.8, help="seconds of sampling per contender")
    parser.add_argument("--limit", type=float, default=570, help="seconds after which no further case is begun")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: a dry run")
    parser.add_argument("--launch", type=int, default=0, metavar="N",
                        help="times nothing: launches each kernel N times between cuProfilerStart and Stop")
    parser.add_argument("--table", type=Path, help="times nothing: prints a JSON of an earlier run as Markdown")
    parser.add_argument("--out", type=Path, default=Path("nvidia"), help="OUT.json and OUT.svg are written")
    return parser.parse_args()


def main() -> int:
    begun = time.monotonic()
    given = arguments()
    if given.table:
        earlier = json.loads(given.table.read_text())
        print(markdown(earlier), conditions(earlier), sep="\n")
        return 0
    os.environ.setdefault("OMP_NUM_THREADS", "2")  # for the processes that compile and those that compute expected values
    targets = given.targets.split(",")
    cases = selected([w for w in given.only.split(",") if w])
    if given.tiny:
        cases = [replace(c, name=f"tiny {c.name}", values=c.tiny, flops=None) for c in cases]
    options = Options(budget_s=given.budget, min_samples=40, max_samples=500, width=0.003)
    place = place_of(targets, options, [a for a in given.against.split(",") if a])
    if given.launch:
        launch(cases, targets, place, given.launch)
        return 0
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
        print(HEAD, flush=True)
        for run in runs:
            if time.monotonic() - begun > given.limit:
                entry: dict[str, Any] = {"case": run.case.name, "rows": [_late(run.case, t) for t in targets]}
            else:
                entry = _tried(run, {t: built[run.case.name, t] for t in targets})
            entries.append(entry)
            for row in entry["rows"]:
                print(line(run.case.name, row), flush=True)
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
        entry = {"case": run.case.name, "rows": [{**_late(run.case, t), "error": _line(error)} for t in run.targets]}
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
