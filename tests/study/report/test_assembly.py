"""Instructions are put under the source line that debug information names."""

from __future__ import annotations

import base64
import gzip

import pytest

from portakern.study.report.assembly import by_line, packed
from tests.study.report.studies import PTX

pytestmark = pytest.mark.quick

SASS = '''
	//## File "/softmax.cu", line 8
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
	//## File "/pk/base.cuh", line 45 inlined at "/pk/memory.cuh", line 72
	//## File "/pk/memory.cuh", line 72 inlined at "/softmax.cu", line 13
	//## File "/softmax.cu", line 13
        /*0010*/                   S2R R3, SR_TID.X ;
	//## File "/elsewhere.h", line 9
        /*0020*/                   EXIT ;
'''


def test_what_was_inlined_belongs_to_the_line_of_the_call():
    assert by_line(PTX, ".cu", 30) == {8: ["ld.param.u64 %rd1, [softmax_param_0];"], 14: ["cvt.f32.bf16 %f1, %rs1;"]}


def test_machine_code_goes_before_ptx():
    found = by_line(PTX + SASS, ".cu", 30)
    assert found == {8: ["/*0000*/ LDC R1, c[0x0][0x28] ;"], 13: ["/*0010*/ S2R R3, SR_TID.X ;"]}


GCN = '''
	.file	0 "." "kernel.hip" md5 0x00
	.loc	0 9 32 prologue_end             ; kernel.hip:9:32
	s_load_dwordx2 s[0:1], s[4:5], 0x0
	.file	1 "./pk" "tile.h" md5 0x01
	.loc	1 81 26                         ; ./pk/tile.h:81:26 @[ ./pk/tile.h:179:12 @[ kernel.hip:10:19 ] ]
	v_lshlrev_b32_e32 v1, 3, v0
	; kill: def $vgpr1
	.loc	1 5 1                           ; ./pk/tile.h:5:1
	s_endpgm
'''


def test_llvm_says_in_comments_where_calls_stand():
    assert by_line(GCN, ".hip", 30) == {9: ["s_load_dwordx2 s[0:1], s[4:5], 0x0"], 10: ["v_lshlrev_b32_e32 v1, 3, v0"]}


def test_other_files_and_lines_beyond_the_text_are_left_out():
    assert by_line(PTX, ".hip", 30) == {} and by_line(PTX, ".cu", 9).keys() == {8}
    assert by_line("\tadd.s32 %r1, %r2, %r3;\n", ".cu", 9) == {}


def test_packed_assembly_is_the_same_each_time_and_comes_back():
    assert packed(SASS) == packed(SASS) and gzip.decompress(base64.b64decode(packed(SASS))).decode() == SASS
