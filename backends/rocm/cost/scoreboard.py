"""The waves of one SIMD issued cycle by cycle: units that are busy, counters that are waited for, barriers.

What is modelled, after ROCm Compute Profiler's "Pipeline descriptions" and the CDNA 3 ISA guide (chapters 4.4 "Manually
inserted wait states" and "S_WAITCNT"): a wave issues an instruction every 4 cycles at best, in order; instructions of
different units issue beside each other from different waves; a matrix core works on one instruction at a time while vector
instructions go on; loads return in order and counters say how many are out; the other SIMDs of the compute unit are taken to
do the same, so each has its share of LDS and vector memory.  Among waves that could issue at once the one with the higher
priority goes first, then the one that waited longest.  Not modelled: instruction fetch, register bank conflicts, how many
requests the memory units queue.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from portakern.errors import PortakernError

from .instructions import ISSUE, Cost, Unit

INFINITE = 1 << 60


@dataclass(frozen=True)
class Latencies:
    """Cycles from issue to the last result, for an access that finds its unit idle; and how many SIMDs share the units."""

    lds: float
    load: float
    store: float
    scalar: float
    sharing: int = 4


@dataclass(frozen=True)
class Item:
    """One executed instruction: what it costs, and for how long it keeps LDS or vector memory busy (all SIMDs' use of them
    divided by this SIMD's share)."""

    cost: Cost
    lds: float = 0.0
    memory: float = 0.0


@dataclass
class Result:
    """Cycles from the first issue to the last wave's end; ``issued``: when each instruction of the first wave was, and its end.

    ``busy`` are cycles of each unit; ``exposed`` cycles in which neither the matrix core nor the vector ALUs had work, by what
    the wave that ended the pause had been waiting for; ``stalled`` the cycles that waves waited, hidden or not.
    """

    cycles: float
    issued: list[float]
    busy: Counter[Unit] = field(default_factory=Counter)
    exposed: Counter[str] = field(default_factory=Counter)
    stalled: Counter[str] = field(default_factory=Counter)
    pauses: list[tuple[float, float, str]] = field(default_factory=list)
    """(begin, cycles, reason) of each exposed pause."""
    work: list[tuple[float, float, Unit]] = field(default_factory=list)
    """(begin, cycles, unit) of everything that kept a unit busy."""


@dataclass
class _Wave:
    items: Sequence[Item]
    group: int
    number: int
    at: int = 0
    ready: float = 0.0
    priority: int = 0
    reason: str = "start"
    loads: list[float] = field(default_factory=list)
    local: list[float] = field(default_factory=list)
    arrived: float | None = None
    waited: float = 0.0
    issued: list[float] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return self.at >= len(self.items)


_COUNTER = re.compile(r"(vmcnt|lgkmcnt|expcnt|vscnt)\((\d+)\)")
_KNOWN = re.compile(r"s_(waitcnt|waitcnt_vscnt|nop|barrier|setprio|sleep|sethalt|inst_prefetch|icache_inv|sendmsg|ttracedata)")


def run(waves: Sequence[tuple[int, Sequence[Item]]], latencies: Latencies) -> Result:
    """``waves``: (workgroup, what the wave executes) of the waves that share a SIMD.  Raises :class:`PortakernError` where
    waves wait for each other at barriers for ever."""
    return _Simd([_Wave(items, group, n) for n, (group, items) in enumerate(waves)], latencies).run()


class _Simd:
    def __init__(self, waves: list[_Wave], latencies: Latencies) -> None:
        self.waves, self.latencies = waves, latencies
        self.free: dict[str, float] = dict.fromkeys(
            ("matrix", "vector", "port", "scalar", "lds", "lds_port", "memory", "memory_port"), 0.0
        )
        self.exclusive = 0.0  # until when a matrix instruction lets no vector instruction run
        self.worked = 0.0  # until when the matrix core or the vector ALUs had work
        self.result = Result(0.0, [])

    def run(self) -> Result:
        while True:
            waiting = [w for w in self.waves if not w.done and w.arrived is None]
            if not waiting:
                if all(w.done for w in self.waves):
                    break
                self._release(force=True)
                continue
            best = min(waiting, key=lambda w: (self._earliest(w), -w.priority, w.ready, w.number))
            self._issue(best, self._earliest(best))
        self.result.cycles = max((w.ready for w in self.waves), default=0.0)
        self.result.issued = [*self.waves[0].issued, self.waves[0].ready] if self.waves else []
        return self.result

    # ---- when

    def _earliest(self, w: _Wave) -> float:
        cost = w.items[w.at].cost
        match cost.unit:
            case Unit.MATRIX:
                return max(w.ready, self.free["matrix"], self.free["port"])
            case Unit.VECTOR:
                return max(w.ready, self.free["vector"], self.free["port"], self.exclusive)
            case Unit.SCALAR | Unit.SCALAR_MEMORY | Unit.BRANCH:
                return max(w.ready, self.free["scalar"])
            case Unit.LDS:
                return max(w.ready, self.free["lds_port"])
            case Unit.VECTOR_MEMORY:
                return max(w.ready, self.free["memory_port"])
        return w.ready

    # ---- what

    def _issue(self, w: _Wave, t: float) -> None:
        item = w.items[w.at]
        cost = item.cost
        w.issued.append(t)
        w.at += 1
        w.ready = t + ISSUE
        match cost.unit:
            case Unit.MATRIX:
                self._work(w, t, cost.cycles, Unit.MATRIX)
                self.free["matrix"] = t + cost.cycles
                self.free["port"] = t + ISSUE
                if cost.matrix is not None and not cost.matrix.overlaps:
                    self.exclusive = t + cost.cycles
            case Unit.VECTOR:
                self._work(w, t, cost.cycles, Unit.VECTOR)
                self.free["vector"] = t + cost.cycles
                self.free["port"] = t + ISSUE
            case Unit.SCALAR | Unit.BRANCH:
                self.free["scalar"] = t + ISSUE
                self._busy(t, ISSUE, cost.unit)
            case Unit.SCALAR_MEMORY:
                self.free["scalar"] = t + ISSUE
                self._busy(t, ISSUE, cost.unit)
                w.local.append(t + self.latencies.scalar)
            case Unit.LDS:
                self.free["lds_port"] = t + ISSUE
                w.local.append(self._served("lds", t, item.lds, Unit.LDS) + self.latencies.lds)
            case Unit.VECTOR_MEMORY:
                self._memory(w, t, item)
            case Unit.INTERNAL:
                self._internal(w, t, cost)
        if w.done:
            self._release()

    def _memory(self, w: _Wave, t: float, item: Item) -> None:
        self.free["memory_port"] = t + ISSUE
        end = self._served("memory", t, item.memory, Unit.VECTOR_MEMORY)
        if item.lds:
            end = max(end, self._served("lds", end, item.lds, Unit.LDS))
        back = end + (self.latencies.store if item.cost.writes else self.latencies.load)
        w.loads.append(max(back, w.loads[-1] if w.loads else 0.0))  # they return in order

    def _served(self, unit: str, t: float, cycles: float, counted: Unit) -> float:
        """When a shared unit has done its part; it takes requests in order."""
        begin = max(t, self.free[unit])
        self.free[unit] = begin + cycles * self.latencies.sharing
        self._busy(begin, cycles * self.latencies.sharing, counted)
        return self.free[unit]

    def _busy(self, t: float, cycles: float, unit: Unit) -> None:
        self.result.busy[unit] += cycles  # type: ignore[assignment]
        self.result.work.append((t, cycles, unit))

    def _work(self, w: _Wave, t: float, cycles: float, unit: Unit) -> None:
        if t > self.worked:
            self.result.exposed[w.reason] += t - self.worked  # type: ignore[assignment]
            self.result.pauses.append((self.worked, t - self.worked, w.reason))
        self.worked = max(self.worked, t + cycles)
        w.reason = "issue"
        self._busy(t, cycles, unit)

    # ---- waits

    def _internal(self, w: _Wave, t: float, cost: Cost) -> None:
        name = cost.name
        text = " ".join((*cost.instruction.operands, *cost.instruction.modifiers))
        if name.startswith("s_waitcnt"):
            counters = dict(_COUNTER.findall(text))
            if not counters:
                raise PortakernError("unknown-instruction", f"the cost model cannot read the counters of {cost.instruction}")
            self._wait(w, t, "vmcnt", w.loads, int(counters.get("vmcnt", INFINITE)))
            self._wait(w, t, "lgkmcnt", w.local, int(counters.get("lgkmcnt", INFINITE)))
        elif name == "s_nop":
            extra = ISSUE * int(text, 0)
            w.ready += extra
            if extra:
                w.reason = "s_nop"
        elif name == "s_barrier":
            w.arrived = t
            self._release()
        elif name == "s_setprio":
            w.priority = int(text, 0)
        elif not _KNOWN.fullmatch(name):
            raise PortakernError("unknown-instruction", f"the cost model does not know {cost.instruction}")

    def _wait(self, w: _Wave, t: float, name: str, out: list[float], left: int) -> None:
        if len(out) <= left:
            return
        if left == 0:
            until = max(out)
            out.clear()
        else:
            until = out[-left - 1]
            del out[: len(out) - left]
        if until > w.ready:
            self.result.stalled[name] += until - w.ready  # type: ignore[assignment]
            w.ready, w.reason = until, name

    def _release(self, force: bool = False) -> None:
        """Barriers at which every wave of the workgroup has arrived."""
        groups = {w.group for w in self.waves if w.arrived is not None}
        free = False
        for group in groups:
            members = [
                w for w in self.waves if (w.group == group and not w.done) or (w.group == group and w.arrived is not None)
            ]
            if any(w.arrived is None for w in members):
                continue
            until = max(w.arrived or 0.0 for w in members) + ISSUE
            for w in members:
                if until > w.ready:
                    self.result.stalled["s_barrier"] += until - w.ready  # type: ignore[assignment]
                    w.ready, w.reason = until, "s_barrier"
                w.arrived = None
            free = True
        if force and not free:
            raise PortakernError("deadlock", "the waves of this SIMD wait for each other at barriers for ever")
