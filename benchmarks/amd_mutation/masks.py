"""Masks through EXEC: all lanes let through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from portakern.backends.rocm.amdgcn.assembly.parser import Instruction
from portakern.backends.rocm.amdgcn.isa import form_of

from .mutant import Mutant, Spare, each, spelled


def is_mask(i: Instruction) -> bool:
    return "saveexec" in i.mnemonic or i.mnemonic.startswith("v_cmpx") or i.operands[:1] in (("exec",), ("exec_lo",))


def masks(i: Instruction, following: Sequence[Instruction], spare: Spare) -> Iterator[Mutant]:
    """``following`` are the instructions behind ``i`` in the text."""
    bits, exec_, mask = spare.bits, spare.exec, spare.mask
    kept, ops, what = spelled(i), i.operands, f"{i} lets all lanes through"
    narrowed = spare.unless_zero(f"{spare.without}_{bits} {mask}, {mask}, {exec_}")
    saved = f"s_mov_{bits} {mask}, {exec_}"
    if i.mnemonic in (f"s_and_saveexec_{bits}", f"s_and_not0_saveexec_{bits}", f"s_andn1_saveexec_{bits}"):
        after = spare.unless_zero(f"s_xor_{bits} {mask}, {exec_}, {ops[0]}")
        sides = bool(following) and str(following[0]) == f"s_xor_{bits} {ops[0]}, {exec_}, {ops[0]}"
        where, poisoned = region_poison(i, following, spare)
        yield Mutant("mask", i.line, what, (f"s_mov_{bits} {ops[0]}, {exec_}",), after=after, sides=sides, poisoned=poisoned,
                     poisoned_at=where)  # fmt: skip
    elif i.mnemonic in (f"s_andn2_saveexec_{bits}", f"s_and_not1_saveexec_{bits}"):
        # EXEC becomes the source without the lanes that are active now.
        new = (f"s_mov_{bits} {mask}, {ops[1]}", f"s_mov_{bits} {ops[0]}, {exec_}", f"s_mov_{bits} {exec_}, {mask}")
        yield Mutant("mask", i.line, what, new, before=spare.unless_zero(f"s_and_{bits} {mask}, {exec_}, {ops[1]}"))
    elif i.mnemonic == f"s_or_{bits}" or "saveexec" in i.mnemonic:
        return  # lets lanes in
    elif i.mnemonic.startswith("v_cmpx"):
        yield Mutant("mask", i.line, what, ("s_nop 0",), before=(saved,), after=narrowed)
    else:
        new = (saved, kept, f"s_or_{bits} {exec_}, {exec_}, {mask}")
        yield Mutant("mask", i.line, what, new, before=(saved,), after=narrowed)


_EFFECTS = ("store", "write", "atomic", "s_barrier", "s_branch", "s_cbranch_scc", "s_cbranch_vcc", "v_readlane",
            "v_readfirstlane", "_lds_", "ds_add", "ds_max", "ds_min", "s_endpgm")  # fmt: skip


def region_poison(i: Instruction, following: Sequence[Instruction], spare: Spare) -> tuple[int, tuple[str, ...]]:
    """The line that lets the masked lanes in again, and in its place: all that is written in between is undefined there.

    Nothing where what happens in between is more than loading and computing.
    """
    bits, exec_, saved = spare.bits, spare.exec, i.operands[0]
    written: list[str] = []
    for n, other in enumerate(following):
        if str(other) == f"s_or_{bits} {exec_}, {exec_}, {saved}":
            # Up to where branches around the region lead, the masked lanes alone.
            lines = [
                *spare.all_waits,
                f"s_mov_{bits} {spare.mask}, {exec_}",
                *spare.keeping_scc(f"{spare.without}_{bits} {spare.other}, {saved}, {exec_}"),
                f"s_mov_{bits} {exec_}, {spare.other}",
                *(f"v_mov_b32_e32 {r}, {spare.never}" for r in dict.fromkeys(written) if _is_vector(r)),
                f"s_mov_{bits} {exec_}, {spare.mask}",
            ]
            masks = dict.fromkeys(r for r in written if not _is_vector(r))
            for r in masks:
                lines += spare.keeping_scc(
                    f"s_and_{bits} {spare.mask}, {spare.other}, {spare.never_mask}",
                    f"s_xor_{bits} {r}, {r}, {spare.mask}",
                )
            return (other.line, (*lines, spelled(other))) if spare.never else (0, ())
        if any(word in other.mnemonic for word in _EFFECTS) or n > 400:
            break
        found = _written(other, spare)
        if found is None or saved in found:
            break
        written += found
    return 0, ()


def _written(i: Instruction, spare: Spare) -> list[str] | None:
    """Vector registers and masks that an instruction writes; ``None`` where it writes other scalars."""
    found: list[str] = []
    for slot, text in zip(form_of(i).slots, i.operands, strict=False):
        if not slot.written or text.startswith("exec") or text == "null":
            continue
        plain = text.removesuffix(".l").removesuffix(".h")
        if _is_vector(plain):
            found += each(plain)
        elif slot.role == "dm" or i.mnemonic.endswith(f"_{spare.bits}"):
            found.append(text)
        else:
            return None
    return found


def _is_vector(text: str) -> bool:
    return text[0] in "va" and not text.startswith("vcc")
