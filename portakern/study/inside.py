"""Timing a stranger's kernel: the side that holds the kernel.

It times by :class:`portakern.study.timing.Session`, on arrays that the side that judges has made and exchanges before every
block of samples (:mod:`portakern.study.apart`).  A device with memory of its own takes its arrays from these, and brings its
results there.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from portakern import native
from portakern.backend import CompiledBinary, HostBuffer, Prepared
from portakern.errors import PortakernError
from portakern.launch import prepare
from portakern.native import open_device
from portakern.referee.bell import ASKED, BLOCK, BYTES, END, ENDED, GO, SERVED, Bell
from portakern.referee.shared import fence, mapped_in
from portakern.study.peers_inside import HERE, endless
from portakern.study.row import Row
from portakern.study.steps import Build, guarded
from portakern.study.timing import Session
from portakern.study.work import Work
from portakern.timing.inputs import HostPlace, InputSets, bytes_of, how_many
from portakern.timing.measure import Contender, Options, Timing, measure

LIMIT_S = 3600.0
"""How long the other side is waited for, which ends this process when it ends."""


def begin(work: Work, made: Build, binary: CompiledBinary | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Loads the kernel; gives how many sets of inputs it wants, or the error."""
    global _held

    def step() -> Build:
        global _held
        _held = Inside(work, made, Options(**options), binary)
        return made

    error = guarded(made.row, step).row.error
    return {"error": error} if _held is None else {"error": None, "sets": _held.wanted(), "queues": not _held.in_place}


def take(size: int, described: list[list[dict[str, Any]]], descriptor: int) -> dict[str, Any]:
    """The arrays of every set; each set's call is prepared and made once."""
    return _tried(lambda held: held.take(size, described, descriptor))


def clock(group: int, times: int) -> dict[str, Any]:
    """Every set's call ``times`` times, ``group`` sets together, each group from when the bell says so."""
    return _tried(lambda held: held.clock(group, times))


def sample(place: str, in_turns: bool) -> dict[str, Any]:
    """The time by the clock of a place; with ``in_turns`` the other side says when it is enough."""
    assert _held is not None
    held = _held
    held.in_turns = in_turns
    row = guarded(held.made.row, lambda: Build(held.run((), {}) if place == HERE else held.whole())).row
    return {"error": row.error, "time": row.time}


def _tried(step: Callable[[Inside], None]) -> dict[str, Any]:
    assert _held is not None
    held = _held

    def done() -> Build:
        step(held)
        return held.made

    return {"error": guarded(held.made.row, done).row.error}


@dataclass
class Inside(Session):
    """A session on arrays that are not its own."""

    bell: Bell = field(init=False)
    buffers: list[dict[str, HostBuffer]] = field(init=False)
    last: int | None = None
    in_turns: bool = False

    @property
    def in_place(self) -> bool:
        return isinstance(self.place, HostPlace)

    def wanted(self) -> int:
        self.sets = InputSets(self.place, scalars=self.program.scalars)
        self.sets.per_set = sum(map(bytes_of, (*self.program.args, *self.program.results)))
        facts = self.device.facts
        return how_many(self.sets.per_set, facts.cache_bytes, facts.memory_bytes, self.options.cache == "warm")

    # ---- arrays

    def take(self, size: int, described: list[list[dict[str, Any]]], descriptor: int) -> None:
        # Every page at once, so that no call pays for seeing one for the first time.
        memory = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        os.close(descriptor)
        assert size >= BYTES
        self.bell = Bell(memory)
        fence(memory, [row for rows in described for row in rows])
        self.buffers = [mapped_in(memory, d) for d in described]
        for buffers in self.buffers:
            host = {a.name: buffers[a.name].array for a in self.program.args}
            self.sets.host.append(host)
            self.sets.arrays.append([x.item() if n in self.program.scalars else self._array(x) for n, x in host.items()])
        self.prepared = [self._prepared(arrays, b) for arrays, b in zip(self.sets.arrays, self.buffers, strict=True)]
        self.before = [self._outputs(p) for p in self.prepared]

    def _array(self, x: np.ndarray) -> Any:
        return x if self.in_place else self.place.put(x)

    def _prepared(self, arrays: Sequence[Any], buffers: Mapping[str, HostBuffer]) -> Prepared:
        outputs = [buffers[n].array for n in self.program.outputs] if self.in_place else None
        return prepare(self.executable, arrays, self.work.sizes, outputs)

    def _outputs(self, p: Prepared) -> list[np.ndarray]:
        p()
        self._wait()
        return self._read(p)

    def fetch(self, number: int) -> None:
        """Results of a set, from the device to where they are judged."""
        if not self.in_place:
            for name, x in zip(self.program.outputs, self.prepared[number].outputs, strict=True):
                self.buffers[number][name].array[...] = self.place.get(x)

    def exchange(self, number: int) -> None:
        """What was put into a set's arrays, to the device."""
        if not self.in_place:
            for array, x in zip(self.sets.arrays[number], self.sets.host[number].values(), strict=True):
                if x.ndim:
                    self.place.write(array, x)
            for name, x in zip(self.program.outputs, self.prepared[number].outputs, strict=True):
                self.place.write(x, self.buffers[number][name].array)
            self._wait()

    # ---- what the other side is told and waited for

    def refresh(self, block: int, last: Sequence[float]) -> bool:
        """Before a block of samples: new inputs in the arrays, and poison in the outputs, that it will use.  Whether there is
        such a block; ``last`` is what one took before."""
        count = len(self.sets)
        numbers = range(count) if self.options.cache == "warm" else [block % count]
        if self.last is not None:
            for number in range(count) if self.options.cache == "warm" else [self.last % count]:
                self.fetch(number)
        self.bell[BLOCK] = block
        self.bell.figures[: len(last)] = last
        self.bell[ASKED] = asked = self.bell[ASKED] + 1
        if not self.bell.wait(SERVED, asked, LIMIT_S, spin_s=0.01):
            raise PortakernError("timeout", "the side that judges gave no new inputs")
        if self.bell[END]:
            return False
        for number in numbers:
            self.exchange(number)
        self.last = block
        return True

    def whole(self) -> Row:
        """The row with the time of whole calls, by the host's clock."""
        found = self.measured(open_device("host"), self._ours_whole())
        samples = [float(x) for x in found.samples_us]
        return self.made.row.but(time={
            "samples_us": samples, "samples": len(samples), "median_us": found.median_us, "ci_low_us": found.ci_low_us,
            "ci_high_us": found.ci_high_us, "correction_us": found.correction_us, "calls_per_sample": found.calls_per_sample,
        })  # fmt: skip

    def measured(self, device: native.Device, ours: Contender) -> Timing:
        return measure(device, [ours], self._how(), self.refresh).timings[0]

    def _how(self) -> Options:
        return endless(self.options) if self.in_turns else self.options

    def clock(self, group: int, times: int) -> None:
        for n in range(len(self.sets)):
            self.exchange(n)
        stream = self.prepared[0].stream
        for first in range(0, len(self.prepared), group):
            group_of = self.prepared[first : first + group]
            self.bring(range(first, first + len(group_of)))
            calls = [p if p.call is None else p.call for p in group_of] * times
            self.bell[ASKED] = asked = self.bell[ASKED] + 1
            self.bell.wait(GO, asked, LIMIT_S, spin_s=1.0)
            for call in calls:
                call(stream)
            self._wait()
            self.bell[ENDED] = asked
        for n in range(len(self.sets)):
            self.fetch(n)

    def bring(self, numbers: Sequence[int]) -> None:
        """Arrays into the caches here: what another core has just written comes from there more slowly than from memory."""
        for number in numbers if self.in_place else ():
            for buffer in self.buffers[number].values():
                buffer.array.tobytes()

    # ---- in place of what a session does with arrays of its own

    def _make_sets(self) -> None: ...

    def _prepare(self) -> None: ...

    def _poison(self) -> None: ...

    def _recheck(self, ours: Timing) -> None:
        """The other side does."""
        for number in range(len(self.sets)):
            self.fetch(number)

    def _copy(self) -> None:
        """The other side measures it."""

    def _refreshing(self, device: native.Device) -> Callable[[int, list[float]], bool] | None:
        return self.refresh if device is self.device else None


_held: Inside | None = None
