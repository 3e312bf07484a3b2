"""What of this processor kernels are told by macros: OpenCL C itself has no word for an instruction set."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from portakern.errors import PortakernError

from ..workers import call
from .pairs import ADD_PAIRS, MACRO

_JOB = "portakern.backends.sycl.opencl.jobs:adds_pairs"
_TIMEOUT_S = 60.0

PROBE = f"""
{ADD_PAIRS}
__kernel void probe(__global float *sums, __global const uint *words)
{{
    vstore16(add_pairs(vload16(0, sums), vload16(0, words), vload16(1, words)), 0, sums);
}}
"""


def named(text: str) -> tuple[str, ...]:
    """The compiler's options for what ``text`` asks about, of the processor alone."""
    return (f"-D{MACRO}",) if MACRO in text and "avx512_bf16" in flags() else ()


def options(text: str) -> tuple[str, ...]:
    """The same, where the driver has been tried: OpenCL C names an intrinsic of its compiler."""
    return named(text) if MACRO in text and adds_pairs() else ()


@cache
def adds_pairs() -> bool:
    """Whether processor and driver have ``vdpbf16ps``: a small program is tried in a process of its own, which ends where the
    driver's compiler does not know the intrinsic."""
    if "avx512_bf16" not in flags():
        return False
    try:
        return bool(call(_JOB, PROBE, MACRO, timeout_s=_TIMEOUT_S))
    except PortakernError:
        return False


def flags() -> frozenset[str]:
    """Features of the processor, as Linux names them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((x.partition(":")[2] for x in lines if x.startswith("flags")), "").split())
