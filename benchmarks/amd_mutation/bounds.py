"""Compares of integers: one more is let through.  Selects: what was loaded in place of the constant that masks it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from portakern.backends.rocm.amdgcn.assembly.parser import Instruction

from .difference import by_difference
from .mutant import TRAP, Mutant, Spare, spelled

_VECTOR = re.compile(r"v_cmp(x?)_(lt|gt|le|ge)_([iu](?:16|32|64))(.*)")
_SCALAR = re.compile(r"s_cmp_(lt|gt|le|ge)_([iu]32)")
_NUMBER = re.compile(r"-?\d+|0x[0-9a-f]+")
_LOOSER = {"lt": "le", "gt": "ge"}


def is_bound(i: Instruction) -> bool:
    return bool(_VECTOR.fullmatch(i.mnemonic) or _SCALAR.fullmatch(i.mnemonic))


def bounds(i: Instruction, spare: Spare) -> Iterator[Mutant]:
    vector = _VECTOR.fullmatch(i.mnemonic)
    scalar = _SCALAR.fullmatch(i.mnemonic)
    match = vector or scalar
    assert match is not None
    relation, kind = (match[2], match[3]) if vector else (match[1], match[2])
    *to, a, b = i.operands
    made = _loosened(i, relation, kind, a, b)
    if made is None:
        return
    mnemonic, first, equal = made
    new = spelled(i, mnemonic=mnemonic, operands=(*to, first, b))
    m = Mutant("bound", i.line, f"{i} as {new}", (new,))
    if scalar:
        yield Mutant(m.kind, m.line, m.what, m.new, before=(f"s_cmp_eq_u32 {equal}, {b}", f"s_cbranch_scc1 {TRAP}"))
        return
    assert vector is not None
    # The mutant lets through exactly those that are equal.
    suffix = "_sdwa" if "sdwa" in vector[4] else "_e64"
    same = spelled(i, mnemonic=f"v_cmp_eq_{kind}{suffix}", operands=(spare.mask, equal, b))
    check = spare.keeping_scc(f"s_or_{spare.bits} {spare.mask}, {spare.mask}, {spare.mask}", f"s_cbranch_scc1 {TRAP}")
    poisoned: tuple[str, ...] = ()
    if not vector[1]:
        flip = (f"s_and_{spare.bits} {spare.mask}, {spare.mask}, {spare.never_mask}",
                f"s_xor_{spare.bits} {to[0]}, {to[0]}, {spare.mask}")  # fmt: skip
        poisoned = (same, spelled(i), *spare.keeping_scc(*flip))
    yield Mutant(m.kind, m.line, m.what, m.new, before=(same, *check), poisoned=poisoned)


def _loosened(i: Instruction, relation: str, kind: str, a: str, b: str) -> tuple[str, str, str] | None:
    """The mnemonic and first operand that let one more through, and what the second equals then."""
    if relation in _LOOSER:
        return i.mnemonic.replace(f"_{relation}_", f"_{_LOOSER[relation]}_"), a, a
    if not _NUMBER.fullmatch(a):
        return None  # clang writes such compares with a constant
    value = int(a, 0) + (1 if relation == "ge" else -1)
    if value < 0 if kind[0] == "u" else not -(1 << 31) <= value < 1 << 31:
        return None
    return i.mnemonic, str(value), str(value)


_CONSTANT = re.compile(r"-?\d+(?:\.\d+)?|0x[0-9a-f]+")


def is_select(i: Instruction) -> bool:
    return i.mnemonic in ("v_cndmask_b32_e32", "v_cndmask_b32_e64", "v_dual_cndmask_b32", "v_cndmask_b16")


def selects(i: Instruction, line: str, spare: Spare) -> Iterator[Mutant]:
    """``line`` is the whole line, of which ``i`` may be half."""
    to, *sources = i.operands[:3]
    constant = [bool(_CONSTANT.fullmatch(s)) for s in sources]
    if sum(constant) != 1:
        return
    kept = sources[constant.index(False)]
    if not re.fullmatch(r"[va]\d+(?:\.[lh])?", kept):
        return
    if "." in to:  # 16 bits of a register that has other ones
        whole, half = to.split(".")
        m = Mutant("select", i.line, f"{i} always {kept}", (f"v_mov_b16_e32 {to}, {kept}",))
        yield by_difference(m, whole, [f"v_mov_b16_e32 {{d}}.{half}, {kept}"], line, spare, partial=True)
        return
    dual = i.mnemonic.startswith("v_dual")
    new = f"{'v_dual_mov_b32' if dual else 'v_mov_b32_e32'} {to}, {kept}"
    whole = line.replace(spelled(i), new) if dual else new
    m = Mutant("select", i.line, f"{i} always {kept}", (whole,))
    yield by_difference(m, to, [f"v_mov_b32_e32 {{d}}, {kept}"], line, spare)
