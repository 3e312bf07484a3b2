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

from ..assembly.linking import HERE, Named, Relocation, named, size
from ..assembly.parser import Assembly, AssemblyError, Instruction
from ..assembly.registers import CONSTANT, EXEC, SCALAR, VECTOR, Register, constant, register
from ..isa import base_name, form_of
from ..isa.control import hardware_register
from ..isa.form import FLOATS, Form, OperandSlot
from ..isa.vector_integer import INDEXED
from .modifiers import modifier_fields

UNITS = ("salu", "valu", "trans", "matrix", "smem", "vmem", "flat", "lds", "branch", "message")
TYPES = ("b32", "f32", "b16", "f16", "bf16", "b64", "f64", "pk16", "wide", "mask")
_TYPE_OF = {"i64": "b64", "any": "wide", "k16": "b32"}
_WRITES_EXEC, _OWN_TAINT, _CONTROL, _PAIRED, _HALVES, _CROSSED = 1, 2, 4, 8, 16, 32
_LOW_FIRST, _MOVES_BITS, _MOVES_BITS_BY = 64, 128, 256
_CARRIES = frozenset({"v_mad_u64_u32", "v_mad_i64_i32", "v_mad_co_u64_u32", "v_mad_co_i64_i32", "v_lshl_add_u64", "v_mov_b64",
                      "v_lshlrev_b64"})  # fmt: skip
"""On 64 bits, where the lower half of the result depends on lower halves only."""
_MOVING = {
    **dict.fromkeys((f"v_{way}rev_{t}" for way, t in (("lshl", "b64"), ("lshr", "b64"), ("ashr", "i64"), ("lshl", "b32"),
                                                      ("lshr", "b32"), ("ashr", "i32"))), _MOVES_BITS),
    "v_alignbit_b32": _MOVES_BITS_BY, "v_alignbyte_b32": _MOVES_BITS_BY,
}  # fmt: skip
"""What moves the bits of its sources and does nothing else to them, by a count that comes first or last."""
_UNSIGNED = {"v_dot4_i32_i8": "v_dot4_i32_iu8", "v_dot8_i32_i4": "v_dot8_i32_iu4"}
"""From RDNA 3 on these names are the iu instructions without signs, as clang assembles them."""
_NEGATE, _ABSOLUTE, _SIGN_EXTEND = 1, 2, 4

_OPERAND = "BBBBI"
_MODIFIERS = [
    "clamp", "omod", "op_sel", "op_sel_hi", "neg_lo", "neg_hi", "cbsz", "abid", "blgp", "dpp_kind", "row_mask",
    "bank_mask", "bound_ctrl", "fetch_inactive", "dpp", "dpp8", "sdwa", "dst_sel", "dst_unused", "src0_sel",
    "src1_sel", "gds", "lds", "offen", "idxen", "cache", "extra",
]  # fmt: skip
_RECORD = struct.Struct("<QIIIBBBB" + _OPERAND * 7 + "5i" + "14BHI11Bx" + "4x")
_NO_OPERAND = (0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Encoded:
    """A kernel's instructions, packed.  ``lines`` are the instructions, for reports."""

    operations: bytes
    constants: bytes
    instructions: tuple[Instruction, ...]
    positions: tuple[int, ...]
    """Of each instruction in the file."""
    relocations: tuple[Relocation, ...] = ()


@dataclass
class Encoder:
    """Packs the instructions of one kernel, and of the functions that it names."""

    assembly: Assembly
    start: int
    end: int
    generation: int
    lanes: int
    handlers: Mapping[str, int]
    constants: dict[tuple[int, int] | Relocation, int] = field(default_factory=dict)
    functions: dict[str, None] = field(default_factory=dict)
    """Those named so far, in order."""
    _behind: int | None = field(default=None, repr=False)
    """Bytes since the address that s_getpc_b64 gave last."""
    _indexed: int = field(default=0, repr=False)
    """Which operands s_set_gpr_idx_on has numbered at run time."""
    _first: int = field(default=0, repr=False)
    _compared: set[tuple[str, tuple[str, ...]]] | None = field(default=None, repr=False)

    def run(self) -> Encoded:
        records: list[bytes] = []
        positions: list[int] = []
        todo, done = [(self.start, self.end)], set[str]()
        while todo:
            self.start, self.end = todo.pop(0)
            self._first, self._behind, self._indexed = len(positions), None, 0
            for at in range(self.start, self.end):
                i = self.assembly.instructions[at]
                records.append(self.encode(self._in_mode(i)))
                self._follow(i)
            positions += range(self.start, self.end)
            for name in [n for n in self.functions if n not in done]:
                done.add(name)
                todo.append((self.assembly.labels[name], self.assembly.end_of(name)))
        values = b"".join(struct.pack("<II", *((0, 0) if isinstance(c, Relocation) else c)) for c in self.constants)
        instructions = tuple(self.assembly.instructions[at] for at in positions)
        relocations = tuple(c for c in self.constants if isinstance(c, Relocation))
        return Encoded(b"".join(records), values, instructions, tuple(positions), relocations)

    def _guess(self, i: Instruction) -> bool:
        """Whether an LDS load reads where a compare and store of this kernel writes, of the same address and offset: the loop
        that compilers write for atomic operations the hardware lacks."""
        if not i.mnemonic.startswith(("ds_load_b", "ds_read_b")):
            return False
        if self._compared is None:
            self._compared = {(x.operands[1 if "_rtn" in x.mnemonic else 0], x.modifiers)
                              for x in self.assembly.instructions if x.mnemonic.startswith("ds_cmpst")}  # fmt: skip
        return (i.operands[1], i.modifiers) in self._compared

    def _in_mode(self, i: Instruction) -> Instruction:
        """Between s_set_gpr_idx_on and off compilers write v_mov_b32 only, which goes by another name here."""
        if not self._indexed or i.mnemonic.startswith("s_"):
            return i
        if base_name(i.mnemonic) != "v_mov_b32" or self._indexed not in INDEXED:
            raise AssemblyError(i.line, str(i), "this machine knows registers numbered at run time in v_mov_b32 only")
        return replace(i, mnemonic="v_mov_b32", modifiers=(*i.modifiers, INDEXED[self._indexed]))

    def _follow(self, i: Instruction) -> None:
        """What the next instruction has to know of those before it."""
        if i.mnemonic == "s_getpc_b64":
            self._behind = 0
        elif self._behind is not None:
            bytes_ = size(i, i.mnemonic.startswith("s_"))
            self._behind = None if bytes_ is None else self._behind + bytes_
        if i.mnemonic.startswith("s_set_gpr_idx"):
            self._indexed = _index_mode(i.operands[1]) or 0 if i.mnemonic == "s_set_gpr_idx_on" else 0

    def encode(self, i: Instruction) -> bytes:
        try:
            return self._encode(i)
        except _Unknown as problem:
            raise AssemblyError(i.line, str(i), str(problem)) from None

    def _encode(self, i: Instruction) -> bytes:
        form = form_of(i)
        handler = form.handler or base_name(i.mnemonic)
        if self.generation >= 110 and handler in _UNSIGNED:
            handler = _UNSIGNED[handler]
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
        if self._guess(i):
            fields["extra"] = 1
        for name in form.implicit:
            found = register(name)
            assert found is not None, f"{name} in the form of {i.mnemonic}"
            sources.append((found.kind, self.lanes // 32 if name == "vcc" else found.count, 0, 0, found.number))
        flags = _OWN_TAINT * (form.own_taint or bool(fields.get("dpp_kind"))) | _CONTROL * form.control | _PAIRED * i.paired
        if "op_sel_hi" in form.modifiers and form.slots[0].dwords == 2:  # packed f32: each half has its own sources
            flags |= _CROSSED if handler == "v_pk_mov_b32" else _HALVES
        flags |= _LOW_FIRST * (handler in _CARRIES) | _MOVING.get(handler, 0)
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
            texts.append("vcc_lo")  # which the text leaves out (RDNA3 ISA)
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
            elif slot.role == "hwreg":
                found = hardware_register(text)
                if found is None:
                    raise _Unknown(f"this machine does not know {text}")
                immediate[:3] = found
            elif slot.role == "idx":
                bits = _index_mode(text)
                if bits is None:
                    raise _Unknown(f"this machine does not know {text}")
                fields["extra"] = bits
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
        return at - self.start + self._first

    def number(self, text: str) -> int:
        try:
            return int(text, 0)
        except ValueError:
            raise _Unknown(f"{text!r} is no number") from None

    def operand(self, slot: OperandSlot, text: str, fields: dict[str, Any], position: int) -> tuple[int, int, int, int, int]:
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
        symbol = named(text)
        if symbol is not None and slot.role == "sc":
            return CONSTANT, slot.dwords, 0, kind, self.symbol(symbol)
        value = constant(_literal(text), slot.type)
        if value is None or slot.role not in ("s", "sc", "m"):
            raise _Unknown(f"this machine does not know {text!r} as an operand here")
        return CONSTANT, slot.dwords, modifiers, kind, self.constants.setdefault(value, len(self.constants))

    def symbol(self, x: Named) -> int:
        """The constant that stands for a symbol; the function of that name, should it be one, is wanted too."""
        addend = x.addend
        if x.origin:
            self._distance(x)
            addend -= HERE
        elif x.relative:
            if self._behind is None:
                raise _Unknown("it is counted from the instruction, and no s_getpc_b64 stands shortly before")
            addend -= self._behind + 4 + HERE
        data = self.assembly.data
        for name in data.referred([x.symbol] if not x.origin else []):
            if name in self.assembly.labels and name in self.assembly.functions:
                self.functions.setdefault(name)
            elif name not in data.symbols:
                raise _Unknown(f"{name} is no symbol of this file")
        r = Relocation(0, x.symbol, addend, x.half, x.table)
        known = next((c for c in self.constants if isinstance(c, Relocation) and replace(c, constant=0) == r), None)
        return self.constants.setdefault(known or replace(r, constant=len(self.constants)), len(self.constants))

    def _distance(self, x: Named) -> None:
        """Raises :class:`_Unknown` where ``x`` is no distance from what s_getpc_b64 gave to a label of this kernel."""
        self.label(x.symbol)
        behind = self.assembly.labels.get(x.origin, 0)
        if behind <= self.start or self.assembly.instructions[behind - 1].mnemonic != "s_getpc_b64":
            raise _Unknown(f"it is counted from {x.origin}, which does not stand behind an s_getpc_b64")

    def width(self, slot: OperandSlot, found: Register, text: str) -> int:
        expected = self.lanes // 32 if slot.type == "mask" else slot.dwords
        single = found.count == 1 and found.number >= 125 and found.kind == SCALAR  # null, scc and the like have any width
        if slot.type != "any" and found.count != expected and not single:
            raise _Unknown(f"{text} has {found.count} registers where {expected} belong")
        return found.count if slot.type == "any" else expected

    def allowed(self, slot: OperandSlot, found: Register, text: str) -> None:
        vector = found.kind == VECTOR
        right = {"d": vector, "v": vector, "va": vector, "sd": not vector, "dm": not vector, "m": not vector, "sc": not vector,
                 "sa": not vector, "s": True}[slot.role]  # fmt: skip
        if not right:
            raise _Unknown(f"{text} is a register of the wrong kind here")


def _mixed(slots: list[OperandSlot], i: Instruction) -> list[OperandSlot]:
    """op_sel_hi says which sources of a mixed-precision instruction are f16, and so how their constants are encoded."""
    listed = re.search(r"op_sel_hi:\[([^\]]*)\]", " ".join(i.modifiers))
    bits = [int(x) for x in listed[1].split(",")] if listed else []
    kinds = [None, *("f16" if bit else "f32" for bit in bits)]  # the destination stays
    return [replace(slot, type=kind) if kind else slot for slot, kind in zip_longest(slots, kinds)]


class _Unknown(Exception):
    """Why an instruction cannot be encoded."""


def _index_mode(text: str) -> int | None:
    return next((bits for bits, mode in INDEXED.items() if text == mode), None)


def _slots(form: Form, count: int) -> list[OperandSlot]:
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
    return Encoder(assembly, start, assembly.end_of(kernel), generation, lanes, handlers).run()
