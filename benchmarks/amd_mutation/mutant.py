"""What a mutant is, and the registers that its arguments may use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portakern.backends.rocm.amdgcn.assembly.parser import Instruction

TRAP = "{trap}"
"""Stands in checks for the label to run to where the mutant would differ."""

KINDS = ("wait", "barrier", "mask", "bound", "select", "range", "layout", "format", "nop")


@dataclass(frozen=True)
class Mutant:
    """One changed line, and texts that tell whether the change can be seen.

    ``before`` and ``after`` stand around the unchanged line and run to :data:`TRAP` where the mutant would compute something
    else.  ``poisoned`` takes the line's place and leaves undefined what the mutant would change.
    """

    kind: str
    line: int
    what: str
    new: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    poisoned: tuple[str, ...] = ()
    poisoned_at: int = 0
    """The line whose place ``poisoned`` takes where that is another one."""
    sides: bool = False
    """Whether the mask chooses between the sides of an if and else."""
    removed: tuple[int, ...] = ()
    """Further lines that are left out."""
    other_formats: bool = False
    """The whole kernel, with the 8-bit floats of the other generation of CDNA."""

    @property
    def witnessed(self) -> bool:
        return bool(self.before or self.after)

    def edit(self) -> dict[int, tuple[str, ...]]:
        """The lines that the mutant changes."""
        gone: dict[int, tuple[str, ...]] = dict.fromkeys(self.removed, ("s_nop 0",))
        return gone if self.other_formats else {**gone, self.line: self.new}


@dataclass(frozen=True)
class Spare:
    """Registers that a kernel never names.  ``mask`` and ``other`` are as wide as a wave, ``never*`` are never written."""

    wave32: bool
    scc: str
    number: str
    mask: str
    other: str
    never_scalar: str
    never_mask: str
    never: str
    vectors: tuple[int, ...]
    """Free vector registers without a gap, the lowest first."""
    all_waits: tuple[str, ...]
    """Waits until nothing is under way."""

    @property
    def bits(self) -> str:
        return "b32" if self.wave32 else "b64"

    @property
    def exec(self) -> str:
        return "exec_lo" if self.wave32 else "exec"

    @property
    def without(self) -> str:
        return "s_and_not1" if self.wave32 else "s_andn2"

    def keeping_scc(self, *lines: str) -> tuple[str, ...]:
        return (f"s_cselect_b32 {self.scc}, 1, 0", *lines, f"s_cmp_lg_u32 {self.scc}, 0")

    def unless_zero(self, *lines: str) -> tuple[str, ...]:
        """To the trap where the last of ``lines``, a scalar operation on masks, leaves a bit."""
        return self.keeping_scc(*lines, f"s_cbranch_scc1 {TRAP}")

    def vector(self, count: int) -> str | None:
        """``count`` vector registers; ``None`` where there are not as many."""
        if count > len(self.vectors):
            return None
        return registers("v", self.vectors[0], count)


def spare_of(instructions: Sequence[Instruction], wave32: bool, split_counters: bool) -> Spare:
    """From the upper end, where nothing is set before a kernel begins."""
    used: dict[str, set[int]] = {"s": set(), "v": set()}
    for i in instructions:
        for kind, first, last in re.findall(r"\b([sv])(?:(\d+)|\[(?=\d))(?:(?<=\[)(\d+(?::\d+)?)\])?", " ".join(i.operands)):
            bounds = [int(x) for x in (last or first).split(":")]
            used[kind].update(range(bounds[0], bounds[-1] + 1))
    free = [n for n in range(105, -1, -1) if n not in used["s"]]
    pairs = [n for n in range(104, -1, -2) if n in free and n + 1 in free]
    masks = [f"s{n}" if wave32 else f"s[{n}:{n + 1}]" for n in pairs[:3]]
    singles = [n for n in free if n & ~1 not in pairs[:3]][:3]
    top = next((n for n in range(255, -1, -1) if n in used["v"]), -1)
    never, vectors = (255, tuple(range(top + 1, 255))) if top < 255 else (-1, ())
    if len(masks) < 3 or len(singles) < 3:
        raise ValueError("the kernel leaves no scalar registers free for witnesses")
    waits = (
        ("s_wait_loadcnt 0x0", "s_wait_dscnt 0x0", "s_wait_kmcnt 0x0") if split_counters else ("s_waitcnt vmcnt(0) lgkmcnt(0)",)
    )
    return Spare(wave32, f"s{singles[0]}", f"s{singles[1]}", masks[0], masks[1], f"s{singles[2]}", masks[2],
                 f"v{never}" if never >= 0 else "", vectors, waits)  # fmt: skip


def registers(kind: str, first: int, count: int) -> str:
    return f"{kind}{first}" if count == 1 else f"{kind}[{first}:{first + count - 1}]"


def each(text: str) -> list[str]:
    """``v[2:3]`` as ``v2`` and ``v3``."""
    match = re.fullmatch(r"([sva])(?:(\d+)|\[(\d+):(\d+)\])", text)
    if match is None:
        return []
    first = int(match[2] or match[3])
    last = int(match[4]) if match[4] else first
    return [f"{match[1]}{n}" for n in range(first, last + 1)]


def spelled(i: Instruction, **changes: object) -> str:
    """The instruction as text, with its ``mnemonic``, ``operands`` or ``modifiers`` changed."""
    shown: Mapping[str, object] = {"mnemonic": i.mnemonic, "operands": i.operands, "modifiers": i.modifiers, **changes}
    operands, modifiers = shown["operands"], shown["modifiers"]
    assert isinstance(operands, Sequence) and isinstance(modifiers, Sequence)
    return " ".join([str(shown["mnemonic"]), ", ".join(map(str, operands)), *map(str, modifiers)]).strip()
