"""What an instruction is as far as wait states go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..assembly.parser import Instruction
from ..assembly.registers import EXEC, M0, VCC, VECTOR, register
from ..isa import base_name, form_of
from ..isa.form import OperandSlot

Registers = frozenset[int]
"""Scalar registers by their number, vector registers 1000 higher (accumulation registers 1256)."""

VECTORS = 1000


@dataclass(frozen=True, eq=False)
class Facts:
    """Of all instructions with one text.

    ``sources`` are the registers of each source operand, in the order of the text (of a sparse product A, B, the sums that it
    adds to, and the indices); ``passes`` those of an MFMA.
    """

    instruction: Instruction
    name: str
    unit: str
    reads: Registers
    writes: Registers
    sources: tuple[Registers, ...]
    states: int
    passes: int

    @cached_property
    def touched(self) -> Registers:
        return self.reads | self.writes

    @cached_property
    def vector(self) -> bool:
        return self.unit in ("valu", "trans", "matrix") and self.name.startswith("v_")

    @cached_property
    def plain_vector(self) -> bool:
        return self.vector and not self.matrix

    @cached_property
    def matrix(self) -> bool:
        return self.name.startswith(("v_mfma", "v_smfmac", "v_wmma", "v_swmmac"))

    @cached_property
    def memory(self) -> bool:
        return self.unit in ("vmem", "flat", "lds")

    @cached_property
    def load(self) -> bool:
        return self.unit in ("smem", "vmem", "flat") and "load" in self.name and bool(self.writes)

    @cached_property
    def dpp(self) -> bool:
        return self.instruction.mnemonic.endswith("_dpp")

    @cached_property
    def written_vectors(self) -> Registers:
        return frozenset(r for r in self.writes if r >= VECTORS)

    @cached_property
    def written_scalars(self) -> Registers:
        return frozenset(r for r in self.writes if r < VECTORS and r not in (EXEC, EXEC + 1))

    @cached_property
    def writes_exec(self) -> bool:
        return EXEC in self.writes

    @cached_property
    def writes_vcc(self) -> bool:
        return VCC in self.writes or VCC + 1 in self.writes

    @cached_property
    def writes_m0(self) -> bool:
        return M0 in self.writes


def facts(i: Instruction) -> Facts:
    form, name = form_of(i), base_name(i.mnemonic)
    reads: set[int] = set()
    writes: set[int] = set()
    sources: list[Registers] = []
    slots = [slot for slot in form.slots if slot.role != "x"]
    shown = slots if len(slots) == len(i.operands) else _present(form.slots, len(i.operands))
    for n, text in enumerate(i.operands):
        slot = shown[n] if n < len(shown) else None
        found = registers(text)
        if slot is not None and slot.written:
            writes |= found
        if slot is None or not slot.written or slot.also_read:
            reads |= found
            sources.append(found)
    if name.startswith(("v_smfmac", "v_swmmac")):
        sums, a, b, indices = sources
        sources = [a, b, sums, indices]
    if "swap" in name and form.unit != "lds":
        reads |= writes
    for text in form.implicit:
        reads |= registers(text)
    if any(slot.role == "x" for slot in form.slots) or form.writes_exec:
        writes |= {EXEC, EXEC + 1}
    return Facts(i, name, form.unit, frozenset(reads), frozenset(writes), tuple(sources), _states(i), _passes(i, form.passes))


def _passes(i: Instruction, listed: int) -> int:
    """Half as many where both formats of an f8f6f4 product have six bits or fewer (CDNA4 ISA, MFMA with block scaling)."""
    if not i.mnemonic.endswith("f8f6f4"):
        return listed
    formats = dict(word.split(":") for word in i.modifiers if word.startswith(("cbsz:", "blgp:")))
    return listed // 2 if all(int(formats.get(key, "0"), 0) > 1 for key in ("cbsz", "blgp")) else listed


def registers(text: str) -> Registers:
    """Those that an operand names."""
    bare = text.strip("-|").removeprefix("neg(").removeprefix("abs(").removeprefix("sext(").rstrip(")|")
    if bare.endswith((".l", ".h")):
        bare = bare[:-2]
    found = register(bare)
    if found is None:
        return frozenset()
    start = found.number + (VECTORS if found.kind == VECTOR else 0)
    return frozenset(range(start, start + found.count))


def _present(slots: tuple[OperandSlot, ...], count: int) -> list[OperandSlot]:
    """The slots of a text that leaves optional ones out, from the right."""
    shown = [s for s in slots if s.role != "x"]
    for slot in reversed(list(shown)):
        if len(shown) == count:
            break
        if slot.optional:
            shown.remove(slot)
    return shown


def _states(i: Instruction) -> int:
    return int(i.operands[0], 0) + 1 if i.mnemonic == "s_nop" else 1
