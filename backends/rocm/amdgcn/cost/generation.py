"""What sets the generations apart in this model: how wide a wave is, how often it issues, what counters are called.

CDNA: waves of 64 lanes on SIMDs of 16, so that a wave issues every fourth cycle and meets its own results one issue later.
RDNA: waves of 32 lanes on SIMDs of 32, so that a wave issues every cycle and waits for results that are not there yet (LLVM,
SISchedule.td, GFX11SpeedModel: latencies in cycles); every SIMD picks an instruction for each unit in a cycle (ROCm Compute
Profiler's panels of gfx1151 give 5 instructions a cycle as the peak).  Waves of 64 lanes on RDNA are not modelled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Generation:
    """``issue``: cycles between two instructions of a wave.  ``interlocked``: results are waited for, cycle by cycle.

    ``loads`` to ``scalars`` name the counters of vector loads, vector stores, LDS and scalar loads.
    """

    lanes: int
    issue: int
    interlocked: bool
    loads: str
    stores: str
    lds: str
    scalars: str

    @property
    def rdna(self) -> bool:
        return self.lanes == 32


_CDNA = Generation(64, 4, False, "vmcnt", "vmcnt", "lgkmcnt", "lgkmcnt")
_RDNA3 = Generation(32, 1, True, "vmcnt", "vscnt", "lgkmcnt", "lgkmcnt")
_RDNA4 = Generation(32, 1, True, "loadcnt", "storecnt", "dscnt", "kmcnt")


def generation(isa: str) -> Generation:
    """Of an instruction set such as ``gfx942``."""
    return _RDNA4 if isa.startswith("gfx12") else _RDNA3 if isa.startswith(("gfx10", "gfx11")) else _CDNA


_RENAMED = (
    (re.compile(r"^v_dual_"), "v_"),
    (re.compile(r"^(v_(?:add|sub|subrev))_nc_u32$"), r"\1_u32"),
    (re.compile(r"^v_add_co_ci_u32$"), "v_addc_co_u32"),
    (re.compile(r"^v_(sub|subrev)_co_ci_u32$"), r"v_\1b_co_u32"),
    (re.compile(r"^v_mad_co_([ui]64_[ui]32)$"), r"v_mad_\1"),
    (re.compile(r"^s_(and|or)_not1_"), r"s_\1n2_"),
    (re.compile(r"^s_(and|or)_not0_"), r"s_\1n1_"),
    (re.compile(r"^s_(add|sub)_co_ci_u32$"), r"s_\1c_u32"),
    (re.compile(r"^s_subc_u32$"), "s_subb_u32"),
    (re.compile(r"^s_(add|sub|addk)_co_([ui]32)$"), r"s_\1_\2"),
    (re.compile(r"^ds_load_2addr_stride64_"), "ds_read2st64_"),
    (re.compile(r"^ds_store_2addr_stride64_"), "ds_write2st64_"),
    (re.compile(r"^ds_load_2addr_"), "ds_read2_"),
    (re.compile(r"^ds_store_2addr_"), "ds_write2_"),
    (re.compile(r"^ds_load_"), "ds_read_"),
    (re.compile(r"^ds_store_"), "ds_write_"),
)


@cache
def canonical(name: str) -> str:
    """What RDNA renamed, by the name that CDNA has for it."""
    for pattern, other in _RENAMED:
        name = pattern.sub(other, name)
    return name
