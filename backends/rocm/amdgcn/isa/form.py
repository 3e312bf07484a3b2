"""How the operands of an instruction are written down.

A form is a line of words, one for each operand of the assembly text in its order::

    d:f32      vector destination          s:f32   any source: vector or scalar register, or constant
    +d:f32     read and written            v:f32   vector source (or accumulation register)
    sd:b32     scalar destination          sc:b32  scalar source or constant
    +sd:b32    read and written            m       a bit a lane, read (vcc or a scalar pair; one register in wave32)
    dm         a bit a lane, written
    va         vector address, or ``off``  sa      scalar address, or ``off``
    #          a number (``s_nop 1``)      label   where a branch goes
    hwreg      a hardware register (``hwreg(HW_REG_MODE, 4, 2)``)   idx   ``gpr_idx(SRC0)``
    x          EXEC, written without standing in the text (``v_cmpx_gt_u32``)

The type after the colon gives the width and how constants are encoded: ``b32 f32 b16 f16 bf16 b64 f64 pk16`` (two 16-bit
halves in 32 bits), ``k16`` (16 bits, sign-extended), a number of dwords (``v:4``), or ``any`` width.  A question mark
behind a word makes it optional.
``implicit`` lists registers read that the text does not show (``vcc``, ``m0``); they follow as further sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..assembly.parser import Instruction

TYPES = {
    "b32": 1,
    "f32": 1,
    "b16": 1,
    "f16": 1,
    "bf16": 1,
    "b64": 2,
    "f64": 2,
    "i64": 2,
    "pk16": 1,
    "k16": 1,
    "mask": 0,
    "any": 0,
}
"""Width in dwords; a mask has as many as the wave needs."""

FLOATS = frozenset({"f32", "f16", "bf16", "f64"})


@dataclass(frozen=True)
class OperandSlot:
    """One operand of the text."""

    role: str  # d sd dm s v sc m va sa # label x
    type: str = "b32"
    dwords: int = 1
    also_read: bool = False
    optional: bool = False

    @property
    def written(self) -> bool:
        return self.role in ("d", "sd", "dm", "x")


Decoder = Callable[["Instruction", int], Mapping[str, Any]]
"""From an instruction and the generation (90, 94, 95, 110, 120)."""


@dataclass(frozen=True)
class Form:
    """One mnemonic.  ``handler`` is the native function; empty: named like the mnemonic."""

    slots: tuple[OperandSlot, ...]
    unit: str
    handler: str = ""
    modifiers: frozenset[str] = frozenset()
    own_taint: bool = False
    control: bool = False
    passes: int = 0
    implicit: tuple[str, ...] = ()
    """Registers read besides the operands."""
    extra: int = 0
    """Handed to the handler as ``m.extra``."""
    offset_unit: int = 1
    """In bytes, of ``offset0`` and ``offset1``."""
    writes_exec: bool = False
    decode: Decoder | None = None
    """Reads operands and modifiers that are unlike all others; answers fields of the record (see ``encoding.py``)."""


def form(
    words: str = "",
    unit: str = "valu",
    handler: str = "",
    modifiers: str = "",
    *,
    own_taint: bool = False,
    control: bool = False,
    passes: int = 0,
    implicit: str = "",
    extra: int = 0,
    offset_unit: int = 1,
    writes_exec: bool = False,
    decode: Decoder | None = None,
) -> Form:
    slots = tuple(_slot(word) for word in words.split())
    return Form(slots, unit, handler, frozenset(modifiers.split()), own_taint, control, passes, tuple(implicit.split()), extra,
                offset_unit, writes_exec, decode)  # fmt: skip


def _slot(word: str) -> OperandSlot:
    optional, word = word.endswith("?"), word.removesuffix("?")
    also_read, word = word.startswith("+"), word.removeprefix("+")
    role, _, kind = word.partition(":")
    if role in ("m", "dm", "x"):
        return OperandSlot(role, "mask", 0, also_read, optional)
    if kind.isdigit():
        return OperandSlot(role, "wide", int(kind), also_read, optional)
    kind = kind or "b32"
    return OperandSlot(role, kind, TYPES[kind], also_read, optional)
