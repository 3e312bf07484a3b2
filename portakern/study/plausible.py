"""Whether a time that a stranger's process gave can be that of its work; what cannot is an error with the reason.

Floors are far below what any kernel reaches, so that an honest time is never refused: what is cached, packed or computed in
fewer operations than the operator counts is still above them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portakern.device import Device
from portakern.errors import PortakernError
from portakern.ir import tensor as t
from portakern.ir.tensor import TensorProgram
from portakern.spec.cost import cost
from portakern.timing.inputs import bytes_of
from portakern.timing.roofline import Copy, peak_name

FASTEST_MEMORY = 1e14
"""Bytes a second that no cache of a device gives: what is faster was not written."""

MEMORY_SLACK = 3.0
"""How many times as fast as its copy, or its stated bandwidth, memory may be read where caches were flushed."""

FEWER_OPERATIONS = 8.0
"""A product by Strassen's or Winograd's algorithm, and causal attention, take fewer operations than are counted."""

HOST_HZ, HOST_OPERATIONS, HOST_NARROW = 6e9, 128, 4096
"""More than any processor's clock, and than its operations a cycle and core: two 512-bit units, or one for tiles of narrow
numbers."""

SHARE = 2 / 3
"""What is claimed may be so much shorter than what passed by the clock of who judges."""

DISTURBED = "timing-disturbed"

MOST_SAMPLES = 1_000_000


def consistent(time: Mapping[str, Any], elapsed_s: float) -> float:
    """The median of a time whose samples are positive and finite, no more of them than fit between start and end as the clock
    of this process tells, and whose median is theirs.  Raises :class:`PortakernError` of kind ``implausible-timing``."""
    samples = time.get("samples_us")
    if not isinstance(samples, list) or not 1 <= len(samples) <= MOST_SAMPLES or not all(_figure(x) for x in samples):
        raise implausible("its samples are no positive numbers")
    figures = [time.get(k) for k in ("median_us", "ci_low_us", "ci_high_us", "calls_per_sample")]
    if not all(_figure(x) for x in figures):
        raise implausible("its median, interval or number of calls is no positive number")
    median, low, high, calls = (float(x) for x in figures if isinstance(x, int | float))
    correction = time.get("correction_us")
    off = float(correction) if isinstance(correction, int | float) and 0 <= correction < math.inf else 0.0
    middle = float(np.median(samples)) - off
    if not low <= median <= high or abs(median - middle) > 0.05 * abs(middle) + 0.05:
        raise implausible(f"its median of {median:.4g} us is not that of its samples ({middle:.4g} us)")
    if sum(samples) * calls / 1e6 > elapsed_s:
        raise implausible("its samples last longer than the whole of it did")
    return median


@dataclass(frozen=True)
class Floor:
    """No call is shorter than this, for the reason given."""

    us: float
    why: str


def floors(program: TensorProgram, cold: bool, product: Device | None, copy: Copy | None) -> list[Floor]:
    """Of physics: bytes over bandwidth, operations over peak.

    Args:
        program: with every dim bound.
        cold: whether caches were flushed before each call.
        product: whose description states bandwidth and peaks; ``None`` for this processor.
        copy: the bandwidth that this process measured on the same device.
    """
    needs = cost(program)
    found = [Floor(sum(map(bytes_of, program.results)) / FASTEST_MEMORY * 1e6, "writing its results takes in any memory")]
    stated = product.figures.get("bandwidth") if product is not None else None
    speed = stated.value if stated is not None else copy.bytes_per_s if copy is not None else 0.0
    if cold and speed > 0 and isinstance(needs.read_bytes, int) and _reads_all(program):
        found.append(Floor(needs.read_bytes / (MEMORY_SLACK * speed) * 1e6, "its inputs take from this memory"))
    peak = _peak(program, product)
    if peak > 0 and isinstance(needs.flops, int) and _computes_all(program):
        found.append(Floor(needs.flops / FEWER_OPERATIONS / peak * 1e6, "its operations take on this device"))
    return found


def _peak(program: TensorProgram, product: Device | None) -> float:
    name = peak_name(program)
    if product is not None:
        figure = product.figures.get(name)
        return figure.value if figure is not None else 0.0
    wide = name in ("peak_f32", "peak_f64")
    return (os.cpu_count() or 1) * HOST_HZ * (HOST_OPERATIONS if wide else HOST_NARROW)


def _reads_all(program: TensorProgram) -> bool:
    """Whether every element of every input is needed: nothing is picked, cut out or masked by what is computed."""
    picks = t.Gather | t.Slice | t.Scatter | t.SegmentFold | t.SegmentContract | t.Windows
    return not any(isinstance(op, picks) or (isinstance(op, t.Map) and op.fn == "select") for op in program.body.walk())


def _computes_all(program: TensorProgram) -> bool:
    """Whether what is counted has to be computed but for the products' algorithms."""
    return any(isinstance(op, t.Contract | t.Convolve) for op in program.body.walk()) and _reads_all(program)


def at_least(median_us: float, floor: Floor) -> None:
    """Raises where the time is below the floor."""
    if median_us < floor.us:
        raise implausible(f"{median_us:.4g} us is less than the {floor.us:.4g} us that {floor.why}")


@dataclass(frozen=True)
class Group:
    """Microseconds a call of calls that were made together, by the clock of who judges, and how many of them somebody waited
    for a processor."""

    us: float
    waited_us: float


@dataclass(frozen=True)
class Claim:
    """What a kernel's process says that a call takes.  The shortest group, less ``slack_us`` a call for what the processes say
    to each other, may be as much longer as :data:`SHARE` says."""

    us: float
    slack_us: float

    def fits(self, groups: Sequence[Group]) -> bool:
        return any(self._fits(g.us) for g in groups)

    def hold(self, groups: Sequence[Group], stolen: bool = False) -> None:
        """Raises where all groups took far longer than is claimed: of kind :data:`DISTURBED` where waiting for a processor
        explains that, or a hypervisor took the machine (``stolen``).  Waiting excuses no time, it only says what to call it:
        a kernel's own threads may make each other wait."""
        if self.fits(groups):
            return
        seen = f"{self.us:.4g} us a call, where {min(g.us for g in groups):.4g} us passed by the clock of who judges"
        raise (disturbed if stolen or any(self._fits(g.us - g.waited_us) for g in groups) else implausible)(seen)

    def _fits(self, us: float) -> bool:
        return SHARE * us - self.slack_us <= self.us


def disturbed(why: str) -> PortakernError:
    """Says nothing of the kernel: what else the machine did is enough to explain what was seen."""
    return PortakernError(DISTURBED, f"no time can be told here now, since other work takes the processors: {why}",
                          hint="time again when the machine is idle; what was checked still holds")


def implausible(why: str) -> PortakernError:
    return PortakernError("implausible-timing", f"the time is not that of its work: {why}",
                          hint="a kernel must leave the clock and the process that calls it alone")


def _figure(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) and x > 0
