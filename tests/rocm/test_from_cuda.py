"""CUDA files on AMD: the same text, compiled and executed; results do not hang on the wave, and what is not there is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portakern.backend import InspectedKernel
from portakern.backends.rocm.amdgcn.execution.simulator import AmdMachine
from portakern.cli import main
from portakern.registry import registry
from portakern.study.inspecting import Inspection, _buffers, _compiled, arguments_of, examine
from tests.rocm.helpers import needs_clang

FOLDER = Path(__file__).parents[1] / "cuda" / "strangers"
SOFTMAX = Path(__file__).parents[2] / "examples" / "cuda" / "row_softmax.cu"
ISAS = ("gfx942", "gfx1201")


def kernel(file: Path, entry: str = "", args: str = "", grid: int = 1, block: int = 256, shared: int = 0) -> InspectedKernel:
    asked = arguments_of(args), (grid, 1, 1), (block, 1, 1), shared
    return InspectedKernel(file.read_text() if file.exists() else "", entry, *asked, str(file), "cuda")


def found(k: InspectedKernel, isa: str = "gfx942") -> Inspection:
    needs_clang(isa)
    return examine(k, f"hip:{isa}")


def results(k: InspectedKernel, isa: str) -> dict[str, tuple[Any, Any]]:
    """Arrays before and after."""
    needs_clang(isa)
    source, binary = _compiled(k, registry().target(f"hip:{isa}"))
    before, after = _buffers(k, source, 0), _buffers(k, source, 0)
    AmdMachine().load(source, binary).run(after, {})
    return {name: (before[name].array, after[name].array) for name in before}


@pytest.mark.parametrize("isa", ISAS)
def test_a_softmax_is_one(isa: str) -> None:
    arrays = results(kernel(SOFTMAX, args="x=bf16[3,300],out=bf16[3,300],n=300", grid=3), isa)
    x = arrays["x"][0].astype(np.float64)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(arrays["out"][1].astype(np.float64), e / e.sum(1, keepdims=True), rtol=1e-2)


@pytest.mark.parametrize("isa", ISAS)
def test_template_dynamic_memory_and_namespaces(isa: str) -> None:
    sums = results(kernel(FOLDER / "reduce.cu", "row_sum<float, 256>", "x=f32[2,600],out=f32[2],cols=600", 2), isa)
    np.testing.assert_allclose(sums["out"][1], sums["x"][0].sum(1), rtol=1e-4, atol=1e-4)
    scaled = results(kernel(FOLDER / "reduce.cu", "scaled", "x=f32[100,4],y=f32[100,4],a=2.0,n=100", shared=4096), isa)
    np.testing.assert_allclose(scaled["y"][1], scaled["x"][0] * np.array([2, 2, 1, 1], np.float32))


@pytest.mark.parametrize("isa", ISAS)
def test_a_warp_is_32_threads_whatever_the_wave(isa: str) -> None:
    args = "h=f16[128,2],b=bf16[128,2],f=f32[128,4],u=u32[300],d=f64[1],n=300"
    arrays = results(kernel(FOLDER / "warps.cu", args=args, block=128, shared=512), isa)
    i = np.arange(128)
    thirds = np.array([sum((32 * w + lane) % 3 == 0 for lane in range(32)) for w in range(4)])[i // 32]
    u = arrays["u"]
    np.testing.assert_array_equal(u[1][:128], thirds + 32 * 1000 + 4 * 100000 + 1000000)
    np.testing.assert_array_equal(u[1][128:256], u[1][:128] + 2 + 5)
    assert u[1][299] == 0x07050301 and arrays["d"][1][0] == arrays["d"][0][0] + 128
    h, b = arrays["h"][0].astype(np.float32), arrays["b"][0].astype(np.float32)
    each = 4 * (h[:, 0] ** 2 + 1) + 2 * b[:, 0] + np.array([1, 2, 3, 4], np.float32)[i & 3] + (i ^ 1)
    sums = each.reshape(4, 32).sum(1)[i // 32]
    np.testing.assert_allclose(arrays["f"][1][:, 0], arrays["f"][0][:, 0] + sums, rtol=2e-2)
    np.testing.assert_allclose(arrays["f"][1][:, 2:], arrays["f"][0][:, 2:] + np.array([0.5, 1.0], np.float32), rtol=1e-5)


def test_a_warp_of_32_is_warned_about_where_waves_are_wider() -> None:
    wide, narrow = (found(kernel(SOFTMAX), isa) for isa in ISAS)
    assert [(r["line"], r["kind"]) for r in wide.remarks] == [(9, "assumes"), (9 + 3, "assumes")] and not narrow.remarks
    assert "__shfl_xor_sync(0xffffffff" in wide.remarks[0]["source"] and "64 lanes" in wide.remarks[0]["text"]


@pytest.mark.parametrize(
    ("line", "what", "instead"),
    [
        ('asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(0), "l"(x));', "cp.async", "straight into LDS"),
        ('asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global [%0];" ::"r"(0));', "TMA", "no copy engine"),
        ('asm volatile("wgmma.mma_async.sync.aligned.m64n8k16 {%0};" ::"r"(0));', "wgmma", "v_mfma"),
        ('asm volatile("mma.sync.aligned.m16n8k16.row.col {%0};" ::"r"(0));', "mma.sync", "v_mfma"),
        ('asm volatile("tcgen05.alloc.cta_group::1 [%0];" ::"r"(0));', "tcgen05", "v_mfma"),
        ('asm volatile("ldmatrix.sync.aligned.m8n8.x4 {%0};" ::"r"(0));', "ldmatrix", "reads of LDS"),
        ('asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(0));', "mbarrier", "__syncthreads"),
        ('asm volatile("barrier.cluster.arrive;");', "clusters", "one workgroup"),
        ("cudaTextureObject_t tex = 0; x[0] = tex2D<float>(tex, 0.f, 0.f);", "textures", "plain loads"),
        ("nvcuda::wmma::fragment<int> f;", "wmma", "v_mfma"),
        ("cooperative_groups::this_grid().sync();", "whole grid", "second kernel"),
        ('unsigned lane; asm("mov.u32 %0, %%laneid;" : "=r"(lane));', "inline PTX (mov.u32)", "__lane_id()"),
    ],
)
def test_what_has_no_counterpart_is_named_with_its_line(line: str, what: str, instead: str) -> None:
    text = f"// mma.sync and wgmma. in a comment\n__global__ void k(float* x) {{\n  {line}\n}}\n"
    remarks = found(replace(kernel(Path("k.cu")), text=text)).remarks
    assert {r["line"] for r in remarks} == {3} and remarks[0]["kind"] == "missing" and remarks[0]["source"] == line
    assert what in remarks[0]["text"] and instead in remarks[0]["instead"], remarks[0]


def test_a_mistake_is_the_compilers_message_at_the_files_line() -> None:
    text = SOFTMAX.read_text().replace("top = block_reduce(top, true)", "top = block_reduce(tip, true)")
    error = found(replace(kernel(SOFTMAX), text=text)).error
    assert error is not None and error["kind"] == "compile"
    assert "row_softmax.cu:24:" in error["message"] and "undeclared identifier 'tip'" in error["message"]


def test_headers_beside_it_are_read_without_their_host_side(tmp_path: Path) -> None:
    (tmp_path / "launch.cuh").write_text(
        "#include <torch/extension.h>\n__device__ float twice(float x) { return 2 * x; }\n"
        "inline torch::Tensor run(torch::Tensor x) { return torch::empty_like(x); }\n"
    )
    text = '#include "launch.cuh"\n__global__ void k(float* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }\n'
    file = tmp_path / "k.cu"
    file.write_text(text)
    arrays = results(kernel(file, args="x=f32[256]"), "gfx942")
    np.testing.assert_allclose(arrays["x"][1], 2 * arrays["x"][0])


@pytest.mark.quick
def test_who_reads_cuda_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for language, target, says in (
        ("cuda", "triton:gfx942", "these do: cuda, hip"),
        ("cudo", "hip:gfx942", "no language reads 'cudo'"),
    ):
        assert main(["inspect", str(SOFTMAX), "--from", language, "--targets", target]) == 2
        assert says in capsys.readouterr().err
