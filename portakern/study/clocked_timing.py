"""Timing a row on a device that has its own clock, and whose arrays no call writes (:mod:`portakern.timing.call_clock`).

What a call gives is new each time, so that outputs need no poison and inputs cannot be changed by a call; that all sets give
the same bits after the loop as before is checked as elsewhere.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from portakern.backend import Executable, Prepared, Source
from portakern.check.expected import expected
from portakern.check.sampled import affordable
from portakern.errors import PortakernError
from portakern.referee.messages import TEXT_BYTES, member
from portakern.referee.process import Fresh, KernelProcess
from portakern.registry import registry
from portakern.study.peer_calls import differing
from portakern.study.row import Row
from portakern.study.stranger import doing_text
from portakern.study.timing import OURS, Session
from portakern.timing.call_clock import CallClock, TracesPrograms
from portakern.timing.measure import Contender, Measurement, Timing, measure
from portakern.timing.roofline import Copy
from portakern.tools.process import merged_environment


class ClockedSession(Session):
    clock: CallClock

    def _find_device(self) -> Any:
        self.clock = self.runtime.clock(self.target)  # type: ignore[attr-defined]
        self.place = self.clock.place
        return self.clock

    def _loop(self, device: Any, contenders: Sequence[Contender]) -> Measurement:
        if device is self.clock:
            return self.clock.measure(contenders, self._how())
        return measure(device, contenders, self._how())

    def _outputs(self, p: Prepared) -> list[np.ndarray]:
        p()
        return self._read(p)

    def _poison(self) -> None:
        """Nothing can be written."""

    def _recheck(self, ours: Timing) -> None:
        for number, (p, before) in enumerate(zip(self.prepared, self.before, strict=True)):
            self._expect(self._outputs(p), before,
                         f"the outputs of input set {number} after timing differ from those before it")  # fmt: skip

    def _ours(self) -> Contender:
        prepared: Sequence[Any] = self.prepared
        return Contender(OURS, lambda i: prepared[i % len(prepared)]())

    def _copy(self) -> Copy | None:
        return None


class TracedSession(ClockedSession):
    """Of a stranger's kernel.  Its text runs in a jail, where it is traced; what comes of that is data, a program for the
    device without a state, which is run and timed here.  What it gives is held against the oracle once more."""

    def _load(self) -> Executable:
        assert self.made.source is not None and self.work.foreign is not None
        if not isinstance(self.runtime, TracesPrograms):
            raise PortakernError("not-timed", f"a kernel from elsewhere is not timed on {self.target}: the device's time would "
                                 "be told by the kernel's own process")  # fmt: skip
        foreign, environment = self.work.foreign, merged_environment(dict(self.runtime.tracing_environment))
        with KernelProcess(foreign.jail, foreign.memory_bytes, doing_text(self.work, "tracing"),
                           start=lambda theirs: Fresh(theirs, environment)) as process:  # fmt: skip
            told = process.call(f"{__name__}:traced", (self.made.source, dict(self.work.sizes)))
        try:
            data = base64.b64decode(member(told, "program", str, TEXT_BYTES), validate=True)
        except ValueError:
            raise PortakernError("exception", "what the kernel's process gave is no program") from None
        return self.runtime.load_traced(self.made.source, data)

    def run(self, against: Sequence[str], lost: Mapping[str, str]) -> Row:
        row = super().run(against, lost)
        return row.but(method=f"{row.method}; timed as data, which its text was traced to in a process of its own")

    def _prepare(self) -> None:
        super()._prepare()
        inputs, dtypes = self.sets.host[0], self._peer_calls().subject.dtypes
        if affordable(self.program):
            wanted = [v.x for v in expected(self.program, inputs).values()]
            if message := differing(self.program, dtypes, wanted, self.before[0]):
                raise PortakernError("incorrect", f"what is timed computes something else: {message}")


def traced(source: Source, sizes: Mapping[str, int]) -> dict[str, Any]:
    """In the kernel's process: its program as data."""
    runtime = registry().language(source.target.language).runtime
    assert isinstance(runtime, TracesPrograms)
    return {"program": base64.b64encode(runtime.trace(source, sizes)).decode()}
