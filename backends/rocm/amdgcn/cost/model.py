"""The cost of one launch: the pieces of this package put together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from portakern.backend import Dispatch
from portakern.device import Device
from portakern.errors import PortakernError

from ..assembly.parser import Assembly, parse
from ..code_objects.reader import CodeObject, KernelUse
from .generation import generation
from .instructions import InstructionCost, Unit, cost_of
from .launch import arguments_of, start_of, waves_of
from .loops import KEPT, STEADY, LoopRun, NaturalLoop, Short, loops_of, shorten, stretched
from .occupancy import Occupancy, occupancy
from .scoreboard import Item, Latencies, ScoreboardResult, run
from .shared import access_cycles
from .traffic import Traffic, WaveTraffic, lines_of, loaded, reuse, traffic
from .values import Trace, Wave

SAMPLED = 160
"""Resident blocks whose loads are compared, at most."""
SHORT = 4096
"""Instructions of a wave up to which all of it is compared with other blocks, and not only the beginning of its loop."""
ALIKE = 2
"""Rounds of a loop by whose loads blocks are compared."""
SPREAD = 3
"""Blocks over the grid whose lengths are compared: in causal attention some do half the work of others."""


@dataclass(frozen=True)
class LoopCost:
    """One loop: rounds, cycles of a round in its stride with ``waves`` waves on the SIMD, and what the round consists of.

    ``units`` are cycles in which a unit works for these waves in one round, ``exposed`` those in which matrix cores and vector
    ALUs had nothing to do, by reason; ``mix`` counts one wave's instructions; ``conflicts`` are LDS cycles beyond the best.
    """

    label: str
    lines: tuple[int, int]
    rounds: int
    cycles: float
    waves: int
    units: Mapping[Unit, float]
    exposed: Mapping[str, float]
    mix: Mapping[Unit, int]
    lds_best: float
    conflicts: float
    flops: float

    @property
    def matrix_share(self) -> float:
        return self.units.get(Unit.MATRIX, 0.0) / self.cycles if self.cycles else 0.0


@dataclass(frozen=True)
class KernelCost:
    """One launch on one product."""

    kernel: str
    device: Device
    blocks: int
    threads: int
    use: KernelUse
    shared_bytes: int
    fits: Occupancy
    resident: int
    waves: int
    cycles: float
    rounds: float
    loops: tuple[LoopCost, ...]
    mix: Mapping[Unit, int]
    instructions: int
    unit_cycles: Mapping[Unit, float]
    exposed: Mapping[str, float]
    traffic: Traffic
    notes: tuple[str, ...]
    times: Mapping[str, float] = field(default_factory=dict)

    @property
    def us(self) -> float:
        return max(self.times.values())

    @property
    def limiter(self) -> str:
        """What bounds it, in words."""
        name = max(self.times, key=lambda k: self.times[k])
        if name != "issue":
            return name
        waits = sum(self.exposed.values())
        unit = max((u for u in self.unit_cycles if u is not Unit.INTERNAL), key=lambda u: self.unit_cycles[u])
        share = self.unit_cycles[unit] / self.cycles if self.cycles else 0.0
        if waits > 0.35 * self.cycles and self.exposed:
            reason = max(self.exposed, key=lambda k: self.exposed[k])
            return f"{WAITS.get(reason, reason)} that no other wave hides ({waits / self.cycles:.0%} of the cycles)"
        return f"{unit.value} ({share:.0%} busy)"


WAITS = {
    "vmcnt": "waits for loads (vmcnt)",
    "lgkmcnt": "waits for LDS and scalar loads (lgkmcnt)",
    "vscnt": "waits for stores (vscnt)",
    "loadcnt": "waits for loads (loadcnt)",
    "storecnt": "waits for stores (storecnt)",
    "dscnt": "waits for LDS (dscnt)",
    "kmcnt": "waits for scalar loads (kmcnt)",
    "dependency": "results of vector instructions just before",
    "s_barrier": "waits at barriers",
    "s_nop": "wait states between dependent instructions",
    "issue": "instructions other than arithmetic",
    "start": "instructions before the first arithmetic",
}


class CostedKernel:
    """A kernel's code with what each instruction costs.  Raises :class:`PortakernError` naming an unknown instruction."""

    def __init__(self, dispatch: Dispatch, isa: str) -> None:
        self.dispatch, self.isa, self.of = dispatch, isa, generation(isa)
        self.code: Assembly = parse(dispatch.assembly)
        if dispatch.kernel not in self.code.labels:
            raise PortakernError("assembly", f"the assembly holds no kernel {dispatch.kernel}")
        self.first = self.code.labels[dispatch.kernel]
        end = self.code.end_of(dispatch.kernel)
        self.costs: list[InstructionCost | None] = [
            cost_of(i, isa) if self.first <= n < end else None for n, i in enumerate(self.code.instructions)
        ]
        self.descriptor = self.code.kernels[dispatch.kernel].descriptor
        if self.of.rdna and not self.descriptor.get("wavefront_size32", 1):
            raise PortakernError("not-modelled", f"{dispatch.kernel} has waves of 64 lanes, without a model on {isa}")
        self.arguments = arguments_of(dispatch)
        self._traces: dict[tuple[int, int], Trace] = {}

    @cached_property
    def blocks(self) -> int:
        return math.prod(self.dispatch.grid)

    @cached_property
    def waves(self) -> int:
        return waves_of(self.dispatch, self.of.lanes)

    def trace(self, block: int, wave: int) -> Trace:
        """All of a wave."""
        key = (block, wave)
        if key not in self._traces:
            self._traces[key] = self._wave(block, wave).run()
        return self._traces[key]

    def _wave(self, block: int, wave: int, lds: bool = True) -> Wave:
        start = start_of(self.dispatch, self.descriptor, self.arguments, block, wave, self.of)
        return Wave(self.code, self.costs, self.first, start, lds)

    def beginning(self, block: int, header: int, rounds: int) -> Trace:
        """A wave until it enters round ``rounds`` of a loop, or its end."""
        seen = [0, 0]

        def enough(trace: Trace) -> bool:
            seen[0] += trace.steps[seen[1] :].count(header)
            seen[1] = len(trace.steps)
            return seen[0] >= rounds

        return self._wave(block, 0, lds=False).run(until=enough)


def price(dispatch: Dispatch, device: Device, footprint: float = 0.0) -> KernelCost:
    """The cost of a launch on a product; ``footprint`` are the bytes of the arrays it is given.

    Raises :class:`PortakernError` for what the model does not know.
    """
    kernel = CostedKernel(dispatch, device.isa)
    use = CodeObject(dispatch.code).kernels[dispatch.kernel]
    threads = math.prod(dispatch.block)
    shared = use.shared_bytes + dispatch.shared_bytes
    fits = occupancy(device, threads, use.registers, use.scalars, shared)
    if fits.blocks == 0:
        raise PortakernError("does-not-fit", f"a workgroup of {dispatch.kernel} does not fit: {fits.limiter}")
    units = device.count("units")
    resident = max(1, min(fits.blocks, -(-kernel.blocks // units)))
    block, scale = _typical(kernel)
    hottest = _hottest(kernel, block)
    shares = _shares(kernel, device, resident, hottest)
    wave = loaded(kernel.trace(block, 0), kernel.costs, device.count("cache_line"), kernel.of.lanes)
    moved = traffic(
        wave,
        kernel.waves,
        kernel.blocks,
        device.count("cache_line"),
        shares,
        footprint,
        device.value("last_level_cache", 0.0),
        scale,
    )
    latency = _load_latency(device, shares)
    board = _Board(kernel, device, block, resident, latency)
    cycles = board.cycles * scale
    rounds, rest = divmod(kernel.blocks, units * resident)
    last = -(-rest // units)
    tail = 0.0 if not last else 1.0 if last == resident else _Board(kernel, device, block, last, latency).cycles / board.cycles
    cost = KernelCost(
        dispatch.kernel,
        device,
        kernel.blocks,
        threads,
        use,
        shared,
        fits,
        resident,
        board.on_simd,
        cycles,
        rounds + tail,
        tuple(board.loop_costs()),
        board.mix(kernel.trace(block, 0).steps),
        len(kernel.trace(block, 0).steps),
        board.units(scale),
        {k: v * scale for k, v in board.exposed.items()},
        moved,
        tuple(_notes(kernel, block, wave)),
    )
    return _timed(cost)


def _timed(cost: KernelCost) -> KernelCost:
    """With the microseconds that issuing and each level of memory takes at least."""
    d, t = cost.device, cost.traffic
    clock = d.value("clock")
    times = {
        "issue": cost.cycles * cost.rounds / clock * 1e6,
        "bytes between L1 and L2": (t.l2 + t.written) / (d.value("l2_bytes_per_clock") * d.value("dies", 1) * clock) * 1e6,
        "bytes from and to memory": (t.memory + t.written) / d.value("bandwidth") * 1e6,
    }
    if "last_level_bandwidth" in d.figures:
        times["bytes between L2 and the last-level cache"] = (t.last_level + t.written) / d.value("last_level_bandwidth") * 1e6
    return replace(cost, times=times)


def _typical(kernel: CostedKernel) -> tuple[int, float]:
    """The longest of some blocks over the grid, and the mean length as a share of its length."""
    spread = sorted({n * (kernel.blocks - 1) // (SPREAD - 1) for n in range(SPREAD)}) if kernel.blocks > 1 else [0]
    lengths = {b: len(kernel.trace(b, 0).steps) for b in spread}
    block = max(lengths, key=lambda b: lengths[b])
    return block, sum(lengths.values()) / len(lengths) / lengths[block]


def _hottest(kernel: CostedKernel, block: int) -> NaturalLoop | None:
    """The innermost loop in which most instructions are executed."""
    trace = kernel.trace(block, 0)
    loops = loops_of(kernel.code, kernel.costs, trace)
    inner = [x for x in loops if not any(y is not x and y.header in x and y.latch in x for y in loops)]
    counts = Counter(trace.steps)
    return max(inner, key=lambda x: sum(counts[n] for n in range(x.header, x.latch + 1)), default=None)


def _shares(kernel: CostedKernel, device: Device, resident: int, hottest: NaturalLoop | None) -> tuple[float, float]:
    """See :func:`reuse`: of the blocks that run together, at the same point of their course."""
    together = min(kernel.blocks, device.count("units") * resident)
    length = len(kernel.trace(0, 0).steps)
    sampled = min(together, SAMPLED, max(16, 400_000 // max(1, length if hottest is None else 512)))
    sets: list[tuple[int, np.ndarray]] = []
    for block in range(sampled):
        trace = (
            kernel.beginning(block, hottest.header, ALIKE) if hottest is not None else kernel._wave(block, 0, False).run(SHORT)
        )
        sets.append((block, loaded(trace, kernel.costs, device.count("cache_line"), kernel.of.lanes).lines))
    return reuse(sets, device.count("dies", 1))


def _load_latency(device: Device, shares: tuple[float, float]) -> float:
    """The mean over the levels that a load comes from."""
    leaves, apart = shares
    last = device.value("latency_last_level", device.value("latency_memory"))
    return (1 - leaves) * device.value("latency_l2") + (leaves - apart) * last + apart * device.value("latency_memory")


def _notes(kernel: CostedKernel, block: int, wave: WaveTraffic) -> list[str]:
    """What the figures rest on where it is not the kernel's own addresses and arguments."""
    trace = kernel.trace(block, 0)
    notes = []
    if trace.cut:
        notes.append(f"the wave was followed for {len(trace.steps)} instructions only: it takes longer")
    code = kernel.code
    once = [at for at in trace.guesses if code.labels[code.instructions[at].operands[-1]] <= at]
    others = set(trace.guesses) - set(once)
    for branches, goes in ((once, "loops whose rounds are unknown are counted once"), (others, "not taken")):
        if branches:
            where = ", ".join(str(code.instructions[at].line) for at in sorted(branches))
            notes.append(f"branches on loaded data, line{'s' * (len(branches) > 1)} {where} of the assembly: {goes}")
    if wave.unknown:
        notes.append(
            f"the addresses of {wave.unknown} of {wave.known + wave.unknown} memory instructions are unknown: "
            "taken as coalesced, their lines not counted"
        )
    return notes


class _Board:
    """The scoreboard of one SIMD and what is read off it."""

    def __init__(self, kernel: CostedKernel, device: Device, block: int, resident: int, load: float) -> None:
        self.kernel, self.device = kernel, device
        every = [(b, w) for b in range(resident) for w in range(kernel.waves)]
        mine = [(b, w) for n, (b, w) in enumerate(every) if n % device.count("simds_per_unit") == 0]
        self.on_simd = len(mine)
        near = device.count("simds_per_cu", device.count("simds_per_unit"))  # SIMDs with one LDS and one way to memory
        self.cus = device.count("simds_per_unit") // near
        self.shorts: dict[int, Short] = {}
        self.items: dict[int, list[Item]] = {}
        self.conflicts: dict[int, tuple[float, float]] = {}
        for w in dict.fromkeys(w for _, w in mine):
            trace = kernel.trace(block, w)
            self.shorts[w] = shorten(trace, loops_of(kernel.code, kernel.costs, trace))
            self.items[w] = self._items(trace, self.shorts[w])
        store = device.value("latency_l2")
        sharing = min(near, -(-len(every) // self.cus))
        latencies = Latencies(device.value("latency_lds"), load, store, device.value("latency_scalar"), sharing, kernel.of)
        self.result: ScoreboardResult = run([(b, self.items[w]) for b, w in mine], latencies)
        left_out, self.steady = stretched(self.shorts[0].runs, self.result.issued)
        self.cycles = self.result.cycles + left_out
        grown = self.cycles / self.result.cycles if self.result.cycles else 1.0
        self.exposed = self._exposed(left_out)
        self._grown = grown

    # ---- items

    def _items(self, trace: Trace, short: Short) -> list[Item]:
        found = []
        for step in short.places:
            cost = self.kernel.costs[trace.steps[step]]
            assert cost is not None
            access = trace.accesses.get(step)
            lds = memory = 0.0
            if access is not None and cost.unit is Unit.LDS:
                width = cost.bytes // len(access.addresses) if access.addresses else cost.bytes
                cycles, best = access_cycles(self.kernel.isa, width, cost.writes, access.addresses)
                lds = float(cycles)
                self.conflicts[step] = (lds, float(best))
            elif access is not None:
                memory = self._memory_cycles(cost, access.addresses)
                if cost.to_lds:
                    lds = self.kernel.of.lanes * cost.bytes / self.device.value("lds_write_bytes_per_clock")
            found.append(Item(cost, lds, memory))
        return found

    def _memory_cycles(self, cost: InstructionCost, addresses: tuple[np.ndarray, ...] | None) -> float:
        """On the compute unit's path to its L1 and L2: addresses of 16 lanes (RDNA: of all 32) and one line a cycle; the bytes
        of the lines at the compute unit's share of its L2."""
        lanes = self.kernel.of.lanes
        if cost.name.startswith("scratch"):
            return lanes * cost.bytes / self.device.value("l1_bytes_per_clock")
        line = self.device.count("cache_line")
        lines, active = lines_of(addresses, cost.bytes, line, lanes)
        touched = len(lines) if lines is not None else -(-lanes * cost.bytes // line)
        d = self.device
        share = d.value("l2_bytes_per_clock") * d.value("dies", 1) / (d.value("units") * self.cus)
        moved = active * cost.bytes if cost.writes else touched * line
        return max(float(self.kernel.of.issue), touched, moved / min(d.value("l1_bytes_per_clock"), share))

    # ---- reading it

    def _exposed(self, left_out: float) -> dict[str, float]:
        """Of all of the wave: pauses in rounds that stand for others count as often."""
        found: Counter[str] = Counter()
        weights = self._windows()
        for begin, cycles, reason in self.result.pauses:
            factor = next((f for low, high, f in weights if low <= begin < high), 1.0)
            found[reason] += cycles * factor  # type: ignore[assignment]
        return dict(found)

    def _windows(self) -> list[tuple[float, float, float]]:
        """(begin, end, how many rounds one of them stands for) of the steady rounds of shortened loops."""
        times, found = self.result.issued, []
        for r in self.shorts[0].runs:
            if r.rounds > KEPT:
                a, b = STEADY
                found.append((times[r.starts[a]], times[r.starts[b]], 1 + (r.rounds - r.kept) / (b - a)))
        return found

    def units(self, scale: float) -> dict[Unit, float]:
        found: Counter[Unit] = Counter()
        weights = self._windows()
        for begin, cycles, unit in self.result.work:
            factor = next((f for low, high, f in weights if low <= begin < high), 1.0)
            found[unit] += cycles * factor * scale  # type: ignore[assignment]
        return dict(found)

    def mix(self, steps: Sequence[int]) -> dict[Unit, int]:
        counts: Counter[Unit] = Counter()
        for at in steps:
            cost = self.kernel.costs[at]
            assert cost is not None
            counts[cost.unit] += 1
        return dict(counts)

    def loop_costs(self) -> list[LoopCost]:
        """Each loop once, by its longest run."""
        longest: dict[NaturalLoop, LoopRun] = {}
        for r in self.shorts[0].runs:
            if r.loop not in longest or r.rounds > longest[r.loop].rounds:
                longest[r.loop] = r
        return sorted((self._loop(r) for r in longest.values()), key=lambda x: -x.cycles * x.rounds)

    def _loop(self, r: LoopRun) -> LoopCost:
        times = self.result.issued
        a, b = STEADY if r.rounds > KEPT else (0, r.kept)
        low, high, n = times[r.starts[a]], times[r.starts[b]], max(1, b - a)
        units: Counter[Unit] = Counter()
        for begin, cycles, unit in self.result.work:
            if low <= begin < high:
                units[unit] += cycles / n  # type: ignore[assignment]
        exposed: Counter[str] = Counter()
        for begin, cycles, reason in self.result.pauses:
            if low <= begin < high:
                exposed[reason] += cycles / n  # type: ignore[assignment]
        return self._describe(r, a, units, exposed)

    def _describe(self, r: LoopRun, first: int, units: Mapping[Unit, float], exposed: Mapping[str, float]) -> LoopCost:
        items = self.items[0][r.starts[first] : r.starts[first + 1]]
        steps = self.shorts[0].places[r.starts[first] : r.starts[first + 1]]
        mix = Counter(i.cost.unit for i in items)
        got = [self.conflicts[s] for s in steps if s in self.conflicts]
        flops = sum(i.cost.matrix.flops for i in items if i.cost.matrix is not None)
        instructions = self.kernel.code.instructions
        return LoopCost(
            r.loop.label,
            (instructions[r.loop.header].line, instructions[r.loop.latch].line),
            r.rounds,
            self.steady[r.loop],
            self.on_simd,
            dict(units),
            dict(exposed),
            dict(mix),
            sum(best for _, best in got),
            sum(c - best for c, best in got),
            float(flops),
        )
