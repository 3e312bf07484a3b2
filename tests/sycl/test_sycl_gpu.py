"""SYCL for Intel GPUs: compiled for one, and its source run on the CPU device."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.errors import MissingRuleError
from portakern.spec.load import library, load_operator
from tests import samples
from tests.lowering import lowered_for
from tests.sycl.running import compiled, run_checked
from tests.sycl.targets import language, needs_ocloc, needs_sycl, target

SAMPLES = samples.all_samples()
SIZES = {"M": 13, "N": 2100}
QUICK = ("add_bias_open", "transpose", "softmax_row", "softmax_long_open", "matmul_tiny", "attention_f32", "column_sums")
SYCL, PVC = language("sycl"), target("sycl:pvc")


@pytest.mark.quick
@pytest.mark.parametrize("name", ["softmax_row", "matmul_bias", "attention"])
def test_emitted_text(name, golden) -> None:
    golden(f"{name}.sycl-pvc.cpp", SYCL.emitter.emit(SAMPLES[name], PVC).text)


@needs_sycl
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in SAMPLES])
def test_samples_run_on_the_cpu(name: str) -> None:
    program = SAMPLES[name]
    run_checked(SYCL, PVC, program, SIZES if program.sizes else {})


@needs_sycl
def test_columns_within_one_sub_group_are_summed() -> None:
    """The sum is exchanged before the branch of those who store it."""

    @pk.operator
    def column_sums(x: pk.Tensor["M", "N"]):
        return pk.sum(x, axis=0)

    run_checked(SYCL, PVC, lowered_for(PVC, column_sums.program({"M": 2, "N": 2}, {}, "f32")), {})


@needs_sycl
@needs_ocloc
def test_machine_code_uses_the_systolic_array() -> None:
    _, binary = compiled(SYCL, PVC, samples.matmul_bias(64, 64, 64, tile=(32, 32, 32)))
    (used,) = binary.resources
    assert binary.format == "zebin" and binary.machine_code
    assert dict(used.extra)["dpas"] and "dpas.8x8" in (binary.assembly or "")
    assert used.kernel == "matmul_bias" and used.registers == 128 and used.spills == 0
    assert used.shared_bytes and used.code_bytes
    assert "validated" in binary.log


@needs_sycl
def test_without_ocloc_there_is_no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portakern.backends.sycl.sycl.gpu_compiler.ocloc", lambda: None)
    _, binary = compiled(SYCL, PVC, SAMPLES["transpose"])
    assert binary.format == "spirv" and not binary.machine_code and "ocloc is not installed" in binary.log


@needs_sycl
@needs_ocloc
@pytest.mark.slow
@pytest.mark.parametrize("op", library(), ids=lambda o: o.name)
def test_library_compiles(op) -> None:
    program = lowered_for(PVC, op.program(op.typical.dims, params=op.typical.params, dtype="bf16"))
    _, binary = compiled(SYCL, PVC, program)
    assert binary.machine_code and all(r.spills == 0 for r in binary.resources)


def test_a_tile_the_fragments_do_not_fill_is_refused() -> None:
    op = load_operator("matmul")
    program = lowered_for(PVC, op.program({"M": 64, "N": 64, "K": 64}, params={}, dtype="bf16"), {"m": 4})
    with pytest.raises(MissingRuleError, match="multiples of 8"):
        SYCL.emitter.emit(program, PVC)


def test_every_default_schedule_emits() -> None:
    for op in library():
        for case in op.cases:
            program = lowered_for(PVC, op.program(case.dims, params=case.params, dtype="bf16"))
            assert len(SYCL.emitter.emit(program, PVC).launches) == len(program.kernels), f"{op.name}, {case.name}"
