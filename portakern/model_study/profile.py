"""The profile of a model where its device is, in a worker: the model runs piece by piece on its own arrays, then each piece and
the whole are timed there.

What the pieces give is compared with what the whole gives, so that their times are those of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portakern.backend import Executable, Prepared
from portakern.check.agreement import agreement
from portakern.dtypes import numpy_dtype
from portakern.errors import PortakernError
from portakern.ir.program import Program
from portakern.launch import arrays_of, device_of, prepare
from portakern.model_study.roof import Peak, Roof
from portakern.native import now_ns, open_device
from portakern.registry import registry
from portakern.study.steps import Build, load
from portakern.study.timing import calls_of, number
from portakern.timing.inputs import place_of
from portakern.timing.measure import Contender, Options, Timing, measure
from portakern.timing.roofline import measured_copy
from portakern.timing.statistics import bootstrap_median, median


@dataclass(frozen=True)
class Use:
    """One run of a piece in the model: which of the built ones, and the model's arrays that it is given, inputs first."""

    built: int
    arrays: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """Times of the whole and of each built piece as a row's ``time`` has them, the model's outputs, the device as its driver
    names it, and what it was measured to reach."""

    whole: dict[str, Any]
    pieces: tuple[dict[str, Any], ...]
    outputs: dict[str, np.ndarray]
    device: str
    roof: Roof


def profile(program: Program, whole: Build, built: Sequence[Build], uses: Sequence[Use], given: Mapping[str, np.ndarray],
            preparation: Build | None = None, options: Mapping[str, Any] | None = None) -> Profile:  # fmt: skip
    """Times of the model ``program`` on the inputs ``given``.

    Args:
        whole, built: all of it, and its pieces that differ.
        uses: the pieces in the order in which they run.
        preparation: what makes further inputs of weights, once.
        options: those of :class:`portakern.timing.measure.Options`.

    Raises:
        PortakernError: the device is not here, a kernel failed, or the pieces compute something else than the whole.
    """
    return _Session(program, whole, built, uses, given, preparation).profile(Options(**{"cache": "warm", **(options or {})}))


class _Session:
    def __init__(self, program: Program, whole: Build, built: Sequence[Build], uses: Sequence[Use],
                 given: Mapping[str, np.ndarray], preparation: Build | None = None) -> None:  # fmt: skip
        assert whole.source is not None
        self.program, self.target, self.uses = program, whole.source.target, uses
        runtime = registry().language(self.target.language).runtime
        assert runtime is not None
        self.runtime = runtime
        executables = [_loaded(b) for b in built]
        self.device = device_of(runtime, self.target) or open_device("host")
        self.place = place_of(self.target, self.device, arrays_of(runtime))
        scalars = {a.name for a in program.by_role("scalar")}
        self.arrays = {n: x.item() if n in scalars else self.place.put(x) for n, x in given.items()}
        if preparation is not None:
            self._prepare_weights(preparation)
        self.whole = prepare(_loaded(whole), [self.arrays[a.name] for a in program.by_role("input", "scalar")], {})
        self.arrays |= {a.name: self.place.put(_empty(program, a.name)) for a in program.by_role("output", "temporary")}
        self.calls = [self._call(executables[u.built], built[u.built], u) for u in uses]

    def _prepare_weights(self, preparation: Build) -> None:
        source, executable = preparation.source, _loaded(preparation)
        assert source is not None
        prepared = prepare(executable, [self.arrays[a.name] for a in source.by_role("input")], {})
        prepared()
        self.device.synchronize()
        self.arrays |= dict(zip((a.name for a in source.by_role("output")), prepared.outputs, strict=True))

    def _call(self, executable: Executable, built: Build, use: Use) -> Prepared:
        assert built.source is not None
        outputs = len(built.source.by_role("output"))
        arrays = [self.arrays[n] for n in use.arrays]
        return prepare(executable, arrays[: len(arrays) - outputs], {}, arrays[len(arrays) - outputs :])

    def profile(self, options: Options) -> Profile:
        outputs = self._run()
        whole = self._timed(Contender("the model", calls_of([self.whole]), self.whole.stream), options)
        if self.target.device.kind == "cpu":
            turns, pieces = self._in_sequence(options)
            whole |= turns
        else:
            pieces = self._by_themselves(options)
        return Profile(whole, tuple(pieces), outputs, self.runtime.device_name(self.target), self._roof())

    def _in_sequence(self, options: Options) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The whole, and each piece where it stands in the model: in turns a call of the whole and one of each piece, with a
        clock before and behind each, which calls that return when their work is done allow."""
        begun, passes = now_ns(), []
        calls = [self.whole, *self.calls]
        while len(passes) < options.min_samples or (now_ns() - begun < 4e9 * options.budget_s and len(passes) < MOST_PASSES):
            clock = [now_ns()]
            for call in calls:
                call()
                clock.append(now_ns())
            passes.append(np.diff(clock) / 1e3)
        taken = np.array(passes[1:])  # the first one warms up
        of = np.array([-1, *(u.built for u in self.uses)])
        figures = [_sequence_figures(taken[:, of == n].mean(1)) for n in range(-1, int(of.max()) + 1)]
        return figures[0], figures[1:]

    def _by_themselves(self, options: Options) -> list[dict[str, Any]]:
        """Each piece by itself, equal ones in turns."""
        of: dict[int, list[Prepared]] = {}
        for use, call in zip(self.uses, self.calls, strict=True):
            of.setdefault(use.built, []).append(call)
        return [self._timed(Contender(f"piece {n}", calls_of(c), c[0].stream), options) for n, c in sorted(of.items())]

    def _run(self) -> dict[str, np.ndarray]:
        """The outputs of the pieces, which are those of the whole."""
        self.whole()
        for call in self.calls:
            call()
        self.device.synchronize()
        names = [a.name for a in self.program.by_role("output")]
        found = {n: self.place.get(self.arrays[n]) for n in names}
        for name, theirs in zip(names, self.whole.outputs, strict=True):
            told = agreement(self.place.get(theirs), found[name], (self.program.array(name).dtype, "f32"))
            if told.message:
                raise PortakernError("unstable", f"{name} of the pieces is not that of the whole: {told.message}",
                                     hint="this is a defect of portakern; please report it")
        return found

    def _timed(self, contender: Contender, options: Options) -> dict[str, Any]:
        return _figures(measure(self.device, [contender], options).timings[0])

    def _roof(self) -> Roof:
        copy = measured_copy(self.device)
        peaks = {f"peak_{d}": _host_peak(d) for d in ("f32", "f64")} if self.target.device.kind == "cpu" else {}
        bandwidth = Peak(copy.bytes_per_s, copy.method) if copy else None
        return Roof(bandwidth, peaks, "measured here: a copy, and the fastest product")


def _loaded(built: Build) -> Executable:
    assert built.source is not None
    return load(built.source, built.binary_key, "runtime")


def _empty(program: Program, name: str) -> np.ndarray:
    return np.zeros(program.shape(name, {}), numpy_dtype(program.array(name).dtype))


def _figures(t: Timing) -> dict[str, Any]:
    if t.incomplete:
        raise PortakernError("incomplete-timing", f"{t.name}: the time cannot be all of the work: {'; '.join(t.suspicions)}")
    return {"median_us": t.median_us, "ci_low_us": t.ci_low_us, "ci_high_us": t.ci_high_us, "samples": len(t.samples_us),
            "launch_us": number(t.launch_us), "end_to_end_us": number(t.end_to_end_us), "mode": t.mode,
            "suspicions": list(t.suspicions)}  # fmt: skip


def _sequence_figures(samples: np.ndarray) -> dict[str, Any]:
    taken = samples.tolist()
    low, high = bootstrap_median(taken)
    mode = "warm: in turns a call of the whole and one of each piece in its order; around the call, by the system's clock"
    return {"median_us": median(taken), "ci_low_us": low, "ci_high_us": high, "samples": len(taken), "mode": mode,
            "suspicions": []}  # fmt: skip


MOST_PASSES = 200
PRODUCT, ROUNDS = 1024, 20


def _host_peak(dtype: str) -> Peak:
    """What numpy's library reaches in a product of two large matrices."""
    a, b = (np.ones((PRODUCT, PRODUCT), numpy_dtype(dtype)) for _ in range(2))
    out = np.empty_like(a)
    seconds = []
    for _ in range(ROUNDS):
        begun = now_ns()
        np.matmul(a, b, out=out)
        seconds.append((now_ns() - begun) / 1e9)
    return Peak(2 * PRODUCT**3 / min(seconds), f"numpy's product of {PRODUCT}x{PRODUCT} {dtype} matrices, the best of {ROUNDS}")
