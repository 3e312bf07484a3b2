"""Clocks of devices that the native core does not drive: a runtime brings its own, and tells what it is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from portakern.backend import Executable, Source, Target
from portakern.native import DeviceFacts
from portakern.timing.inputs import ArrayPlace
from portakern.timing.measure import Contender, Measurement, Options


class CallClock(Protocol):
    """Times calls on one device.  Their arrays lie in ``place``, and are never written by a call: it gives new ones."""

    driver: str
    ordinal: int
    facts: DeviceFacts
    place: ArrayPlace

    def synchronize(self, deadline_s: float = 0.0, stream: int = 0) -> None:
        """Waits until the device has nothing to do."""
        ...

    def measure(self, contenders: Sequence[Contender], options: Options) -> Measurement:
        """As :func:`portakern.timing.measure.measure` does; a contender's function returns what its work is waited for by."""
        ...


@runtime_checkable
class HasClock(Protocol):
    """A runtime that times its device by itself."""

    def clock(self, target: Target) -> CallClock: ...


@runtime_checkable
class TracesPrograms(Protocol):
    """A runtime that makes data of a program, so that a stranger's kernel can be timed in a process where its text never runs.

    ``tracing_environment`` is what the process needs set in which it is traced.
    """

    tracing_environment: Mapping[str, str]

    def trace(self, source: Source, sizes: Mapping[str, int]) -> bytes:
        """The program of ``source`` at fixed sizes, which runs the text."""
        ...

    def load_traced(self, source: Source, traced: bytes) -> Executable:
        """What :meth:`trace` gave, ready to run.  The data may be a stranger's: raises :class:`PortakernError` where running
        them would run more than kernels on the device."""
        ...
