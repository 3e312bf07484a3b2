"""How long matrix instructions keep a matrix core busy, in cycles, and what they compute.

CDNA 2 and 3: the table of AMD's Matrix Instruction Calculator (ROCm/amd_matrix_instruction_calculator, dict_insts), which
LLVM's SISchedule.td states in passes of 4 cycles.  CDNA 4: the instructions that it has in common with CDNA 3 take as long;
its own follow from the rates per compute unit and clock of the CDNA 4 whitepaper, table 1 (four matrix cores each).

RDNA: WMMA from the rates per compute unit and clock of GPUOpen, "Using the Matrix Cores of AMD RDNA 4 architecture GPUs" (two
SIMDs each).  They share issue port and data path of the vector ALUs, so nothing runs beside them (Beyond3D, members' analyses
of RDNA 3 and 4; AMD documents neither).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from portakern.errors import PortakernError

_SHAPE = re.compile(r"v_(s?)mfmac?_(?:scale_)?(f32|f64|i32)_(\d+)x(\d+)x(\d+)_?(?:(\d+)b_)?(.+)")

_WMMA = re.compile(r"v_(s?)wmm(?:a|ac)_(f32|f16|bf16|i32)_(\d+)x(\d+)x(\d+)_(f16|bf16|iu8|iu4|fp8_fp8|fp8_bf8|bf8_fp8|bf8_bf8)")

_RDNA_RATE = {
    "gfx11": {"f16": 512, "bf16": 512, "iu8": 512, "iu4": 1024},
    "gfx12": {"f16": 1024, "bf16": 1024, "iu8": 2048, "fp8": 2048, "bf8": 2048, "iu4": 4096},
}
"""FLOP (or integer operations) per clock and compute unit.  iu4: twice iu8, as AMD's peaks of int4 (1557 TOPS sparse on the RX
9070 XT) say; fp8 as iu8 (the same)."""

_KINDS = {"f32": 32, "xf32": 19, "f16": 16, "bf16": 16, "bf16_1k": 16, "i8": 8, "f64": 64, "f8f6f4": 8}

_CDNA4_RATE = {16: 4096, 8: 8192}
"""FLOP (or integer operations) per clock and compute unit by bits of an operand: CDNA 4 whitepaper, table 1."""


@dataclass(frozen=True)
class Matrix:
    """Cycles on the matrix core, multiplications and additions in all, and whether vector instructions run beside it."""

    cycles: int
    flops: int
    overlaps: bool = True


def matrix(mnemonic: str, isa: str) -> Matrix:
    """Raises :class:`PortakernError` for an instruction that the tables do not hold."""
    if "wmm" in mnemonic:
        return _wmma(mnemonic, isa)
    match = _SHAPE.fullmatch(mnemonic)
    if match is None:
        raise PortakernError("unknown-instruction", f"the cost model does not know the matrix instruction {mnemonic}")
    sparse, result, m, n, k, blocks, kind = match.groups()
    bits = 8 if "8" in kind and "f8f6f4" not in kind else _KINDS.get(kind, 0)
    if not bits or (m, n) not in (("4", "4"), ("16", "16"), ("32", "32")):
        raise PortakernError("unknown-instruction", f"the cost model does not know the matrix instruction {mnemonic}")
    shape = (int(m), int(n), int(k))
    count = int(blocks or _blocks(shape, kind, bits))
    flops = 2 * shape[0] * shape[1] * shape[2] * count
    if sparse:  # LLVM, SISchedule.td: 4 passes, 8 where 32 x 32
        return Matrix(int(m), flops)
    overlaps = bits != 64 and (bits != 32 or isa == "gfx90a")  # the calculator's "coexec"
    if isa == "gfx950" and _of_cdna4(shape, bits):
        return Matrix(4 * flops // _CDNA4_RATE[bits], flops, overlaps)
    return Matrix(_cycles(shape, bits, result, isa), flops, overlaps)


def _wmma(mnemonic: str, isa: str) -> Matrix:
    match = _WMMA.fullmatch(mnemonic)
    rate = _RDNA_RATE.get(isa[:5], {}).get(match[6].split("_")[0]) if match is not None else None
    if match is None or rate is None:
        raise PortakernError("unknown-instruction", f"the cost model does not know the matrix instruction {mnemonic}")
    flops = 2 * int(match[3]) * int(match[4]) * int(match[5])
    # A sparse product skips half of its K, and counts it.
    return Matrix(flops // (2 if match[1] else 1) * 2 // rate, flops, overlaps=False)


def _of_cdna4(shape: tuple[int, int, int], bits: int) -> bool:
    """Whether CDNA 3 has no such shape: its K is twice (8 bits: four or eight times) as deep."""
    m, _, k = shape
    deepest = {16: {16: 16, 32: 8}, 8: {16: 32, 32: 16}}.get(bits, {})
    return k > deepest.get(m, 1 << 30)


def _cycles(shape: tuple[int, int, int], bits: int, result: str, isa: str) -> int:
    m, _, k = shape
    if m == 4:
        return 16 if result == "f64" else 8
    if result == "f64":
        return 32
    cycles = {16: 32, 32: 64}[m]
    # CDNA 3 computes the deepest shapes of narrow operands twice as fast as CDNA 2.
    full = {16: {16: 16, 32: 8}, 8: {16: 32, 32: 16}, 19: {16: 8, 32: 4}}.get(bits, {}).get(m)
    return cycles // 2 if isa != "gfx90a" and full is not None and k >= full else cycles


def _blocks(shape: tuple[int, int, int], kind: str, bits: int) -> int:
    """Independent products in one instruction, where the name does not say (CDNA 2): as many as K is too shallow for one."""
    m, _, k = shape
    if m == 4:
        return 4 if bits == 64 else 16
    single = {32: {16: 4, 32: 2}, 16: {16: 16, 32: 8}, 8: {16: 16, 32: 8}, 64: {16: 4}, 19: {16: 8, 32: 4}}[bits][m]
    if kind == "bf16" and k <= single // 2:  # the bf16 instructions from before the _1k ones are half as deep
        single //= 2
    return 1 if k >= single else 64 // m
