"""The waves of one SIMD issued cycle by cycle: units that are busy, counters that are waited for, barriers.

What is modelled, after ROCm Compute Profiler's "Pipeline descriptions" and the CDNA 3 ISA guide (chapters 4.4 "Manually
inserted wait states" and "S_WAITCNT"): a wave issues an instruction every 4 cycles at best, in order; instructions of
different units issue beside each other from different waves; a matrix core works on one instruction at a time while vector
instructions go on; loads return in order and counters say how many are out; the other SIMDs of the compute unit are taken to
do the same, so each has its share of LDS and vector memory.  Among waves that could issue at once the one with the higher
priority goes first, then the one that waited longest.  RDNA's waves issue every cycle and wait for registers whose instruction
has not finished; two instructions that are issued together take one issue; barriers of gfx12 are signalled and waited for.
Not modelled: instruction fetch, register bank conflicts, how many requests the memory units queue.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from portakern.errors import PortakernError

from .generation import Generation, generation
from .instructions import InstructionCost, Unit, returns
from .operands import RegisterSet


@dataclass(frozen=True)
class Latencies:
    """Cycles from issue to the last result, for an access that finds its unit idle; and how many SIMDs share the units."""

    lds: float
    load: float
    store: float
    scalar: float
    sharing: int = 4
    of: Generation = field(default_factory=lambda: generation("gfx942"))


@dataclass(frozen=True)
class Item:
    """One executed instruction: what it costs, and for how long it keeps LDS or vector memory busy (all SIMDs' use of them
    divided by this SIMD's share)."""

    cost: InstructionCost
    lds: float = 0.0
    memory: float = 0.0


@dataclass
class ScoreboardResult:
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
    out: dict[str, list[float]] = field(default_factory=dict)
    """When what is under way comes back, by counter."""
    arrived: float | None = None
    signals: list[float] = field(default_factory=list)
    """When it signalled each barrier, and how many it passed."""
    passed: int = 0
    issued: list[float] = field(default_factory=list)
    finished: dict[tuple[str, int], float] = field(default_factory=dict)
    """When registers can be read, where hardware waits for them."""
    depends: float = 0.0
    """When those of the next instruction can."""
    results: float = 0.0
    """When all can."""

    @property
    def done(self) -> bool:
        return self.at >= len(self.items)


_COUNTER = re.compile(r"(vmcnt|lgkmcnt|expcnt|vscnt)\((\d+)\)")
_SPLIT = re.compile(r"s_wait_(loadcnt|storecnt|dscnt|kmcnt|samplecnt|bvhcnt|expcnt|xcnt)(?:_(dscnt))?")
_KNOWN = re.compile(
    r"s_(sleep\w*|sethalt|inst_prefetch|icache_inv|sendmsg|sendmsghalt|ttracedata|delay_alu|clause|set_inst_prefetch_distance"
    r"|round_mode|denorm_mode|wakeup|version|code_end)"
)

DEPENDENCY = "dependency"


def counters_of(cost: InstructionCost) -> dict[str, int]:
    """What a wait leaves under way, by counter.  LLVM, "Syntax of AMDGPU Instructions": two counters in one of gfx12's waits
    are the first above bit 8 and the second below."""
    i = cost.instruction
    text = " ".join((*i.operands, *i.modifiers))
    found = {name: int(count) for name, count in _COUNTER.findall(text)}
    if not found and cost.name == "s_waitcnt_vscnt":
        found = {"vscnt": int(i.operands[-1], 0)}
    if not found and (both := _SPLIT.fullmatch(cost.name)) is not None:
        value = int(i.operands[-1], 0)
        found = {both[1]: value >> 8, both[2]: value & 0x3F} if both[2] else {both[1]: value}
    if not found:
        raise PortakernError("unknown-instruction", f"the cost model cannot read the counters of {i}")
    return found


def _needed(then: InstructionCost, before: InstructionCost) -> RegisterSet:
    """The registers that ``then`` waits for.  A matrix product that adds to the sums of the one before it does not wait for
    them (LLVM's hazard recogniser asks for no wait states there)."""
    if then.matrix is not None and before.matrix is not None and then.defines == before.defines:
        return then.reads - then.defines
    return then.reads | then.defines


def run(waves: Sequence[tuple[int, Sequence[Item]]], latencies: Latencies) -> ScoreboardResult:
    """``waves``: (workgroup, what the wave executes) of the waves that share a SIMD.  Raises :class:`PortakernError` where
    waves wait for each other at barriers for ever."""
    return _Simd([_Wave(items, group, n) for n, (group, items) in enumerate(waves)], latencies).run()


class _Simd:
    def __init__(self, waves: list[_Wave], latencies: Latencies) -> None:
        self.waves, self.latencies, self.of = waves, latencies, latencies.of
        self.free: dict[str, float] = dict.fromkeys(
            ("matrix", "vector", "port", "scalar", "lds", "lds_port", "memory", "memory_port", "slow"), 0.0
        )
        self.exclusive = 0.0  # until when a matrix instruction lets no vector instruction run
        self.worked = 0.0  # until when the matrix core or the vector ALUs had work
        self.result = ScoreboardResult(0.0, [])

    def run(self) -> ScoreboardResult:
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
        ready = max(w.ready, w.depends)
        match cost.unit:
            case Unit.MATRIX:
                busy = self.free["vector"] if self.of.rdna else 0.0
                return max(ready, self.free["matrix"], self.free["port"], busy)
            case Unit.VECTOR:
                busy = self.free["slow"] if cost.slow else 0.0
                return max(ready, self.free["vector"], self.free["port"], self.exclusive, busy)
            case Unit.SCALAR | Unit.SCALAR_MEMORY | Unit.BRANCH:
                return max(ready, self.free["scalar"])
            case Unit.LDS:
                return max(ready, self.free["lds_port"])
            case Unit.VECTOR_MEMORY:
                return max(ready, self.free["memory_port"])
        return ready

    # ---- what

    def _issue(self, w: _Wave, t: float) -> None:
        item = w.items[w.at]
        cost, issue = item.cost, self.of.issue
        w.issued.append(t)
        w.at += 1
        if w.depends > w.ready:
            w.reason = DEPENDENCY
        w.ready = t if cost.instruction.paired else t + issue
        if self.of.interlocked:
            self._finish(w, t, cost)
        match cost.unit:
            case Unit.MATRIX:
                self._work(w, t, cost.cycles, Unit.MATRIX)
                self.free["matrix"] = t + cost.cycles
                self.free["port"] = t + issue
                if cost.matrix is not None and not cost.matrix.overlaps:
                    self.exclusive = t + cost.cycles
            case Unit.VECTOR:
                self._vector(w, t, cost)
            case Unit.SCALAR | Unit.BRANCH:
                self.free["scalar"] = t + issue
                self._busy(t, issue, cost.unit)
            case Unit.SCALAR_MEMORY:
                self.free["scalar"] = t + issue
                self._busy(t, issue, cost.unit)
                self._under_way(w, self.of.scalars, t + self.latencies.scalar)
            case Unit.LDS:
                self.free["lds_port"] = t + issue
                back = self._served("lds", t, item.lds, Unit.LDS) + self.latencies.lds
                self._under_way(w, self.of.lds, back)
            case Unit.VECTOR_MEMORY:
                self._memory(w, t, item)
            case Unit.INTERNAL:
                self._internal(w, t, cost)
        if w.done:
            self._release()

    def _vector(self, w: _Wave, t: float, cost: InstructionCost) -> None:
        if cost.instruction.paired:  # the other one of the two takes the ALUs
            return
        taken = self.of.issue if cost.slow and self.of.rdna else cost.cycles
        if cost.slow:
            self.free["slow"] = t + cost.cycles
        self._work(w, t, taken, Unit.VECTOR)
        self.free["vector"] = t + taken
        self.free["port"] = t + self.of.issue

    def _finish(self, w: _Wave, t: float, cost: InstructionCost) -> None:
        """Notes when the results can be read, and waits for what the next instruction reads or overwrites."""
        until = t + cost.latency
        if cost.latency:
            w.results = max(w.results, until)
            for each in cost.defines:
                w.finished[each] = until
        w.depends = 0.0
        if w.done:
            return
        if cost.instruction.paired:  # the other one of the two was waited for with it
            return
        then = w.items[w.at].cost
        needed = _needed(then, cost)
        if then.instruction.paired:
            needed |= _needed(w.items[w.at + 1].cost, cost)
        late = [w.finished[each] for each in needed if each in w.finished]
        w.depends = max(late, default=0.0)

    def _under_way(self, w: _Wave, counter: str, back: float) -> None:
        w.out.setdefault(counter, []).append(back)

    def _memory(self, w: _Wave, t: float, item: Item) -> None:
        self.free["memory_port"] = t + self.of.issue
        end = self._served("memory", t, item.memory, Unit.VECTOR_MEMORY)
        if item.lds:
            end = max(end, self._served("lds", end, item.lds, Unit.LDS))
        back = end + (self.latencies.store if item.cost.writes else self.latencies.load)
        silent = item.cost.writes or ("atomic" in item.cost.name and not returns(item.cost.instruction))
        counter = self.of.stores if silent else self.of.loads
        before = w.out.get(counter)
        self._under_way(w, counter, max(back, before[-1] if before else 0.0))  # they return in order

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

    def _internal(self, w: _Wave, t: float, cost: InstructionCost) -> None:
        name = cost.name
        text = " ".join((*cost.instruction.operands, *cost.instruction.modifiers))
        if name in ("s_waitcnt_depctr", "s_wait_alu"):
            if w.results > w.ready:
                w.ready, w.reason = w.results, DEPENDENCY
        elif name.startswith(("s_waitcnt", "s_wait_")):
            for counter, left in counters_of(cost).items():
                self._wait(w, counter, left)
        elif name == "s_nop":
            extra = self.of.issue * int(text, 0)
            w.ready += extra
            if extra:
                w.reason = "s_nop"
        elif name.startswith("s_barrier"):
            if name in ("s_barrier", "s_barrier_signal"):
                w.signals.append(t)
            if name in ("s_barrier", "s_barrier_wait"):
                w.arrived = t
            self._release()
        elif name == "s_setprio":
            w.priority = int(text, 0)
        elif not _KNOWN.fullmatch(name):
            raise PortakernError("unknown-instruction", f"the cost model does not know {cost.instruction}")

    def _wait(self, w: _Wave, name: str, left: int) -> None:
        out = w.out.get(name, [])
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
        free = False
        for w in [w for w in self.waves if w.arrived is not None]:
            members = [m for m in self.waves if m.group == w.group and (not m.done or m.arrived is not None)]
            if any(len(m.signals) <= w.passed for m in members):
                continue
            until = max(m.signals[w.passed] for m in members) + self.of.issue
            if until > w.ready:
                self.result.stalled["s_barrier"] += until - w.ready  # type: ignore[assignment]
                w.ready, w.reason = until, "s_barrier"
            w.arrived, w.passed, free = None, w.passed + 1, True
        if force and not free:
            raise PortakernError("deadlock", "the waves of this SIMD wait for each other at barriers for ever")
