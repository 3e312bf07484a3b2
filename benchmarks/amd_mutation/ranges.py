"""Buffer descriptors: some bytes more are in range."""

from __future__ import annotations

import re
from collections.abc import Iterator

from portakern.backends.rocm.amdgcn.assembly.parser import Instruction

from .mutant import TRAP, Mutant, Spare, spelled

MORE = 64
"""Bytes; arrays are guarded on both sides."""

_WIDTH = {"ubyte": 1, "sbyte": 1, "byte": 1, "short": 2, "ushort": 2, "sshort": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12,
          "dwordx4": 16, "u8": 1, "i8": 1, "b8": 1, "u16": 2, "i16": 2, "b16": 2, "b32": 4, "b64": 8, "b96": 12,
          "b128": 16}  # fmt: skip


def is_buffer(i: Instruction) -> bool:
    return i.mnemonic.startswith(("buffer_load_", "buffer_store_"))


def ranges(i: Instruction, spare: Spare) -> Iterator[Mutant]:
    """The count of bytes is larger for one instruction."""
    at = next(n for n, text in enumerate(i.operands) if re.fullmatch(r"s\[\d+:\d+\]", text))
    first = int(i.operands[at][2:].partition(":")[0])
    records, address, scalar = f"s{first + 2}", i.operands[at - 1], i.operands[at + 1]
    more = spare.keeping_scc(f"s_add_u32 {records}, {records}, {MORE}")
    less = spare.keeping_scc(f"s_sub_u32 {records}, {records}, {MORE}")
    m = Mutant("range", i.line, f"{i} with {MORE} bytes more in range", (*more, spelled(i), *less))
    width = next((n for word, n in _WIDTH.items() if re.search(rf"_{word}(?:_|$)", i.mnemonic)), 0)
    if not width or not spare.vectors or "idxen" in i.modifiers:
        yield m
        return
    offset = next((x.removeprefix("offset:") for x in i.modifiers if x.startswith("offset:")), "0")
    place, number, mask, other = f"v{spare.vectors[0]}", spare.number, spare.mask, spare.other
    within = address if "offen" in i.modifiers else "0"
    add = "v_add_nc_u32_e64" if spare.wave32 else "v_add_u32_e64"
    # The lanes whose last byte lies in the bytes that are added (CDNA3 ISA 9.1.5, raw buffers); sums do not wrap.
    check = [
        f"s_add_u32 {number}, {scalar if scalar not in ('off', 'null') else 0}, {int(offset, 0) + width}",
        f"v_mov_b32_e32 {place}, {number}",
        f"{add} {place}, {place}, {within} clamp",
        f"v_cmp_lt_u32_e64 {mask}, {records}, {place}",
        f"s_add_u32 {number}, {records}, {MORE + width}",
        f"v_cmp_gt_u32_e64 {other}, {number}, {place}",
        f"s_and_{spare.bits} {mask}, {mask}, {other}",
        f"s_cbranch_scc1 {TRAP}",
    ]
    yield Mutant(m.kind, m.line, m.what, m.new, before=spare.keeping_scc(*check))
