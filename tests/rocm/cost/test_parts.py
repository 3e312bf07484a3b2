"""Parts of the cost model: instructions and their units, matrix cores, LDS banks, loops from arguments, the scoreboard."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.backend import Argument, Dispatch
from portakern.backends.rocm.amdgcn.assembly.parser import Assembly, parse
from portakern.backends.rocm.amdgcn.cost.generation import generation
from portakern.backends.rocm.amdgcn.cost.instructions import InstructionCost, Unit, cost_of
from portakern.backends.rocm.amdgcn.cost.launch import arguments_of, places_of, start_of
from portakern.backends.rocm.amdgcn.cost.loops import loops_of, shorten, stretched
from portakern.backends.rocm.amdgcn.cost.matrix import matrix
from portakern.backends.rocm.amdgcn.cost.rates import rate
from portakern.backends.rocm.amdgcn.cost.scoreboard import Item, Latencies, counters_of, run
from portakern.backends.rocm.amdgcn.cost.shared import access_cycles
from portakern.backends.rocm.amdgcn.cost.values import InitialWaveState, Wave
from portakern.errors import PortakernError

pytestmark = pytest.mark.quick

HEAD = '\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n\t.text\nk:\n'
LATENCIES = Latencies(lds=52, load=300, store=300, scalar=48, sharing=1)


def assembled(body: str, isa: str = "gfx942") -> tuple[Assembly, list[InstructionCost]]:
    code = parse(HEAD.replace("gfx942", isa) + body)
    return code, [cost_of(i, isa) for i in code.instructions]


def started(isa: str = "gfx942", threads: int = 64, block: int = 0) -> InitialWaveState:
    """Of a kernel without arguments."""
    dispatch = Dispatch("k", b"", "", (4, 3, 2), (threads, 1, 1), 0, ())
    return start_of(dispatch, DESCRIPTOR, b"", block, 0, generation(isa))


# ---- instructions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "unit", "reads", "writes"),
    [
        ("v_add_u32_e32 v1, s2, v3", Unit.VECTOR, {("s", 2), ("v", 3)}, {("v", 1)}),
        ("v_fmac_f32_e32 v1, v2, v3", Unit.VECTOR, {("v", 1), ("v", 2), ("v", 3)}, {("v", 1)}),
        ("v_cmp_gt_u32_e32 vcc, s1, v0", Unit.VECTOR, {("s", 1), ("v", 0)}, {("s", 106), ("s", 107)}),
        ("global_load_dwordx2 v[4:5], v[0:1], off", Unit.VECTOR_MEMORY, {("v", 0), ("v", 1)}, {("v", 4), ("v", 5)}),
        ("global_store_dword v0, v1, s[2:3]", Unit.VECTOR_MEMORY, {("v", 0), ("v", 1), ("s", 2), ("s", 3)}, set()),
        ("ds_write_b64 v0, v[2:3]", Unit.LDS, {("v", 0), ("v", 2), ("v", 3)}, set()),
        ("s_and_saveexec_b64 s[0:1], vcc", Unit.SCALAR, {("s", n) for n in (106, 107, 126, 127)},
         {("s", n) for n in (0, 1, 126, 127)}),
        ("v_accvgpr_read_b32 v0, a3", Unit.VECTOR, {("v", 259)}, {("v", 0)}),
    ],
)  # fmt: skip
def test_units_and_registers(line: str, unit: Unit, reads: set, writes: set):
    _, (cost,) = assembled(f"\t{line}\n")
    assert (cost.unit, cost.reads, cost.defines) == (unit, reads, writes)


UNKNOWN = ["v_dream_f32 v0, v1", "s_dance_b32 s0, s1", "v_mfma_f32_7x7x7_f16 a0, v0, v1, a0", "ds_dig_b32 v0, v1"]


@pytest.mark.parametrize("line", UNKNOWN)
def test_an_unknown_instruction_is_named(line: str):
    with pytest.raises(PortakernError, match=f"does not know the (matrix )?instruction {line.split()[0]}"):
        assembled(f"\t{line}\n")


@pytest.mark.parametrize(
    ("isa", "name", "cycles", "flops"),
    [
        ("gfx90a", "v_mfma_f32_32x32x8f16", 64, 16384), ("gfx90a", "v_mfma_f32_32x32x8bf16_1k", 64, 16384),
        ("gfx90a", "v_mfma_f32_16x16x4f32", 32, 2048), ("gfx90a", "v_mfma_f64_16x16x4f64", 32, 2048),
        ("gfx942", "v_mfma_f32_32x32x8_f16", 32, 16384), ("gfx942", "v_mfma_f32_16x16x16_bf16", 16, 8192),
        ("gfx942", "v_mfma_f32_32x32x16_fp8_fp8", 32, 32768), ("gfx942", "v_mfma_f32_4x4x4_16b_f16", 8, 2048),
        ("gfx950", "v_mfma_f32_32x32x16_bf16", 32, 32768), ("gfx950", "v_mfma_f32_16x16x32_f16", 16, 16384),
        ("gfx950", "v_mfma_f32_16x16x16_f16", 16, 8192), ("gfx950", "v_mfma_f32_16x16x128_f8f6f4", 32, 65536),
        ("gfx942", "v_smfmac_f32_16x16x32_f16", 16, 16384), ("gfx950", "v_smfmac_f32_32x32x32_bf16", 32, 65536),
        ("gfx1100", "v_wmma_f32_16x16x16_f16", 32, 8192), ("gfx1100", "v_wmma_i32_16x16x16_iu4", 16, 8192),
        ("gfx1201", "v_wmma_f32_16x16x16_bf16", 16, 8192), ("gfx1201", "v_wmma_f32_16x16x16_fp8_bf8", 8, 8192),
        ("gfx1201", "v_swmmac_f32_16x16x32_f16", 16, 16384),
    ],
)  # fmt: skip
def test_matrix_instructions_take_what_amd_says(isa: str, name: str, cycles: int, flops: int):
    found = matrix(name, isa)
    assert (found.cycles, found.flops) == (cycles, flops)


def test_vector_instructions_wait_for_f32_matrices_on_cdna3_only():
    assert not matrix("v_mfma_f32_16x16x4_f32", "gfx942").overlaps and matrix("v_mfma_f32_16x16x4f32", "gfx90a").overlaps


# ---- LDS --------------------------------------------------------------------------------------------------------------

LANE = np.arange(64)


@pytest.mark.parametrize(
    ("isa", "width", "writes", "addresses", "cycles", "best"),
    [
        ("gfx942", 4, False, 4 * LANE, 2, 2),  # 256 bytes at 128 a cycle
        ("gfx942", 4, False, 0 * LANE, 2, 2),  # one word for all is given to all
        ("gfx942", 4, False, 128 * LANE, 64, 2),  # one bank
        ("gfx942", 16, False, 16 * LANE, 8, 8),
        ("gfx950", 16, False, 16 * LANE, 4, 4),  # 64 banks for reads
        ("gfx950", 8, True, 8 * LANE, 4, 4),  # and 32 for writes
        ("gfx942", 16, False, 128 * (LANE % 8) + 16 * (LANE // 8), 32, 8),  # columns of rows of 128 bytes
        ("gfx942", 16, False, 128 * (LANE % 8) + 16 * ((LANE // 8) ^ (LANE % 8)), 8, 8),  # the same, swizzled
        ("gfx1100", 4, False, 4 * LANE[:32], 1, 1),  # a wave is half as wide
        ("gfx1201", 16, True, 16 * LANE[:32], 4, 4),
        ("gfx1201", 8, False, 128 * LANE[:32], 32, 2),
    ],
)  # fmt: skip
def test_bank_conflicts(isa: str, width: int, writes: bool, addresses: np.ndarray, cycles: int, best: int):
    assert access_cycles(isa, width, writes, (addresses,)) == (cycles, best)


# ---- loops and addresses from arguments -----------------------------------------------------------------------------------

COUNTED = """
	s_load_dword s3, s[0:1], 0x8
	s_load_dwordx2 s[0:1], s[0:1], 0x0
	v_lshlrev_b32_e32 v1, 2, v0
	s_mov_b32 s6, 0
	s_waitcnt lgkmcnt(0)
.L:
	global_load_dword v2, v1, s[0:1]
	v_add_u32_e32 v1, 0x400, v1
	s_waitcnt vmcnt(0)
	s_add_i32 s6, s6, 1
	s_cmp_lt_u32 s6, s3
	s_cbranch_scc1 .L
	s_endpgm
"""
DESCRIPTOR = {"user_sgpr_kernarg_segment_ptr": 1, "system_sgpr_workgroup_id_x": 1}


def counted(rounds: int) -> tuple[Assembly, list[InstructionCost], Wave, int]:
    code, costs = assembled(COUNTED)
    args = (Argument("x", 16), Argument(value=rounds.to_bytes(4, "little")))
    dispatch = Dispatch("k", b"", "", (4, 1, 1), (128, 1, 1), 0, args)
    start = start_of(dispatch, DESCRIPTOR, arguments_of(dispatch), 1, 1, generation("gfx942"))
    return code, costs, Wave(code, costs, 0, start), places_of(dispatch)["x"]


@pytest.mark.parametrize("rounds", [1, 5, 1000])
def test_rounds_and_addresses_follow_from_the_arguments(rounds: int):
    code, costs, wave, x = counted(rounds)
    trace = wave.run()
    assert not trace.cut and not trace.guesses
    short = shorten(trace, loops_of(code, costs, trace))
    assert [(r.loop.label, r.rounds) for r in short.runs] == ([(".L", rounds)] if rounds > 1 else [])
    loads = [a for a in trace.accesses.values() if costs[a.at].unit is Unit.VECTOR_MEMORY]
    assert len(loads) == rounds
    first = loads[-1].addresses
    assert first is not None and first[0].tolist() == [x + 16 + 4 * (64 + n) + 0x400 * (rounds - 1) for n in range(64)]


def test_a_branch_on_loaded_data_is_said_and_not_guessed_at_length():
    code, costs = assembled("""
.L:
	global_load_dword v2, v[0:1], off
	v_cmp_gt_u32_e32 vcc, 5, v2
	s_cbranch_vccnz .L
	s_endpgm
""")
    trace = Wave(code, costs, 0, started()).run()
    assert trace.steps == [0, 1, 2, 3] and trace.guesses == {2: 1}


def test_addresses_that_lanes_exchange_are_followed():
    code, costs = assembled("""
	v_lshlrev_b32_e32 v1, 2, v0
	v_xor_b32_e32 v2, 4, v1
	ds_bpermute_b32 v3, v2, v1
	ds_read_b32 v4, v3
	s_endpgm
""")
    trace = Wave(code, costs, 0, started()).run()
    read = trace.accesses[3].addresses
    assert read is not None and read[0].tolist() == [4 * (n ^ 1) for n in range(64)]


def test_lanes_that_come_back_and_products_of_64_bits_are_followed():
    """Behind an if on loaded data all lanes go on; a 64-bit sum may begin with a pair of which half was written."""
    code, costs = assembled("""
	v_mov_b32_e32 v1, 0
	global_load_dword v2, v1, s[0:1]
	v_cmp_ne_u32_e32 vcc, 0, v2
	s_and_saveexec_b64 s[2:3], vcc
	s_or_b64 exec, exec, s[2:3]
	v_lshlrev_b32_e32 v4, 2, v0
	v_mad_u64_u32 v[6:7], s[4:5], 3, v4, v[4:5]
	ds_read_b32 v8, v6
	s_endpgm
""")
    trace = Wave(code, costs, 0, started()).run()
    read = trace.accesses[7].addresses
    assert read is not None and read[0].tolist() == [16 * n for n in range(64)]


def test_rounds_left_out_are_made_up_for():
    code, costs, wave, _ = counted(1000)
    trace = wave.run()
    short = shorten(trace, loops_of(code, costs, trace))
    items = [Item(costs[trace.steps[p]], memory=16.0) for p in short.places]
    whole = [Item(costs[at], memory=16.0) for at in trace.steps]
    result, exact = run([(0, items)], LATENCIES), run([(0, whole)], LATENCIES)
    left_out, steady = stretched(short.runs, result.issued)
    assert len(items) < 100 < len(whole)
    assert result.cycles + left_out == pytest.approx(exact.cycles, rel=0.01)
    (per_round,) = steady.values()
    assert per_round == pytest.approx(16 + 300 + 5 * 4, abs=8)  # nothing hides the load


# ---- the scoreboard ---------------------------------------------------------------------------------------------------------


def items(body: str, **cycles: float) -> list[Item]:
    _, costs = assembled(body)
    return [Item(c, cycles.get("lds", 0.0) if c.unit is Unit.LDS else 0.0, cycles.get("memory", 0.0) if
                 c.unit is Unit.VECTOR_MEMORY else 0.0) for c in costs]  # fmt: skip


MFMA = "\tv_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]\n"


def test_a_matrix_core_takes_one_instruction_at_a_time_and_vectors_run_beside_it():
    alone = run([(0, items(MFMA * 8))], LATENCIES)
    assert alone.busy[Unit.MATRIX] == 8 * 32 and alone.issued[7] == 7 * 32
    mixed = run([(0, items((MFMA + "\tv_add_f32_e32 v9, v8, v7\n" * 3) * 8))], LATENCIES)
    assert mixed.issued[28] == 7 * 32, "three vector instructions fit beside each matrix instruction"


def test_a_second_wave_hides_waits_and_one_does_not():
    body = "\tglobal_load_dword v5, v[0:1], off\n" + MFMA * 16 + "\ts_waitcnt vmcnt(0)\n" + "\tv_mov_b32_e32 v6, v5\n"
    short = body.replace(MFMA * 16, MFMA * 2)
    exposed = run([(0, items(short * 4))], LATENCIES)
    hidden = run([(0, items(body * 4))], LATENCIES)
    assert exposed.exposed["vmcnt"] > 3 * 200 and hidden.exposed["vmcnt"] == 0
    two = run([(0, items(short * 4)), (1, items(short * 4))], LATENCIES)
    assert two.exposed["vmcnt"] < exposed.exposed["vmcnt"]
    assert two.cycles < 1.2 * exposed.cycles


def test_counters_wait_for_the_oldest_only():
    loads = "\tglobal_load_dword v5, v[0:1], off\n" * 4
    one = run([(0, items(loads + "\ts_waitcnt vmcnt(3)\n\tv_mov_b32_e32 v6, v5\n", memory=100))], LATENCIES)
    all_ = run([(0, items(loads + "\ts_waitcnt vmcnt(0)\n\tv_mov_b32_e32 v6, v5\n", memory=100))], LATENCIES)
    assert one.issued[5] == 400 and all_.issued[5] == 700


def test_a_barrier_holds_the_waves_of_a_workgroup_together():
    early, late = "\ts_barrier\n" + MFMA, "\tv_exp_f32_e32 v0, v1\n" * 10 + "\ts_barrier\n" + MFMA
    together = run([(0, items(early)), (0, items(late))], LATENCIES)
    apart = run([(0, items(early)), (1, items(late))], LATENCIES)
    assert together.issued[1] > 140 > apart.issued[1]


def test_higher_priority_goes_first():
    slow = "\tv_exp_f32_e32 v0, v1\n" * 20
    ends = {}
    for first in (0, 1):
        waves = [(0, items("\ts_setprio 1\n" * (n == first) + slow)) for n in range(2)]
        ends[first] = run(waves, LATENCIES).issued[-1]
    assert ends[0] < ends[1]


def test_what_cannot_be_read_is_named():
    with pytest.raises(PortakernError, match="counters of s_waitcnt"):
        run([(0, items("\ts_waitcnt 0\n"))], LATENCIES)


# ---- RDNA -----------------------------------------------------------------------------------------------------------

NEAR = {isa: Latencies(lds=52, load=300, store=200, scalar=48, sharing=1, of=generation(isa)) for isa in ("gfx1100", "gfx1201")}


def issued(body: str, isa: str = "gfx1100", waves: int = 1) -> list[float]:
    """When each instruction of the first of some waves of a workgroup is issued, and its end."""
    _, costs = assembled(body, isa)
    return run([(0, [Item(c, lds=1.0, memory=1.0) for c in costs])] * waves, NEAR[isa]).issued


@pytest.mark.parametrize(
    ("name", "slow", "expected"),
    [("v_add_f32", False, (1, 5)), ("v_exp_f32", True, (4, 10)), ("v_mul_lo_u32", False, (4, 8)),
     ("v_lshlrev_b64", False, (2, 6)), ("v_fma_f64", False, (32, 38)), ("v_rcp_f64", False, (32, 40)),
     ("s_add_i32", False, (1, 2)), ("s_fmac_f32", False, (1, 4))],
)  # fmt: skip
def test_rdna_takes_llvms_latencies(name: str, slow: bool, expected: tuple[int, int]):
    assert rate(name, slow) == expected


def test_rdna_waits_for_results_and_issues_each_cycle_otherwise():
    apart = issued("\tv_add_f32_e32 v1, v2, v3\n\tv_add_f32_e32 v4, v5, v6\n\ts_endpgm\n")
    chain = issued("\tv_add_f32_e32 v1, v2, v3\n\tv_add_f32_e32 v4, v1, v6\n\ts_endpgm\n")
    assert (apart[1] - apart[0], chain[1] - chain[0]) == (1, 5)


def test_two_instructions_issued_together_take_one_issue_and_see_what_was_before():
    body = "\tv_dual_mov_b32 v1, v2 :: v_dual_mov_b32 v2, v1\n\tv_mov_b32_e32 v9, v8\n\ts_endpgm\n"
    times = issued(body)
    assert times[0] == times[1] and times[2] - times[0] == 1
    before, behind = "\tv_mov_b32_e32 v1, 8\n\tv_mov_b32_e32 v2, 4\n", "\tds_load_b32 v3, v1\n\ts_endpgm\n"
    code, costs = assembled(before + body.splitlines()[0] + "\n" + behind, "gfx1100")
    trace = Wave(code, costs, 0, started("gfx1100", 32)).run()
    (read,) = [a.addresses for a in trace.accesses.values()]
    assert read is not None and read[0].tolist() == [4] * 32


def test_a_wmma_keeps_the_vector_alus_and_adds_to_its_sums_without_a_pause():
    wmma = "\tv_wmma_f32_16x16x16_bf16 v[0:7], v[8:15], v[16:23], v[0:7]\n"
    times = issued(wmma + wmma + "\tv_mov_b32_e32 v40, v41\n\tv_add_f32_e32 v42, v0, v0\n\ts_endpgm\n")
    assert (times[1] - times[0], times[2] - times[1], times[3] - times[1]) == (32, 32, 36)


@pytest.mark.parametrize(
    ("line", "isa", "left"),
    [("s_waitcnt vmcnt(3) lgkmcnt(0)", "gfx1100", {"vmcnt": 3, "lgkmcnt": 0}),
     ("s_waitcnt_vscnt null, 0x2", "gfx1100", {"vscnt": 2}), ("s_wait_loadcnt 0x4", "gfx1201", {"loadcnt": 4}),
     ("s_wait_storecnt_dscnt 0x203", "gfx1201", {"storecnt": 2, "dscnt": 3})],
)  # fmt: skip
def test_waits_name_their_counters(line: str, isa: str, left: dict[str, int]):
    _, (cost,) = assembled(f"\t{line}\n", isa)
    assert counters_of(cost) == left


def test_rdna_counts_stores_apart_from_loads():
    store = "\tglobal_store_b32 v0, v1, s[2:3]\n"
    load = "\tglobal_load_b32 v4, v0, s[2:3]\n"
    for isa, wait in (("gfx1100", "s_waitcnt vmcnt(0)"), ("gfx1201", "s_wait_loadcnt 0x0")):
        assert issued(f"{store}\t{wait}\n\ts_endpgm\n", isa)[-2] < 10
        assert issued(f"{load}\t{wait}\n\tv_mov_b32_e32 v5, v4\n\ts_endpgm\n", isa)[2] >= 300
    assert issued(f"{store}\ts_wait_storecnt 0x0\n\tv_mov_b32_e32 v5, v4\n\ts_endpgm\n", "gfx1201")[2] >= 200


def test_a_wave_waits_at_a_barrier_for_signals_and_not_for_other_waits():
    busy, wait = "\tv_mul_lo_u32 v1, v2, v3\n" * 8, "\ts_barrier_wait -1\n\tv_mov_b32_e32 v5, v4\n\ts_endpgm\n"
    signal = "\ts_barrier_signal -1\n"
    short, early, late = (
        [Item(c) for c in assembled(text + wait, "gfx1201")[1]] for text in (signal, signal + busy, busy + signal)
    )
    before, behind = (run([(0, short), (0, other)], NEAR["gfx1201"]).issued for other in (early, late))
    assert before[2] < 16 and behind[2] >= 28


@pytest.mark.parametrize(("isa", "number"), [("gfx1100", "s2"), ("gfx1201", "ttmp9")])
def test_masks_of_32_lanes_and_the_number_of_the_workgroup(isa: str, number: str):
    code, costs = assembled(f"""
	s_mov_b32 s4, {number}
	v_add_nc_u32_e32 v2, 1, v0
	s_lshl_b32 s4, s4, 8
	v_cmp_gt_u32_e32 vcc_lo, 5, v2
	s_and_saveexec_b32 s5, vcc_lo
	v_lshl_add_u32 v1, v0, 2, s4
	ds_store_b32 v1, v0
	s_or_b32 exec_lo, exec_lo, s5
	v_cmpx_lt_u32_e32 29, v0
	ds_load_2addr_stride64_b32 v[4:5], v1 offset1:1
	s_endpgm
""", isa)  # fmt: skip
    trace = Wave(code, costs, 0, started(isa, 32, 1)).run()
    wrote, read = (a.addresses for a in trace.accesses.values())
    assert wrote is not None and wrote[0].tolist() == [256, 260, 264, 268]
    assert read is None or [len(x) for x in read] == [2, 2]


DREAMS = ["v_dream_f32 v0, v1", "s_wait_dream 0x0", "v_wmma_f32_16x16x16_f64 v[0:7], v[8:9], v[10:11], v[0:7]"]


@pytest.mark.parametrize("line", DREAMS)
def test_an_unknown_instruction_of_rdna_is_named(line: str):
    with pytest.raises(PortakernError, match=rf"{line.split()[0]}"):
        issued(f"\t{line}\n\ts_endpgm\n", "gfx1201")
