"""What libtpu's static profile of a program says: cycles of every HLO operation, and of a kernel its steps, stalls and slots.

libtpu schedules an operation's bundles, walks them as a TPU would (loops, branches and address arithmetic are evaluated, data
are not) and adds the latency of every copy that is waited for.  It writes

- ``<operation>_..._static_llo_profile.textproto``: cycles in all;
- ``<operation>_critical_path.txt``: one line per cycle or wait, ``Length to end: CYCLES, INSTRUCTION``;
- ``<operation>_bundles.txt``: every bundle that was issued with the instructions in its slots.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

GRANULE = 32
"""Bytes of one unit in which a copy's length is given, on every generation that has a profile."""

SAMPLE = 3_000_000
"""Characters of the list of bundles that are looked at, from its middle: the steady state."""

UNITS: tuple[tuple[str, int, str], ...] = (
    ("MXU", 0, r"vmatmul|vmatpush|vdwg|vlatch|vmatres|vmatprep"),
    ("result pops", 2, r"vpop"),
    ("EUP", 1, r"vpow2|vlog2|vrcp|vrsqrt|vtanh|vsin|vcos|verf"),
    ("XLU", 2, r"vxpose|vrot|vperm|vbcast|v\w+\.xlane|vsetperm|vcombine|vsetirm"),
    ("vector loads", 3, r"vld"),
    ("vector stores", 2, r"vst"),
    ("copies", 1, r"dma|vsync\w*|vwait\w*"),
    ("scalar", 2, r"s\w+|p\w+|int_to_ptr"),
    ("VPU", 4, r"v\w+"),
)
"""Unit, its slots in a bundle and the mnemonics that it takes, first match first.  Of the MXUs, see :class:`Mxu`."""

_ROWS = re.compile(r"vmatmul\.(?:mubr\.)?(\w+)")
_BITS = {"f32": 32, "bf16": 16, "f16": 16}


@dataclass(frozen=True)
class Mxu:
    """The matrix units of a core: how many, and the cycles that a row of the left operand keeps one busy."""

    units: int
    cycles_per_row: float


@dataclass(frozen=True)
class Timeline:
    """How one operation runs.

    Args:
        cycles: in all.
        marks: cycle at which each turn of the pipeline's loop begins, and at which the last has ended; empty where no
            loop of the expected length was found.
        waits: cycles that go by waiting for copies; ``stalls`` those of other waits, by what is waited for.
    """

    cycles: int
    marks: tuple[int, ...] = ()
    waits: int = 0
    stalls: Mapping[str, int] = field(default_factory=dict)


_CYCLES = re.compile(r'hlo_op_name: "([^"]+)"\s+estimated_cycles: (\d+)(?:\s+num_equivalent_hlos: (\d+))?')
_LINE = re.compile(r"Length to end: (\d+), (?:%?[\w.]+ = )?(.*)")
_VALUE = re.compile(r"%[a-z]*\d+(_[a-z]\d+)?")


def cycles(folder: Path) -> dict[str, int]:
    """Cycles of every operation; operations that are alike share one entry, under the name of the first."""
    found = {}
    for path in folder.glob("*_static_llo_profile.textproto"):
        for name, count, _ in _CYCLES.findall(path.read_text(errors="replace")):
            found[name] = int(count)
    return found


def timeline(text: str, turns: Sequence[int]) -> Timeline:
    """The timeline of a ``critical_path.txt`` of a kernel whose loop makes one of ``turns`` turns (first match first)."""
    left, what = [], []
    for line in text.splitlines():
        if found := _LINE.match(line):
            left.append(int(found[1]))
            what.append(found[2])
    if not left:
        return Timeline(0)
    took = [a - b for a, b in zip(left, [*left[1:], 0], strict=True)]
    waits, stalls = 0, Counter()
    for instruction, count in zip(what, took, strict=True):
        unit = unit_of(instruction)
        if unit == "copies":
            waits += count - 1
        elif count > 1:
            stalls[unit] += count - 1
    return Timeline(left[0], _marks(left, what, turns), waits, dict(stalls))


def _marks(left: Sequence[int], what: Sequence[str], turns: Sequence[int]) -> tuple[int, ...]:
    """Where the loop's turns begin: an instruction that is issued once a turn marks them."""
    shapes = [_VALUE.sub(r"%\1", w) for w in what]
    counts = Counter(shapes)
    for wanted in turns:
        if wanted < 2:
            continue
        first = next((s for s in shapes if counts[s] == wanted), None)
        if first is not None:
            return (*(left[0] - n for n, s in zip(left, shapes, strict=True) if s == first), left[0])
    return ()


def unit_of(instruction: str) -> str:
    name = instruction.split(" ", 1)[0].removeprefix("$")
    return next((unit for unit, _, pattern in UNITS if re.match(rf"(?:{pattern})(?:\b|[._\d])", name)), "other")


_SLOT = re.compile(r"^  (?:%?[\w.]+ = )?([a-z][\w.]*)", re.MULTILINE)


def utilisation(text: str, mxu: Mxu, issued: float) -> dict[str, float]:
    """The share of cycles, times slots, for which every unit is used, by a list of bundles.

    ``issued`` is the share of cycles in which a bundle was issued: in the others the core waited.
    """
    bundles = text.count(": bundle slots:")
    if not bundles:
        return {}
    names = Counter(_SLOT.findall(text))
    used = Counter()
    for name, count in names.items():
        used[unit_of(name)] += count
    share = {unit: used[unit] / bundles / slots * issued for unit, slots, _ in UNITS if slots}
    rows = sum(count * _rows(_BITS.get(m[1], 8)) for name, count in names.items() if (m := _ROWS.match(name)))
    share["MXU"] = rows * mxu.cycles_per_row / mxu.units / bundles * issued
    return {unit: round(x, 4) for unit, x in share.items()}


def _rows(bits: int) -> float:
    """Rows of the left operand that one instruction sends, each as long as one of bf16 takes.

    Rows of 8-bit operands take half as long: the peaks of the devices that multiply them are twice those of bf16
    (devices/*.toml), and so are the cycles of their products in libtpu's profile.
    """
    return 8 * (32 // bits) * (0.5 if bits == 8 else 1.0)


def middle(path: Path) -> str:
    """The steady state of a list of bundles."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, (size - SAMPLE) // 2))
        return file.read(SAMPLE).decode(errors="replace")


_COPY = re.compile(rb"dma\.((?:hbm_to|\w+_to_hbm)\w*)[^\n]*?size_in_granules=\*/(\d+)")


def copied_bytes(path: Path) -> dict[str, int]:
    """Bytes that the bundles' copies move, by direction."""
    found: Counter[str] = Counter()
    for direction, granules in _COPY.findall(path.read_bytes()):
        found[direction.decode()] += int(granules) * GRANULE
    return dict(found)


def spills(text: str) -> tuple[int, int]:
    """Stores and loads of spilled registers in a table of per-bundle utilisation."""
    table = text.splitlines()
    if len(table) < 5:
        return 0, 0
    heads = [h.strip() for h in table[1].split(",")]
    rows = [row for line in table[4:] if (row := line.split())]
    return tuple(sum(int(r[heads.index(h)]) for r in rows) for h in ("VSTORE:SPILL", "VLOAD:FILL"))  # type: ignore[return-value]
