"""Time on a TPU: contenders in turns, in random order, by what jax's profiler says of the device.

A sample is one call that is waited for.  Its time is from the beginning to the end of its programs on the device, by the
device's clock, so that nothing of Python, jax and the host's queue is in it.  Where a trace has no plane of the device, or does
not show each call's programs, the time is that of the whole call by the host's clock, and ``mode`` and ``suspicions`` say so.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import numpy as np
from packaging.requirements import Requirement

from portakern.backend import Target
from portakern.errors import PortakernError
from portakern.native import DeviceFacts, now_ns
from portakern.timing.measure import Contender, ContenderError, Measurement, Options, Timing
from portakern.timing.settled import settled
from portakern.timing.statistics import bootstrap_median, median, quantile

from ..trace.environment import package_version
from . import chips
from .executable import UNPROVED
from .places import JaxPlace
from .trace import Run, Trace, traced

SWITCH = "PORTAKERN_TPU_TRACE"
"""``off``: jax's profiler is left alone, and whole calls are timed; ``on``: it is used, whatever libtpu is here."""

MOST_BLOCKS = 50
"""In one trace, whose buffers are not endless."""

LATENCY_CALLS, LATENCY_S = 20, 0.2


class TpuClock:
    """The clock of one of jax's devices."""

    driver = "jax"

    def __init__(self, target: Target, device: Any) -> None:
        self.device = device
        self.ordinal = int(getattr(device, "local_hardware_id", None) or device.id)
        self.place = JaxPlace(device)
        self.facts = DeviceFacts(device.device_kind, self.ordinal, target.device.isa, _version(device),
                                 memory_bytes=_memory(device))  # fmt: skip

    def synchronize(self, deadline_s: float = 0.0, stream: int = 0) -> None:
        """A program on an otherwise idle device is done when all before it are."""
        import jax

        jax.block_until_ready(chips.put(np.zeros(1, np.float32), self.device) + 1)

    def measure(self, contenders: Sequence[Contender], options: Options) -> Measurement:
        """Raises :class:`ContenderError` where one fails, and :class:`PortakernError` for a mode that there is not."""
        if options.mode not in ("auto", "single"):
            raise PortakernError("unsupported", f"a TPU's calls are timed one by one, not in a {options.mode}",
                                 hint="leave out --mode")  # fmt: skip
        return _Loop(self, contenders, options).run()


@dataclass
class _Loop:
    clock: TpuClock
    contenders: Sequence[Contender]
    options: Options
    walls: list[list[float]] = field(default_factory=list)
    devices: list[list[float]] = field(default_factory=list)
    programs: list[tuple[str, ...]] = field(default_factory=list)
    without: str = ""
    """Why the device's own clock is not used."""
    blocks: int = 0

    def run(self) -> Measurement:
        for contender in self.contenders:
            self._warm(contender)
        latencies = [self._latency(c) for c in self.contenders]
        self.without = unfit()
        if not self.without:
            self._learn()
        stopped = self._sample()
        timings = tuple(self._timing(n, *latencies[n]) for n in range(len(self.contenders)))
        return Measurement(timings, self.clock.facts, None, None, self.blocks, stopped, self.options)

    # ---- before

    def _call(self, contender: Contender, i: int) -> float:
        """One call that is waited for, in microseconds of the host."""
        import jax

        assert callable(contender.calls)
        try:
            begun = now_ns()
            jax.block_until_ready(contender.calls(i))
            return (now_ns() - begun) / 1e3
        except Exception as error:
            raise ContenderError(contender.name, error) from error

    def _warm(self, contender: Contender) -> None:
        begun, count = now_ns(), 0
        while count < 3 or now_ns() - begun < self.options.warm_up_s * 1e9:
            self._call(contender, count)
            count += 1

    def _latency(self, contender: Contender) -> tuple[float, float]:
        """How long a call keeps the caller and how long until it is done, in microseconds."""
        import jax

        assert callable(contender.calls)
        kept: list[float] = []
        done: list[float] = []
        started = now_ns()
        while len(done) < 3 or (len(done) < LATENCY_CALLS and now_ns() - started < LATENCY_S * 1e9):
            begun = now_ns()
            result = contender.calls(0)
            kept.append((now_ns() - begun) / 1e3)
            jax.block_until_ready(result)
            done.append((now_ns() - begun) / 1e3)
        return median(kept), median(done)

    def _learn(self) -> None:
        """Which programs a call of each contender runs, from a trace of two calls of it alone."""
        for contender in self.contenders:
            with traced(self.clock.ordinal) as trace:
                for i in range(2):
                    self._call(contender, i)
            names = [r.name for r in trace.runs or ()]
            half = len(names) // 2
            if trace.runs is None:
                self.without = f"the trace has no plane of the device, only {', '.join(trace.planes) or 'none at all'}"
            elif not half or names[:half] != names[half:]:
                self.without = f"the trace shows {len(names)} programs for two calls of {contender.name}"
            if self.without:
                return
            self.programs.append(tuple(names[:half]))

    # ---- samples

    def _sample(self) -> str:
        count, o, order = len(self.contenders), self.options, random.Random(self.options.seed)
        self.walls, self.devices = [[] for _ in range(count)], [[] for _ in range(count)]
        self.blocks, spent_ns, look, chunk = 0, 0, o.min_samples, 5
        while True:
            begun = now_ns()
            self._blocks(min(chunk, o.max_samples - self.blocks), order)
            spent_ns += now_ns() - begun
            seen = self.samples
            if self.blocks >= o.max_samples:
                return "samples"
            if self.blocks >= min(5, o.min_samples) and spent_ns / 1e9 > o.budget_s * count:
                return "budget"
            if self.blocks >= look:
                look = max(look + 1, int(look * 1.3))
                if settled(seen, o):
                    return "width"
            chunk = min(MOST_BLOCKS, 2 * chunk)

    @property
    def samples(self) -> list[list[float]]:
        return self.walls if self.without else self.devices

    def _blocks(self, count: int, order: random.Random) -> None:
        """So many blocks, in one trace."""
        if self.without:
            self._turns(count, order)
            return
        with traced(self.clock.ordinal) as trace:
            called = self._turns(count, order)
        self._read(trace, called)

    def _turns(self, count: int, order: random.Random) -> list[int]:
        """The numbers of the contenders in the order in which they were called."""
        called: list[int] = []
        for _ in range(count):
            for n in order.sample(range(len(self.contenders)), len(self.contenders)):
                self.walls[n].append(self._call(self.contenders[n], self.blocks))
                called.append(n)
            self.blocks += 1
        return called

    def _read(self, trace: Trace, called: Sequence[int]) -> None:
        """What each call took on the device; its programs follow each other, since every call is waited for."""
        runs = list(trace.runs or ())
        expected = [name for n in called for name in self.programs[n]]
        if [r.name for r in runs] != expected:
            self.without = f"a trace shows {len(runs)} programs where {len(expected)} were run"
            return
        place = 0
        for n in called:
            mine: list[Run] = runs[place : place + len(self.programs[n])]
            place += len(mine)
            self.devices[n].append((max(r.end_ns for r in mine) - mine[0].start_ns) / 1e3)

    # ---- what comes of it

    def _timing(self, n: int, launch_us: float, end_to_end_us: float) -> Timing:
        o, samples, walls = self.options, self.samples[n], self.walls[n]
        low, high = bootstrap_median(samples, o.confidence, o.seed)
        middle = median(samples)
        return Timing(
            self.contenders[n].name, np.asarray(samples, np.float64), np.zeros(len(samples), np.uint8), self.blocks, middle,
            low, high, {q: quantile(samples, q / 100) for q in (10, 25, 75, 90)}, 0.0, None, launch_us, end_to_end_us,
            max(0.0, median(walls) - middle), 1, self._mode(n), self._suspicions(middle, walls), False,
        )  # fmt: skip

    def _mode(self, n: int) -> str:
        cache = f"{self.options.cache}: inputs in turns, no cache lies between programs and HBM"
        if self.without:
            return f"{cache}; wall time of whole calls that are waited for, by the host's clock ({self.without}); {UNPROVED}"
        programs = f"{len(self.programs[n])} program{'s' if len(self.programs[n]) != 1 else ''} of XLA a call"
        return f"{cache}; one call per sample; device time by jax's profiler ({programs}); {UNPROVED}"

    def _suspicions(self, middle: float, walls: Sequence[float]) -> tuple[str, ...]:
        found = [f"the host's clock: {self.without}; launch and return of each call are in its time"] if self.without else []
        if middle > median(walls):
            found.append(f"the device's clock shows {middle:.4g} us where whole calls take {median(walls):.4g} us")
        return tuple(found)


def unfit() -> str:
    """Why jax's profiler is left alone.  The interface between it and libtpu changes from version to version, and one that does
    not fit ends the process (jax 0.10.2 with libtpu 0.0.52: a segmentation fault in ``PluginTracer::Start``)."""
    asked = os.environ.get(SWITCH, "").lower()
    if asked in ("off", "0", "no"):
        return f"{SWITCH}={os.environ[SWITCH]}"
    wanted = [Requirement(r) for r in metadata.requires("jax") or () if r.startswith("libtpu")]
    here = package_version("libtpu") or ""
    if not asked and any(not r.specifier.contains(here, prereleases=True) for r in wanted):
        made_for = f"jax {package_version('jax')} is made for libtpu{wanted[0].specifier}"
        return f"{made_for}, and {here} is here: pip install 'jax[tpu]'"
    return ""


def _version(device: Any) -> str:
    return " ".join(str(getattr(device.client, "platform_version", "")).split())[:200]


def _memory(device: Any) -> int | None:
    try:
        return (device.memory_stats() or {}).get("bytes_limit")
    except Exception:  # not every platform tells
        return None
