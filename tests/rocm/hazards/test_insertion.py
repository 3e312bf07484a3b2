"""Wait states that clang leaves out on the shorter of two ways to an instruction are put in before the text is assembled."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import portakern as pk
from portakern.backends.rocm.amdgcn import hazards
from portakern.backends.rocm.amdgcn.assembly.parser import parse
from portakern.backends.rocm.amdgcn.execution.program import native
from portakern.backends.rocm.amdgcn.hazards.insertion import with_wait_states
from portakern.backends.rocm.amdgcn.isa import GENERATIONS
from portakern.spec.operator import Operator
from tests.rocm.execution.machine_code import assembles, text
from tests.rocm.helpers import needs_clang

TWO_WAYS = "\n".join([
    "v_mfma_f32_16x16x4_f32 v[6:9], v2, v3, v[6:9]", "s_cbranch_vccnz out", *["s_mov_b32 s8, 0"] * 20, "out:",
    "v_and_b32_e32 v7, 15, v0", "v_mul_u32_u24_e32 v1, 33, v7",
    "v_mfma_f32_16x16x4_f32 v[10:13], v2, v3, v[10:13]", "v_mov_b32_e32 v12, 0",
])  # fmt: skip


@pytest.fixture(autouse=True)
def _tools() -> None:
    needs_clang()
    native()


@pytest.mark.parametrize("isa", ["gfx90a", "gfx942", "gfx950"])
def test_what_is_missing_is_put_in_and_no_more(isa: str) -> None:
    before = text(isa, TWO_WAYS.replace("4_f32", "4f32") if isa == "gfx90a" else TWO_WAYS)
    assert hazards.find(parse(before), "kernel", GENERATIONS[isa])
    after = with_wait_states(before, isa)
    assembles(isa, after)
    assembly = parse(after)
    assert hazards.find(assembly, "kernel", GENERATIONS[isa]) == []
    for n, i in enumerate(assembly.instructions):
        if i.mnemonic == "s_nop":
            assembly.instructions[n] = replace(i, operands=(str(int(i.operands[0]) - 1),))
            assert hazards.find(assembly, "kernel", GENERATIONS[isa])
            assembly.instructions[n] = i
    assert with_wait_states(after, isa) == after


def test_other_generations_and_unknown_texts_are_left_alone() -> None:
    assert with_wait_states("what is this?", "gfx942") == "what is this?"
    assert with_wait_states("what is this?", "gfx1201") == "what is this?"


@pk.operator
def gram(x: pk.Tensor["M", "K"]):
    return pk.matmul(x, pk.transpose(x))


def test_a_product_whose_registers_are_used_anew_behind_its_loop() -> None:
    """Clang 22 leaves 2 of 10 wait states between the last product and what overwrites its result."""
    (row,) = pk.compare(gram, targets=["hip:gfx942"], dtype="f32", M=33, K=70).rows
    assert row.error is None and row.correct and row.evidence == "simulated"


@pk.operator
def gram_of_a_product(x: pk.Tensor["M", "N"], w: pk.Tensor["N", "N"]):
    return pk.matmul((x @ w) * 0.1, x.T)


@pk.operator
def row_sums(x: pk.Tensor["M", "N"]):
    return pk.sum(pk.exp(x - pk.max(x, axis=-1, keepdims=True)), axis=-1)


@pytest.mark.parametrize("isa", ["gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("operator", [gram_of_a_product, row_sums], ids=lambda op: op.name)
def test_before_every_barrier_what_was_written_to_lds_is_waited_for(operator: Operator, isa: str) -> None:
    """Clang 22 drops a fence's wait at the head of a loop that begins with nothing under way."""
    built = pk.build(operator, f"hip:{isa}", dtype="bf16", M=128, N=pk.dynamic)
    before = [straight.split("\n") for straight in _before_barriers(built.binary.assembly or "")]
    assert before
    assert all(any(re.match(r"\s*s_wait(cnt .*lgkmcnt\(0\)|_dscnt 0x0)", line) for line in lines) for lines in before)


def _before_barriers(assembly: str) -> list[str]:
    """What leads straight to each barrier."""
    straight = re.split(r"^(?:\.L\w+:|; %bb).*$", assembly, flags=re.MULTILINE)
    return [part for block in straight for part in re.split(r"^\s*s_barrier(?:_signal\b.*)?$", block, flags=re.MULTILINE)[:-1]]
