"""Planted faults: found where they can be, valid, and caught."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.check import check_executable
from portakern.check.mutants import KINDS, inject
from portakern.ir.program import verify_program
from portakern.registry import registry
from tests import samples
from tests.check.running import InterpretedExecutable
from tests.lowering import lowered_for

pytestmark = pytest.mark.quick

EXPECTED_KINDS = {
    "softmax_long": {"wrong pad", "wrong reduction", "dropped rescaling", "stale initial value", "missing last tile"},
    "matmul_bias": {"wrong pad", "half-precision accumulator", "dropped epilogue", "missing last tile", "wrong constant"},
}


@pytest.mark.parametrize("name", EXPECTED_KINDS)
def test_kinds_are_found_in_samples(name: str) -> None:
    found = {m.kind for m in inject(samples.all_samples()[name])}
    assert found >= EXPECTED_KINDS[name]
    assert found <= set(KINDS)


def test_there_are_many_kinds() -> None:
    assert len(KINDS) >= 12


@pytest.mark.parametrize("name", samples.all_samples())
def test_mutants_are_valid_and_differ(name: str) -> None:
    program = samples.all_samples()[name]
    for mutant in inject(program):
        verify_program(mutant.program)
        assert mutant.program.digest != program.digest, mutant


@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("softmax", {"M": 3, "N": 37}),
        ("rms_norm", {"M": 3, "N": 37}),
        ("matmul_bias_gelu", {"M": 5, "N": 7, "K": 40}),
    ],
)
def test_the_interpreter_s_kernels_pass_and_their_mutants_are_caught(name: str, dims: dict[str, int]) -> None:
    operator = pk.load_operator(name)
    program = operator.program(dims)
    kernels = lowered_for(registry().target("cpp:cpu"), program)
    right = check_executable(InterpretedExecutable(kernels), program, families=operator.families)
    assert right.correct, right.message
    effective = caught = 0
    for mutant in inject(kernels):
        try:
            verdict = check_executable(InterpretedExecutable(mutant.program), program, families=operator.families)
        except (AssertionError, IndexError):  # the interpreter itself refuses what breaks a rule of the IR
            caught, effective = caught + 1, effective + 1
            continue
        if verdict.fingerprint != right.fingerprint:
            effective += 1
            caught += not verdict.correct
    assert effective >= 5
    assert caught >= 0.9 * effective
