"""One case of benchmarks/nvidia.py: inputs, kernels, peers, the check and the times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

import bar_checks as checks
import bar_peers
from bar_cases import Bar, Case
from bar_roofs import Roofs
from bar_verdicts import judged

import portakern as pk
from portakern import native
from portakern.check.agreement import agreement
from portakern.spec.cost import cost
from portakern.study.timing import plain
from portakern.timing import Contender, ContenderError, Measurement, Options, measure

PARTS_ALONE = "only parts were checked"
"""A note of a case whose outputs were not compared as a whole."""

SETS = 2
"""Sets of inputs that calls take in turns."""


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

    device: native.Device
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
        self.work = bar_peers.work_of(case, targets[0])
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
        self.reference = self._reference()
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

    def _reference(self) -> dict[str, Any]:
        """Every output as the traced program computes it; none where its values between do not fit the device's memory."""
        import torch

        try:
            return checks.traced(self.program, self.sets[0])
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            self.peer_notes[PARTS_ALONE] = "the traced program does not fit the device's memory"
            return {}

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
            ours.row["error"] = told(error)
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
        subject = bar_peers.subject_of(self.work)
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
                self.lost[name] = told(error)
        return found

    def _candidates(self, subject: Any) -> list[tuple[str, Callable[[], Callable[..., Any]]]]:
        found: list[tuple[str, Callable[[], Callable[..., Any]]]] = []
        if bar_peers.EAGER in self.place.against:
            found += bar_peers.eager(self.case, subject).items()
        if bar_peers.COMPILED in self.place.against:
            self.peer_notes[bar_peers.COMPILED] = {"mode": bar_peers.compile_mode(subject)}
            found.append((bar_peers.COMPILED, lambda: bar_peers.compiled(self.case, subject)))
        return found

    # -- times

    def _timed(self, alive: list[Ours], peers: list[tuple[str, Callable[..., Any]]]) -> dict[str, Any]:
        needs = cost(self.program)
        moved, flops = int(needs.bytes), self.case.flops or int(needs.flops)  # type: ignore[arg-type]
        roofs = self.place.roofs.contenders(self.case.roof, moved) if self.case.roof else []
        contenders = [Contender(o.target, in_turns(o.calls), o.calls[0].stream) for o in alive]
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
                self.lost[error.contender] = told(error)
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


def in_turns(prepared: Sequence[Any]) -> Any:
    """The calls in turns: those of the native core where all are."""
    calls = [p.call for p in prepared]
    return calls if all(c is not None for c in calls) else lambda i: prepared[i % len(prepared)]()


def _time(t: Any) -> dict[str, Any]:
    return {"name": t.name, "median_us": t.median_us, "ci_us": [t.ci_low_us, t.ci_high_us], "samples": len(t.samples_us),
            "quantiles_us": {str(k): float(v) for k, v in t.quantiles_us.items()}, "correction_us": t.correction_us,
            "mode": t.mode, "suspicions": list(t.suspicions), "flagged": sum(1 for f in t.flags if f)}  # fmt: skip


def told(error: BaseException) -> str:
    """An error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
