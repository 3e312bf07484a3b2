"""Mutants of machine code, and the arguments that some of them change nothing."""

from __future__ import annotations

import numpy as np
import pytest
from portakern.backends.rocm.machine.mutants import TRAP, covered, edges, mutants, waits_of
from portakern.backends.rocm.machine.program import native

from tests.rocm.lanes_bench import execute

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


LOAD, USE = "global_load_dword v1, v[2:3], off", "v_add_f32_e32 v4, v1, v1"


def test_a_wait_before_a_use_is_needed() -> None:
    assert covered(kernel(LOAD, "s_waitcnt vmcnt(0)", USE), "k")
    assert not covered(kernel(LOAD, USE), "k")
    assert not covered(kernel(LOAD, "s_waitcnt lgkmcnt(0)", USE), "k")


def test_counters_are_queues() -> None:
    """vmcnt(1) leaves the youngest load under way: the older one may be used."""
    other = "global_load_dword v5, v[2:3], off"
    assert covered(kernel(LOAD, other, "s_waitcnt vmcnt(1)", USE), "k")
    assert not covered(kernel(other, LOAD, "s_waitcnt vmcnt(1)", USE), "k")
    assert covered(kernel(LOAD, other, "s_waitcnt vmcnt(1)", USE), "k")


def test_scalar_loads_end_in_any_order() -> None:
    """Only lgkmcnt(0) says which of two scalar loads has ended (CDNA3 ISA 4.4)."""
    loads = ("s_load_dword s4, s[0:1], 0x0", "s_load_dword s5, s[0:1], 0x4")
    assert not covered(kernel(*loads, "s_waitcnt lgkmcnt(1)", "s_mov_b32 s6, s4"), "k")
    assert covered(kernel(*loads, "s_waitcnt lgkmcnt(0)", "s_mov_b32 s6, s4"), "k")


def test_every_path_counts() -> None:
    """The wait is needed on the way around the loop only."""
    loop = (".LBB0_1:", LOAD, "s_cbranch_scc1 .LBB0_1", "s_waitcnt vmcnt(0)")
    assert not covered(kernel(*loop[:2], USE, *loop[2:]), "k")
    assert not covered(kernel(".LBB0_1:", USE, LOAD, "s_cbranch_scc1 .LBB0_1"), "k")
    assert covered(kernel(".LBB0_1:", "s_waitcnt vmcnt(0)", USE, LOAD, "s_cbranch_scc1 .LBB0_1"), "k")


def test_a_way_that_is_never_taken_does_not_count() -> None:
    """Around the branch the wait is missing; where nobody goes around it, nothing is."""
    text = kernel(LOAD, "s_cbranch_execz .LBB0_1", "s_waitcnt vmcnt(0)", ".LBB0_1:", USE)
    found = [edge for edge, _ in edges(text)]
    assert [taken for _, taken in found] == [True, False]
    assert not covered(text, "k")
    assert covered(text, "k", frozenset(found[:1]))


def test_a_barrier_publishes_what_was_written() -> None:
    assert not covered(kernel("ds_write_b32 v1, v2", "s_barrier"), "k")
    assert covered(kernel("ds_write_b32 v1, v2", "s_waitcnt lgkmcnt(0)", "s_barrier"), "k")


def test_what_is_mutated() -> None:
    text = kernel("s_waitcnt vmcnt(0) lgkmcnt(1)", "s_barrier", "s_and_saveexec_b64 s[2:3], vcc", "v_cmp_gt_u32_e32 vcc, 8, v1",
                  "v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf",
                  "v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, v[0:3]")  # fmt: skip
    found = list(mutants(text))
    assert [m.kind for m in found] == ["wait"] * 4 + ["barrier", "mask", "bound", "layout", "layout"]
    lines = [m.text.splitlines()[m.line - 1].strip() for m in found]
    assert lines == ["s_waitcnt lgkmcnt(1)", "s_waitcnt vmcnt(1) lgkmcnt(1)", "s_waitcnt vmcnt(0)",
                     "s_waitcnt vmcnt(0) lgkmcnt(2)", "s_nop 0", "s_mov_b64 s[2:3], exec", "v_cmp_gt_u32_e32 vcc, 9, v1",
                     "v_mov_b32_dpp v1, v2 row_shr:2 row_mask:0xf bank_mask:0xf",
                     "v_mfma_f32_16x16x4_f32 v[0:3], v5, v4, v[0:3]"]  # fmt: skip
    assert all(TRAP in m.witness for m in found if m.kind in ("mask", "bound"))


@pytest.mark.parametrize(("text", "waits"), [
    ("s_wait_loadcnt 0x2", {"vmcnt": 2}), ("s_wait_loadcnt_dscnt 0x103", {"vmcnt": 1, "lgkmcnt": 3}),
    ("s_wait_kmcnt 0x0", {"kmcnt": 0}), ("s_nop 0", {}),
])  # fmt: skip
def test_waits_of_gfx12(text: str, waits: dict[str, int]) -> None:
    from portakern.backends.rocm.machine.assembly import Instruction

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
