"""What one launch asks of the chip: times of each of its bounds, before anything is fitted."""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from portakern.backend import Dispatch
from portakern.device import Device
from portakern.errors import PortakernError

from ..cubin import kernels_of, occupancy, parameters_of
from ..sass.mix import access_bytes, kind_of, lane_flops, tensor_shape
from ..sass.reader import Instruction
from .rates import LANES, RATES, Rates, tensor_scale
from .values import Followed, State, TooLong, follow

Work = defaultdict[str, float]
"""Amounts by name: instructions of each pipe, bytes, FLOP, clocks."""

_WARPS = 6
"""Warps of a block that are followed, at most: the others are taken to do what their neighbours do."""

_SPECIAL = ("X", "Y", "Z")
_FILLED = {"fma": "f32", "heavy fma": "heavy", "alu": "alu", "f16": "f16", "f64": "f64", "special": "special",
           "convert": "convert", "lanes": "lanes"}  # fmt: skip
"""Arithmetic pipes, with the rate of each."""


@dataclass(frozen=True)
class Features:
    """Of one launch.  Times are in us and take all units of the chip to be as busy as the busiest one.

    ``issue``, ``alu`` (the busiest arithmetic pipe), ``tensor``, ``shared``, ``access`` (load and store units), ``l2`` and
    ``memory`` are bounds; ``latency`` is the way of one block's slowest warp through its code, times the rounds of blocks that
    are resident together.
    """

    kernel: str
    blocks: int
    threads: int
    registers: int
    occupancy: float
    limiter: str
    rounds: int
    issue: float
    alu: float
    tensor: float
    shared: float
    access: float
    l2: float
    memory: float
    latency: float
    flops: float
    tensor_flops: float
    global_bytes: float
    memory_bytes: float
    instructions: float
    doubts: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def features(d: Dispatch, code: tuple[Instruction, ...], device: Device, footprint: float, boxes: Sequence[float]) -> Features:
    """``footprint``: bytes of the arrays that the launch is given (0: not known); ``boxes``: bytes that a copy of the engine
    moves, of each of its maps.

    Raises :class:`PortakernError` where the code cannot be followed."""
    rates = RATES[device.isa]
    threads = math.prod(d.block)
    facts = kernels_of(d.code)[d.kernel]
    share, limiter = occupancy(device, threads, facts.registers, facts.shared + d.shared_bytes)
    warps = -(-threads // LANES)
    if share == 0:
        raise PortakernError("no-room", f"{d.kernel} does not fit on {device.name}, limited by {limiter}")
    resident = max(1, round(share * device.count("threads_per_unit") / (warps * LANES)))
    blocks, units, clock = math.prod(d.grid), device.count("units"), device.value("clock")
    work, latency, doubts = _block(d, code, rates, warps, boxes)
    on_busiest = -(-blocks // units)

    def us(cycles: float) -> float:
        return cycles / clock * 1e6

    moved = work["global"] * blocks
    memory_bytes = min(moved, footprint) if footprint and moved else moved or footprint
    rounds = -(-blocks // (units * resident))
    pipes = {kind: work[kind] * LANES / getattr(rates, name) for kind, name in _FILLED.items()}
    return Features(
        d.kernel, blocks, threads, facts.registers, share, limiter, rounds,
        us(on_busiest * work["issued"] / 4), us(on_busiest * max(pipes.values())), us(on_busiest * work["tensor cycles"]),
        us(on_busiest * work["shared"] / rates.shared_bytes), us(on_busiest * work["accesses"] * LANES / rates.access),
        us(moved / (rates.l2 * units)), memory_bytes / device.value("bandwidth") * 1e6, us(latency * rounds),
        work["flops"] * blocks, work["tensor flops"] * blocks, moved, memory_bytes, work["issued"] * blocks, doubts,
    )  # fmt: skip


def _block(d: Dispatch, code: tuple[Instruction, ...], rates: Rates, warps: int,
           boxes: Sequence[float]) -> tuple[Work, float, tuple[int, ...]]:  # fmt: skip
    """What a block does in the mean, the clocks of its slowest warp, and lines that hang on what is not known.

    Two blocks are followed, and where they do not do the same amount, as in causal attention, more of them.
    """
    found = []
    for number, block in enumerate(_blocks(d.grid)):
        found.append(_one_block(d, code, rates, warps, boxes, block))
        if number == 1 and found[0][0]["issued"] == found[1][0]["issued"]:
            break
    mean: Work = defaultdict(float)
    for work, _, _ in found:
        for kind, amount in work.items():
            mean[kind] += amount / len(found)
    return mean, sum(slowest for _, slowest, _ in found) / len(found), tuple(sorted(set[int]().union(*(x for *_, x in found))))


def _blocks(grid: Sequence[int]) -> list[tuple[int, ...]]:
    """Blocks all over the grid, each once: the first two by their numbers far from each other and from the ends."""
    count = math.prod(grid)
    numbers = dict.fromkeys(int((0.5 + n * _GOLDEN) % 1 * count) for n in range(_BLOCKS))
    return [(n % grid[0], n // grid[0] % grid[1], n // (grid[0] * grid[1])) for n in numbers]


_BLOCKS, _GOLDEN = 9, (math.sqrt(5) - 1) / 2
"""Blocks that are followed at most; multiples of the golden ratio, less whole numbers, are spread evenly."""


def _one_block(d: Dispatch, code: tuple[Instruction, ...], rates: Rates, warps: int, boxes: Sequence[float],
               block: Sequence[int]) -> tuple[Work, float, set[int]]:  # fmt: skip
    followed, constants = _sampled(warps), _constants(d)
    work: Work = defaultdict(float)
    slowest, doubts = 0.0, set[int]()
    for warp, stands_for in followed.items():
        state = State(constants, _specials(d, block, warp))
        try:
            way = follow(code, state)
        except TooLong:
            raise PortakernError("too-long", f"a warp of {d.kernel} runs more instructions than are followed") from None
        for kind, amount in _work(code, way, rates, boxes).items():
            work[kind] += amount * stands_for
        slowest = max(slowest, _latency(code, way, rates))
        doubts |= {code[n].line for n in way.doubts}
    return work, slowest, doubts


def _sampled(warps: int) -> Mapping[int, float]:
    """Warps that are followed, each with how many it stands for: roles go by warps or by fours of them."""
    if warps <= _WARPS:
        return dict.fromkeys(range(warps), 1.0)
    groups = warps // 4
    if groups <= 4:
        rest = dict.fromkeys(range(4 * groups, warps), 1.0)
        return {n: w for g in range(groups) for n, w in ((4 * g, 1.0), (4 * g + 1, 3.0))} | rest
    return {0: 1.0, 1: warps - 2.0, warps - 1: 1.0}


def _specials(d: Dispatch, block: Sequence[int], warp: int) -> dict[str, int]:
    x, y, _ = d.block
    thread = warp * LANES
    place = (thread % x, thread // x % y, thread // (x * y))
    found = {f"SR_TID.{a}": v for a, v in zip(_SPECIAL, place, strict=True)}
    found |= {f"SR_CTAID.{a}": v for a, v in zip(_SPECIAL, block, strict=True)}
    found |= {f"SR_NCTAID.{a}": v for a, v in zip(_SPECIAL, d.grid, strict=True)}
    return found | {"SR_LANEID": 0, "SR_VIRTUALSMID": 0, "SR_CgaCtaId": 0, "SR_CLUSTERID.X": block[0], "SR_TID": thread}


def _constants(d: Dispatch) -> bytes:
    """Bank 0: sizes of the launch where this architecture has them, and the parameters; arrays lie 2^40 bytes apart."""
    told = parameters_of(d.code, d.kernel)
    end = max((o + n for o, n in told.places), default=0)
    data = bytearray(told.base + end)
    sizes = told.base - 0x20 if told.base >= 0x380 else 0  # from sm_100 on, the sizes lie before the parameters
    for n, value in enumerate((*d.block, *d.grid)):
        place = (sizes + 4 * n) if not sizes or n < 3 else sizes + 0x10 + 4 * (n - 3)
        if place + 4 <= len(data):
            struct.pack_into("<I", data, place, value)
    for n, ((offset, size), a) in enumerate(zip(told.places, d.args, strict=False)):
        value = a.value or ((n + 1) << 40).to_bytes(8, "little") if a.array else a.value
        data[told.base + offset : told.base + offset + size] = value[:size].ljust(size, b"\0")
    return bytes(data)


def _work(code: tuple[Instruction, ...], way: Followed, rates: Rates, boxes: Sequence[float]) -> Work:
    """Of one warp: instructions by kind, bytes, FLOP, and clocks of the tensor cores."""
    found: Work = defaultdict(float)
    for n, (x, issued, done) in enumerate(zip(code, way.issued, way.done, strict=True)):
        if not issued:
            continue
        kind = kind_of(x)
        found["issued"] += issued
        if not done:
            continue
        for pipe in _pipes(x, kind):
            found[pipe] += done
        found["flops"] += done * lane_flops(x) * LANES
        if kind in ("global", "local", "shared"):
            found["accesses"] += done * max(1.0, access_bytes(x) / 4)
        if kind == "global" or kind == "local":
            found["global"] += done * access_bytes(x) * LANES
        if kind == "shared" or x.name == "LDGSTS":
            found["shared"] += done * _shared_bytes(x)
        if x.name.startswith(("UTMALDG", "UTMASTG", "UTMAREDG")) and boxes:
            found["global"] += done * sum(boxes) / len(boxes)
            found["shared"] += done * sum(boxes) / len(boxes)
        if (shape := tensor_shape(x, way.described.get(n))) is not None:
            of_four, alone = "GMMA" in x.name, x.name.startswith("UTC")
            flops = 2.0 * math.prod(shape) / (4 if of_four else 1)
            share = 1.0 if of_four or alone else rates.mma
            found["tensor flops"] += done * flops
            found["tensor cycles"] += done * flops / (rates.tensor * tensor_scale(x.opcode) * share)
    return found


def _pipes(x: Instruction, kind: str) -> tuple[str, ...]:
    """Products of integers go through half of the units for multiply-adds, comparisons of floats through those for integers
    (Nsight Compute, Kernel Profiling Guide, "Pipelines")."""
    if kind == "f32":
        return ("fma",) if x.name.startswith(("FFMA", "FADD", "FMUL")) else ("alu",)
    if kind == "integer":
        return ("fma", "heavy fma") if x.name == "IMAD" else () if x.name.startswith("U") else ("alu",)
    return (kind,) if kind in _FILLED else ()


def _shared_bytes(x: Instruction) -> float:
    if x.name in ("LDSM", "STSM"):
        return 128.0 * int(next((m for m in x.opcode.split(".") if m in ("2", "4")), "1"))
    return access_bytes(x) * LANES


_WAITED = {"global": "global_latency", "local": "global_latency", "shared": "shared_latency", "tensor": "tensor_latency"}


def _latency(code: tuple[Instruction, ...], way: Followed, rates: Rates) -> float:
    """Clocks of one warp alone: what the compiler lets each instruction stall, and waits for what is under way."""
    now, ready = 0.0, [0.0] * 6
    kinds = [getattr(rates, _WAITED.get(kind_of(x), "other_latency")) for x in code]
    for n in way.trace:
        control = code[n].control
        for barrier in control.waits:
            now = max(now, ready[barrier])
        if control.writes >= 0:
            ready[control.writes] = max(ready[control.writes], now + kinds[n])
        if control.reads >= 0:
            ready[control.reads] = max(ready[control.reads], now + 12)
        now += max(1, control.stall)
    return now
