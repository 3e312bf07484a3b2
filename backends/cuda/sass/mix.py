"""What a kernel's instructions are: by the pipe of the multiprocessor that executes them.

After the table of instructions in NVIDIA's "CUDA Binary Utilities" (Instruction Set Reference, Ampere, Hopper and Blackwell).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from .reader import Instruction

KINDS = {
    "tensor": r"[BDHIOQ]?MMA|[HQI]GMMA|OMMA|UTC\w*MMA|UTCBAR|UTCCP|UTCSHIFT|LDTM|STTM|WARPGROUP",
    "f32": r"FADD2?|FMUL2?|FFMA2?|FFMA32I|FADD32I|FMUL32I|FMNMX3?|FSEL|FSET|FSETP|FCHK|FSWZADD|FRND|FCMP",
    "f16": r"HADD2|HMUL2|HFMA2|HMNMX2|HSET2|HSETP2|HADD2_32I|HFMA2_32I|HMUL2_32I",
    "f64": r"DADD|DMUL|DFMA|DSETP|DMNMX",
    "special": r"MUFU",
    "convert": r"F2F|F2I|I2F|F2FP|I2FP|F2IP|I2I|I2IP|FRND",
    "global": r"LDG|STG|LD|ST|LDGSTS|RED|REDG|ATOM|ATOMG|CCTL\w*",
    "copy engine": r"UTMA\w+|UBLK\w+|SYNCS|UTMACMDFLUSH",
    "shared": r"LDS|STS|LDSM|STSM|ATOMS|STAS",
    "local": r"LDL|STL",
    "constant": r"LDC|LDCU|ULDC",
    "lanes": r"SHFL|VOTE|VOTEU|R2UR|MATCH|REDUX|CREDUX|S2R|S2UR|CS2R|MOVM|B2R|R2B",
    "barrier": r"BAR|LDGDEPBAR|DEPBAR|LDSTGBAR|MEMBAR|FENCE|ERRBAR|ARRIVES|NANOSLEEP|ELECT|UCGABAR\w*|CGAERRBAR|UGETNEXTWORKID",
    "branch": r"BRA|BRX|BRXU|JMP|JMX|JMXU|CALL|RET|EXIT|BSSY|BSYNC|BREAK|WARPSYNC|YIELD|KILL|BMOV|BPT|RPCMOV|PREEXIT|NOP",
    "integer": "",
}
"""By kind of pipe the names of its instructions; what is in no other is integers, addresses, moves and predicates."""

_FLOPS = {"FADD": 1, "FMUL": 1, "FFMA": 2, "FADD2": 2, "FMUL2": 2, "FFMA2": 4, "HADD2": 2, "HMUL2": 2, "HFMA2": 4,
          "DADD": 1, "DMUL": 1, "DFMA": 2}  # fmt: skip
"""Of one lane."""

_PATTERNS = {kind: re.compile(names) for kind, names in KINDS.items()}
_WARPGROUP = re.compile(r"(\d+)x(\d+)x(\d+)")


def kind_of(x: Instruction) -> str:
    for kind, pattern in _PATTERNS.items():
        if pattern.fullmatch(x.name):
            return kind
    return "integer"


def mix_of(code: Iterable[Instruction]) -> dict[str, int]:
    """How many instructions of each kind there are in the text, each counted once."""
    counted = Counter(map(kind_of, code))
    return {kind: counted[kind] for kind in KINDS if counted[kind]}


def access_bytes(x: Instruction) -> int:
    """Bytes that one lane moves, of an instruction that goes to memory; 4 where it does not say."""
    for modifier in x.modifiers:
        if modifier in ("8", "U8", "S8"):
            return 1
        if modifier in ("16", "U16", "S16"):
            return 2
        if modifier in ("64", "128", "256"):
            return int(modifier) // 8
    return 4


def lane_flops(x: Instruction) -> int:
    """Of one lane, without those of the tensor cores; a multiply-add of halves over zeros only loads constants."""
    if x.name == "HFMA2" and re.search(r"-?RZ(?:\.\w+)?, RZ", x.operands):
        return 0
    return _FLOPS.get(x.name, 0)


def tensor_shape(x: Instruction, described: int | None = None) -> tuple[int, int, int] | None:
    """m, n, k of a product on the tensor cores: HMMA.16816 is 16 x 8 x 16, of a warp; HGMMA.64x256x16 is of four; what UTCHMMA
    is says the instruction descriptor that it is given (PTX ISA, tcgen05, "Instruction Descriptor").

    ``None`` for what only waits or is not read here."""
    if x.name in _DEPTHS and described is not None:
        return (described >> 24 & 0x1F) * 16, (described >> 17 & 0x3F) * 8, _DEPTHS[x.name]
    for modifier in x.modifiers:
        if match := _WARPGROUP.fullmatch(modifier):
            return int(match[1]), int(match[2]), int(match[3])
        if x.name.endswith("MMA") and modifier.isdigit() and (shape := _SMALL.get(modifier)):
            return shape
    return None


_DEPTHS = {"UTCHMMA": 16, "UTCQMMA": 32, "UTCIMMA": 32}
_SMALL = {"884": (8, 8, 4), "1684": (16, 8, 4), "1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32),
          "16864": (16, 8, 64), "168128": (16, 8, 128), "8816": (8, 8, 16), "8832": (8, 8, 32)}  # fmt: skip
