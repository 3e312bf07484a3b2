"""What jax's profiler says of the device: when each program of XLA ran there.

A trace is an XSpace (``*.xplane.pb``).  A TPU has a plane in it, ``/device:TPU:<number>``, whose line ``XLA Modules`` has an
event for each run of a program, named ``jit_<function>(<fingerprint>)``, by the clock of the device.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODULES = "XLA Modules"


@dataclass(frozen=True, order=True)
class Run:
    """One run of a program on the device, in nanoseconds of its clock."""

    start_ns: float
    duration_ns: float
    name: str

    @property
    def end_ns(self) -> float:
        return self.start_ns + self.duration_ns


@dataclass
class Trace:
    """``runs`` in the order of their beginning; ``None`` where the trace has no plane of the device."""

    runs: list[Run] | None = None
    planes: tuple[str, ...] = field(default=())


@contextlib.contextmanager
def traced(ordinal: int) -> Iterator[Trace]:
    """What runs meanwhile on the device number ``ordinal``; to be read when it has ended."""
    import jax

    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 1
    found = Trace()
    with tempfile.TemporaryDirectory(prefix="portakern-trace-") as folder:
        jax.profiler.start_trace(folder, profiler_options=options)
        try:
            yield found
        finally:
            jax.profiler.stop_trace()
        read(Path(folder), ordinal, found)


def read(folder: Path, ordinal: int, into: Trace) -> None:
    """The trace that was written below ``folder``."""
    from jax.profiler import ProfileData

    for path in sorted(folder.rglob("*.xplane.pb")):
        for plane in ProfileData.from_file(str(path)).planes:
            into.planes += (plane.name,)
            if plane.name == f"/device:TPU:{ordinal}":
                into.runs = [*(into.runs or []), *_runs(plane)]
    if into.runs is not None:
        into.runs.sort()


def _runs(plane: Any) -> Iterator[Run]:
    for line in plane.lines:
        if line.name == MODULES:
            yield from (Run(e.start_ns, e.duration_ns, e.name) for e in line.events)
