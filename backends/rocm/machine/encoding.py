"""Instructions as the records that the native machine executes; their form is ``Op`` in ``native/state.hpp``.

Everything that is not understood is an error here, before anything runs: an unknown mnemonic, a modifier its form does not
list, an operand of another kind or width, a register beyond those the kernel has.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from .assembly import Assembly, AssemblyError, Instruction
from .isa import forms
from .isa.form import FLOATS, Form, Slot
from .modifiers import modifier_fields
from .registers import CONSTANT, EXEC, SCALAR, VECTOR, Register, constant, register

UNITS = ("salu", "valu", "trans", "matrix", "smem", "vmem", "flat", "lds", "branch", "message")
TYPES = ("b32", "f32", "b16", "f16", "bf16", "b64", "f64", "pk16", "wide", "mask")
_TYPE_OF = {"i64": "b64", "any": "wide", "k16": "b32"}
_WRITES_EXEC, _OWN_TAINT, _CONTROL, _PAIRED, _HALVES, _CROSSED = 1, 2, 4, 8, 16, 32
_LOW_FIRST = 64
_CARRIES = frozenset({"v_mad_u64_u32", "v_mad_i64_i32", "v_mad_co_u64_u32", "v_mad_co_i64_i32", "v_lshl_add_u64", "v_mov_b64",
                      "v_lshlrev_b64"})  # fmt: skip
"""On 64 bits, where the lower half of the result depends on lower halves only."""
_NEGATE, _ABSOLUTE, _SIGN_EXTEND = 1, 2, 4

_OPERAND = "BBBBI"
_MODIFIERS = [
    "clamp", "omod", "op_sel", "op_sel_hi", "neg_lo", "neg_hi", "cbsz", "abid", "blgp", "dpp_kind", "row_mask",
    "bank_mask", "bound_ctrl", "fetch_inactive", "dpp", "dpp8", "sdwa", "dst_sel", "dst_unused", "src0_sel",
    "src1_sel", "gds", "lds", "offen", "idxen", "cache", "extra",
]  # fmt: skip
_RECORD = struct.Struct("<QIIIBBBB" + _OPERAND * 7 + "5i" + "14BHI11Bx" + "4x")
_NO_OPERAND = (0, 0, 0, 0, 0)
_SUFFIX = re.compile(r"_(e32|e64|dpp|sdwa|e64_dpp)$")


@dataclass(frozen=True)
class Encoded:
    """A kernel's instructions, packed.  ``lines`` are the instructions, for reports."""

    operations: bytes
    constants: bytes
    instructions: tuple[Instruction, ...]


@dataclass
class _Encoder:
    assembly: Assembly
    start: int
    end: int
    generation: int
    lanes: int
    handlers: Mapping[str, int]
    constants: dict[tuple[int, int], int] = field(default_factory=dict)

    def run(self) -> Encoded:
        instructions = tuple(self.assembly.instructions[self.start : self.end])
        records = b"".join(self.encode(i) for i in instructions)
        values = b"".join(struct.pack("<II", low, high) for low, high in self.constants)
        return Encoded(records, values, instructions)

    def encode(self, i: Instruction) -> bytes:
        try:
            return self._encode(i)
        except _Unknown as problem:
            raise AssemblyError(i.line, str(i), str(problem)) from None

    def _encode(self, i: Instruction) -> bytes:
        form = form_of(i)
        handler = form.handler or base_name(i.mnemonic)
        if handler not in self.handlers:
            raise _Unknown(f"the machine has no handler {handler!r} for it")
        fields: dict[str, Any] = {"op_sel_hi": 0 if "mix" in form.modifiers else 7, "extra": form.extra}
        immediate = [0] * 5
        if form.decode is not None:
            fields.update(form.decode(i, self.generation))
            immediate = list(fields.pop("immediate", immediate))
            destinations, sources = [], []
        else:
            destinations, sources = self.operands(i, form, fields, immediate)
            fields.update(modifier_fields(i, form, fields, immediate, self.generation))
        for name in form.implicit:
            found = register(name)
            assert found is not None, f"{name} in the form of {i.mnemonic}"
            sources.append((found.kind, self.lanes // 32 if name == "vcc" else found.count, 0, 0, found.number))
        flags = _OWN_TAINT * (form.own_taint or bool(fields.get("dpp_kind"))) | _CONTROL * form.control | _PAIRED * i.paired
        if "op_sel_hi" in form.modifiers and form.slots[0].dwords == 2:  # packed f32: each half has its own sources
            flags |= _CROSSED if handler == "v_pk_mov_b32" else _HALVES
        flags |= _LOW_FIRST * (handler in _CARRIES)
        if form.writes_exec or any(d[0] == SCALAR and d[4] <= EXEC + 1 and d[4] + d[1] > EXEC for d in destinations):
            flags |= _WRITES_EXEC
        if len(destinations) > 2 or len(sources) > 5:
            raise _Unknown("it has more operands than any instruction")
        padded = [*destinations, *[_NO_OPERAND] * (2 - len(destinations)), *sources, *[_NO_OPERAND] * (5 - len(sources))]
        return _RECORD.pack(
            0, self.handlers[handler], i.line, flags, UNITS.index(form.unit), len(destinations), len(sources), form.passes,
            *(x for operand in padded for x in operand), *immediate, *(fields.get(name, 0) for name in _MODIFIERS),
        )  # fmt: skip

    def operands(self, i: Instruction, form: Form, fields: dict[str, Any], immediate: list[int]) -> tuple[list[Any], list[Any]]:
        texts = list(i.operands)
        if i.mnemonic == "v_dual_cndmask_b32" and len(texts) == 3:
            texts.append("vcc_lo")  # which the text leaves out (RDNA3 ISA 7.6)
        slots = _slots(form, len(texts))
        if "mix" in form.modifiers:
            slots = _mixed(slots, i)
        destinations: list[Any] = []
        sources: list[Any] = []
        reread: list[Any] = []
        rest = iter(texts)
        for slot in slots:
            text = "exec" if slot.role == "x" else next(rest)
            if slot.role == "label":
                immediate[0] = self.label(text)
            elif slot.role == "x":
                destinations.append((SCALAR, self.lanes // 32, 0, TYPES.index("mask"), EXEC))
            elif slot.role == "#":
                immediate[0] = self.number(text)
            elif slot.written:
                operand = self.operand(slot, text, fields, 3)
                destinations.append(operand)
                if slot.also_read:
                    reread.append(operand)
            else:
                sources.append(self.operand(slot, text, fields, len(sources)))
        return destinations, sources + reread

    def label(self, text: str) -> int:
        at = self.assembly.labels.get(text)
        if at is None or not self.start <= at < self.end:
            raise _Unknown(f"{text} is no label of this kernel")
        return at - self.start

    def number(self, text: str) -> int:
        try:
            return int(text, 0)
        except ValueError:
            raise _Unknown(f"{text!r} is no number") from None

    def operand(self, slot: Slot, text: str, fields: dict[str, Any], position: int) -> tuple[int, int, int, int, int]:
        modifiers, text = _unwrap(text)
        if modifiers and slot.type not in FLOATS and not (modifiers == _SIGN_EXTEND):
            raise _Unknown(f"{text!r} has a sign modifier where this machine knows none")
        if text == "off" and slot.role in ("va", "sa"):
            return _NO_OPERAND
        half = re.fullmatch(r"(v\d+)\.([lh])", text)
        if half:
            text = half[1]
            fields["op_sel"] = fields.get("op_sel", 0) | (half[2] == "h") << position
            fields["true16"] = True
        found = register(text)
        kind = TYPES.index(_TYPE_OF.get(slot.type, slot.type))
        if found is not None:
            width = self.width(slot, found, text)
            self.allowed(slot, found, text)
            return found.kind, width, modifiers, kind, found.number
        value = constant(_literal(text), slot.type)
        if value is None or slot.role not in ("s", "sc", "m"):
            raise _Unknown(f"this machine does not know {text!r} as an operand here")
        return CONSTANT, slot.dwords, modifiers, kind, self.constants.setdefault(value, len(self.constants))

    def width(self, slot: Slot, found: Register, text: str) -> int:
        expected = self.lanes // 32 if slot.type == "mask" else slot.dwords
        single = found.count == 1 and found.number >= 125 and found.kind == SCALAR  # null, scc and the like have any width
        if slot.type != "any" and found.count != expected and not single:
            raise _Unknown(f"{text} has {found.count} registers where {expected} belong")
        return found.count if slot.type == "any" else expected

    def allowed(self, slot: Slot, found: Register, text: str) -> None:
        vector = found.kind == VECTOR
        right = {"d": vector, "v": vector, "va": vector, "sd": not vector, "dm": not vector, "m": not vector, "sc": not vector,
                 "sa": not vector, "s": True}[slot.role]  # fmt: skip
        if not right:
            raise _Unknown(f"{text} is a register of the wrong kind here")


def _mixed(slots: list[Slot], i: Instruction) -> list[Slot]:
    """op_sel_hi says which sources of a mixed-precision instruction are f16, and so how their constants are encoded."""
    listed = re.search(r"op_sel_hi:\[([^\]]*)\]", " ".join(i.modifiers))
    bits = [int(x) for x in listed[1].split(",")] if listed else []
    kinds = [None, *("f16" if bit else "f32" for bit in bits)]  # the destination stays
    return [replace(slot, type=kind) if kind else slot for slot, kind in zip_longest(slots, kinds)]


class _Unknown(Exception):
    """Why an instruction cannot be encoded."""


def form_of(i: Instruction) -> Form:
    """Raises where the mnemonic is unknown."""
    name = base_name(i.mnemonic)
    if "lds" in i.modifiers and f"{name} lds" in forms():
        return forms()[f"{name} lds"]
    found = forms().get(name)
    if found is None:
        raise _Unknown("this machine does not know the instruction")
    return found


def base_name(mnemonic: str) -> str:
    """Without the encoding: ``v_add_f32_e32``, ``v_add_f32_dpp`` and ``v_dual_add_f32`` are all ``v_add_f32``."""
    return _SUFFIX.sub("", mnemonic).replace("v_dual_", "v_", 1)


def _slots(form: Form, count: int) -> list[Slot]:
    """The slots that stand in a text of ``count`` operands: optional ones are left out from the right."""
    slots = list(form.slots)
    shown = [s for s in slots if s.role != "x"]
    missing = len(shown) - count
    optional = [s for s in reversed(shown) if s.optional]
    if not 0 <= missing <= len(optional):
        raise _Unknown(f"it has {count} operands where this machine knows {len(shown)}")
    for slot in optional[:missing]:
        slots.remove(slot)
    return slots


def _unwrap(text: str) -> tuple[int, str]:
    """``-|v1|``: the modifiers as bits, and the operand."""
    modifiers = 0
    while True:
        if re.match(r"-(?![\d])", text):
            modifiers, text = modifiers | _NEGATE, text[1:]
        elif text.startswith("|") and text.endswith("|"):
            modifiers, text = modifiers | _ABSOLUTE, text[1:-1]
        elif match := re.fullmatch(r"(neg|abs|sext)\((.*)\)", text):
            modifiers |= {"neg": _NEGATE, "abs": _ABSOLUTE, "sext": _SIGN_EXTEND}[match[1]]
            text = match[2]
        else:
            return modifiers, text


def _literal(text: str) -> str:
    """``lit(0x3f800000)`` and ``lit64(...)`` say the encoding of a constant and nothing about its value."""
    match = re.fullmatch(r"lit(?:64)?\((.*)\)", text)
    return match[1] if match else text


def encode(assembly: Assembly, kernel: str, generation: int, lanes: int, handlers: Mapping[str, int]) -> Encoded:
    """Raises :class:`AssemblyError` for what the machine does not know."""
    start = assembly.labels[kernel]
    return _Encoder(assembly, start, assembly.end_of(kernel), generation, lanes, handlers).run()
