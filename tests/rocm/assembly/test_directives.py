"""What is in the machine code and not among the instructions of the text, or the other way round, is refused."""

from __future__ import annotations

import pytest

from portakern.backends.rocm.amdgcn.assembly.parser import AssemblyError, parse

pytestmark = pytest.mark.quick

TEXT = """
        .text
        .globl  kernel
        .p2align        8
        .type   kernel,@function
kernel:
        s_nop 0
        {line}
        s_endpgm
        .size   kernel, 8
        .p2alignl 6, 3212836864
        .fill 48, 4, 3214868480
        .section        .rodata,"a",@progbits
table:
        .long   3
        .zero   4
"""


def test_what_compilers_write_around_instructions_is_read():
    found = parse(TEXT.format(line=".p2align 4"))
    assert [i.mnemonic for i in found.instructions] == ["s_nop", "s_endpgm"] and found.data.symbols["table"].size == 8


@pytest.mark.parametrize("line", [
    ".long 0xbf810000", ".byte 0", ".quad 0", ".ascii \"a\"", ".zero 4", ".incbin \"x\"", ".fill 1, 4, 0xbf810000", ".fill 1",
    ".p2alignl 6, 0xbf810000", ".balign 8, 1", ".if 0", ".ifdef x", ".else", ".rept 3", ".macro x", ".include \"x\"",
    ".pushsection .text", ".popsection", ".previous"])  # fmt: skip
def test_what_hides_or_shows_instructions_is_refused(line: str):
    with pytest.raises(AssemblyError, match="not known here"):
        parse(TEXT.replace("{line}", line))
