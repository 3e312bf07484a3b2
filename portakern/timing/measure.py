"""Timing on a device: the native protocol of docs/timing.md, with its results as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from portakern.errors import PortakernError
from portakern.native import DeviceFacts, DeviceHealth, core
from portakern.timing.statistics import bootstrap_ratio, verdict

if TYPE_CHECKING:
    import numpy as np

    from portakern import native
    from portakern.native import Call

THROTTLED, UNGATED = 1, 2
"""Flags of a sample: the device said that it was slowed down; it was queued while the stream was already running although
the driver has a gate."""


@dataclass(frozen=True)
class Options:
    """How to measure.

    ``budget_s`` is per contender and does not count warming up (``warm_up_s`` at least, five times that at most); it may end
    sampling before ``min_samples``, but not before 5.  Sampling stops when the ``confidence`` interval of every median is
    narrower than ``width`` (relative; 0: never) and every verdict is settled or its ratio's interval narrower than half of
    ``margin``.  ``cache``: ``cold`` flushes the caches before each sample, ``warm`` puts
    untimed calls before it.  ``mode``: ``single`` has one call in a sample;
    ``graph`` and ``batch`` have several, warm only; ``auto`` is ``single`` but for warm calls under 10 us (20 us on the host).
    ``deadline_s`` is for one sample; ``gate_limit_s`` the longest that a call may take to queue behind the closed gate.
    """

    budget_s: float = 2.0
    min_samples: int = 20
    max_samples: int = 2000
    width: float = 0.01
    margin: float = 0.01
    cache: Literal["cold", "warm"] = "cold"
    mode: Literal["auto", "single", "graph", "batch"] = "auto"
    deadline_s: float = 10.0
    seed: int = 0
    confidence: float = 0.95
    warm_up_s: float = 0.1
    gate_limit_s: float = 0.05


@dataclass
class Contender:
    """What is timed: prepared calls taken in turns, or ``f(i)``, which does or queues a call with its i-th inputs.

    ``stream`` is the native handle of the stream that it queues on.
    """

    name: str
    calls: Sequence[Call] | Call | Callable[[int], Any]
    stream: int = 0


class ContenderError(PortakernError):
    """A contender failed while it was timed.  ``contender`` is its name, ``kind`` that of the error behind it."""

    def __init__(self, contender: str, error: BaseException) -> None:
        known = isinstance(error, PortakernError)
        message = error.message if known else f"{type(error).__name__}: {error}"
        super().__init__(error.kind if known else "contender", f"{contender}: {message}", error.hint if known else "")
        self.contender = contender


@dataclass(frozen=True)
class Timing:
    """What one contender took, in microseconds per call.

    ``samples_us`` are as measured, in the order taken; ``correction_us`` is what the pair of events itself costs, which
    the median, its interval and the quantiles (10, 25, 75, 90 %) have taken off.  ``empty_us`` is an empty launch measured
    the same way.  ``launch_us`` is how long a call keeps the caller, ``end_to_end_us`` how long until its work is done,
    both with warm caches and nothing else queued; ``launch_us`` is ``None`` where calls have ended when they return.
    ``overhead_us`` is the host's time per sample beyond what it measures.  ``flags`` has a bit set per sample
    (``THROTTLED``, ``UNGATED``).  ``suspicions`` says what does not fit together;
    ``incomplete`` is true where that means that the samples cannot be all of the work (some of it runs elsewhere, or later):
    such a time must not be compared.
    """

    name: str
    samples_us: np.ndarray
    flags: np.ndarray
    blocks: int
    median_us: float
    ci_low_us: float
    ci_high_us: float
    quantiles_us: Mapping[int, float]
    correction_us: float
    empty_us: float | None
    launch_us: float | None
    end_to_end_us: float
    overhead_us: float
    calls_per_sample: int
    mode: str
    suspicions: tuple[str, ...]
    incomplete: bool

    @property
    def device_us(self) -> np.ndarray:
        """The samples with the correction taken off."""
        return self.samples_us - self.correction_us


@dataclass(frozen=True)
class Comparison:
    """How many times as long as the base the contender ``name`` takes, and what that says of the base."""

    name: str
    ratio: float
    ci_low: float
    ci_high: float
    verdict: str


@dataclass(frozen=True)
class Measurement:
    """What came of timing contenders in turns.  ``stopped`` is ``width``, ``budget``, ``samples`` or ``asked``."""

    timings: tuple[Timing, ...]
    facts: DeviceFacts
    health_before: DeviceHealth | None
    health_after: DeviceHealth | None
    blocks: int
    stopped: str
    options: Options

    @property
    def seed(self) -> int:
        return self.options.seed

    def comparisons(self, base: int = 0) -> tuple[Comparison, ...]:
        """The contender number ``base`` against each of the others."""
        ours = self.timings[base]
        return tuple(compared(ours, t, self.options) for n, t in enumerate(self.timings) if n != base)


def compared(ours: Timing, theirs: Timing, options: Options) -> Comparison:
    """Samples of the same number were taken in turns."""
    count = min(len(ours.samples_us), len(theirs.samples_us))
    a, b = ours.device_us[:count], theirs.device_us[:count]
    ratio, low, high = bootstrap_ratio(a, b, options.confidence, options.seed)  # type: ignore[arg-type]
    return Comparison(theirs.name, ratio, low, high, verdict(low, high, options.margin))


def measure(device: native.Device, contenders: Sequence[Contender], options: Options | None = None,
            refresh: Callable[[int, list[float]], Any] | None = None) -> Measurement:  # fmt: skip
    """Times contenders in turns, in random blocks, on one device.

    Args:
        device: where their work runs; ``open_device("host")`` for work that is done when the call returns.
        contenders: at least one.  Prepared calls belong to ``device`` and are used by nobody else meanwhile.
        options: how.
        refresh: given the number of each block before it is sampled, outside of every sample, and the samples of the last
            block in microseconds, by contender; the block's calls take their inputs by that number.  ``False`` ends it.

    Raises:
        ContenderError: one failed; its ``kind`` is ``timeout`` where it passed the deadline.  What was measured is lost.
        PortakernError: options that make no sense.
        KeyboardInterrupt: at the end of the sample that it came in.
    """
    options = options or Options()
    failed: list[str] = []
    given = [(c.name, c.calls, c.stream) for c in contenders]
    try:
        found = core().measure(device, given, options, failed, refresh)
    except ValueError as error:
        if failed:
            raise ContenderError(failed[0], error) from error
        raise PortakernError("bad-argument", str(error)) from None
    except Exception as error:
        if failed:
            raise ContenderError(failed[0], error) from error
        raise
    blocks = found["blocks"]
    timings = tuple(Timing(blocks=blocks, **t) for t in found["timings"])
    return Measurement(timings, device.facts, found["before"], found["after"], blocks, found["stopped"], options)
