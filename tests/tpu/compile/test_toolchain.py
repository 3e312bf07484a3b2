"""libtpu as a compiler: machine code for five generations, resources, errors in words, crashes survived."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from portakern.backends.tpu.compile.diagnose import explain
from portakern.backends.tpu.compile.toolchain import LibtpuToolchain
from portakern.errors import CompileError, ScheduleError
from tests.tpu.helpers import language, programs, samples, target
from tests.tpu.programs import all_programs

if not LibtpuToolchain().available(target()):
    pytest.skip("libtpu is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def toolchain() -> Iterator[LibtpuToolchain]:
    tool = LibtpuToolchain()
    yield tool
    tool.close()


@pytest.mark.parametrize("name", [*programs(), *all_programs()])
def test_v5e(name: str, toolchain: LibtpuToolchain) -> None:
    program = programs().get(name) or all_programs()[name][0]
    binary = toolchain.compile(language().emitter.emit(program, target()))
    assert binary.format == "tpu-executable" and len(binary.data) > 10_000 and binary.machine_code
    assert [r.kernel for r in binary.resources] == sorted(k.name for k in program.kernels)
    assert all(r.shared_bytes and r.code_bytes and "libtpu" in r.source for r in binary.resources)
    assert binary.assembly and "vst" in binary.assembly
    said = [line for line in binary.log.splitlines() if not line.startswith("traced ")]
    assert bool(said) == bool(program.sizes)  # states the sizes that open dims were compiled for


@pytest.mark.parametrize("device", ["v4", "v5p", "v6e", "tpu7x"])
def test_generations(device: str, toolchain: LibtpuToolchain) -> None:
    for name in ("add_bias_open", "softmax_long_open", "matmul_bias", "attention_blocks", "column_sums_blocks"):
        binary = toolchain.compile(language().emitter.emit(programs()[name], target(device)))
        assert binary.resources[0].shared_bytes, name


def test_vmem_overflow_is_explained(toolchain: LibtpuToolchain) -> None:
    source = language().emitter.emit(samples.add_bias(8192, 8192, "f32", (4096, 8192)), target())
    with pytest.raises(ScheduleError, match="VMEM") as caught:
        toolchain.compile(source)
    assert "m=4096" in caught.value.schedule and "smaller blocks" in caught.value.hint
    assert "need at least" in caught.value.message  # known before the compiler tries
    origins = set(dict(dict(source.options)["origins"]).values())
    assert caught.value.where in origins if origins else caught.value.where


def test_a_foreign_kernel_with_a_bad_block_is_explained(toolchain: LibtpuToolchain) -> None:
    source = language().emitter.emit(programs()["softmax_f32"], target())
    text = source.text.replace("pl.BlockSpec((BM, 1000)", "pl.BlockSpec((BM, 100)")
    assert text != source.text
    with pytest.raises(CompileError) as caught:
        toolchain.compile(replace(source, text=text))
    assert caught.value.kind == "compile-block-shape" and caught.value.log


def test_a_dying_compiler_is_a_result_the_second_time(toolchain: LibtpuToolchain, tmp_path: Path) -> None:
    source = language().emitter.emit(programs()["softmax"], target())
    deadly = replace(source, text=source.text + "\nimport os\nos.abort()\n")
    with pytest.raises(CompileError, match=r"the compiler died .*SIGABRT") as caught:
        toolchain.compile(deadly)
    assert caught.value.kind == "compile-crash"
    dies_once = f"\nimport os, pathlib\nif not os.path.exists({str(tmp_path / 'died')!r}):\n"
    dies_once += f"    pathlib.Path({str(tmp_path / 'died')!r}).touch()\n    os.abort()\n"
    assert toolchain.compile(replace(source, text=source.text + dies_once)).data


@pytest.mark.parametrize(("text", "kind"), [
    ("... block shape are divisible by 8 and 128 respectively, Block spec for args[0] in x has block shape (3, 5), "
     "array shape (9, 10)", "compile-block-shape"),
    ("Unimplemented primitive in Pallas TPU lowering for tc: cumsum", "compile-missing-op"),
    ("E2001: CompileTimeMosaicUnsupportedRhsType: Unsupported matmul RHS type on target: vector<128x128xi8>",
     "compile-matrix-dtype"),
    ("Ran out of memory in memory space vmem. Used 24.00M of 16.00M vmem. Exceeded", "compile-vmem"),
    ("something nobody has seen", "compile"),
])  # fmt: skip
def test_error_table(text: str, kind: str) -> None:
    error = explain(text, "softmax for v5e", {}, "<x>.py")
    assert error.kind == kind and "softmax for v5e" in error.message


def test_errors_point_at_the_operator() -> None:
    text = 'loc("<softmax abc>.py":17:4) Unimplemented primitive in Pallas TPU lowering for tc: cumsum'
    assert explain(text, "softmax", {17: "softmax.py:9"}, "<softmax abc>.py").where == "softmax.py:9"
    assert explain(text, "softmax", {}, "<softmax abc>.py").where == "<softmax abc>.py:17"
