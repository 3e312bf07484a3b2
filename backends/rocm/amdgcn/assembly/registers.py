"""Operands of the text as registers and constants."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

VECTOR, SCALAR, CONSTANT = 1, 2, 3  # Kind in native/state.hpp

VCC, TTMP, M0, NULL, EXEC, FLAT_SCRATCH, XNACK = 106, 108, 124, 125, 126, 128, 130
NAMED = {
    "vcc": (VCC, 2), "vcc_lo": (VCC, 1), "vcc_hi": (VCC + 1, 1), "exec": (EXEC, 2), "exec_lo": (EXEC, 1),
    "exec_hi": (EXEC + 1, 1), "m0": (M0, 1), "null": (NULL, 1), "flat_scratch": (FLAT_SCRATCH, 2),
    "flat_scratch_lo": (FLAT_SCRATCH, 1), "flat_scratch_hi": (FLAT_SCRATCH + 1, 1), "xnack_mask": (XNACK, 2),
    "src_shared_base": (132, 2), "src_private_base": (134, 2), "src_shared_limit": (136, 2), "src_private_limit": (138, 2),
    "scc": (140, 1), "src_scc": (140, 1), "vccz": (141, 1), "src_vccz": (141, 1), "execz": (142, 1), "src_execz": (142, 1),
}  # fmt: skip
"""Logical numbers as in native/state.hpp, and how many registers a name stands for."""

_RANGE = re.compile(r"(v|s|a|ttmp)(?:(\d+)|\[(\d+)(?::(\d+))?\])$")


@dataclass(frozen=True)
class Register:
    kind: int
    number: int
    count: int


def register(text: str) -> Register | None:
    """``v3``, ``s[4:7]``, ``vcc``; ``None`` where the text is none."""
    if text in NAMED:
        number, count = NAMED[text]
        return Register(SCALAR, number, count)
    match = _RANGE.match(text)
    if not match:
        return None
    first = int(match[2] or match[3])
    last = int(match[4]) if match[4] else first
    kind = VECTOR if match[1] in "va" else SCALAR
    base = {"v": 0, "a": 256, "s": 0, "ttmp": TTMP}[match[1]]
    limit = {"v": 256, "a": 256, "s": 106, "ttmp": 16}[match[1]]
    if last < first or last >= limit:
        return None
    return Register(kind, base + first, last - first + 1)


# Inline constants of floating point (CDNA3 ISA, "Operand encoding"): the text writes their value.
_INV_2PI = {"f32": 0x3E22F983, "f16": 0x3118, "bf16": 0x3E22, "f64": 0x3FC45F306DC9C882}


def constant(text: str, kind: str) -> tuple[int, int] | None:
    """What a constant operand of type ``kind`` holds, as its low and high dword; ``None`` where the text is no number.

    An integer is sign-extended to the operand's width, except for a 32-bit literal of a 64-bit float operand, which is its
    upper half (CDNA3 ISA).  A number with a point is a float of the operand's type.
    """
    text = text.strip()
    if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", text):
        value = int(text, 0)
        if kind == "k16":
            value = (value & 0xFFFF ^ 0x8000) - 0x8000
        if kind == "f64" and not -16 <= value <= 64:
            return 0, value & 0xFFFFFFFF
        if kind in ("b64", "i64") and text.startswith("0x"):
            return value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
        return value & 0xFFFFFFFF, 0xFFFFFFFF if value < 0 else 0
    if re.fullmatch(r"-?\d+\.\d*(e[-+]?\d+)?", text):
        return _float(float(text), kind)
    return None


def _float(value: float, kind: str) -> tuple[int, int]:
    if abs(value - 0.15915494) < 1e-6:  # 1 / (2 pi), which the text rounds
        bits = _INV_2PI[kind if kind in _INV_2PI else "f32"]
        return bits & 0xFFFFFFFF, bits >> 32
    if kind in ("f64", "b64", "i64"):
        (bits,) = struct.unpack("<Q", struct.pack("<d", value))
        return bits & 0xFFFFFFFF, bits >> 32
    if kind in ("f16", "b16", "pk16"):
        (bits,) = struct.unpack("<H", struct.pack("<e", value))
        return bits, 0
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    if kind == "bf16":
        bits >>= 16
    return bits, 0
