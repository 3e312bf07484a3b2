"""Timing a row: ours and its peers, interleaved by the native loop, on rotating inputs, with outputs checked before and after.

What is asked of the loop is in :mod:`portakern.timing.measure`; here arrays are made, calls prepared, results compared and
the figures put into the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np

from portakern import native
from portakern.backend import CompiledBinary, Executable, Prepared, Runtime, Target
from portakern.check.sampled import affordable
from portakern.errors import PortakernError
from portakern.ir.tensor import TensorProgram
from portakern.launch import arrays_of, device_of, prepare
from portakern.native import open_device
from portakern.registry import registry
from portakern.spec.bind import bind
from portakern.study import steps
from portakern.study.peer_calls import Absent, PeerCalls, Roundings, differing, one_line
from portakern.study.provenance import commit_of, now
from portakern.study.reference import reference_for
from portakern.study.row import Row
from portakern.study.steps import Build, guarded, loaded
from portakern.study.work import Work
from portakern.timing.call_clock import HasClock
from portakern.timing.inputs import ArrayPlace, InputSets, input_sets, place_of, same_bytes
from portakern.timing.measure import Contender, ContenderError, Measurement, Options, Timing, compared, measure
from portakern.timing.peers import Peer, Subject, import_soon
from portakern.timing.roofline import Copy, measured_copy, product_of, roofline

OURS = "portakern"
FATAL = ("timeout", "device-lost")
"""Kinds of a peer's failure after which nothing more can be measured: its work is still running, or the device is gone."""

WHOLE_CALLS = "whole calls on the host against our whole calls"
"""How peers on the host are measured where we run on a device."""

HAMPERED, HAMPERED_US = 10.0, 500.0
"""A peer that takes so many times as long as by itself, and so many microseconds more, is suspicious."""

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
        if work.foreign is not None and not has_clock(work):
            from portakern.study.apart import timed_apart

            return Build(timed_apart(work, made, against, options or {}, lost or {}))
        return Build(session_of(work, made, Options(**(options or {}))).run(against, lost or {}))

    return guarded(made.row, step).row


def session_of(work: Work, made: Build, options: Options) -> Session:
    """How the row of what was built is timed."""
    if not has_clock(work):
        return Session(work, made, options)
    from portakern.study.clocked_timing import ClockedSession, TracedSession

    return (ClockedSession if work.foreign is None else TracedSession)(work, made, options)


def has_clock(work: Work) -> bool:
    """Whether the device has a clock of its own, apart from the native core."""
    return isinstance(registry().language(registry().target(work.target).language).runtime, HasClock)


def get_ready(language: str) -> None:
    """In a worker that has no work yet: imports what the ``language`` will need."""
    if language:
        registry().backend_of(language)


def build(work: Work, against: Sequence[str], **how: bool) -> Build:
    """:func:`portakern.study.steps.build` of what will be timed in this process, against peers."""
    import_soon(against if affordable(bind(work.program, work.sizes)) else (*against, "torch.eager"))  # the coarse check's
    return steps.build(work, **how)


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
        self.executable = self._load()
        self.device = self._find_device()
        self.program = bind(self.work.program, self.work.sizes)

    def _load(self) -> Executable:
        return loaded(self.work, self.made, self.binary)

    def _find_device(self) -> native.Device:
        """Where it is timed, and with it the place of the arrays."""
        found = device_of(self.runtime, self.target)
        if found is None and self.target.device.kind != "cpu":
            raise PortakernError("not-timed", f"{self.target} is not timed: its runtime names no device of the native core",
                                 hint="the host's clock would see the queueing and not the work")
        # On a CPU, work that is done when the call returns is timed as the host's.
        device = found or open_device("host")
        self.place = place_of(self.target, device, arrays_of(self.runtime))
        return device

    # ---- the way of a row

    def run(self, against: Sequence[str], lost: Mapping[str, str]) -> Row:
        self._make_sets()
        self._prepare()
        calls = self._peer_calls()
        peers, absent = calls.find(against, self._differ)
        absent += [Absent(name, reason) for name, reason in lost.items()]
        here = [p for p in peers if calls.beside(p)]
        taken = now()
        measurement, here = self._measured(self.device, self._ours, here, calls, absent)
        ours = measurement.timings[0]
        if ours.incomplete:
            raise PortakernError("incomplete-timing", f"the time cannot be all of the work: {'; '.join(ours.suspicions)}",
                                 hint="a kernel's work belongs on the stream that it is given")
        self._recheck(ours)
        elsewhere = [p for p in peers if not calls.beside(p)]
        host = None
        if elsewhere:
            host, elsewhere = self._measured(open_device("host"), self._ours_whole, elsewhere, calls, absent)
        time = self._time(measurement, here, host, elsewhere)
        time["peers"] += [a.to_dict() for a in absent]
        time["provenance"] = self._provenance(taken, measurement)
        time["sizes"] = dict(self.work.sizes) or None
        return self.made.row.but(evidence="timed", time=time)

    def _measured(self, device: native.Device, ours: Callable[[], Contender], peers: Sequence[Peer], calls: PeerCalls,
                  absent: list[Absent]) -> tuple[Measurement, list[Peer]]:  # fmt: skip
        """Ours and the peers in turns; a peer that fails in the loop is left out, and the rest measured anew."""
        left = list(peers)
        while True:
            self._poison()
            try:
                return self._loop(device, [ours(), *map(calls.contender, left)]), left
            except ContenderError as error:
                failed = next((p for p in left if p.name == error.contender), None)
                if failed is None or error.kind in FATAL:
                    raise
                left.remove(failed)
                absent.append(Absent(failed.name, one_line(f"failed while it was timed: {error.message}")))

    def _loop(self, device: native.Device, contenders: Sequence[Contender]) -> Measurement:
        """The contenders in turns."""
        return measure(device, contenders, self._how(), self._refreshing(device))

    def _how(self) -> Options:
        """What the loop is asked."""
        return self.options

    def _refreshing(self, device: native.Device) -> Callable[[int, list[float]], bool] | None:
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

    def _peer_calls(self) -> PeerCalls:
        subject = Subject(self.program, self.work.torch, self.work.row.params or {})
        return PeerCalls(subject, self.place, self.sets, self.device.facts.blocking, self.prepared[0].stream)

    def _differ(self, inputs: Mapping[str, np.ndarray], theirs: Sequence[np.ndarray]) -> str:
        """A peer's results from those of our kernel, which was checked."""
        return differing(self.program, self._peer_calls().subject.dtypes, self.before[0], theirs, lambda: self._roundings)

    @cached_property
    def _roundings(self) -> Roundings | None:
        """What roundings do to the results of the first set, if there is room for what they are without."""
        reference, inputs = reference_for(self.work, registry().target(self.work.target)), self.sets.host[0]
        with reference.place():
            exact = reference.unrounded(inputs) if reference.unrounded is not None else None
            if exact is None:
                return None
            return Roundings([reference.back(x) for x in exact], [reference.back(x) for x in reference.compute(inputs)])

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
        entries = [peer_entry(p.to_dict(), t, ours, self.options) for p, t in zip(here, m.timings[1:], strict=True)]
        if host is not None:
            whole = host.timings[0]
            entries += [peer_entry(p.to_dict(), t, whole, self.options, WHOLE_CALLS)
                        for p, t in zip(elsewhere, host.timings[1:], strict=True)]  # fmt: skip
        on_host = self.device.facts.blocking
        product = None if on_host else product_of(self.target, self.runtime.device_name(self.target))
        return {
            "median_us": ours.median_us, "ci_low_us": ours.ci_low_us, "ci_high_us": ours.ci_high_us,
            "samples": len(ours.samples_us), "launch_us": number(ours.launch_us), "end_to_end_us": number(ours.end_to_end_us),
            "mode": f"{ours.mode}; {self._inputs_text()}",
            "roofline": roofline(self.program, ours.median_us, self._copy(), product),
            "peers": entries, "quantiles_us": {str(k): float(v) for k, v in ours.quantiles_us.items()},
            "correction_us": ours.correction_us, "calls_per_sample": ours.calls_per_sample,
            "empty_us": number(ours.empty_us), "overhead_us": number(ours.overhead_us), "blocks": m.blocks,
            "stopped": m.stopped, "suspicions": list(ours.suspicions), "throttled": _flagged(ours),
            "clocks": {"before": plain(m.health_before), "after": plain(m.health_after)}, "options": plain(self.options),
            **_samples(ours),
        }  # fmt: skip

    def _copy(self) -> Copy | None:
        return measured_copy(self.device, budget_s=self.options.budget_s)

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


def peer_entry(peer: Mapping[str, Any], theirs: Timing, ours: Timing, options: Options, measured: str = "") -> dict[str, Any]:
    """A peer's entry: ``ratio`` is its median over ours, which is in the entry where both were ``measured`` in another way than
    that of the row."""
    if theirs.incomplete:
        why = f"its time cannot be all of its work: {'; '.join(theirs.suspicions)}"
        return {**peer, "error": why, "median_us": theirs.median_us, **_samples(theirs)}
    against = compared(ours, theirs, options)
    suspicions = [*theirs.suspicions, *hampered(theirs)]
    entry = {
        **peer, "median_us": theirs.median_us, "ratio": against.ratio, "ci_low": against.ci_low,
        "ci_high": against.ci_high, "verdict": against.verdict, "ci_low_us": theirs.ci_low_us,
        "ci_high_us": theirs.ci_high_us, "samples": len(theirs.samples_us), "correction_us": theirs.correction_us,
        "calls_per_sample": theirs.calls_per_sample, "launch_us": number(theirs.launch_us),
        "end_to_end_us": number(theirs.end_to_end_us), "mode_of_timing": theirs.mode,
        "suspicions": suspicions, "throttled": _flagged(theirs), **_samples(theirs),
    }  # fmt: skip
    apart = {"measured": measured, "ours_us": ours.median_us, "ours_ci_low_us": ours.ci_low_us,
             "ours_ci_high_us": ours.ci_high_us} if measured else {}  # fmt: skip
    return entry | apart


def hampered(t: Timing) -> list[str]:
    """What is odd about a peer that takes far longer here than by itself: cold caches alone do not explain that."""
    alone = t.end_to_end_us
    if not math.isfinite(alone) or t.median_us < HAMPERED * alone or t.median_us - alone < HAMPERED_US:
        return []
    return [f"hampered: a call takes {alone:.4g} us by itself, with warm caches, and {t.median_us:.4g} us here: something gets "
            "in its way, such as threads of two runtimes that wait for the same cores"]  # fmt: skip


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
