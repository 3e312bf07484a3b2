"""Addresses that the text names by symbols: what an instruction's constant becomes once code and data lie somewhere.

Code finds symbols relative to itself: ``s_getpc_b64`` gives the address of the next instruction, to which the distance of the
symbol is added, low half and high half by one instruction each::

    s_getpc_b64 s[0:1]
    s_add_u32 s0, s0, table@rel32@lo+4        counted from this constant, which lies 4 bytes into its instruction
    s_addc_u32 s1, s1, table@rel32@hi+12      and this one 12 behind what s_getpc_b64 gave

What stands in between is known to the byte, so that a constant counted from elsewhere is found out.  Branches that lie too
far for their 16 bits go the same way, counted from a label behind ``s_getpc_b64``::

    s_getpc_b64 s[0:1]
    .Lpost_getpc0:
    s_add_u32 s0, s0, (.LBB0_7-.Lpost_getpc0)&4294967295
    s_addc_u32 s1, s1, (.LBB0_7-.Lpost_getpc0)>>32
    s_setpc_b64 s[0:1]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .parser import Instruction

CODE, HERE = 1 << 40, 1 << 39  # kCode and kHere in native/program.hpp
_SYMBOL = re.compile(r"([A-Za-z_.$][\w.$]*)@(rel32|gotpcrel32|abs32)@(lo|hi)(?:\+(\d+))?")
_DISTANCE = re.compile(r"\(([A-Za-z_.$][\w.$]*)-([A-Za-z_.$][\w.$]*)\)(&4294967295|>>32)")


@dataclass(frozen=True)
class Relocation:
    """Half (0 the lower, 1 the upper) of ``symbol + addend`` as constant number ``constant`` of a program; ``table``: of the
    slot that holds the symbol's address."""

    constant: int
    symbol: str
    addend: int
    half: int
    table: bool


@dataclass(frozen=True)
class Named:
    """An operand that names a symbol; ``origin`` is the label that it is counted from, where it names one."""

    symbol: str
    addend: int
    half: int
    relative: bool
    table: bool
    origin: str = ""


def named(text: str) -> Named | None:
    if match := _DISTANCE.fullmatch(text):
        return Named(match[1], 0, int(match[3] == ">>32"), True, False, match[2])
    match = _SYMBOL.fullmatch(text)
    if match is None:
        return None
    return Named(match[1], int(match[4] or 0), int(match[3] == "hi"), match[2] != "abs32", match[2] == "gotpcrel32")


_FAR = 8  # instructions between s_getpc_b64 and s_setpc_b64, waits among them


def destination(instructions: Sequence[Instruction], at: int) -> str | None:
    """The label that the branch at ``at`` goes to, an s_setpc_b64 (a branch of any length) among them; ``None`` where it goes
    to an address that the text does not name."""
    if instructions[at].mnemonic.startswith(("s_branch", "s_cbranch")):
        return instructions[at].operands[-1]
    for i in reversed(instructions[max(0, at - _FAR) : at]):
        for x in map(named, i.operands):
            if x is not None and x.origin:
                return x.symbol
        if i.mnemonic == "s_getpc_b64":
            break
    return None


def size(i: Instruction, scalar: bool) -> int | None:
    """Bytes of a scalar instruction; ``None`` for others, which no compiler puts between an address and its use."""
    if not scalar:
        return None
    if i.mnemonic.startswith(("s_movk", "s_addk", "s_cmpk", "s_mulk", "s_nop", "s_wait", "s_delay")):
        return 4
    return 8 if any(_is_literal(text) for text in i.operands) else 4


def _is_literal(text: str) -> bool:
    """A constant that does not fit into the instruction itself (CDNA3 ISA, "Scalar ALU operands": -16 to 64 do)."""
    if named(text):
        return True
    return bool(re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", text)) and not -16 <= int(text, 0) <= 64


def patched(constants: bytes, relocations: Sequence[Relocation], address: Callable[[str, bool], int]) -> bytes:
    """``constants`` (pairs of dwords) with the addresses filled in."""
    values = bytearray(constants)
    for r in relocations:
        value = address(r.symbol, r.table) + r.addend
        values[8 * r.constant : 8 * r.constant + 8] = (value >> 32 * r.half & 0xFFFFFFFF).to_bytes(8, "little")
    return bytes(values)
