"""Which unit executes an instruction, how long it keeps it busy, and which registers it reads and writes.

CDNA: rates are those of LLVM's SISchedule.td (SIDPGFX940FullSpeedModel and SIDPFullSpeedModel: latencies in issue slots of 4
cycles, which a wave of 64 lanes takes on 16-wide SIMDs; ROCm Compute Profiler documentation, "Pipeline descriptions").  RDNA:
see :mod:`.rates`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from portakern.errors import PortakernError

from ..assembly.parser import Instruction
from .generation import canonical, generation
from .matrix import Matrix, matrix
from .operands import EXEC, NONE, VCC, Modifiers, RegisterSet, register_set
from .rates import rate

ISSUE = 4
"""CDNA: cycles between two instructions of one wave: each SIMD issues every fourth ("Pipeline descriptions", Scheduler)."""


class Unit(Enum):
    MATRIX = "matrix cores"
    VECTOR = "vector ALUs"
    SCALAR = "scalar ALU"
    SCALAR_MEMORY = "scalar memory"
    LDS = "LDS"
    VECTOR_MEMORY = "vector memory"
    BRANCH = "branches"
    INTERNAL = "waits and messages"


_SUFFIX = re.compile(r"(_e32|_e64|_dpp|_sdwa|_e64_dpp)$")
_FLOAT_SLOW = "exp log rcp rsq sqrt sin cos"
_SLOW = re.compile(rf"v_(s_)?({'|'.join(_FLOAT_SLOW.split())})(_iflag|_legacy)?_(f16|f32)")
_SLOW64 = re.compile(r"v_(rcp|rsq|sqrt)_f64")
_VECTOR = re.compile(
    r"v_(accvgpr_(mov|read|write)|add3?|add_(co|lshl)|addc_co|alignb(it|yte)|and|and_or|ashrrev|bcnt|bfe|bfi|bfm|bfrev|bitop3"
    r"|ceil|cmpx?_\w+|cndmask|cubeid|cvt_\w+|div_(fixup|fmas|scale)|dot\w+|ffbh|ffbl|floor|fma(ak|c|mk)?|fma_mix(hi|lo)?|fract"
    r"|frexp_\w+|ldexp|lerp|lshl_(add|or)|lshlrev|lshrrev|mac|mad|mad_\w+|max3?|max_\w+|maximum3?|maxmin|maximumminimum|mbcnt_(hi|lo)|med3|min3?|min_\w+"
    r"|minimum3?|minmax|minimummaximum|mov|movrel\w+|mul|mul_(hi|lo|legacy|hi_u32|\w+24)|nop|not|or3?|pack|perm|permlane\w+|pk_\w+|prng|readfirstlane"
    r"|readlane|rndne|sad\w*|sub|sub_co|subb(rev)?_co|subrev|subrev_co|swap|trig_preop|trunc|writelane|xad|xnor|xor3?|ashr|lshl"
    r"|lshr|fmac_dx9|cl[sz]|ctz|sub_nc|add_nc|cvt|s?at_pk|clrexcp|screen_partition|mov_b64|qsad|mqsad)(_[a-z0-9_]+)?"
)
_SCALAR = re.compile(
    r"s_(abs|absdiff|add|addc|addk|and|andn1|andn2|ashr|bcnt[01]|bfe|bfm|bit(cmp|set)[01]|bitreplicate|brev|cmov|cmovk|cmpk?_\w+|cselect"
    r"|ff0|ff1|flbit|getpc|lshl|lshl[1-4]_add|lshr|max|min|mov|movk|movrel\w+|mul|mulk|mul_hi|nand|nor|not|or|orn1|orn2|pack_\w+|quadmask"
    r"|rfe|sext|sub|subb|swappc|wqm|xnor|xor|getreg|setreg|setreg_imm32|call|(and|or|xor|andn1|andn2|orn1|orn2|nand|nor|xnor)_saveexec"
    r"|set_gpr_idx_\w+|andn[12]_wrexec|rndne|fma(ak|c|mk)|cvt|ceil|floor|trunc|minimum|maximum|cl[sz]|ctz|sendmsg_rtn)(_[a-z0-9_]+)?"
)
_BRANCH = re.compile(r"s_(branch|cbranch_\w+|setpc_b64|endpgm\w*|trap|cbranch)")
_INTERNAL = re.compile(
    r"s_(waitcnt\w*|wait_\w+|nop|sleep\w*|setprio|sethalt|sendmsg(halt)?|barrier\w*|inst_prefetch|icache_inv|clause|ttracedata|code_end"
    r"|set_gpr_idx_off|incperflevel|decperflevel|delay_alu|set_inst_prefetch_distance|round_mode|denorm_mode|version|wakeup)"
)
_SCALAR_MEMORY = re.compile(
    r"s_(load|buffer_load|store|buffer_store|scratch_load|scratch_store)_\w+"
    r"|s_(mem(re)?altime|memtime|memrealtime|dcache\w+|atc_probe\w*)"
)
_LDS = re.compile(
    r"ds_(read|write|load|store|storexchg|cmpstore|add|sub|rsub|inc|dec|min|max|and|or|xor|mskor|cmpst|wrxchg|wrap|swizzle|permute|bpermute"
    r"|condxchg|pk_add|nop|consume|append|ordered)\w*"
)
_VECTOR_MEMORY = re.compile(
    r"(global|flat|buffer|tbuffer|scratch)_(load|store|atomic|wbl2|inv|wbinvl1|wbinvl1_vol|gl0_inv|gl1_inv|wb|wbinv)\w*"
)


@dataclass(frozen=True)
class InstructionCost:
    """One instruction as the model sees it.

    ``cycles`` is how long it keeps its unit (a SIMD's, except for LDS and memory, whose cycles depend on addresses), and
    ``latency`` after how many its result can be read, where hardware waits for that (RDNA; 0: loads, which counters wait for).
    ``bytes`` is what it moves a lane; ``writes`` tells stores from loads; ``to_lds`` loads that go to LDS and not to registers.
    """

    instruction: Instruction
    unit: Unit
    cycles: int
    bytes: int = 0
    writes: bool = False
    to_lds: bool = False
    matrix: Matrix | None = None
    latency: int = 0
    slow: bool = False
    """On the unit for transcendentals, which works beside the others of its SIMD."""

    @cached_property
    def name(self) -> str:
        return base(self.instruction.mnemonic)

    @cached_property
    def modifiers(self) -> Modifiers:
        return Modifiers(self.instruction)

    @cached_property
    def reads(self) -> RegisterSet:
        return _registers(self)[0]

    @cached_property
    def defines(self) -> RegisterSet:
        return _registers(self)[1]


def base(mnemonic: str) -> str:
    """Without the suffix of its encoding, by the name that CDNA has for it."""
    return canonical(_SUFFIX.sub("", _SUFFIX.sub("", mnemonic)))


def cost_of(i: Instruction, isa: str) -> InstructionCost:
    """Raises :class:`PortakernError` of kind ``unknown-instruction`` naming it."""
    name = base(i.mnemonic)
    if name.startswith(("v_mfma_", "v_smfmac_", "v_wmma_", "v_swmmac_")):
        found = matrix(name, isa)
        return InstructionCost(i, Unit.MATRIX, found.cycles, matrix=found, latency=found.cycles + 4)
    if generation(isa).rdna:
        return _rdna(i, name)
    if _SLOW.fullmatch(name) or _SLOW64.fullmatch(name):
        return InstructionCost(i, Unit.VECTOR, 4 * ISSUE)
    if _VECTOR.fullmatch(name):
        return InstructionCost(i, Unit.VECTOR, ISSUE)
    if _SCALAR_MEMORY.fullmatch(name):
        return InstructionCost(i, Unit.SCALAR_MEMORY, ISSUE, _width(name), "store" in name)
    if _BRANCH.fullmatch(name):
        return InstructionCost(i, Unit.BRANCH, ISSUE)
    if _INTERNAL.fullmatch(name):
        return InstructionCost(i, Unit.INTERNAL, ISSUE)
    if _SCALAR.fullmatch(name):
        return InstructionCost(i, Unit.SCALAR, ISSUE)
    if _LDS.fullmatch(name):
        return InstructionCost(i, Unit.LDS, ISSUE, _lds_width(name), "write" in name or "store" in name)
    if _VECTOR_MEMORY.fullmatch(name):
        return InstructionCost(i, Unit.VECTOR_MEMORY, ISSUE, _width(name), "store" in name, "lds" in Modifiers(i))
    raise _unknown(i)


def _rdna(i: Instruction, name: str) -> InstructionCost:
    """Every issue takes one cycle; see :mod:`.rates` for what takes the vector ALUs longer."""
    slow = _SLOW.fullmatch(name) is not None
    if slow or _SLOW64.fullmatch(name) or _VECTOR.fullmatch(name):
        cycles, latency = rate(name, slow)
        return InstructionCost(i, Unit.VECTOR, cycles, latency=latency, slow=slow)
    if _SCALAR_MEMORY.fullmatch(name):
        return InstructionCost(i, Unit.SCALAR_MEMORY, 1, _width(name), "store" in name)
    if _BRANCH.fullmatch(name):
        return InstructionCost(i, Unit.BRANCH, 1)
    if _INTERNAL.fullmatch(name):
        return InstructionCost(i, Unit.INTERNAL, 1)
    if _SCALAR.fullmatch(name):
        return InstructionCost(i, Unit.SCALAR, 1, latency=rate(name, False)[1])
    if _LDS.fullmatch(name):
        return InstructionCost(i, Unit.LDS, 1, _lds_width(name), "write" in name or "store" in name)
    if _VECTOR_MEMORY.fullmatch(name):
        return InstructionCost(i, Unit.VECTOR_MEMORY, 1, _width(name), "store" in name)
    raise _unknown(i)


def _unknown(i: Instruction) -> PortakernError:
    return PortakernError(
        "unknown-instruction",
        f"the cost model does not know the instruction {i.mnemonic}",
        hint=f"line {i.line} of the assembly: {i}",
    )


_WIDTHS = {
    "dwordx16": 64,
    "dwordx8": 32,
    "dwordx4": 16,
    "dwordx3": 12,
    "dwordx2": 8,
    "dword": 4,
    "ushort": 2,
    "sshort": 2,
    "short": 2,
    "ubyte": 1,
    "sbyte": 1,
    "byte": 1,
    "b512": 64,
    "b256": 32,
    "b128": 16,
    "b96": 12,
    "b64": 8,
    "b32": 4,
    "b16": 2,
    "u16": 2,
    "i16": 2,
    "b8": 1,
    "u8": 1,
    "i8": 1,
    "f64": 8,
    "f32": 4,
    "f16": 4,
    "bf16": 4,
    "u64": 8,
    "u32": 4,
    "i32": 4,
    "x2": 8,
}


def _width(name: str) -> int:
    for word in name.split("_"):
        if word in _WIDTHS:
            return _WIDTHS[word]
    return 4 if "atomic" in name else 0


def _lds_width(name: str) -> int:
    """Bytes a lane; both places of ``read2`` and ``write2``."""
    width = _width(name)
    return 2 * width if re.match(r"ds_(read|write)2", name) else width


# ---- registers --------------------------------------------------------------------------------------------------------------

_VCC: RegisterSet = frozenset({VCC, ("s", VCC[1] + 1)})
_EXEC: RegisterSet = frozenset({EXEC, ("s", EXEC[1] + 1)})
_READS_FIRST = re.compile(
    r"v_(fmac|mac|dot\w+c|pk_fmac|movrel)\w*|v_swap\w*|v_permlane\w+swap\w*|v_writelane\w*|s_(addk|mulk)\w*|v_(smf|swm)mac\w*"
)
_TWO_RESULTS = re.compile(r"v_(add_co|sub_co|subrev_co|addc_co|subb_co|subbrev_co|mad_[ui]64_[ui]32|div_scale)\w*")
_SWAPS = re.compile(r"v_(swap|permlane\w+swap)\w*")


def _registers(c: InstructionCost) -> tuple[RegisterSet, RegisterSet]:
    """(read, written), of the operands and of what the text does not show."""
    i, name = c.instruction, c.name
    named = [register_set(o) for o in i.operands]
    results = _results(c)
    written = _all(named[:results])
    read = _all(named[results:])
    if results and _READS_FIRST.fullmatch(name):
        read |= named[0]
    if _SWAPS.fullmatch(name):
        written |= named[1]
    if name == "v_cndmask_b32" and len(named) == 3:
        read |= _VCC
    if name.startswith("v_cmpx") and c.unit is Unit.VECTOR:
        written |= _EXEC
    if "saveexec" in name or "wrexec" in name:
        read, written = read | _EXEC, written | _EXEC
    if name in ("v_div_fmas_f32", "v_div_fmas_f64") or "cbranch_vcc" in name:
        read |= _VCC
    if "cbranch_exec" in name:
        read |= _EXEC
    return read, written


def returns(i: Instruction) -> bool:
    """Whether an atomic operation on memory gives the value of before."""
    return any(m in ("sc0", "glc") or (m.startswith("th:") and "RETURN" in m) for m in i.modifiers)


def _results(c: InstructionCost) -> int:
    """How many of the first operands are written."""
    name, unit = c.name, c.unit
    if unit in (Unit.BRANCH, Unit.INTERNAL) or c.writes or c.to_lds:
        return 0
    if name.startswith("v_cmpx") and len(c.instruction.operands) == 2:
        return 0  # RDNA: to EXEC alone
    if unit is Unit.SCALAR and name.startswith(("s_cmp", "s_bitcmp", "s_setreg", "s_setpc", "s_set_gpr")):
        return 0
    if unit is Unit.VECTOR_MEMORY and ("atomic" in name and not returns(c.instruction)):
        return 0
    if unit is Unit.LDS and not any(x in name for x in ("read", "load", "swizzle", "permute", "rtn", "consume", "append")):
        return 0
    if name.endswith(("_inv", "_wb", "_wbinv", "_wbl2", "_wbinvl1", "_wbinvl1_vol")) or name.startswith(("s_dcache", "v_nop")):
        return 0
    return 2 if _TWO_RESULTS.fullmatch(name) else 1


def _all(sets: list[RegisterSet]) -> RegisterSet:
    return NONE.union(*sets)
