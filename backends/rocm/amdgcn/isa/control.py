"""Branches, barriers, waits, and what has no effect on results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from portakern.errors import SimulatorError

from .form import Form, form

if TYPE_CHECKING:
    from ..assembly.parser import Instruction

COUNTERS = ("vmcnt", "lgkmcnt", "expcnt", "vscnt", "kmcnt")
"""Order of Counter in native/waits.hpp; gfx12 says loadcnt, dscnt, expcnt, storecnt, kmcnt."""

_GFX12 = {"loadcnt": 0, "dscnt": 1, "expcnt": 2, "storecnt": 3, "kmcnt": 4}


def _bad(i: Instruction, problem: str) -> SimulatorError:
    return SimulatorError(f"line {i.line} of the assembly, `{i}`: {problem}",
                          hint="the machine executes nothing it does not know; report the instruction")  # fmt: skip


def _waitcnt(i: Instruction, generation: int) -> Mapping[str, Any]:
    """``s_waitcnt vmcnt(0) lgkmcnt(1)``."""
    waits = [-1] * 5
    for word in " ".join((*i.operands, *i.modifiers)).replace("&", " ").split():
        match = re.fullmatch(r"(vmcnt|lgkmcnt|expcnt)\((\d+)\)", word)
        if not match:
            raise _bad(i, f"{word!r} is no counter with a number")
        waits[COUNTERS.index(match[1])] = int(match[2])
    return {"immediate": waits}


def _wait_gfx12(*counters: str) -> Any:
    """``s_wait_loadcnt 0x3``; with two counters the low byte is the second's (RDNA4 ISA, S_WAIT_LOADCNT_DSCNT)."""

    def decode(i: Instruction, generation: int) -> Mapping[str, Any]:
        waits = [-1] * 5
        value = int(i.operands[0], 0)
        parts = [value] if len(counters) == 1 else [value >> 8 & 0x3F, value & 0x3F]
        for name, count in zip(counters, parts, strict=True):
            waits[_GFX12[name]] = count
        return {"immediate": waits}

    return decode


def _waitcnt_vscnt(i: Instruction, generation: int) -> Mapping[str, Any]:
    """``s_waitcnt_vscnt null, 0x0`` waits for stores on gfx11."""
    if i.operands[0] != "null":
        raise _bad(i, "a wait for as many as a register says is not known")
    return {"immediate": [-1, -1, -1, int(i.operands[1], 0), -1]}


def _message(i: Instruction, generation: int) -> Mapping[str, Any]:
    """Giving the registers back early, which has no effect on results, and telling the host what a trap before has done."""
    text = " ".join((*i.operands, *i.modifiers))
    if text not in ("sendmsg(MSG_DEALLOC_VGPRS)", "3", "sendmsg(MSG_INTERRUPT)"):
        raise _bad(i, "the message is not known")
    return {}


_REGISTERS = {"HW_REG_MODE": 0, "HW_REG_SHADER_CYCLES": 1, "HW_REG_SHADER_CYCLES_LO": 1, "HW_REG_SHADER_CYCLES_HI": 2}
"""Those that s_getreg and s_setreg may name: MODE, and both halves of a clock, which counts instructions here."""


def hardware_register(text: str) -> list[int] | None:
    """Register, first bit and number of bits of ``hwreg(HW_REG_MODE, 4, 2)``."""
    match = re.fullmatch(r"hwreg\((\w+)(?:,\s*(\d+),\s*(\d+))?\)", text)
    if match is None or match[1] not in _REGISTERS:
        return None
    return [_REGISTERS[match[1]], int(match[2] or 0), int(match[3] or 32)]


def _ignored(i: Instruction, generation: int) -> Mapping[str, Any]:
    return {}


def _whole_workgroup(i: Instruction, generation: int) -> Mapping[str, Any]:
    """Barrier -1 is that of the workgroup; the named ones of gfx12.5 are not known."""
    if i.operands[0] not in ("-1", "0xffff"):
        raise _bad(i, "only the barrier of the workgroup (-1) is known")
    return {}


def _nothing(words: str = "") -> Form:
    """Hints, caches and pauses: no effect on what is computed here (hazards are judged from the text, see hazards)."""
    return form(words, "message", "nothing", own_taint=True, decode=_ignored)


FORMS = {
    "s_branch": form("label", "branch", own_taint=True, control=True),
    **{
        f"s_cbranch_{c}": form("label", "branch", own_taint=True, control=True)
        for c in ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz")
    },
    "s_endpgm": form("", "branch", own_taint=True, control=True),
    # For mutants (benchmarks/amd_mutation), see native/aside.hpp; no assembler knows them.
    "pk_aside": form("label", "branch", own_taint=True, control=True),
    "pk_back": form("", "branch", own_taint=True, control=True),
    "pk_join": form("#", "message", own_taint=True, control=True),
    "s_barrier": form("", "branch", own_taint=True, control=True),
    "s_barrier_signal": form("", "branch", own_taint=True, control=True, decode=_whole_workgroup),
    "s_barrier_wait": form("", "branch", own_taint=True, control=True, decode=_whole_workgroup),
    "s_getpc_b64": form("sd:b64", "branch", own_taint=True),
    "s_setpc_b64": form("sc:b64", "branch", own_taint=True, control=True),
    "s_swappc_b64": form("sd:b64 sc:b64", "branch", own_taint=True, control=True),
    "s_getreg_b32": form("sd hwreg", "salu", own_taint=True),
    **{f"s_setreg_{n}": form("hwreg sc", "salu", "s_setreg_b32", own_taint=True) for n in ("b32", "imm32_b32")},
    "s_set_gpr_idx_on": form("sc idx", "salu", own_taint=True),
    "s_set_gpr_idx_off": _nothing(),
    **{f"s_{n}": form("#", "branch", "trap", own_taint=True, control=True, decode=_ignored) for n in ("trap", "sethalt")},
    "s_sendmsg_rtn_b32": form("", "branch", "trap", own_taint=True, control=True, decode=_ignored),
    "s_waitcnt": form("", "message", "waits", own_taint=True, decode=_waitcnt),
    "s_waitcnt_vscnt": form("", "message", "waits", own_taint=True, decode=_waitcnt_vscnt),
    **{f"s_wait_{c}": form("", "message", "waits", own_taint=True, decode=_wait_gfx12(c)) for c in _GFX12},
    "s_wait_loadcnt_dscnt": form("", "message", "waits", own_taint=True, decode=_wait_gfx12("loadcnt", "dscnt")),
    "s_wait_storecnt_dscnt": form("", "message", "waits", own_taint=True, decode=_wait_gfx12("storecnt", "dscnt")),
    "s_sendmsg": form("", "message", "nothing", own_taint=True, decode=_message),
    **{
        f"s_{name}": _nothing()
        for name in [
            "nop", "clause", "delay_alu", "setprio", "sleep", "waitcnt_depctr", "wait_alu", "wait_idle",
            "sched_barrier", "icache_inv", "dcache_inv", "dcache_wb", "set_inst_prefetch_distance", "inst_prefetch",
            "ttracedata", "code_end", "wait_samplecnt", "wait_bvhcnt",
        ]
    },
    **{name: _nothing() for name in [
        "global_inv", "global_wb", "global_wbinv", "buffer_inv", "buffer_wbl2", "buffer_gl0_inv", "buffer_gl1_inv",
        "buffer_wbinvl1_vol", "buffer_wbinvl1",
    ]},
}  # fmt: skip
