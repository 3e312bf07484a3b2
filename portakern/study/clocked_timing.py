"""Timing a row on a device that has its own clock, and whose arrays no call writes (:mod:`portakern.timing.call_clock`).

What a call gives is new each time, so that outputs need no poison and inputs cannot be changed by a call; that all sets give the
same bits after the loop as before is checked as elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portakern.backend import Prepared
from portakern.study.timing import OURS, Session
from portakern.timing.call_clock import CallClock
from portakern.timing.measure import Contender, Measurement, Timing, measure
from portakern.timing.roofline import Copy


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
            self._expect(self._outputs(p), before, f"the outputs of input set {number} after timing differ from those before it")

    def _ours(self) -> Contender:
        prepared: Sequence[Any] = self.prepared
        return Contender(OURS, lambda i: prepared[i % len(prepared)]())

    def _copy(self) -> Copy | None:
        return None
