"""Reading assembly text: instructions, modifiers, registers, kernels with their arguments, data, several modules in a text."""

from __future__ import annotations

import pytest
from portakern.backends.rocm.machine.assembly import AssemblyError, Register, instruction, modules, number, parse, register

TEXT = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
	.globl	twice
	.type	twice,@function
twice:                                  ; @twice
; %bb.0:
	s_load_dwordx2 s[4:5], s[0:1], 0x10
	v_lshlrev_b32_e32 v0, 2, v0             ; a comment, with commas
.LBB0_1:
	s_cbranch_scc1 .LBB0_1
	s_endpgm
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel twice
		.amdhsa_group_segment_fixed_size 512
		.amdhsa_next_free_vgpr .amdgcn.next_free_vgpr
	.end_amdhsa_kernel
table:
	.long	7, 0x10
	.zero	2
	.size	table, 10
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .offset:         8
        .size:           4
        .value_kind:     by_value
    .kernarg_segment_size: 12
    .max_flat_workgroup_size: 256
    .name:           twice
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
...
	.end_amdgpu_metadata
"""
GOOD = TEXT.replace(".amdgcn.next_free_vgpr", "12")


def test_a_module_has_kernels_labels_and_data():
    m = parse(GOOD)
    assert m.isa == "gfx942" and [i.mnemonic for i in m.instructions][-1] == "s_endpgm"
    assert m.target_of(".LBB0_1") == 2
    (kernel,) = m.kernels.values()
    assert (kernel.name, kernel.first, kernel.threads, kernel.wave, kernel.argument_bytes) == ("twice", 0, 256, 64, 12)
    assert kernel.descriptor == {"group_segment_fixed_size": 512, "next_free_vgpr": 12}
    assert [(a.offset, a.size, a.kind) for a in kernel.arguments] == [(0, 8, "global_buffer"), (8, 4, "by_value")]
    place = m.symbols["table"]
    assert (place.section, place.size) == (".rodata", 10)
    assert bytes(m.data[".rodata"][place.offset :][:10]) == bytes([7, 0, 0, 0, 16, 0, 0, 0, 0, 0])


def test_what_cannot_be_read_is_named():
    with pytest.raises(AssemblyError, match=r"next_free_vgpr \.amdgcn\.next_free_vgpr: the value is no number"):
        parse(TEXT)
    with pytest.raises(AssemblyError, match=r"names no \.amdgcn_target"):
        parse("\tv_add_f32 v0, v1, v2\n")
    with pytest.raises(AssemblyError, match="is no instruction"):
        instruction("%%% v0")
    with pytest.raises(AssemblyError, match=r"the label \.LBB9 is nowhere"):
        parse(GOOD).target_of(".LBB9")


@pytest.mark.parametrize(("line", "operands", "modifiers"), [
    ("global_load_dwordx4 v[0:3], v[4:5], off offset:-16 nt", ("v[0:3]", "v[4:5]", "off"), {"offset": "-16", "nt": ""}),
    ("buffer_load_dwordx4 v1, s[4:7], 0 offen lds", ("v1", "s[4:7]", "0"), {"offen": "", "lds": ""}),
    ("v_pk_mul_f32 v[0:1], v[2:3], s[4:5] op_sel_hi:[1,0]", ("v[0:1]", "v[2:3]", "s[4:5]"), {"op_sel_hi": "[1,0]"}),
    ("v_add_f32_dpp v0, v1, v1 quad_perm:[1,0,3,2] row_mask:0xf", ("v0", "v1", "v1"),
     {"quad_perm": "[1,0,3,2]", "row_mask": "0xf"}),
    ("v_mov_b32_dpp v0, v1 row_mirror row_mask:0xf", ("v0", "v1"), {"row_mirror": "", "row_mask": "0xf"}),
    ("ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,16)", ("v0", "v1"), {"offset": "swizzle(SWAP,16)"}),
    ("s_waitcnt vmcnt(0) lgkmcnt(1)", ("vmcnt(0) lgkmcnt(1)",), {}),
    ("v_fma_f32 v0, -v1, |v2|, 0x3e800000", ("v0", "-v1", "|v2|", "0x3e800000"), {}),
])  # fmt: skip
def test_operands_and_modifiers(line: str, operands: tuple[str, ...], modifiers: dict[str, str]):
    read = instruction(line)
    assert (read.operands, dict(read.modifiers)) == (operands, modifiers)


def test_two_instructions_on_a_line():
    read = instruction("v_dual_mul_f32 v0, v1, v2 :: v_dual_mov_b32 v3, 0", 9)
    assert read.mnemonic == "v_dual_mul_f32" and read.also is not None
    assert (read.also.mnemonic, read.also.operands, read.also.line) == ("v_dual_mov_b32", ("v3", "0"), 9)


def test_registers_and_numbers():
    assert register("-|v[2:3]|") == Register("v", 2, 2) and register("a[7]") == Register("a", 7, 1)
    assert register("vcc") == Register("s", 106, 2) and register("exec_lo") == Register("s", 126, 1)
    assert register("v5.h") == Register("v", 5, 1) and register("neg(s4)") == Register("s", 4, 1)
    assert [register(x) for x in ("off", "null", "0x10", "-1.0", ".LBB0_1")] == [None] * 5
    assert (number("0x10"), number("-1.0"), number("off")) == (16, -1.0, None)


def test_several_modules_in_one_text():
    first, second = modules(GOOD + GOOD.replace("twice", "thrice"))
    assert set(first.kernels) == {"twice"} and set(second.kernels) == {"thrice"}
