"""RDNA: for how many cycles an instruction keeps its ALUs, and after how many its result can be read.

A SIMD has 32 lanes, as many as a wave: 32-bit instructions take a cycle.  Latencies are LLVM's (SISchedule.td,
GFX11SpeedModel, "1 / (operations / cycle)" and a cycle to read registers), and what is beyond 5 of them is the time that the
ALUs are kept: 64 bits 2 cycles, quarter rate 4 (the comments there name what is of quarter rate), double precision 32 (ROCm
Compute Profiler, panels of gfx1151: 4 FLOP per clock and CU).  LLVM uses the same model for gfx12.
"""

from __future__ import annotations

import re

_WIDE = re.compile(r"v_\w*_([biu]64)(_\w+)?|v_cmpx?_\w+_[iu]64")
_MULTIPLIES = re.compile(r"v_mul_(lo|hi)_[iu]32|v_mad_[iu]64_[iu]32")
_DOUBLE = re.compile(r"v_\w*f64\w*")
_SCALAR_FLOAT = re.compile(r"s_\w*f(16|32)\w*")


def rate(name: str, slow: bool) -> tuple[int, int]:
    """(cycles, latency) of an instruction without the suffix of its encoding; ``slow``: a transcendental of 16 or 32 bits."""
    if name.startswith("s_"):
        return 1, 4 if _SCALAR_FLOAT.fullmatch(name) else 2  # WriteSFPU, WriteSALU
    if slow:
        return 4, 10  # WriteTrans32
    if _DOUBLE.fullmatch(name):
        return 32, 40 if re.match(r"v_(rcp|rsq|sqrt)", name) else 38  # WriteTrans64, WriteDouble
    if _MULTIPLIES.fullmatch(name):
        return 4, 8  # WriteIntMul
    return (2, 6) if _WIDE.fullmatch(name) else (1, 5)  # Write64Bit, Write32Bit
