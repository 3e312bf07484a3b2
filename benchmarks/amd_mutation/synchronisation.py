"""Waits and barriers: left out, and waits for one operation less."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from portakern.backends.rocm.amdgcn.assembly.parser import Assembly, Instruction
from portakern.backends.rocm.amdgcn.hazards.facts import registers

from .mutant import Mutant

_NAMES = {"loadcnt": "vmcnt", "dscnt": "lgkmcnt", "storecnt": "vscnt", "kmcnt": "kmcnt", "expcnt": "expcnt"}


def is_wait(i: Instruction) -> bool:
    name = i.mnemonic
    return name in ("s_waitcnt", "s_waitcnt_vscnt") or (
        name.startswith("s_wait_") and not name.startswith(("s_wait_alu", "s_wait_idle"))
    )


def waits_of(i: Instruction) -> dict[str, int]:
    """Which counters an instruction waits for, and down to what; empty for any other instruction."""
    if i.mnemonic == "s_waitcnt":
        words = " ".join((*i.operands, *i.modifiers))
        return {name: int(n) for name, n in re.findall(r"(\w+cnt)\((\d+)\)", words)}
    if i.mnemonic == "s_waitcnt_vscnt":
        return {"vscnt": int(i.operands[-1], 0)}
    if not i.mnemonic.startswith("s_wait_"):
        return {}
    names = [_NAMES[n] for n in i.mnemonic.removeprefix("s_wait_").split("_") if n in _NAMES]
    value = int(i.operands[0], 0) if i.operands else 0
    if len(names) == 2:  # the first count lies above the second (RDNA4 ISA 16.5)
        return {names[0]: value >> 8, names[1]: value & 0xFF}
    return dict.fromkeys(names, value)


def waits(i: Instruction) -> Iterator[Mutant]:
    counts = waits_of(i)
    for counter, count in counts.items():
        for kept in (None, count + 1):
            what = f"{i} without {counter}" if kept is None else f"{i} with {counter}({kept})"
            yield Mutant("wait", i.line, what, _spelled(i, {**counts, counter: kept}))


def _spelled(i: Instruction, counts: dict[str, int | None]) -> tuple[str, ...]:
    left = {name: n for name, n in counts.items() if n is not None}
    if not left:
        return ("s_nop 0",)
    if i.mnemonic == "s_waitcnt":
        return ("s_waitcnt " + " ".join(f"{name}({n})" for name, n in left.items()),)
    if i.mnemonic == "s_waitcnt_vscnt":
        return (f"s_waitcnt_vscnt null, 0x{left['vscnt']:x}",)
    back = {new: old for old, new in _NAMES.items()}
    return tuple(f"s_wait_{back[name]} 0x{n:x}" for name, n in left.items())


def barriers(i: Instruction, all_of: Sequence[Instruction]) -> Iterator[Mutant]:
    """A barrier, or on gfx12 its halves: both, and each alone."""
    yield Mutant("barrier", i.line, f"without {i}", ("s_nop 0",))
    if i.mnemonic == "s_barrier_signal":
        later = (other for other in all_of if other.line > i.line and other.mnemonic == "s_barrier_wait")
        end = next(later, None)
        if end is not None:
            yield Mutant("barrier", i.line, f"without {i} and the wait in line {end.line}", ("s_nop 0",), removed=(end.line,))


def nops(i: Instruction) -> Iterator[Mutant]:
    """``s_nop``: left out, and one state less."""
    states = int(i.operands[0], 0) + 1 if i.operands else 1
    yield Mutant("nop", i.line, f"without {i}")
    if states > 1:
        yield Mutant("nop", i.line, f"{i} with {states - 2}", (f"s_nop {states - 2}",))


def behind_packed(assembly: Assembly, line: int) -> bool:
    """Whether the ``s_nop`` in ``line`` stands between packed arithmetic and what reads its result.

    On CDNA 3 and 4 one state must lie behind a result that is shifted into half a register (CDNA3 ISA, SDWA and op_sel).  LLVM
    tells that by a bit which in packed arithmetic is the first source's op_sel_hi (``SISrcMods``: DST_OP_SEL is OP_SEL_1).
    """
    at = next(n for n, i in enumerate(assembly.instructions) if i.line == line)
    before, after = assembly.instructions[at - 1], assembly.instructions[at + 1 : at + 2]
    if not at or not after or not before.mnemonic.startswith("v_pk_"):
        return False
    return bool(registers(before.operands[0]) & frozenset().union(*map(registers, after[0].operands)))
