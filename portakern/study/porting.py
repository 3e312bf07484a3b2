"""What differs between targets so that it matters when a kernel moves from one to the other.

Everything is read from device descriptions and from what the rows' binaries use; each note names where its figures were read.
The first target is what is moved from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from portakern.backend import Target
from portakern.device import Device, Figure
from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.study.row import Row
from portakern.study.silicon import family, products, silicon
from portakern.study.table import bytes_text

COPIES = {
    "tma": "a copy engine moves whole tiles to shared memory",
    "async_copy": "threads copy 16 bytes each to shared memory",
    "lds_dma_16": "loads put 16 bytes a lane straight into LDS",
    "lds_dma_4": "loads put 4 bytes a lane straight into LDS",
}
"""Features by which data reaches shared memory while the threads go on, without passing their registers."""

WORDS = {
    "fp8_fnuz": "8-bit floats in the FNUZ formats (one more in the exponent's bias, no infinities, no negative zero)",
    "wgmma": "matrix instructions that four warps issue together and that read shared memory themselves",
    "accumulation_registers": "a second half of the register file that only matrix instructions and moves reach",
    "cluster": "clusters of blocks that reach each other's shared memory",
    "tcgen05": "matrix instructions that one thread issues, with sums in a memory of their own",
    "mbarrier": "barriers that count bytes that have arrived",
}
"""Features that a kernel is written for."""

NARROW = ("f8e4m3", "f8e5m2")


@dataclass(frozen=True)
class PortingNote:
    """``topic`` in a word or two, what it means for a kernel that is moved, and where the figures were read."""

    topic: str
    origin: str
    target: str
    text: str
    sources: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"sources": list(self.sources)}


def porting_notes(rows: Sequence[Row]) -> tuple[PortingNote, ...]:
    """Notes from the first accelerator among the rows' targets to each other one."""
    aims = {r.target: _target(r.target) for r in rows}
    able = [t for t in aims.values() if t is not None and t.device.kind in ("gpu", "tpu")]
    if len(able) < 2:
        return ()
    origin, found = able[0], []
    for target in able[1:]:
        pair = _Pair(origin, target, _first(rows, origin), _first(rows, target))
        for topic, make in TOPICS.items():
            found += [
                PortingNote(topic, str(origin), str(target), text, tuple(dict.fromkeys(filter(None, sources))))
                for text, sources in make(pair)
            ]
    return tuple(found)


def notes_text(notes: Sequence[PortingNote]) -> str:
    """One block for each pair of targets, and the sources, numbered, behind them."""
    lines: list[str] = []
    pair = ("", "")
    numbers: dict[str, int] = {}
    for n in notes:
        if (n.origin, n.target) != pair:
            pair = (n.origin, n.target)
            lines += ["", f"from {n.origin} to {n.target}:"]
        marks = [numbers.setdefault(source, len(numbers) + 1) for source in n.sources]
        lines.append(f"  {n.topic}: {n.text} [{', '.join(map(str, marks))}]")
    if numbers:
        lines += ["", *(f"  [{number}] {source}" for source, number in numbers.items())]
    return "\n".join(lines)


@dataclass(frozen=True)
class _Pair:
    origin: Target
    target: Target
    before: Row | None
    after: Row | None

    @property
    def devices(self) -> tuple[Device, Device]:
        """As their languages see them."""
        return self.origin.device, self.target.device

    @cached_property
    def chips(self) -> tuple[Device, Device]:
        """What the hardware has, in whichever language."""
        return silicon(self.origin), silicon(self.target)

    @cached_property
    def products(self) -> tuple[Device, Device]:
        return products(self.origin, self.target)

    @property
    def both_gpus(self) -> bool:
        return all(d.kind == "gpu" for d in self.devices)

    @property
    def one_isa(self) -> bool:
        a, b = self.devices
        return (a.vendor, family(a.isa)) == (b.vendor, family(b.isa))

    def figures(self, name: str) -> tuple[Figure, Figure] | None:
        a, b = (d.figures.get(name) for d in self.chips)
        return (a, b) if a is not None and b is not None else None

    def used(self, row: Row | None, name: str) -> Any:
        return (row.resources or {}).get(name) if row is not None else None


Said = Iterator[tuple[str, Sequence[str]]]


def _chip(p: _Pair) -> Said:
    """Of one instruction set: the same chip in two languages, or two products."""
    if not p.one_isa:
        return
    a, b = p.products
    if a.product == b.product:
        yield (
            f"it is the same chip in another language: what differs is what {p.target.language} makes of it",
            [f"the device description of {a.name}"],
        )
        return
    sources = [f"the device descriptions of {a.name} and {b.name}"]
    parts = []
    for name, words, show in _SIZES:
        x, y = a.figures.get(name), b.figures.get(name)
        if x is not None and y is not None and x.value != y.value:
            parts.append(f"{show(y.value)} {words} instead of {show(x.value)}")
            sources += [x.source, y.source]
    text = f"the same instruction set on another product, {b.title} instead of {a.title}"
    yield (f"{text}: {', '.join(parts)}" if parts else text), sources


_SIZES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("units", "units", lambda v: f"{v:.0f}"),
    ("clock", "of clock", lambda v: f"{v / 1e9:.2f} GHz"),
    ("bandwidth", "of memory bandwidth", lambda v: f"{v / 1e12:.2f} TB/s"),
    ("memory", "of memory", lambda v: f"{v / 2**30:.0f} GB"),
    ("last_level_cache", "of last-level cache", lambda v: f"{v / 2**20:.0f} MB"),
)


def _execution(p: _Pair) -> Said:
    """Threads against vectors."""
    a, b = p.chips
    if a.kind == b.kind:
        return
    gpu, tpu = (a, b) if a.kind == "gpu" else (b, a)
    shared, vmem = gpu.figures.get("shared_bytes_per_block"), tpu.figures.get("vmem_bytes")
    lanes, rows = tpu.figures.get("lanes"), tpu.figures.get("sublanes")
    sources = [f.source for f in (lanes, rows, shared, vmem) if f is not None]
    vector = f"vectors of {rows.value:.0f} x {lanes.value:.0f} elements" if lanes and rows else "whole vectors"
    if b is tpu:
        text = (
            f"there are no threads: a core works on {vector}, grid points follow one another on it, and what blocks, barriers "
            "and shared memory did is done by blocks of arrays that are copied while the core computes"
        )
    else:
        text = (
            f"grid points run at once and in no order, and threads share the work that was done on {vector}: what one grid "
            "point left in a scratch buffer for the next is gone, and copies in and out are the kernel's own"
        )
    if shared is not None and vmem is not None:
        room = [bytes_text(f.value) for f in ((shared, vmem) if b is tpu else (vmem, shared))]
        text += f"; {room[1]} of fast memory instead of {room[0]}"
    yield text, sources or [f"the device descriptions of {a.name} and {b.name}"]


def _vmem(p: _Pair) -> Said:
    both = p.figures("vmem_bytes")
    if both is not None and both[0].value != both[1].value:
        yield (
            f"a core has {bytes_text(both[1].value)} of VMEM instead of {bytes_text(both[0].value)}",
            [f.source for f in both],
        )


def _lanes(p: _Pair) -> Said:
    both = p.figures("subgroup")
    if both is None or both[0].value == both[1].value:
        return
    a, b = (int(f.value) for f in both)
    steps = (b // a).bit_length() - 1 if b > a else (a // b).bit_length() - 1
    yield (
        f"{b} lanes go together instead of {a}: a reduction over them takes {steps} step{'s' if steps > 1 else ''} "
        f"{'more' if b > a else 'fewer'}, masks have {b} bits, 256 threads are {256 // b} of them instead of {256 // a}",
        [f.source for f in both],
    )


def _shared(p: _Pair) -> Said:
    both = p.figures("shared_bytes_per_block")
    if both is None or both[0].value == both[1].value:
        return
    a, b = both
    used = p.used(p.before, "shared_bytes")
    text = f"a block has {bytes_text(b.value)} of shared memory (LDS) instead of {bytes_text(a.value)}"
    sources = [a.source, b.source]
    if used:
        what = "would not fit" if used > b.value else "would fit"
        text += f"; the {bytes_text(used)} that the kernel uses on {p.origin.device.name} {what}"
        sources.append(p.used(p.before, "source") or "")
    now = p.used(p.after, "shared_bytes")
    if now is not None:
        text += f", the one here uses {bytes_text(now)}"
        sources.append(p.used(p.after, "source") or "")
    yield text, sources


def _banks(p: _Pair) -> Said:
    both = p.figures("shared_banks")
    if both is not None and both[0].value != both[1].value:
        yield (
            f"shared memory has {both[1].value:.0f} banks instead of {both[0].value:.0f}: swizzles and paddings made for "
            "one give conflicts on the other",
            [f.source for f in both],
        )


def _registers(p: _Pair) -> Said:
    both = p.figures("registers_per_thread")
    if both is None or both[0].value == both[1].value:
        return
    text = f"a thread may hold {both[1].value:.0f} registers instead of {both[0].value:.0f}"
    before, after = p.used(p.before, "registers"), p.used(p.after, "registers")
    sources = [f.source for f in both]
    if before is not None and after is not None:
        text += f"; the kernels use {after} and {before}"
        agprs = p.used(p.after, "agprs")
        text += f" ({agprs} of them accumulation registers)" if agprs else ""
        sources += [p.used(p.before, "source"), p.used(p.after, "source")]
    yield text, sources


def _occupancy(p: _Pair) -> Said:
    share = [p.used(r, "occupancy") for r in (p.before, p.after)]
    if None in share:
        return
    limits = [p.used(r, "limiter") for r in (p.before, p.after)]
    if share[0] == share[1] and limits[0] == limits[1]:
        return
    yield (
        f"the kernel here fills {share[1]:.0%} of a unit's thread slots, limited by {limits[1]}; on {p.origin.device.name} "
        f"{share[0]:.0%}, limited by {limits[0]}",
        [p.used(p.before, "source"), p.used(p.after, "source")],
    )


def _matrix(p: _Pair) -> Said:
    dtype = p.after.dtype if p.after is not None and p.after.dtype is not None else "bf16"
    a, b = (d.matrix_for(dtype) for d in p.chips)
    if {(m.m, m.n, m.k) for m in a} == {(m.m, m.n, m.k) for m in b}:
        return

    def listed(shapes: Sequence[Any]) -> str:
        return ", ".join(dict.fromkeys(m.name for m in shapes)) or "none"

    lanes = ": fragments lie differently in the lanes" if p.both_gpus and a and b else ""
    yield (
        f"matrix instructions for {dtype} are {listed(b)} instead of {listed(a)}{lanes}",
        [m.source for m in (*a, *b)],
    )


def _narrow(p: _Pair) -> Said:
    a, b = p.devices
    for dtype in NARROW:
        if dtype in a.dtypes and dtype not in b.dtypes:
            form = f": {WORDS['fp8_fnuz']}" if b.has("fp8_fnuz") else ""
            instead = f"; {b.alternatives[dtype]} takes its place" if dtype in b.alternatives else ""
            yield f"{dtype} is not there{form}{instead}", [f"the device description of {b.name}"]


def _copies(p: _Pair) -> Said:
    a, b = ([COPIES[f] for f in COPIES if d.has(f)] for d in p.chips)
    if a == b or not p.both_gpus:
        return
    where = [f"the device descriptions of {p.origin.device.name} and {p.target.device.name}"]
    if not b:
        yield (
            f"nothing copies to shared memory while the threads go on (on {p.origin.device.name} {'; '.join(a)}): loads are "
            "issued early, held in registers and written to shared memory by hand",
            where,
        )
    else:
        yield f"{'; '.join(b)}, where on {p.origin.device.name} {'; '.join(a) or 'nothing does'}", where


def _features(p: _Pair) -> Said:
    a, b = p.chips
    if not p.both_gpus:
        return
    where = [f"the device descriptions of {a.name} and {b.name}"]
    for feature, words in WORDS.items():
        if feature != "fp8_fnuz" and a.has(feature) != b.has(feature):
            yield f"it {'lacks' if a.has(feature) else 'has'} {words}", where


def _dtypes(p: _Pair) -> Said:
    a, b = p.devices
    lacking = [d for d in a.dtypes if d not in b.dtypes and d not in NARROW]
    if lacking:
        instead = [f"{b.alternatives[d]} for {d}" for d in lacking if d in b.alternatives]
        yield (
            f"it has no {', '.join(lacking)}" + (f"; {', '.join(instead)}" if instead else ""),
            [f"the device description of {b.name}"],
        )


def _balance(p: _Pair) -> Said:
    """FLOPs per byte at which arithmetic and memory take as long, on the products that stand for the devices."""
    dtype = p.after.dtype if p.after is not None and p.after.dtype is not None else "bf16"
    found = []
    if p.one_isa and p.products[0].product == p.products[1].product:
        return
    for product in p.products:
        peak, memory = product.figures.get(f"peak_{dtype}"), product.figures.get("bandwidth")
        if peak is None or memory is None:
            return
        found.append((product.name, peak.value / memory.value, [peak.source, memory.source]))
    (name_a, a, from_a), (name_b, b, from_b) = found
    yield (
        f"arithmetic in {dtype} and memory balance at {b:.0f} FLOP a byte on {name_b}, and at {a:.0f} on {name_a}",
        [*from_a, *from_b],
    )


def _schedule(p: _Pair) -> Said:
    if (
        p.before is not None
        and p.after is not None
        and p.before.schedule
        and p.after.schedule
        and p.before.schedule != p.after.schedule
    ):
        yield f"{p.after.schedule} instead of {p.before.schedule}", ["the rows' schedules"]


TOPICS: dict[str, Callable[[_Pair], Said]] = {
    "chip": _chip,
    "execution": _execution,
    "fast memory": _vmem,
    "lanes": _lanes,
    "shared memory": _shared,
    "banks": _banks,
    "registers": _registers,
    "occupancy": _occupancy,
    "matrix instructions": _matrix,
    "8-bit floats": _narrow,
    "asynchronous copies": _copies,
    "other features": _features,
    "dtypes": _dtypes,
    "balance": _balance,
    "schedule": _schedule,
}


def _target(name: str) -> Target | None:
    """``None`` for one that this machine does not know, in rows from elsewhere."""
    try:
        return registry().target(name)
    except PortakernError:
        return None


def _first(rows: Sequence[Row], target: Target) -> Row | None:
    """The first row of a target that has resources, else its first."""
    mine = [r for r in rows if r.target == str(target)]
    return next((r for r in mine if r.resources), mine[0] if mine else None)
