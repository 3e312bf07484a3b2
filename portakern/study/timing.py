"""Timing a row: ours and its peers, interleaved by the native loop, on rotating inputs, with outputs checked before and after.

What is asked of the loop is in :mod:`portakern.timing.measure`; here arrays are made, calls prepared, results compared and
the figures put into the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

import numpy as np

from portakern import native
from portakern.backend import CompiledBinary, Executable, Prepared, Runtime, Target
from portakern.check.agreement import agreement
from portakern.errors import PortakernError
from portakern.ir.tensor import TensorProgram
from portakern.launch import device_of, prepare
from portakern.native import open_device
from portakern.registry import registry
from portakern.spec.bind import bind
from portakern.study.provenance import commit_of, now
from portakern.study.row import Row
from portakern.study.steps import Build, guarded, loaded
from portakern.study.work import Work
from portakern.timing import peers as peer_forms
from portakern.timing.inputs import ArrayPlace, InputSets, as_library, input_sets, place_of, same_bytes
from portakern.timing.measure import Contender, ContenderError, Measurement, Options, Timing, measure
from portakern.timing.peers import Peer, Subject
from portakern.timing.roofline import measured_copy, product_of, roofline

OURS = "portakern"
FATAL = ("timeout", "device-lost")
"""Kinds of a peer's failure after which nothing more can be measured: its work is still running, or the device is gone."""

POISON = 0xFF
"""The byte that outputs hold before the loop: NaN in every float."""


def time(work: Work, made: Build, against: Sequence[str] = (), options: Mapping[str, Any] | None = None,
         lost: Mapping[str, str] | None = None) -> Row:  # fmt: skip
    """The row with its ``time``; a peer that cannot run, or computes something else, is listed with the reason.

    Args:
        work: what was asked.
        made: what was built for it.
        against: names of peers, as in :func:`portakern.timing.peers.check_names`.
        options: those of :class:`portakern.timing.measure.Options`.
        lost: peers that are not tried, each with the reason.
    """
    def step() -> Build:
        if work.foreign is not None:
            from portakern.study.apart import timed_apart

            return Build(timed_apart(work, made, against, options or {}, lost or {}))
        return Build(Session(work, made, Options(**(options or {}))).run(against, lost or {}))

    return guarded(made.row, step).row


@dataclass
class Absent:
    """A peer that was not timed, and why."""

    name: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "error": self.reason}


@dataclass
class Session:
    """One row being timed.  Built from what was asked; :meth:`run` gives the row."""

    work: Work
    made: Build
    options: Options
    binary: CompiledBinary | None = None
    target: Target = field(init=False)
    runtime: Runtime = field(init=False)
    executable: Executable = field(init=False)
    device: native.Device = field(init=False)
    program: TensorProgram = field(init=False)
    place: ArrayPlace = field(init=False)
    sets: InputSets = field(init=False)
    prepared: list[Prepared] = field(init=False)
    before: list[list[np.ndarray]] = field(init=False)

    def __post_init__(self) -> None:
        if self.made.runner != "runtime" or self.made.source is None:
            raise PortakernError("not-timed", f"{self.work.target} is not timed: no silicon of this kind is here",
                                 hint="a simulator's speed says nothing about the device's")
        self.target = self.made.source.target
        runtime = registry().language(self.target.language).runtime
        assert runtime is not None
        self.runtime = runtime
        # Loaded first: a runtime may have to prepare the process before the device can be found.
        self.executable = loaded(self.work, self.made, self.binary)
        found = device_of(runtime, self.target)
        if found is None and self.target.device.kind != "cpu":
            raise PortakernError("not-timed", f"{self.target} is not timed: its runtime names no device of the native core",
                                 hint="the host's clock would see the queueing and not the work")
        # On a CPU, work that is done when the call returns is timed as the host's.
        self.device = found or open_device("host")
        self.program = bind(self.work.program, self.work.sizes)
        self.place = place_of(self.target, self.device.ordinal)

    # ---- the way of a row

    def run(self, against: Sequence[str], lost: Mapping[str, str]) -> Row:
        self._make_sets()
        self._prepare()
        peers, absent = self._peers(against)
        absent += [Absent(name, reason) for name, reason in lost.items()]
        here = [p for p in peers if self._runs_here(p)]
        taken = now()
        measurement, here = self._measured(self.device, self._ours, here, absent)
        ours = measurement.timings[0]
        if ours.incomplete:
            raise PortakernError("incomplete-timing", f"the time cannot be all of the work: {'; '.join(ours.suspicions)}",
                                 hint="a kernel's work belongs on the stream that it is given")
        self._recheck(ours)
        elsewhere = [p for p in peers if not self._runs_here(p)]
        host = None
        if elsewhere:
            host, elsewhere = self._measured(open_device("host"), self._ours_whole, elsewhere, absent)
        time = self._time(measurement, here, host, elsewhere)
        time["peers"] += [a.to_dict() for a in absent]
        time["provenance"] = self._provenance(taken, measurement)
        return self.made.row.but(evidence="timed", time=time)

    def _measured(self, device: native.Device, ours: Callable[[], Contender], peers: Sequence[Peer], absent: list[Absent]
                  ) -> tuple[Measurement, list[Peer]]:  # fmt: skip
        """Ours and the peers in turns; a peer that fails in the loop is left out, and the rest measured anew."""
        left = list(peers)
        while True:
            self._poison()
            try:
                return measure(device, [ours(), *map(self._contender, left)], self.options, self._refreshing(device)), left
            except ContenderError as error:
                failed = next((p for p in left if p.name == error.contender), None)
                if failed is None or error.kind in FATAL:
                    raise
                left.remove(failed)
                absent.append(Absent(failed.name, _one_line(f"failed while it was timed: {error.message}")))

    def _refreshing(self, device: native.Device) -> Callable[[int], None] | None:
        """What comes before every block of samples."""
        return None

    def _make_sets(self) -> None:
        facts = self.device.facts
        self.sets = input_sets(self.program, self.work.families, self.place, facts.cache_bytes, facts.memory_bytes,
                               self.options.cache == "warm", self.options.seed)  # fmt: skip

    def _prepare(self) -> None:
        """One prepared call per set, and what each gives."""
        self.prepared = [prepare(self.executable, arrays, self.work.sizes) for arrays in self.sets.arrays]
        self.before = [self._outputs(p) for p in self.prepared]

    def _outputs(self, p: Prepared) -> list[np.ndarray]:
        """What a call writes into poisoned outputs."""
        for x in p.outputs:
            self.place.fill(x, POISON)
        self._wait()
        p()
        self._wait()
        return self._read(p)

    def _read(self, p: Prepared) -> list[np.ndarray]:
        return [self.place.get(x) for x in p.outputs]

    def _wait(self) -> None:
        self.device.synchronize(self.options.deadline_s)

    def _poison(self) -> None:
        for p in self.prepared:
            for x in p.outputs:
                self.place.fill(x, POISON)
        self._wait()

    # ---- after the loop

    def _recheck(self, ours: Timing) -> None:
        """Every set's outputs are what they were, after the loop and after a call on inputs that have changed places."""
        self._wait()
        # A loop that its budget ended early may not have come to every set; those are checked by the calls below.
        all_called = len(ours.samples_us) * ours.calls_per_sample >= len(self.sets)
        for number, (p, before) in enumerate(zip(self.prepared, self.before, strict=True)):
            after = self._read(p)
            if all_called or not all(_untouched(x) for x in after):
                self._expect(after, before, f"the outputs of input set {number} after timing differ from those before it")
        self._unchanged(0)
        self._swap()
        for number, p in enumerate(self.prepared):
            self._expect(self._outputs(p), self.before[(number + 1) % len(self.sets)],
                         "after timing, other inputs at the same addresses do not give their own outputs")  # fmt: skip
        self._unchanged(1)

    def _unchanged(self, shift: int) -> None:
        if name := self.sets.changed(shift):
            raise PortakernError("unstable", f"the input {name} was changed by the calls that were timed")

    def _swap(self) -> None:
        """The inputs of each set become those of the next, in place: an answer kept by address is now wrong."""
        for number, arrays in enumerate(self.sets.arrays):
            values = self.sets.host[(number + 1) % len(self.sets)].values()
            for array, x in zip(arrays, values, strict=True):
                if x.ndim:
                    self.place.write(array, x)
        self._wait()

    def _expect(self, have: Sequence[np.ndarray], want: Sequence[np.ndarray], message: str) -> None:
        for name, a, b in zip(self.program.outputs, have, want, strict=True):
            if not same_bytes(a, b):
                raise PortakernError("unstable", f"{message} ({_difference(name, a, b)})",
                                     hint="the kernel keeps state between calls, races, or did not do the work")

    # ---- contenders

    def _ours(self) -> Contender:
        return Contender(OURS, calls_of(self.prepared), self.prepared[0].stream)

    def _contender(self, peer: Peer) -> Contender:
        sets = self._inputs_of(peer)
        call, count = peer.call, len(sets)
        return Contender(peer.name, lambda i: call(*sets[i % count]), self.prepared[0].stream)

    def _inputs_of(self, peer: Peer) -> list[list[Any]]:
        """The sets as the peer takes them: ours where they will do, so that both read the same memory."""
        if peer.library == self.place.library:
            return self.sets.arrays
        return [[as_library(x, self.place, peer.library) for x in host.values()] for host in self.sets.host]

    def _peers(self, names: Sequence[str]) -> tuple[list[Peer], list[Absent]]:
        """Those that can be timed, after a call whose results are those of our kernel; and those that cannot."""
        subject = Subject(self.program, self.work.torch, self.work.row.params or {})
        found: list[Peer] = []
        absent: list[Absent] = []
        for name in dict.fromkeys(names):
            try:
                found.append(self._peer(name, subject))
            except PortakernError as error:
                absent.append(Absent(name, f"{error.message}; {error.hint}" if error.hint else error.message))
            except Exception as error:  # a peer may fail in any way, which is no fault of ours
                absent.append(Absent(name, _one_line(f"{type(error).__name__}: {error}")))
        return found, absent

    def _peer(self, name: str, subject: Subject) -> Peer:
        peer = peer_forms.find(name, subject)
        arrays = [as_library(x, self.place, peer.library) for x in self.sets.host[0].values()]
        if name == "torch.compile":
            peer = peer_forms.compiled(peer, subject, arrays)
        theirs = peer_forms.host_outputs(peer.call(*arrays))
        if len(theirs) != len(self.before[0]):
            raise PortakernError("other", f"gives {len(theirs)} outputs, not {len(self.before[0])}; not timed")
        for output, a, b in zip(self.program.outputs, self.before[0], theirs, strict=True):
            if message := agreement(a, b, subject.dtypes).message:
                raise PortakernError("other", f"computes something else ({output}: {message}); not timed")
        return peer

    def _runs_here(self, peer: Peer) -> bool:
        """Whether a peer's work is on the device that times ours: the host's, or tensors that lie there."""
        return self.device.facts.blocking or (self.place.library == "torch" and peer.library == "torch")

    def _ours_whole(self) -> Contender:
        """Beside peers that run on the host while we run on a device: whole calls, under the host's clock."""
        prepared, device, count = self.prepared, self.device, len(self.prepared)

        def whole(i: int) -> None:
            prepared[i % count]()
            device.synchronize(self.options.deadline_s)

        return Contender(OURS, whole)

    # ---- the figures

    def _time(self, m: Measurement, here: Sequence[Peer], host: Measurement | None, elsewhere: Sequence[Peer]
              ) -> dict[str, Any]:  # fmt: skip
        ours = m.timings[0]
        entries = _peer_entries(m, here, "")
        if host is not None:
            entries += _peer_entries(host, elsewhere, "whole calls on the host against our whole calls")
        on_host = self.device.facts.blocking
        copy = measured_copy(self.device)
        product = None if on_host else product_of(self.target, self.runtime.device_name(self.target))
        return {
            "median_us": ours.median_us, "ci_low_us": ours.ci_low_us, "ci_high_us": ours.ci_high_us,
            "samples": len(ours.samples_us), "launch_us": number(ours.launch_us), "end_to_end_us": number(ours.end_to_end_us),
            "mode": f"{ours.mode}; {self._inputs_text()}", "roofline": roofline(self.program, ours.median_us, copy, product),
            "peers": entries, "quantiles_us": {str(k): float(v) for k, v in ours.quantiles_us.items()},
            "correction_us": ours.correction_us, "calls_per_sample": ours.calls_per_sample,
            "empty_us": number(ours.empty_us), "overhead_us": number(ours.overhead_us), "blocks": m.blocks,
            "stopped": m.stopped, "suspicions": list(ours.suspicions), "throttled": _flagged(ours),
            "clocks": {"before": plain(m.health_before), "after": plain(m.health_after)}, "options": plain(self.options),
            **_samples(ours),
        }  # fmt: skip

    def _inputs_text(self) -> str:
        n = len(self.sets)
        return f"{n} set{'' if n == 1 else 's'} of inputs in turns ({n * self.sets.per_set / 1e6:.4g} MB with outputs)"

    def _provenance(self, taken: str, m: Measurement) -> dict[str, Any]:
        binary = registry().language(self.target.language).toolchain
        return {"taken": taken, "seed": m.seed, "operator": commit_of(self.work.file) if self.work.file else None,
                "driver": self.device.driver, "device": plain(m.facts), "compiler": self.made.row.method,
                "fingerprint": binary.fingerprint(self.target) if binary is not None else None}  # fmt: skip


def calls_of(prepared: Sequence[Prepared]) -> Any:
    """What the loop calls: native calls in turns, or a function of the turn's number."""
    native = [p.call for p in prepared]
    if all(c is not None for c in native):
        return native
    calls: list[Callable[[], None]] = list(prepared)
    count = len(calls)
    return lambda i: calls[i % count]()


def _peer_entries(m: Measurement, peers: Sequence[Peer], measured: str) -> list[dict[str, Any]]:
    """Each peer's entry: ``ratio`` is its median over ours, which is in the entry where it is not that of the row."""
    found = []
    ours = m.timings[0]
    apart = {"measured": measured, "ours_us": ours.median_us, "ours_ci_low_us": ours.ci_low_us,
             "ours_ci_high_us": ours.ci_high_us} if measured else {}  # fmt: skip
    for peer, timing, against in zip(peers, m.timings[1:], m.comparisons(0), strict=True):
        if timing.incomplete:
            why = f"its time cannot be all of its work: {'; '.join(timing.suspicions)}"
            found.append({**peer.to_dict(), "error": why, "median_us": timing.median_us, **_samples(timing)})
            continue
        entry = {
            **peer.to_dict(), "median_us": timing.median_us, "ratio": against.ratio, "ci_low": against.ci_low,
            "ci_high": against.ci_high, "verdict": against.verdict, "ci_low_us": timing.ci_low_us,
            "ci_high_us": timing.ci_high_us, "samples": len(timing.samples_us), "correction_us": timing.correction_us,
            "calls_per_sample": timing.calls_per_sample, "launch_us": number(timing.launch_us),
            "end_to_end_us": number(timing.end_to_end_us), "mode_of_timing": timing.mode,
            "suspicions": list(timing.suspicions), "throttled": _flagged(timing), **_samples(timing),
        }  # fmt: skip
        found.append(entry | apart)
    return found


def _samples(t: Timing) -> dict[str, Any]:
    flags = np.asarray(t.flags)
    return {"samples_us": np.asarray(t.samples_us, np.float64).tolist(), "flags": flags.tolist() if flags.any() else None}


def _flagged(t: Timing) -> int:
    """How many samples the loop marked."""
    return int(np.count_nonzero(t.flags))


def number(value: Any) -> float | None:
    """A float that JSON has."""
    return float(value) if value is not None and math.isfinite(value) else None


def plain(value: Any) -> Any:
    """A dataclass as a dictionary without what is unknown."""
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return {k: v for k, v in asdict(value).items() if v is not None}


def _untouched(x: np.ndarray) -> bool:
    return bool((np.ascontiguousarray(x).reshape(-1).view(np.uint8) == POISON).all())


def _difference(name: str, a: np.ndarray, b: np.ndarray) -> str:
    if a.shape != b.shape:
        return f"{name} has another shape"
    size = a.dtype.itemsize
    x, y = (np.ascontiguousarray(v).reshape(-1).view(np.uint8).reshape(-1, size) for v in (a, b))
    off = (x != y).any(-1)
    untouched = int(((x == POISON).all(-1) & off).sum())
    return (f"{name}: {int(off.sum())} of {off.size} elements{f', {untouched} of them never written' if untouched else ''}"
            f"{', all are zero' if not x.any() else ''}")  # fmt: skip


def _one_line(text: str) -> str:
    return " ".join(text.split())[:400]
