"""What the AMD machine must report: every kind of fault, seeded in code that is right without it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from portakern.backends.rocm.amdgcn.execution.program import native
from portakern.errors import SimulatorError
from tests.rocm.execution.machine_code import assembles, run, text
from tests.rocm.helpers import needs_clang

pytestmark = pytest.mark.quick

X = np.arange(100, 356, dtype=np.int32)

POINTERS = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
"""
"""x in s[4:5], out in s[6:7], the lane's offset in v1."""

COPY = f"""{POINTERS}
global_load_dword v2, v1, s[4:5]
s_waitcnt vmcnt(0)
global_store_dword v1, v2, s[6:7]
"""

THROUGH_LDS = f"""{POINTERS}
global_load_dword v2, v1, s[4:5]
s_waitcnt vmcnt(0)
ds_write_b32 v1, v2
s_waitcnt lgkmcnt(0)
s_barrier
v_xor_b32_e32 v3, 0x100, v1
ds_read_b32 v4, v3
s_waitcnt lgkmcnt(0)
s_barrier
ds_write_b32 v1, v4
s_waitcnt lgkmcnt(0)
global_store_dword v1, v4, s[6:7]
"""
"""Two waves exchange what they loaded."""

TO_LDS = f"""{POINTERS}
s_mov_b32 m0, 0
s_nop 0
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0)
ds_read_b32 v2, v1
s_waitcnt lgkmcnt(0)
global_store_dword v1, v2, s[6:7]
"""

SIGNS = f"""{POINTERS}
v_cmp_gt_u32_e32 vcc, 64, v0
v_mov_b32_e32 v2, 0x7fc07e00
v_mov_b32_e32 v3, 0xffc0fe00
v_cndmask_b32_e32 v2, v3, v2, vcc
v_and_b32_e32 v4, 0xfc, v1
ds_write_b32 v4, v2
s_waitcnt lgkmcnt(0)
global_store_dword v1, v2, s[6:7]
"""
"""Two waves write NaN to the same bytes, each with its own sign: two of 16 bits."""

GFX12 = """
s_load_b128 s[4:7], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_wait_kmcnt 0x0
global_load_b32 v2, v1, s[4:5]
global_load_b32 v3, v1, s[4:5] offset:128
s_wait_loadcnt 0x0
ds_store_b32 v1, v2
s_wait_dscnt 0x0
s_barrier_signal -1
s_barrier_wait -1
v_xor_b32_e32 v4, 0x80, v1
ds_load_b32 v5, v4
s_wait_dscnt 0x0
v_add_nc_u32_e32 v5, v5, v3
global_store_b32 v1, v5, s[6:7]
"""

SPILLED = f"""{POINTERS}
global_load_dword v2, v1, s[4:5]
s_waitcnt vmcnt(0)
scratch_store_dword off, v2, off offset:4
scratch_load_dword v3, off, off offset:4
s_waitcnt vmcnt(0)
global_store_dword v1, v3, s[6:7]
"""

BRANCHES = f"""{POINTERS}
s_mov_b32 s8, 3
v_mov_b32_e32 v2, 0
again:
v_add_u32_e32 v2, 1, v2
s_sub_i32 s8, s8, 1
s_cmp_lg_u32 s8, 0
s_cbranch_scc1 again
global_store_dword v1, v2, s[6:7]
"""


@dataclass(frozen=True)
class Seed:
    """A right kernel, what is changed in it, and what must be said."""

    body: str
    replace: str
    by: str
    kind: str
    says: str
    isa: str = "gfx942"
    threads: int = 64
    shared: int = 0
    scratch: int = 0

    @property
    def broken(self) -> str:
        assert self.replace in self.body, self.replace
        return self.body.replace(self.replace, self.by, 1)


LDS: dict[str, Any] = {"threads": 128, "shared": 512}
TWICE: dict[str, Any] = {"threads": 128, "shared": 256}
SIGNS_F32 = SIGNS.replace("0x7fc07e00", "0x7fc00000").replace("0xffc0fe00", "0xffc00000")
WAVES12: dict[str, Any] = {"threads": 64, "shared": 256, "isa": "gfx1201"}

# 32 bits extended to 64 as clang does where the upper ones do not matter; 6 bits of the upper dword are defined then.
WIDENED = COPY.replace("s_waitcnt vmcnt(0)", """s_waitcnt vmcnt(0)
v_mov_b32_e32 v8, v2
v_lshlrev_b64 v[8:9], 6, v[8:9]
v_alignbit_b32 v2, v9, v8, 6""")

SEEDS = {
    "wait for a load": Seed(COPY, "s_waitcnt vmcnt(0)", "", "missing wait", r"reads v2 while .* in flight \(vmcnt\)"),
    "wait for too few": Seed(COPY, "s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(1)", "missing wait", "reads v2"),
    "overwritten before it arrives": Seed(COPY, "s_waitcnt vmcnt(0)", "v_mov_b32_e32 v2, 1", "missing wait", "overwrites v2"),
    "wait for a scalar load": Seed(COPY, "s_waitcnt lgkmcnt(0)", "", "missing wait", r"reads s4 .*lgkmcnt"),
    "scalar loads come in any order": Seed(
        COPY, "s_load_dwordx4 s[4:7], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\ns_waitcnt lgkmcnt(0)",
        "s_load_dwordx4 s[4:7], s[0:1], 0x0\ns_load_dwordx2 s[8:9], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\n"
        "s_waitcnt lgkmcnt(1)", "missing wait", "reads s4"),
    "read past the end": Seed(COPY, "v2, v1, s[4:5]", "v2, v1, s[4:5] offset:900", "out of bounds",
                              "reads 4 bytes at 1024 of x, which has 1024"),
    "read before the beginning": Seed(COPY, "v2, v1, s[4:5]", "v2, v1, s[4:5] offset:-4", "out of bounds",
                                      "4 bytes before the beginning of x"),
    "write past the end": Seed(COPY, "v1, v2, s[6:7]", "v1, v2, s[6:7] offset:16", "out of bounds",
                               "writes 4 bytes at 256 of out, which has 256"),
    "write to an input": Seed(COPY, "v1, v2, s[6:7]", "v1, v2, s[4:5]", "out of bounds", "in x, which may not be written"),
    "read beyond the arguments": Seed(COPY, "s[0:1], 0x0", "s[0:1], 0x8", "out of bounds", "the kernel's arguments"),
    "wild address": Seed(COPY, "s_waitcnt lgkmcnt(0)", "s_waitcnt lgkmcnt(0)\ns_mov_b64 s[4:5], 0", "out of bounds",
                         "where the kernel has no memory"),
    "stored register never written": Seed(COPY, "v1, v2, s[6:7]", "v1, v7, s[6:7]", "undefined value", "stores to out"),
    "sum with a register never written": Seed(COPY, "s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(0)\nv_add_u32_e32 v2, v2, v9",
                                              "undefined value", "stores to out"),
    "address never written": Seed(COPY, "v2, v1, s[4:5]", "v2, v9, s[4:5]", "undefined value", "the address depends"),
    "branch on what was never written": Seed(BRANCHES, "s_mov_b32 s8, 3", "", "undefined value", "the branch depends"),
    "lanes by what was never written": Seed(COPY, "s_waitcnt vmcnt(0)",
                                            "s_waitcnt vmcnt(0)\nv_cmp_eq_u32_e32 vcc, v9, v2\ns_and_b64 exec, exec, vcc",
                                            "undefined value", "which lanes are active"),
    "output read before it is written": Seed(COPY, "v2, v1, s[4:5]", "v2, v1, s[6:7]", "undefined value", "stores to out"),
    "a bit too many of a dword never written": Seed(WIDENED, "v9, v8, 6", "v9, v8, 7", "undefined value", "stores to out"),
    "LDS never written": Seed(THROUGH_LDS, "ds_write_b32 v1, v2\ns_waitcnt", "s_waitcnt", "undefined value",
                              "stores to out.*`ds_read_b32 v4, v3`, read byte (0|256) of LDS, which nobody had written",
                              **LDS),
    "LDS stored undefined": Seed(THROUGH_LDS, "ds_write_b32 v1, v2\ns_waitcnt", "ds_write_b32 v1, v9\ns_waitcnt",
                                 "undefined value", "`ds_read_b32 v4, v3`, read byte .* which holds what was never written",
                                 **LDS),
    "LDS beyond its size": Seed(THROUGH_LDS, "ds_read_b32 v4, v3", "ds_read_b32 v4, v3 offset:256", "out of bounds",
                                "of LDS, where the workgroup has 512", **LDS),
    "misaligned pair in LDS": Seed(THROUGH_LDS, "0x100, v1\nds_read_b32 v4, v3", "0x102, v1\nds_read2_b32 v[4:5], v3 offset1:1",
                                   "misaligned access", "no multiple of 4", **LDS),
    "misaligned scalar load": Seed(COPY, "s_waitcnt lgkmcnt(0)", "s_waitcnt lgkmcnt(0)\ns_add_u32 s4, s4, 2\n"
                                   "s_load_dword s9, s[4:5], 0x0", "misaligned access", "aligned"),
    "no barrier before reading": Seed(THROUGH_LDS, "s_barrier\nv_xor", "v_xor", "LDS race", "no barrier in between", **LDS),
    "no barrier before overwriting": Seed(THROUGH_LDS, "s_barrier\nds_write", "ds_write", "LDS race", "no barrier in between",
                                          **LDS),
    "bf16 NaN of another payload": Seed(SIGNS, "0xffc0fe00", "0xffc1fe00", "LDS race", "overwrites byte 2 of LDS", **TWICE),
    "f16 infinity over NaN": Seed(SIGNS, "0xffc0fe00", "0xffc07c00", "LDS race", "overwrites byte 1 of LDS", **TWICE),
    "f32 NaN of another payload": Seed(SIGNS_F32, "0xffc00000", "0xffc00001", "LDS race", "overwrites byte 0 of LDS", **TWICE),
    "no wait before the barrier": Seed(THROUGH_LDS, "s_waitcnt lgkmcnt(0)\ns_barrier\nv_xor", "s_barrier\nv_xor", "LDS race",
                                       "had not been waited for at the last barrier", **LDS),
    "wait for an LDS read": Seed(THROUGH_LDS, "s_waitcnt lgkmcnt(0)\ns_barrier\nds_write", "s_barrier\nds_write",
                                 "missing wait", "reads v4", **LDS),
    "one wave leaves out a barrier": Seed(
        THROUGH_LDS, "s_barrier\nds_write_b32 v1, v4",
        "v_readfirstlane_b32 s9, v0\ns_cmp_lg_u32 s9, 0\ns_cbranch_scc1 over\ns_barrier\nover:\nds_write_b32 v3, v4",
        "barrier divergence", "ended after 1 barriers", **LDS),
    "wait for a copy to LDS": Seed(TO_LDS, "s_waitcnt vmcnt(0)", "", "missing wait", "the copy from memory that writes it",
                                   shared=256),
    "copy to LDS with M0 unset": Seed(TO_LDS, "s_mov_b32 m0, 0", "", "undefined value", "M0", shared=256),
    "copy beyond LDS": Seed(TO_LDS, "s_mov_b32 m0, 0", "s_mov_b32 m0, 4", "out of bounds", "of LDS", shared=256),
    "scratch never written": Seed(SPILLED, "scratch_load_dword v3, off, off offset:4",
                                  "scratch_load_dword v3, off, off offset:8", "undefined value", "stores to out", scratch=16),
    "scratch beyond its size": Seed(SPILLED, "scratch_store_dword off, v2, off offset:4",
                                    "scratch_store_dword off, v2, off offset:16", "out of bounds", "of scratch", scratch=16),
    "endless loop": Seed(BRANCHES, "s_cbranch_scc1", "s_branch", "endless loop", "as many instructions as it may"),
    "gfx12: wait for a load": Seed(GFX12, "s_wait_loadcnt 0x0", "", "missing wait", "reads v2 .*loadcnt", **WAVES12),
    "gfx12: wait for the older load only": Seed(GFX12, "s_wait_loadcnt 0x0", "s_wait_loadcnt 0x1", "missing wait", "reads v3",
                                                **WAVES12),
    "gfx12: wait before the barrier": Seed(GFX12, "s_wait_dscnt 0x0\ns_barrier", "s_barrier", "LDS race",
                                           "had not been waited for", **WAVES12),
    "gfx12: no barrier": Seed(GFX12, "s_barrier_signal -1\ns_barrier_wait -1", "", "(LDS race|undefined value)",
                              "no barrier in between|what was never written", **WAVES12),
    "gfx12: wait without a signal": Seed(GFX12, "s_barrier_signal -1\n", "", "barrier divergence", "not signalled", **WAVES12),
}  # fmt: skip


def place(seed: Seed) -> int:
    """How much of the output a right kernel fills."""
    return seed.threads


@pytest.fixture(autouse=True)
def _tools() -> None:
    needs_clang()
    native()


@pytest.mark.parametrize("name", SEEDS)
def test_right_code_runs_and_the_seeded_fault_is_reported(name: str) -> None:
    seed = SEEDS[name]
    options: dict[str, Any] = {"threads": seed.threads, "shared": seed.shared, "scratch": seed.scratch, "count": place(seed)}
    for body in (seed.body, seed.broken):
        assembles(seed.isa, text(seed.isa, body, seed.shared, seed.scratch))
    run(seed.isa, seed.body, X, **options)
    with pytest.raises(SimulatorError) as raised:
        run(seed.isa, seed.broken, X, **options)
    message = raised.value.message
    assert re.match(f"kernel: {seed.kind}: line ", message)
    assert re.search(seed.says, message)
    assert "workgroup (0, 0, 0), wave " in message


def test_what_the_right_kernels_compute() -> None:
    np.testing.assert_array_equal(run("gfx942", COPY, X), X[:64])
    np.testing.assert_array_equal(run("gfx942", BRANCHES, X), np.full(64, 3))
    np.testing.assert_array_equal(run("gfx942", TO_LDS, X, shared=256), X[:64])
    np.testing.assert_array_equal(run("gfx942", SPILLED, X, scratch=16), X[:64])
    exchanged = run("gfx942", THROUGH_LDS, X, count=128, threads=128, shared=512)
    np.testing.assert_array_equal(exchanged, np.concatenate([X[64:128], X[:64]]))
    joined = run("gfx1201", GFX12, X, count=64, threads=64, shared=256)
    np.testing.assert_array_equal(joined, np.concatenate([X[32:64], X[:32]]) + X[32:96])


FLAT_BEHIND = {
    "gfx1201": ("s_load_b128 s[4:7], s[0:1], 0x0", "s_wait_kmcnt 0x0", "global_load_b32 v2, v1, s[4:5]",
                "flat_load_b32 v3, v[4:5]", "s_wait_loadcnt 0x1", "s_wait_loadcnt_dscnt 0x0", "v_add_nc_u32_e32",
                "global_store_b32"),
    "gfx942": ("s_load_dwordx4 s[4:7], s[0:1], 0x0", "s_waitcnt lgkmcnt(0)", "global_load_dword v2, v1, s[4:5]",
               "flat_load_dword v3, v[4:5]", "s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(0) lgkmcnt(0)", "v_add_u32_e32",
               "global_store_dword"),
}  # fmt: skip


@pytest.mark.parametrize("isa", FLAT_BEHIND)
def test_a_flat_load_behind_a_load_keeps_its_order_from_gfx10_on(isa: str) -> None:
    arguments, here, load, flat, for_one, for_both, add, store = FLAT_BEHIND[isa]
    body = "\n".join([
        arguments, "v_lshlrev_b32_e32 v1, 2, v0", here, "v_mov_b32_e32 v4, s4", "v_mov_b32_e32 v5, s5", load, flat, for_one,
        f"{add} v2, v2, v2", for_both, f"{add} v2, v2, v3", f"{store} v1, v2, s[6:7]"])  # fmt: skip
    assembles(isa, text(isa, body))
    if isa == "gfx1201":
        np.testing.assert_array_equal(run(isa, body, X, count=32, threads=32), 2 * X[:32] + X[0])
    else:
        with pytest.raises(SimulatorError, match=r"missing wait: .* reads v2"):
            run(isa, body, X)


def test_full_counters_stall_and_are_no_fault() -> None:
    """More loads, LDS writes and stores than their counters count, and nothing that waits for them."""
    many = range(80)
    body = "\n".join([
        "s_load_b128 s[4:7], s[0:1], 0x0", "v_lshlrev_b32_e32 v1, 2, v0", "v_mov_b32_e32 v2, 7", "s_wait_kmcnt 0x0",
        *(f"global_load_b32 v{10 + n}, v1, s[4:5]" for n in many), *("ds_store_b32 v1, v2" for _ in many),
        *("global_store_b32 v1, v2, s[6:7]" for _ in many)])  # fmt: skip
    assembles("gfx1201", text("gfx1201", body, 256))
    np.testing.assert_array_equal(run("gfx1201", body, X, count=32, threads=32, shared=256), np.full(32, 7))


def test_the_report_names_the_instruction_and_its_line() -> None:
    body = SEEDS["wait for a load"].broken
    with pytest.raises(SimulatorError) as raised:
        run("gfx942", body, X)
    at = next(n for n, line in enumerate(text("gfx942", body).splitlines(), 1) if "global_store_dword" in line)
    assert f"line {at} of the assembly, `global_store_dword v1, v2, s[6:7]`" in raised.value.message


@pytest.mark.parametrize(
    ("isa", "instruction", "says"),
    [
        ("gfx942", "v_mqsad_u32_u8 v[4:7], v[8:9], v2, v[12:15]", "does not know the instruction"),
        ("gfx942", "s_sendmsg sendmsg(MSG_SAVEWAVE)", "the message is not known"),
        ("gfx942", "v_mov_b32_e32 v2, src_pops_exiting_wave_id", "does not know 'src_pops_exiting_wave_id'"),
        ("gfx942", "buffer_load_dword v2, v1, s[4:7], 0 idxen", "the modifier `idxen` is not known for this instruction"),
    ],
)  # fmt: skip
def test_what_is_unknown_is_an_error_before_anything_runs(isa: str, instruction: str, says: str) -> None:
    body = f"{COPY}\ns_endpgm\n{instruction}"  # never reached
    assembles(isa, text(isa, body))
    with pytest.raises(SimulatorError) as raised:
        run(isa, body, X)
    assert says in raised.value.message
    line = next(n for n, line in enumerate(text(isa, body).splitlines(), 1) if instruction in line)
    assert f"line {line} of the assembly" in raised.value.message
