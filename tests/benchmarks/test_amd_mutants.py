"""Mutants of machine code, and the arguments that some of them change nothing."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.amd_mutation import (
    Mutant,
    Trial,
    Workshop,
    covered,
    judged,
    mutants,
    reached,
)
from benchmarks.amd_mutation.beside import meeting
from benchmarks.amd_mutation.mutant import TRAP
from benchmarks.amd_mutation.synchronisation import waits_of
from benchmarks.amd_mutation.trial import Changed
from benchmarks.amd_mutation.walk import exposed, separates, uncovered
from benchmarks.amd_mutation.workshop import TRAPS
from portakern.backends.rocm.amdgcn.assembly.parser import Instruction, parse
from portakern.backends.rocm.amdgcn.execution.program import load, native
from portakern.cli import options
from portakern.spec.bind import bind
from portakern.study import steps
from tests.rocm.execution.lanes_bench import execute
from tests.rocm.helpers import needs_clang

pytestmark = pytest.mark.quick

HEAD = '\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n\t.text\n\t.type k,@function\nk:\n'
TAIL = """\ts_endpgm
.Lfunc_end0:
\t.amdhsa_kernel k
\t\t.amdhsa_next_free_vgpr 8
\t\t.amdhsa_next_free_sgpr 8
\t.end_amdhsa_kernel
"""


def kernel(*lines: str) -> str:
    return HEAD + "".join(f"\t{line}\n" if not line.endswith(":") else f"{line}\n" for line in lines) + TAIL


def waits_enough(*lines: str) -> bool:
    return covered(parse(kernel(*lines)), "k")


LOAD, USE = "global_load_dword v1, v[2:3], off", "v_add_f32_e32 v4, v1, v1"


def test_a_wait_before_a_use_is_needed() -> None:
    assert waits_enough(LOAD, "s_waitcnt vmcnt(0)", USE)
    assert not waits_enough(LOAD, USE)
    assert not waits_enough(LOAD, "s_waitcnt lgkmcnt(0)", USE)


def test_counters_are_queues() -> None:
    """vmcnt(1) leaves the youngest load under way: the older one may be used."""
    other = "global_load_dword v5, v[2:3], off"
    assert waits_enough(LOAD, other, "s_waitcnt vmcnt(1)", USE)
    assert not waits_enough(other, LOAD, "s_waitcnt vmcnt(1)", USE)


def test_loads_in_order_may_write_the_same_register_but_not_read_it() -> None:
    assert waits_enough(LOAD, LOAD)
    assert not waits_enough(LOAD, "v_mov_b32_e32 v1, 0")
    assert not waits_enough(LOAD, "global_load_dword v5, v[1:2], off")
    assert not waits_enough(LOAD, "s_load_dword s4, s[0:1], 0x0", "v_mov_b32_e32 v5, s4")


def test_scalar_loads_end_in_any_order() -> None:
    """Only lgkmcnt(0) says which of two scalar loads has ended (CDNA3 ISA 4.4)."""
    loads = ("s_load_dword s4, s[0:1], 0x0", "s_load_dword s5, s[0:1], 0x4")
    assert not waits_enough(*loads, "s_waitcnt lgkmcnt(1)", "s_mov_b32 s6, s4")
    assert waits_enough(*loads, "s_waitcnt lgkmcnt(0)", "s_mov_b32 s6, s4")


def test_every_path_counts() -> None:
    """The wait is needed on the way around the loop only."""
    loop = (".LBB0_1:", LOAD, "s_cbranch_scc1 .LBB0_1", "s_waitcnt vmcnt(0)")
    assert not waits_enough(*loop[:2], USE, *loop[2:])
    assert not waits_enough(".LBB0_1:", USE, LOAD, "s_cbranch_scc1 .LBB0_1")
    assert waits_enough(".LBB0_1:", "s_waitcnt vmcnt(0)", USE, LOAD, "s_cbranch_scc1 .LBB0_1")


def test_a_way_that_is_never_taken_does_not_count() -> None:
    """Around the branch the wait is missing; where nobody goes around it, nothing is."""
    code = parse(kernel(LOAD, "s_cbranch_execz .LBB0_1", "s_waitcnt vmcnt(0)", ".LBB0_1:", USE))
    assert uncovered(code, "k") == {5}
    assert not uncovered(code, "k", frozenset({(6, True)}))
    assert 7 in reached(code, "k", frozenset({(6, True)}))
    assert 7 not in reached(code, "k", frozenset({(6, False)}))


def test_what_a_wait_alone_covers() -> None:
    """A copy to LDS that is under way beside reads of other bytes is no reason to keep a wait that another one repeats."""
    copy, read = ("s_mov_b32 m0, 0", "global_load_lds_dword v[2:3], off"), "ds_read_b32 v1, v2"
    twice = parse(kernel(*copy, read, "s_waitcnt vmcnt(0)", "s_nop 0", "s_waitcnt vmcnt(0)", "s_barrier"))
    once = parse(kernel(*copy, read, "s_waitcnt vmcnt(0)", "s_barrier"))
    assert uncovered(twice, "k") == {6}
    assert not exposed(twice, "k", 8, ())
    assert not exposed(twice, "k", 8, (("vmcnt", 1),))
    assert exposed(once, "k", 8, ()) == {6}
    loop = (".LBB0_1:", USE, LOAD, "s_waitcnt vmcnt(0)", "s_cbranch_scc1 .LBB0_1")
    assert exposed(parse(kernel(*loop)), "k", 8, (("vmcnt", 1),)) == {7}


def test_a_barrier_publishes_what_was_written() -> None:
    assert not waits_enough("ds_write_b32 v1, v2", "s_barrier")
    assert waits_enough("ds_write_b32 v1, v2", "s_waitcnt lgkmcnt(0)", "s_barrier")


def test_a_full_counter_waits_by_itself() -> None:
    """lgkmcnt counts to 15 on CDNA: behind 16 reads the first is done."""
    reads = [f"ds_read_b32 v{n}, v20" for n in range(1, 17)]
    assert waits_enough(*reads, "v_add_f32_e32 v21, v1, v1")
    assert not waits_enough(*reads, "v_add_f32_e32 v21, v2, v2")
    assert waits_enough(*reads, "s_waitcnt lgkmcnt(14)", "v_add_f32_e32 v21, v2, v2")


def test_reads_of_lds_pass_barriers_but_not_where_memory_is_copied_there() -> None:
    """LDS serves all waves in the order of issue; a copy from memory comes later than that says."""
    copy = ("s_mov_b32 m0, 0", "global_load_lds_dword v[2:3], off", "s_waitcnt vmcnt(0)")
    assert waits_enough("ds_read_b32 v1, v2", "s_barrier")
    assert not waits_enough("ds_read_b32 v1, v2", "s_barrier", *copy)
    assert not waits_enough(*copy[:2], "ds_read_b32 v1, v2")


@pytest.mark.parametrize(("lines", "needed"), [
    (("ds_write_b32 v1, v2", "s_barrier", "ds_read_b32 v3, v4"), True),
    (("s_barrier", "ds_read_b32 v3, v4"), False),
    (("ds_write_b32 v1, v2", "s_barrier"), False),
    (("ds_write_b32 v1, v2", "s_barrier", "s_barrier", "ds_read_b32 v3, v4"), False),
    ((".LBB0_1:", "s_nop 0", "s_barrier", "ds_read_b32 v3, v4", "s_cbranch_scc1 .LBB0_1"), True),
])  # fmt: skip
def test_a_barrier_is_needed_between_accesses_of_lds(lines: tuple[str, ...], needed: bool) -> None:
    code = parse(kernel(*lines))
    at = next(i.line for i in code.instructions if i.mnemonic == "s_barrier")
    assert separates(code, "k", at, frozenset()) == needed


def test_what_is_mutated() -> None:
    found = all_of("s_waitcnt vmcnt(0) lgkmcnt(1)", "s_barrier", "s_and_saveexec_b64 s[2:3], vcc",
                   "v_cmp_gt_u32_e32 vcc, 8, v1", "s_cmp_lt_i32 s4, s5", "v_cndmask_b32_e32 v5, 0, v6, vcc",
                   "buffer_load_dword v5, v6, s[4:7], 0 offen",
                   "v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf",
                   "v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, v[0:3]", "ds_read_b32 v1, v2 offset:8",
                   "v_cvt_f32_fp8_e32 v1, v2")  # fmt: skip
    texts = [(m.kind, m.new[0] if m.new else "") for m in found]
    assert texts == [
        ("wait", "s_waitcnt lgkmcnt(1)"), ("wait", "s_waitcnt vmcnt(1) lgkmcnt(1)"), ("wait", "s_waitcnt vmcnt(0)"),
        ("wait", "s_waitcnt vmcnt(0) lgkmcnt(2)"), ("barrier", "s_nop 0"), ("mask", "s_mov_b64 s[2:3], exec"),
        ("bound", "v_cmp_ge_u32_e32 vcc, 8, v1"), ("bound", "s_cmp_le_i32 s4, s5"), ("select", "v_mov_b32_e32 v5, v6"),
        ("range", found[9].new[0]), ("layout", "v_mov_b32_dpp v1, v2 row_shr:2 row_mask:0xf bank_mask:0xf"),
        ("layout", "v_mfma_f32_16x16x4_f32 v[0:3], v5, v4, v[0:3]"), ("layout", "ds_read_b32 v1, v2 offset:12"),
        ("format", "v_cvt_f32_bf8_e32 v1, v2"), ("format", ""),
    ]  # fmt: skip
    assert "s_add_u32 s6, s6, 64" in found[9].new
    for m in found:
        if m.kind in ("mask", "bound", "select", "range"):
            assert TRAP in " ".join((*m.before, *m.after)), m


def all_of(*lines: str) -> list[Mutant]:
    return list(mutants(Workshop(kernel(*lines)), "k"))


def test_halves_of_a_barrier_of_gfx12() -> None:
    text = kernel("s_barrier_signal -1", "s_nop 0", "s_barrier_wait -1").replace("gfx942", "gfx1201")
    found = [m for m in mutants(Workshop(text), "k") if m.kind == "barrier"]
    assert [(m.line, m.removed) for m in found] == [(5, ()), (5, (7,)), (7, ())]


def test_a_changed_line_is_encoded_as_if_the_text_were_new() -> None:
    """And what jumps over new lines still arrives where it did."""
    lines = ("v_mov_b32_e32 v1, 0x1234", "s_cbranch_scc1 .LBB0_1", "v_mov_b32_e32 v2, 0x4321", ".LBB0_1:", "s_nop 1")
    text = kernel(*lines)
    new = "v_mov_b32_e32 v1, 0x777"
    made = Workshop(text).translated("k", {5: (new,)}).code
    want = load(text.replace(lines[0], new), "k")
    assert made.instructions == want.instructions
    assert (made.operations, made.constants) == (want.operations, want.constants)
    workshop = Workshop(text)
    longer = workshop.changed("k", {7: (lines[2], "s_nop 0", "s_nop 0"), 5: ("s_nop 0", "s_branch .Ltrap_3")})
    at = {i.mnemonic: n for n, i in enumerate(longer.instructions)}
    assert longer.instructions[longer.labels[".LBB0_1"]].operands == ("1",)
    assert longer.instructions[longer.labels[".Ltrap_3"]].line == TRAPS + 3
    assert longer.labels[".Ltrap_3"] > at["s_endpgm"]


@pytest.mark.parametrize(("text", "waits"), [
    ("s_wait_loadcnt 0x2", {"vmcnt": 2}), ("s_wait_loadcnt_dscnt 0x103", {"vmcnt": 1, "lgkmcnt": 3}),
    ("s_wait_kmcnt 0x0", {"kmcnt": 0}), ("s_nop 0", {}),
])  # fmt: skip
def test_waits_of_gfx12(text: str, waits: dict[str, int]) -> None:
    name, _, operand = text.partition(" ")
    assert waits_of(Instruction(1, name, (operand,), ())) == waits


def test_the_machine_sees_what_the_walk_sees() -> None:
    """A load used without its wait is a fault of the machine as well."""
    load = "global_load_dword v5, v241, s[4:5]\n"
    use = "v_add_f32_e32 v4, v5, v5"
    one = {1: np.ones(64, np.float32).view(np.uint32)}
    with pytest.raises(native().Fault):
        execute("gfx942", "v_lshlrev_b32_e32 v241, 2, v0\n" + load + use, one, [4])
    (found,) = execute("gfx942", "v_lshlrev_b32_e32 v241, 2, v0\n" + load + "s_waitcnt vmcnt(0)\n" + use, one, [4])
    assert np.all(found.view(np.float32) == 2)


@pytest.fixture(scope="module")
def trial() -> Trial:
    """Row sums whose rows end within a lane's chunk."""
    needs_clang("gfx942")
    import argparse

    asked = argparse.Namespace(
        operator="row_sum", targets="hip:gfx942", dtype="f32", shape=["M=5,N=129"], param=[], schedule=[]
    )
    (work,) = options.asked(asked).works
    made = steps.build(work)
    binary = steps.cached_binary(made.binary_key)
    assert made.source is not None and binary is not None
    return Trial(made.source, binary, bind(work.program, {}), {}, work.families, ("values", "repeat", "integers"))


def test_mutants_of_a_kernel(trial: Trial) -> None:
    """Nothing is missed; what is equivalent says why."""
    found = judged(trial)
    results = {o.result for o in found}
    assert {"caught", "equivalent"} <= results <= {"caught", "equivalent", "agrees"}
    assert all(o.why for o in found)
    waits = [o for o in found if o.kind == "wait" and o.result == "caught"]
    assert waits and all("missing wait" in o.why for o in waits)


def test_a_witness_trips_where_its_mutant_is_caught(trial: Trial) -> None:
    """The argument for equivalence must not hold for a mutant that the machine catches."""
    (unit,) = trial.units
    lanes = [m for m in mutants(unit.workshop, unit.kernel) if m.witnessed]
    same = trial.same(unit, lanes)
    assert 0 < len(same) < len(lanes)
    for n in same:
        assert not trial.problem(Changed(unit, lanes[n].edit()))[0], lanes[n].what


def test_a_mutant_that_is_wrong_does_not_meet_its_kernel(trial: Trial) -> None:
    """What both ways leave different matters somewhere, wherever they meet."""
    (unit,) = trial.units
    lanes = [m for m in mutants(unit.workshop, unit.kernel) if m.kind in ("mask", "bound", "select", "layout")]
    wrong = [m for m in lanes if trial.problem(Changed(unit, m.edit()))[0].startswith("wrong")]
    assert len(wrong) > 5
    assert [m.what for m in wrong if trial.meets(unit, m.edit(), True)] == []


def test_ways_meet_behind_a_mask_and_not_behind_a_barrier() -> None:
    code = parse(kernel("s_and_saveexec_b64 s[2:3], vcc", "s_cbranch_execz .LBB0_1", "v_mov_b32_e32 v1, 0", ".LBB0_1:",
                        "s_or_b64 exec, exec, s[2:3]", "ds_read_b32 v1, v2", "s_barrier", "s_nop 0"))  # fmt: skip
    assert meeting(code, "k", 5, frozenset(), True) == [6, 9, 11]


@pytest.mark.parametrize("filling", [0, 1, 2, 3])
def test_what_two_ways_leave_different_is_replaced(filling: int) -> None:
    body = """v_mov_b32_e32 v5, 7
    v_mov_b32_e32 v6, 7
    pk_aside .Lcopy
    v_mov_b32_e32 v5, 0x1234
    v_add_u32_e32 v6, 1, v6
    pk_join {filling}
    s_branch .Lon
.Lcopy:
    v_add_u32_e32 v6, 1, v6
    v_mov_b32_e32 v5, {other}
    pk_back
.Lon:
"""
    for found in execute("gfx942", body.format(filling=filling, other="0x1234"), {}, [5, 6]):
        assert set(found) in ({0x1234}, {8})
    different = body.format(filling=filling, other=0)
    assert set(execute("gfx942", different, {}, [6])[0]) == {8}
    if filling:
        (found,) = execute("gfx942", different, {}, [5])
        assert np.all(found >> 16 == 0) and np.any(found != 0x1234)  # half of the register differs
    else:
        with pytest.raises(native().Fault):
            execute("gfx942", different, {}, [5])


def test_what_is_poisoned_and_needed_is_reported(trial: Trial) -> None:
    """Undefined values in place of what a row's last lanes contribute reach the sums."""
    (unit,) = trial.units
    moved = [m for m in mutants(unit.workshop, unit.kernel) if m.kind == "layout" and m.poisoned]
    problems = [trial.problem(Changed(unit, {m.line: m.poisoned}))[0] for m in moved]
    assert any("undefined value" in p for p in problems)
