"""Memory and control flow of the AMD machine: what instructions do, where the fault tests say what they must not do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portakern.backends.rocm.amdgcn.assembly.parser import parse
from portakern.backends.rocm.amdgcn.execution.program import native
from portakern.errors import SimulatorError
from tests.rocm.execution.machine_code import assembles, run, text
from tests.rocm.helpers import needs_clang

X = np.arange(100, 356, dtype=np.int32)

POINTERS = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
"""


@pytest.fixture(autouse=True)
def _tools() -> None:
    needs_clang()
    native()


def check(body: str, expected: Any, isa: str = "gfx942", **options: Any) -> None:
    assembles(isa, text(isa, body, options.get("shared", 0), options.get("scratch", 0)))
    expected = np.asarray(expected, np.int32)
    np.testing.assert_array_equal(run(isa, body, X, count=expected.size, **options), expected)


def test_atomic_sums_of_all_lanes_reach_memory() -> None:
    body = f"""{POINTERS}
v_mov_b32_e32 v2, 0
v_mov_b32_e32 v3, 1
global_atomic_add v4, v2, v3, s[6:7] sc0
s_waitcnt vmcnt(0)
"""
    with pytest.raises(SimulatorError, match="updates out, which was never written there"):
        run("gfx942", body, X)
    body = body.replace("v_mov_b32_e32 v3, 1", "v_mov_b32_e32 v3, 1\nglobal_store_dword v1, v2, s[6:7]\ns_waitcnt vmcnt(0)")
    check(body, [64, *[0] * 63])


@pytest.mark.parametrize(
    ("name", "operand", "expected"),
    [
        ("global_atomic_umax", "300", np.maximum(X[:64], 300)),
        ("global_atomic_sub", "1", X[:64] - 1),
        ("global_atomic_xor", "-1", ~X[:64]),
        ("global_atomic_swap", "7", np.full(64, 7)),
    ],
)  # fmt: skip
def test_atomics_do_what_their_name_says(name: str, operand: str, expected: np.ndarray) -> None:
    check(
        f"""{POINTERS}
global_load_dword v2, v1, s[4:5]
s_waitcnt vmcnt(0)
global_store_dword v1, v2, s[6:7]
v_mov_b32_e32 v3, {operand if abs(int(operand)) < 64 else hex(int(operand))}
{name} v1, v3, s[6:7]
""",
        expected,
    )


def test_the_lanes_of_an_lds_sum_all_count() -> None:
    check(
        f"""{POINTERS}
v_mov_b32_e32 v2, 0
v_mov_b32_e32 v3, 2
ds_write_b32 v2, v2
s_waitcnt lgkmcnt(0)
s_barrier
ds_add_u32 v2, v3
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v4, v2
s_waitcnt lgkmcnt(0)
global_store_dword v1, v4, s[6:7]
""",
        np.full(128, 256),
        threads=128,
        shared=4,
    )


BUFFER = """
s_mov_b32 s8, s4
s_and_b32 s9, s5, 0xffff
s_movk_i32 s10, 0x80
s_mov_b32 s11, 0x27000"""
"""The first 32 numbers of the input as a raw buffer, in s8 to s11."""


def test_a_buffer_gives_zeros_beyond_its_range_and_drops_stores_there() -> None:
    check(
        f"""{POINTERS}{BUFFER}
buffer_load_dword v2, v1, s[8:11], 0 offen
s_waitcnt vmcnt(0)
global_store_dword v1, v2, s[6:7]
s_mov_b32 s8, s6
s_and_b32 s9, s7, 0xffff
v_mov_b32_e32 v3, 5
s_movk_i32 s12, 0x40
buffer_store_dword v3, v1, s[8:11], s12 offen
""",
        [*X[:16], *[5] * 16, *[0] * 32],
    )


def test_a_lane_may_be_before_a_buffer_that_the_instruction_is_in() -> None:
    check(
        f"""{POINTERS}{BUFFER}
v_subrev_u32_e32 v2, 16, v1
buffer_load_dword v3, v2, s[8:11], 0 offen offset:16
buffer_load_dword v4, v2, s[8:11], 0 offen
s_waitcnt vmcnt(0)
v_add_u32_e32 v3, v3, v4
global_store_dword v1, v3, s[6:7]
""",
        [*X[:4], *(X[4:32] + X[:28]), *X[28:32], *[0] * 28],
    )


def test_wide_and_narrow_accesses_see_the_same_bytes() -> None:
    bytes_of = X.view(np.uint8)
    check(
        f"""{POINTERS}
global_load_ubyte v2, v0, s[4:5] offset:1
global_load_sbyte v3, v0, s[4:5]
global_load_ushort v4, v0, s[4:5]
s_waitcnt vmcnt(0)
v_lshlrev_b32_e32 v3, 8, v3
v_xor_b32_e32 v2, v2, v3
v_add_u32_e32 v2, v2, v4
global_store_dword v1, v2, s[6:7]
""",
        [
            (high ^ (((low ^ 128) - 128) << 8)) + low + 256 * high
            for low, high in zip(bytes_of[:64].tolist(), bytes_of[1:65].tolist(), strict=True)
        ],
    )


def test_permutations_of_lanes() -> None:
    check(
        f"""{POINTERS}
v_xor_b32_e32 v2, 63, v0
v_lshlrev_b32_e32 v2, 2, v2
ds_bpermute_b32 v3, v2, v0
ds_swizzle_b32 v4, v0 offset:swizzle(SWAP,16)
ds_swizzle_b32 v5, v0 offset:swizzle(QUAD_PERM,3,2,1,0)
s_waitcnt lgkmcnt(0)
v_lshlrev_b32_e32 v4, 8, v4
v_lshlrev_b32_e32 v5, 16, v5
v_or3_b32 v3, v3, v4, v5
global_store_dword v1, v3, s[6:7]
""",
        [(63 ^ i) | (i ^ 16) << 8 | (i ^ 3) << 16 for i in range(64)],
    )


def test_a_loop_over_half_of_the_lanes() -> None:
    check(
        f"""{POINTERS}
v_mov_b32_e32 v2, 0
v_cmp_gt_u32_e32 vcc, 32, v0
s_and_saveexec_b64 s[8:9], vcc
s_mov_b32 s10, 5
again:
v_add_u32_e32 v2, v0, v2
s_sub_i32 s10, s10, 1
s_cmp_lg_u32 s10, 0
s_cbranch_scc1 again
s_or_b64 exec, exec, s[8:9]
global_store_dword v1, v2, s[6:7]
""",
        [5 * i if i < 32 else 0 for i in range(64)],
    )


def test_two_instructions_issued_together_read_before_either_writes() -> None:
    check(
        """
s_load_b128 s[4:7], s[0:1], 0x0
v_mov_b32_e32 v2, 1
v_mov_b32_e32 v3, 2
v_dual_mov_b32 v2, v3 :: v_dual_mov_b32 v3, v2
v_lshlrev_b32_e32 v1, 2, v0
v_lshl_or_b32 v4, v3, 8, v2
s_waitcnt lgkmcnt(0)
global_store_b32 v1, v4, s[6:7]
""",
        [0x102] * 32,
        isa="gfx1100",
        threads=32,
    )


NARROW = [("u8", 3, 0xFE, 0x81), ("i8", 3, -2, -127), ("u16", 2, 0x7FFE, 0x8181), ("i16", 2, 0x7FFE, -32383)]


@pytest.mark.parametrize(("kind", "at", "low", "high"), NARROW)
def test_scalar_loads_of_less_than_a_dword(kind: str, at: int, low: int, high: int) -> None:
    """From memory and from a buffer, which ends before the third."""
    lanes = [f"v_mov_b32_e32 v3, s{12 + lane}\nv_cmp_eq_u32_e32 vcc_lo, {lane}, v0\nv_cndmask_b32_e32 v2, v2, v3, vcc_lo"
             for lane in range(5)]  # fmt: skip
    body = "\n".join([
        "s_load_b128 s[4:7], s[0:1], 0x0", "v_lshlrev_b32_e32 v1, 2, v0", "v_mov_b32_e32 v2, 0", "s_wait_kmcnt 0x0",
        "s_mov_b32 s8, s4", "s_and_b32 s9, s5, 0xffff", "s_mov_b32 s10, 4", "s_mov_b32 s11, 0",
        f"s_load_{kind} s12, s[4:5], 0x0", f"s_load_{kind} s13, s[4:5], {at}", f"s_buffer_load_{kind} s14, s[8:11], 0x0",
        f"s_buffer_load_{kind} s15, s[8:11], {at}", f"s_buffer_load_{kind} s16, s[8:11], 0x4", "s_wait_kmcnt 0x0", *lanes,
        "global_store_b32 v1, v2, s[6:7]"])  # fmt: skip
    x = np.array([0x81817FFE, 0x7FFFFFFF], np.uint32).view(np.int32)
    assembles("gfx1201", text("gfx1201", body))
    np.testing.assert_array_equal(run("gfx1201", body, x, count=32, threads=32)[:5], [low, high, low, high, 0])


def test_the_parser_keeps_lines_labels_and_modifiers() -> None:
    made = parse(
        text(
            "gfx942",
            """
v_add_f32_dpp v1, -|v2|, v3 row_shr:1 row_mask:0xf bank_mask:0xf ; a comment
here:
v_pk_fma_f16 v1, v2, v3, v4 op_sel_hi:[1, 0,1]
s_waitcnt vmcnt(0) lgkmcnt(1)
ds_swizzle_b32 v1, v2 offset:swizzle(BITMASK_PERM,"01pip")
""",
        )
    )
    first, second, third, fourth, end = made.instructions
    assert (first.mnemonic, first.operands, first.modifiers) == (
        "v_add_f32_dpp", ("v1", "-|v2|", "v3"), ("row_shr:1", "row_mask:0xf", "bank_mask:0xf"))  # fmt: skip
    assert second.modifiers == ("op_sel_hi:[1,", "0,1]")
    assert third.modifiers == ("vmcnt(0)", "lgkmcnt(1)")
    assert fourth.operands == ("v1", "v2")
    assert end.mnemonic == "s_endpgm"
    assert made.labels["here"] == 1
    assert made.kernels["kernel"].descriptor["next_free_vgpr"] == 64


@pytest.mark.parametrize(
    ("isa", "instruction", "x", "expected"),
    [
        # Of a field that ends beyond the register, the sign is repeated.
        ("gfx942", "v_bfe_i32 v3, v2, 29, 31", 0xEAA51D0D, 0xFFFFFFFF),
        ("gfx942", "v_bfe_i32 v3, v2, 4, 8", 0x00000F80, 0xFFFFFFF8),
        # A signaling NaN of f16 wins under MODE.IEEE and becomes quiet, in each half.
        ("gfx942", "v_pk_max_f16 v3, v2, 1.0 op_sel_hi:[1,0]", 0x7C014000, 0x7E014000),
        # A table of 0x30 is a & ~b; the upper half stays.
        ("gfx950", "v_mov_b32 v3, 0xabcd0000\nv_bitop3_b16 v3, v2, 15, v2 bitop3:0x30", 0xDEAD1234, 0xABCD1230),
        # From RDNA 3 on the name means the instruction without signs: 255 * 255 * 4.
        ("gfx942", "v_dot4_i32_i8 v3, v2, v2, 0", 0xFFFFFFFF, 4),
        ("gfx1100", "v_dot4_i32_i8 v3, v2, v2, 0", 0xFFFFFFFF, 4 * 255 * 255),
    ],
)
def test_single_instructions(isa: str, instruction: str, x: int, expected: int) -> None:
    newer = isa == "gfx1100"
    head = POINTERS.replace("dwordx4", "b128") if newer else POINTERS
    store = "global_store_b32 v1, v3, s[6:7]" if newer else "s_nop 3\nglobal_store_dword v1, v3, s[6:7]"
    check(f"{head}v_mov_b32_e32 v2, {x:#x}\n{instruction}\n{store}", np.full(32, np.uint32(expected).view(np.int32)), isa,
          threads=32)  # fmt: skip


@pytest.mark.parametrize(
    ("there", "back"),
    [
        ("scratch_store_dwordx2 off, v[4:5], off offset:8", "scratch_load_dwordx2 v[6:7], off, off offset:8"),
        ("ds_write_b64 v3, v[4:5]", "ds_read_b64 v[6:7], v3"),
    ],
    ids=["private", "LDS"],
)
def test_half_of_a_pair_that_nobody_wrote_leaves_the_other_half_as_it_was(there: str, back: str) -> None:
    """A compiler spills a pair of registers of which one is used: v4 is written here, v5 never."""
    body = f"""{POINTERS}
global_load_dword v4, v1, s[4:5]
v_lshlrev_b32_e32 v3, 3, v0
s_waitcnt vmcnt(0)
{there}
s_waitcnt vmcnt(0) lgkmcnt(0)
{back}
s_waitcnt vmcnt(0) lgkmcnt(0)
global_store_dword v1, v6, s[6:7]
"""
    check(body, X[:64], scratch=16, shared=512)
    with pytest.raises(SimulatorError, match="stores to out what was never written"):
        run("gfx942", body.replace("v1, v6", "v1, v7"), X, scratch=16, shared=512)


def test_offsets_into_private_memory_are_signed_from_gfx12_on() -> None:
    """A compiler adds -64 in a register and 64 in the instruction; before GFX12 the register is unsigned."""
    body = f"""{POINTERS.replace("dwordx4", "b128")}
global_load_b32 v4, v1, s[4:5]
s_movk_i32 s8, 0xffc0
s_wait_loadcnt 0x0
scratch_store_b32 off, v4, s8 offset:68
scratch_load_b32 v6, off, off offset:4
s_wait_loadcnt 0x0
global_store_b32 v1, v6, s[6:7]
"""
    body = body.replace("s_waitcnt lgkmcnt(0)", "s_wait_kmcnt 0x0")
    check(body, X[:32], "gfx1201", scratch=16, threads=32)
    older = body.replace("s_wait_kmcnt 0x0", "s_waitcnt lgkmcnt(0)").replace("s_wait_loadcnt 0x0", "s_waitcnt vmcnt(0)")
    with pytest.raises(SimulatorError, match="bytes at 4294967300 of scratch"):
        run("gfx1100", older, X, scratch=16, threads=32)
