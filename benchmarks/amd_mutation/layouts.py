"""Layouts and formats: operands exchanged, lanes taken from elsewhere, LDS read beside, 8-bit floats of another format."""

from __future__ import annotations

import re
from collections.abc import Iterator

from portakern.backends.rocm.amdgcn.assembly.parser import Instruction

from .difference import by_difference
from .mutant import Mutant, Spare, each, spelled

_SAME = "quad_perm:[0,1,2,3]"
_PATTERNS = {
    "quad_perm:[1,0,3,2]": (_SAME,), "quad_perm:[2,3,0,1]": (_SAME,), "row_ror:8": (_SAME, "row_ror:4"),
    "row_shr:1": ("row_shr:2",), "row_shr:2": ("row_shr:3",), "row_shr:4": ("row_shr:5",), "row_shr:8": ("row_shr:9",),
    "row_xmask:1": ("row_xmask:2",), "row_xmask:2": ("row_xmask:4",), "row_xmask:4": ("row_xmask:8",),
    "row_xmask:8": ("row_xmask:1",), "row_mirror": (_SAME,), "row_half_mirror": (_SAME,), "quad_perm:[3,2,1,0]": (_SAME,),
    "row_bcast:15": ("row_bcast:31",), "row_bcast:31": ("row_bcast:15",),
    "swizzle(SWAP,4)": ("swizzle(SWAP,8)",), "swizzle(SWAP,8)": ("swizzle(SWAP,4)",),
    "swizzle(SWAP,16)": ("swizzle(SWAP,8)",),
}  # fmt: skip
"""Lane patterns, and what stands in their place."""

_PARTIAL = re.compile(r"row_mask:0x(?!f)|bank_mask:0x(?!f)|_d16|_b16|_f16_sdwa|dst_sel")


def layouts(i: Instruction, line: str, spare: Spare, wait: str) -> Iterator[Mutant]:
    """``line`` is the whole line, ``wait`` what waits for LDS."""
    for what, changed in _changed(i, line):
        to = i.operands[0]
        new = tuple(text.replace("{d}", to) for text in changed)
        m = Mutant("layout", i.line, f"{i} {what}", new)
        partial = bool(_PARTIAL.search(line)) or ("_dpp" in i.mnemonic and "bound_ctrl" not in line) or "fmac" in i.mnemonic
        yield by_difference(m, to, changed, line, spare, partial=partial, wait=wait if i.mnemonic.startswith("ds_") else "")
    if "_swap_b32" in i.mnemonic and "permlane" in i.mnemonic:
        other = i.mnemonic.replace("32_swap", "x_swap").replace("16_swap", "32_swap").replace("x_swap", "16_swap")
        yield Mutant("layout", i.line, f"{i} as {other}", (spelled(i, mnemonic=other),))


def _changed(i: Instruction, line: str) -> Iterator[tuple[str, list[str]]]:
    """What is changed, and the instruction so changed with ``{d}`` for what it writes."""
    name, ops = i.mnemonic, i.operands
    if name.startswith(("v_mfma", "v_wmma")):
        _, a, b, c = ops
        if a != b:
            yield "with A and B exchanged", [spelled(i, operands=("{d}", b, a, c))]
            first = each(a)
            if len(first) in (2, 4, 8) and first[0][0] == "v":
                swap = f"v_swap_b32 {first[0]}, {first[1]}"
                yield "with two registers of A exchanged", [swap, spelled(i, operands=("{d}", *ops[1:])), swap]
    for old, others in _PATTERNS.items():
        if re.search(re.escape(old) + r"(?!\d)", line):
            for new in others:
                yield f"with {new}", [_to_d(i).replace(old, new)]
            return
    if name == "v_perm_b32" and ops[1] != ops[2]:
        yield "with its sources exchanged", [spelled(i, operands=("{d}", ops[2], ops[1], ops[3]))]
    elif name in ("v_permlanex16_b32", "v_permlane16_b32"):
        lanes = (ops[3], ops[2]) if ops[2] != ops[3] else ("0", "0")
        yield f"with lanes {', '.join(lanes)}", [spelled(i, operands=("{d}", ops[1], *lanes))]
    elif name == "v_readlane_b32" and ops[2].isdigit():
        yield "of its neighbour", [spelled(i, operands=("{d}", ops[1], int(ops[2]) ^ 1))]
    elif name == "ds_bpermute_b32" and not i.modifiers:
        yield "of the next lane", [spelled(i, operands=("{d}", *ops[1:]), modifiers=("offset:4",))]
    elif name.startswith("v_xor_b32") and ops[1].replace("0x", "").isalnum() and _positive(ops[1]):
        yield "with twice the number", [spelled(i, operands=("{d}", hex(2 * int(ops[1], 0)), ops[2]))]
    elif match := re.fullmatch(r"ds_(?:read|load)_(?:b32|b64|b128|u16|u16_d16|u16_d16_hi)", name):
        old = next((int(x.removeprefix("offset:"), 0) for x in i.modifiers if x.startswith("offset:")), 0)
        width = 2 if "u16" in match[0] else 4
        yield f"from {width} bytes on", [spelled(i, operands=("{d}", *ops[1:]), modifiers=(f"offset:{old + width}",))]


def _positive(text: str) -> bool:
    return bool(re.fullmatch(r"\d+|0x[0-9a-f]+", text)) and 0 < int(text, 0) < 1 << 15


def _to_d(i: Instruction) -> str:
    return spelled(i, operands=("{d}", *i.operands[1:]))


def formats(i: Instruction) -> Iterator[Mutant]:
    if not (i.mnemonic.startswith("v_") and re.search("fp8|bf8", i.mnemonic)):
        return
    other = re.sub("fp8|bf8", lambda m: "bf8" if m[0] == "fp8" else "fp8", i.mnemonic, count=1)
    yield Mutant("format", i.line, f"{i} as {other}", (spelled(i, mnemonic=other),))
