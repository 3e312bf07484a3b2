"""Kernels that belong to no operator: how they are called, what is found, and what is said of bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from portakern.backend import KernelArgument
from portakern.cli import main
from portakern.errors import UsageError
from portakern.study.inspecting import arguments_of

HIP = """
#include <hip/hip_runtime.h>
#include <hip/hip_bf16.h>

template <typename T> __device__ T wave_sum(T v) {
  for (int d = warpSize / 2; d > 0; d /= 2) v += __shfl_down(v, d);
  return v;
}

__global__ __launch_bounds__(256) void row_norm(const __hip_bfloat16* x, float* out, int n) {
  __shared__ float part[8];
  float s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float v = __bfloat162float(x[blockIdx.x * n + i]);
    s = fmaf(v, v, s);
  }
  s = wave_sum(s);
  if (threadIdx.x % warpSize == 0) part[threadIdx.x / warpSize] = s;
  __syncthreads();
  if (threadIdx.x == 0) {
    s = 0;
    for (int w = 0; w < blockDim.x / warpSize; ++w) s += part[w];
    out[blockIdx.x] = sqrtf(s);
  }
}

extern "C" __global__ void scale(float4* y, float f, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = make_float4(y[i].x * f, y[i].y * f, expf(y[i].z), tanhf(y[i].w));
}
"""

TRITON = """
import triton
import triton.language as tl

@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)

def add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
"""


@pytest.fixture
def hip(tmp_path: Path) -> Path:
    pytest.importorskip("ziglang")
    (tmp_path / "my.hip").write_text(HIP)
    return tmp_path / "my.hip"


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    status = main(["inspect", *arguments, "--json"])
    found = json.loads(capsys.readouterr().out)
    found["status"] = status
    return found


def test_arguments_are_arrays_and_numbers():
    assert arguments_of("x=bf16[4, 8], y:f32[3x5],n=7, s:f32=0.5, z=f16[2]") == (
        KernelArgument("x", "bf16", (4, 8)), KernelArgument("y", "f32", (3, 5)), KernelArgument("n", "i32", None, 7),
        KernelArgument("s", "f32", None, 0.5), KernelArgument("z", "f16", (2,)))  # fmt: skip
    for bad, what in (("x", "neither an array"), ("x=bf17[2]", "unknown dtype"), ("n=many", "is no number")):
        with pytest.raises(UsageError, match=what):
            arguments_of(bad)


def test_a_file_alone_gives_the_resources_of_each_kernel(hip: Path, capsys: pytest.CaptureFixture[str]):
    (found,) = asked(capsys, str(hip), "--targets", "hip:gfx942")["findings"]
    kernels = {k["kernel"]: k for k in found["kernels"]}
    assert set(kernels) == {"_Z8row_normPKDF16bPfi", "scale"}
    assert kernels["_Z8row_normPKDF16bPfi"]["shared_bytes"] == 32 and kernels["scale"]["spills"] == 0
    assert found["estimate"] is None and "arguments are not given" in found["notes"][0]


@pytest.mark.parametrize("isa", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
def test_hips_own_header_name_compiles_everywhere(hip: Path, capsys: pytest.CaptureFixture[str], isa: str):
    (found,) = asked(capsys, str(hip), "--targets", f"hip:{isa}")["findings"]
    assert found["error"] is None and len(found["kernels"]) == 2


def test_with_arguments_it_is_estimated(hip: Path, capsys: pytest.CaptureFixture[str]):
    args = ("--args", "x=bf16[64,1000],out=f32[64],n=1000", "--grid", "64", "--block", "256")
    found = asked(capsys, f"{hip}:row_norm", "--targets", "hip:gfx942", *args)
    (finding,) = found["findings"]
    (kernel,) = finding["estimate"]["details"]["kernels"]
    assert found["status"] == 0 and finding["fault"] is None
    assert (kernel["blocks"], kernel["threads"], kernel["product"]) == (64, 256, "mi300x")
    assert [(x["rounds"]) for x in kernel["loops"]][:1] == [4], "1000 elements by 256 threads"
    assert kernel["bytes"]["memory"] == pytest.approx(64 * 1000 * 2, rel=0.1)


@pytest.mark.parametrize(("name", "grid"), [("add", ()), ("add_kernel", ("--grid", "8"))])
def test_triton_kernels_and_host_functions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, grid: tuple[str, ...]
):
    pytest.importorskip("triton")
    (tmp_path / "my.py").write_text(TRITON)
    arrays = "x=bf16[4096],y=bf16[4096],out=bf16[4096]" + (",n=4096,BLOCK=512" if grid else "")
    targets = "triton:gfx942,triton:gfx950"
    found = asked(capsys, f"{tmp_path / 'my.py'}:{name}", "--targets", targets, "--args", arrays, *grid)
    for finding, product in zip(found["findings"], ("mi300x", "mi355x"), strict=True):
        (kernel,) = finding["estimate"]["details"]["kernels"]
        assert (kernel["kernel"], kernel["blocks"], kernel["product"]) == ("add_kernel", 8, product)
        assert finding["kernels"][0]["occupancy"] == 1.0 and finding["fault"] is None


def test_bad_files_are_said(hip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    missing = '#include <hip/hip_runtime.h>\n__global__ void k(float* x) { x[0] = __fancy(x[1]); }\n'
    (tmp_path / "bad.hip").write_text(missing)
    found = asked(capsys, str(tmp_path / "bad.hip"), "--targets", "hip:gfx942")
    assert found["status"] == 1 and "undeclared identifier '__fancy'" in found["findings"][0]["error"]["message"]
    assert main(["inspect", f"{hip}:nothing", "--targets", "hip:gfx942"]) == 2
    assert "holds no kernel 'nothing'" in capsys.readouterr().err
    assert main(["inspect", str(hip), "--targets", "hip:gfx942", "--args", "x=f32[4]"]) == 2
    assert "holds 2 kernels" in capsys.readouterr().err
    assert main(["inspect", str(hip), "--targets", "numba:cpu"]) == 2
    assert "looks at no kernels without an operator" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "none.hip"), "--targets", "hip:gfx942"]) == 2
    assert "cannot read the kernel" in capsys.readouterr().err


def test_a_triton_kernel_without_arguments_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("triton")
    (tmp_path / "my.py").write_text(TRITON)
    assert main(["inspect", f"{tmp_path / 'my.py'}:add_kernel", "--targets", "triton:gfx942"]) == 2
    assert "x, y, out, n, BLOCK" in capsys.readouterr().err


def test_the_python_face(hip: Path):
    import portakern as pk

    (finding,) = pk.inspect(hip, "hip:gfx942", entry="scale", args="y=f32[4096],f=2.0,n=1024", grid=4)
    assert finding.kernels[0]["kernel"] == "scale" and finding.estimate is not None
    assert "scale" in finding.assembly and "us on AMD Instinct MI300X (estimate)" in finding.estimate["report"][0]
