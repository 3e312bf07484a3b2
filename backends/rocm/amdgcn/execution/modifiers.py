"""Modifiers behind the operands as fields of the record (LLVM, "Syntax of AMDGPU Instruction Modifiers")."""

from __future__ import annotations

import re
from typing import Any

from ..assembly.parser import AssemblyError, Instruction
from ..isa.form import Form

_DPP = {
    "row_shl": 0x100, "row_shr": 0x110, "row_ror": 0x120, "row_newbcast": 0x150, "row_share": 0x150, "row_xmask": 0x160,
}  # fmt: skip
_DPP_FIXED = {"wave_shl:1": 0x130, "wave_rol:1": 0x134, "wave_shr:1": 0x138, "wave_ror:1": 0x13C, "row_mirror": 0x140,
              "row_half_mirror": 0x141, "row_bcast:15": 0x142, "row_bcast:31": 0x143}  # fmt: skip
_SDWA = {"BYTE_0": 0, "BYTE_1": 1, "BYTE_2": 2, "BYTE_3": 3, "WORD_0": 4, "WORD_1": 5, "DWORD": 6}
_UNUSED = {"UNUSED_PAD": 0, "UNUSED_SEXT": 1, "UNUSED_PRESERVE": 2}
_OUTPUT = {"mul:2": 1, "mul:4": 2, "div:2": 3}
_CACHE = {"glc": 1, "sc0": 1, "slc": 2, "sc1": 2, "dlc": 4, "nt": 8, "scc": 16, "th:TH_ATOMIC_RETURN": 1}
_MATRIX = {"cbsz", "abid", "blgp"}


def modifier_fields(
    i: Instruction, form: Form, fields: dict[str, Any], immediate: list[int], generation: int
) -> dict[str, Any]:
    """Raises :class:`AssemblyError` for a modifier that the form does not list."""
    allowed = form.modifiers
    out: dict[str, Any] = {}
    if fields.pop("true16", False) and "op_sel" not in allowed:
        raise _error(i, "a half of a register", "is not known here")
    if i.mnemonic.endswith("_sdwa"):
        _need(i, allowed, "sdwa", "sdwa")
        out.update(sdwa=1, dst_sel=6, src0_sel=6, src1_sel=6)
    if i.mnemonic.endswith("_dpp"):
        _need(i, allowed, "dpp", "dpp")
        out.update(row_mask=15, bank_mask=15)
    for word in _joined(i.modifiers):
        key, _, value = word.partition(":")
        if key in ("clamp", "lds", "offen", "idxen", "gds"):
            _need(i, allowed, key, word)
            out[key] = 1
        elif word in _OUTPUT:
            _need(i, allowed, "omod", word)
            out["omod"] = _OUTPUT[word]
        elif key in ("op_sel", "op_sel_hi", "neg_lo", "neg_hi"):
            _need(i, allowed, key, word)
            out[key] = _bits(value, form) | (fields.get("op_sel", 0) if key == "op_sel" else 0)
        elif key == "neg":  # of MFMA on f64, from gfx942 on (LLVM, "Syntax of AMDGPU Instructions", neg)
            _need(i, allowed, key, word)
            out["neg_lo"] = _bits(value, form)
        elif key in _MATRIX:
            _need(i, allowed, key, word)
            out[key] = _bits(value, form) if value.startswith("[") else int(value, 0)
        elif key == "byte_sel":  # which byte is read, or written by v_cvt_sr, where older ones have op_sel
            _need(i, allowed, key, word)
            if i.mnemonic.startswith("v_cvt_sr"):
                out["op_sel"] = int(value, 0) << 2
            else:
                out["extra"] = int(value, 0)
        elif key in ("bitop3", "index_key"):
            _need(i, allowed, key, word)
            out["extra"] = int(value, 0)
        elif key == "quad_perm":
            _need(i, allowed, "dpp", word)
            lanes = _list(value)
            out.update(dpp_kind=1, dpp=sum(n << (2 * k) for k, n in enumerate(lanes)))
        elif word in _DPP_FIXED:
            _need(i, allowed, "dpp", word)
            out.update(dpp_kind=1, dpp=_DPP_FIXED[word])
        elif key in _DPP:
            _need(i, allowed, "dpp", word)
            out.update(dpp_kind=1, dpp=_DPP[key] + int(value, 0))
        elif key == "dpp8":
            _need(i, allowed, "dpp", word)
            out.update(dpp_kind=2, dpp8=sum(n << (3 * k) for k, n in enumerate(_list(value))))
        elif key in ("row_mask", "bank_mask"):
            _need(i, allowed, "dpp", word)
            out[key] = int(value, 0)
        elif key == "bound_ctrl":
            # Before gfx11 the assembler takes 0 and 1 alike for a set bit.
            _need(i, allowed, "dpp", word)
            out["bound_ctrl"] = 1 if generation < 110 else int(value)
        elif key == "fi":
            _need(i, allowed, "dpp", word)
            out["fetch_inactive"] = int(value)
        elif key in ("dst_sel", "src0_sel", "src1_sel"):
            _need(i, allowed, "sdwa", word)
            out[key] = _SDWA[value]
        elif key == "dst_unused":
            _need(i, allowed, "sdwa", word)
            out[key] = _UNUSED[value]
        elif key in ("offset", "offset0", "offset1"):
            _need(i, allowed, key, word)
            immediate[key == "offset1"] = _offset(i, value)
        elif key.startswith("gpr_idx("):
            continue  # chose the form
        elif word in _CACHE or key in ("th", "scope"):
            _need(i, allowed, "cache", word)
            out["cache"] = out.get("cache", 0) | _CACHE.get(word, 0)
        else:
            raise _error(i, word, "is not known")
    immediate[0] *= form.offset_unit
    immediate[1] *= form.offset_unit
    if out.get("dpp_kind") and "row_mask" not in out:
        out.update(row_mask=15, bank_mask=15)
    return out


def _joined(words: tuple[str, ...]) -> list[str]:
    """A list behind a colon may have spaces in it: ``op_sel:[0, 1]``."""
    text = " ".join(words)
    return re.sub(r"\[[^\]]*\]", lambda m: m[0].replace(" ", ""), text).split()


def _need(i: Instruction, allowed: frozenset[str], key: str, word: str) -> None:
    if key not in allowed:
        raise _error(i, word, "is not known for this instruction")


def _error(i: Instruction, word: str, problem: str) -> AssemblyError:
    return AssemblyError(i.line, str(i), f"the modifier `{word}` {problem}")


def _list(text: str) -> list[int]:
    return [int(x, 0) for x in text.strip("[]").split(",")]


def _bits(text: str, form: Form) -> int:
    """A list of bits, one a source; one more than there are sources is the destination's, bit 3."""
    values = _list(text)
    sources = sum(not s.written and s.role in ("s", "v", "sc") for s in form.slots) + sum(s.also_read for s in form.slots)
    if len(values) > sources:
        return sum(v << k for k, v in enumerate(values[:-1])) | values[-1] << 3
    return sum(v << k for k, v in enumerate(values))


def _offset(i: Instruction, text: str) -> int:
    if not text.startswith("swizzle("):
        return int(text, 0)
    kind, *rest = [x.strip().strip('"') for x in text[len("swizzle(") : -1].split(",")]
    numbers = [int(x, 0) for x in rest] if kind != "BITMASK_PERM" else []
    if kind == "QUAD_PERM":
        return 0x8000 | sum(n << (2 * k) for k, n in enumerate(numbers))
    if kind == "BITMASK_PERM":
        return _bitmask(rest[0])
    if kind == "SWAP":
        return numbers[0] << 10 | 0x1F
    if kind == "REVERSE":
        return (numbers[0] - 1) << 10 | 0x1F
    if kind == "BROADCAST":
        return numbers[1] << 5 | (~(numbers[0] - 1) & 0x1F)
    raise _error(i, text, "is not known")


def _bitmask(mask: str) -> int:
    """Five letters, highest bit first: 0 and 1 set it, p keeps and i inverts the lane's own."""
    keep = set_ = flip = 0
    for letter in mask:
        keep, set_, flip = keep << 1, set_ << 1, flip << 1
        if letter in "pi":
            keep |= 1
        if letter == "1":
            set_ |= 1
        if letter == "i":
            flip |= 1
    return keep | set_ << 5 | flip << 10
