"""Compiling without a GPU, and what is read from the cubins."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from elftools.elf.elffile import ELFFile

from portakern.backend import Source
from portakern.backends.cuda import toolchain as tools
from portakern.backends.cuda.cubin import kernels_of, occupancy, spills_of
from portakern.errors import BackendError, CompileError, ScheduleError
from portakern.registry import registry
from tests.cuda.variants import all_variants

CUDA = registry().language("cuda")
ISAS = ("sm_80", "sm_90a", "sm_100a", "sm_120")
TOOLCHAIN = tools.CudaToolchain()
needs_compiler = pytest.mark.skipif(not TOOLCHAIN.available(registry().target("cuda:sm_90a")), reason="neither NVRTC nor nvcc")
FEW = ("softmax_long_open", "matmul_deep", "attention_registers")
WIDE = ("wgmma_wide", "wgmma_high", "pipeline", "pipeline_quad")
"""Whose tanh of every element needs a few registers more than there are."""


def emitted(name: str, isa: str) -> Source:
    return CUDA.emitter.emit(all_variants()[name], registry().target(f"cuda:{isa}"))


@needs_compiler
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", FEW)
def test_compiles_without_spills(name: str, isa: str) -> None:
    binary = TOOLCHAIN.compile(emitted(name, isa))
    (used,) = binary.resources
    assert binary.format == "cubin" and binary.data[:4] == b"\x7fELF" and binary.log == ""
    assert used.spills == 0 and used.scratch_bytes == 0 and 0 < (used.registers or 0) <= 255
    assert used.code_bytes and used.occupancy and used.limiter
    assert binary.assembly and f".target {isa}" in binary.assembly


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", [n for n in all_variants() if n not in (*FEW, *WIDE)])
def test_every_sample_compiles_without_spills(name: str, isa: str) -> None:
    if name.startswith(("wgmma", "pipeline")) and isa != "sm_90a":
        with pytest.raises(ScheduleError, match="does not have it"):
            emitted(name, isa)
        return
    assert [r.spills for r in TOOLCHAIN.compile(emitted(name, isa)).resources] == [0]


@needs_compiler
@pytest.mark.parametrize("isa", ISAS)
def test_resources_are_those_that_ptxas_reports(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    logs: list[str] = []
    monkeypatch.setattr(tools, "_kept", lambda log: logs.append(log) or "")
    binary = TOOLCHAIN.compile(emitted("softmax_long", isa))
    (facts,) = kernels_of(binary.data).values()
    reported = re.search(r"Used (\d+) registers.*?(\d+) bytes smem", logs[0])
    assert reported is not None
    assert (facts.registers, facts.shared) == (int(reported[1]), int(reported[2]))
    assert spills_of(logs[0]) == {"softmax_long": 0}


@needs_compiler
def test_a_broken_source_gives_the_compilers_words() -> None:
    source = emitted("softmax", "sm_90a")
    with pytest.raises(CompileError) as caught:
        TOOLCHAIN.compile(replace(source, text=source.text.replace("pk::exp(", "pk::expp(")))
    assert "expp" in caught.value.hint and "softmax.cu" in caught.value.log


@needs_compiler
def test_foreign_kernels_may_use_the_toolkits_headers() -> None:
    source = emitted("add_bias", "sm_90a")
    text = ('#include <cuda_bf16.h>\n// portakern launch: kernel=k grid=(37, 1, 1) block=(128, 1, 1) shared=0 args=(x, b, y)\n'
            'extern "C" __global__ void k(const __nv_bfloat16* x, const __nv_bfloat16* b, __nv_bfloat16* y) {\n'
            "  for (int i = threadIdx.x; i < 1000; i += 128)\n"
            "    y[blockIdx.x * 1000 + i] = __hmax(__hadd(x[blockIdx.x * 1000 + i], b[i]), __float2bfloat16(0.0f));\n}\n")
    assert CUDA.adopt is not None
    foreign = CUDA.adopt(text, "k", all_variants()["add_bias"], source.target)
    assert TOOLCHAIN.compile(foreign).resources[0].kernel == "k"


@pytest.mark.skipif(tools.shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_stands_in_for_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_nvrtc", lambda: "")
    binary = TOOLCHAIN.compile(emitted("softmax_row", "sm_80"))
    assert binary.tool.startswith("nvcc") and binary.resources[0].spills == 0 and ".target sm_80" in (binary.assembly or "")


def test_something_else_is_no_cubin() -> None:
    with pytest.raises(BackendError, match="no cubin"):
        kernels_of(b"#!/bin/sh\n" * 20)


@pytest.mark.parametrize(
    ("isa", "threads", "registers", "shared", "expected"),
    [
        # Worked by hand after cuda_occupancy.h: warps per SM partition by registers, blocks by shared memory.
        ("sm_90a", 128, 72, 18432, (28 / 64, "registers")),
        ("sm_90a", 256, 32, 0, (1.0, "threads")),
        ("sm_80", 256, 64, 98304, (8 / 64, "shared memory")),
        ("sm_120", 32, 24, 0, (24 / 48, "blocks")),
        ("sm_90a", 1024, 65, 0, (0.0, "registers")),
    ],
)
def test_occupancy(isa: str, threads: int, registers: int, shared: int, expected: tuple[float, str]) -> None:
    device = registry().target(f"cuda:{isa}").device
    assert occupancy(device, threads, registers, shared) == expected


@needs_compiler
def test_line_information_changes_no_machine_code_and_names_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report puts instructions under the lines that they come from; a binary must not hang on where it was made."""
    source = emitted("softmax_long", "sm_90a")
    with_lines = TOOLCHAIN.compile(source)
    told = with_lines.assembly or ""
    files = re.findall(r'\.file\s+\d+ "([^"]+)"', told)
    assert f"/{source.operator}.cu" in files and all(f.startswith(("/pk/", f"/{source.operator}.")) for f in files)
    monkeypatch.setattr(tools, "_OPTIONS", tuple(o for o in tools._OPTIONS if o != "--generate-line-info"))
    without = TOOLCHAIN.compile(source)
    assert ".loc" in told and ".loc" not in (without.assembly or "")

    def code(cubin: bytes) -> dict[str, bytes]:
        return {s.name: s.data() for s in ELFFile(io.BytesIO(cubin)).iter_sections() if s.name.startswith(".text")}

    assert code(with_lines.data) == code(without.data) != {}
