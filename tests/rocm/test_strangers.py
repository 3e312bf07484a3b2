"""HIP files as people have them, host code and all: compiled without ROCm, executed, judged; what is wrong in them is found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from portakern.backend import InspectedKernel
from portakern.emit.mangled import is_called, readable
from portakern.errors import UsageError
from portakern.spec.load import load_operator
from portakern.study.inspecting import Inspection, arguments_of, examine
from tests.rocm.helpers import needs_clang

FOLDER = Path(__file__).parent / "strangers"


@dataclass(frozen=True)
class Stranger:
    """A file, the kernel in it, and a call."""

    file: str
    name: str
    args: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int] = (256, 1, 1)
    shared: int = 0

    def bare(self, *changes: tuple[str, str]) -> InspectedKernel:
        text = (FOLDER / self.file).read_text()
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        arguments, file = arguments_of(self.args), str(FOLDER / self.file)
        return InspectedKernel(text, self.name, arguments, self.grid, self.block, self.shared, file)


GEMM = Stranger("gemm.hip", "gemm_tiled", "A=f32[40,33],B=f32[33,70],C=f32[40,70],M=40,N=70,K=33,alpha=1.0,beta=0.0",
                (3, 2, 1), (32, 32, 1))  # fmt: skip
SOFTMAX = Stranger("softmax.hip", "softmax_kernel", "x=f16[3,1000],y=f16[3,1000],cols=1000", (3, 1, 1), shared=4000)
NORM = Stranger("layernorm.hip", "layernorm<256>", "x=bf16[3,300],w=f32[300],b=f32[300],y=bf16[3,300],n=300,eps=0.00001",
                (3, 1, 1))  # fmt: skip
HISTOGRAM = Stranger("histogram.hip", "histogram", "data=u32[4000],hist=u32[256],total=u64[1],n:u64=1000", (4, 1, 1))
LINEAR = Stranger("linear.hip", "linear_act<Gelu, 4>", "x=f16[2,128],w=f16[30,128],bias=f32[30],y=f16[2,30],N=30,K=128",
                  (8, 2, 1))  # fmt: skip
ALL = (GEMM, SOFTMAX, NORM, HISTOGRAM, LINEAR)


def found(kernel: InspectedKernel, isa: str = "gfx942") -> Inspection:
    needs_clang(isa)
    return examine(kernel, f"hip:{isa}")


def cases() -> list[object]:
    isas = ("gfx942", "gfx90a", "gfx950", "gfx1100", "gfx1201")
    return [pytest.param(s, isa, id=f"{s.name}-{isa}", marks=() if n == 0 or (s is SOFTMAX and n == 3) else (pytest.mark.slow,))
            for s in ALL for n, isa in enumerate(isas)]  # fmt: skip


@pytest.mark.parametrize(("stranger", "isa"), cases())
def test_a_file_with_host_code_is_compiled_priced_and_run(stranger: Stranger, isa: str) -> None:
    inspection = found(stranger.bare(), isa)
    assert (inspection.error, inspection.fault) == (None, None) and inspection.ran
    (kernel,) = inspection.kernels
    assert is_called(kernel["kernel"], stranger.name) and kernel["spills"] == 0 and kernel["occupancy"] > 0
    assert inspection.estimate is not None and inspection.estimate["us"] > 0


@pytest.mark.parametrize(
    ("stranger", "change", "says", "line"),
    [
        (GEMM, ("if (row < M && col < N) C[", "C["), "out of bounds", "C[row * N + col] ="),
        (SOFTMAX, ("s = warp_reduce_sum(s);\n  __syncthreads();", "s = warp_reduce_sum(s);"), "LDS race", "? red[lane]"),
        (NORM, ("if (warp.thread_rank() == 0) part", "if (threadIdx.x == 0) part"), "undefined value", "if (b.n == 0.0f)"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(stranger: Stranger, change: tuple[str, str], says: str, line: str) -> None:
    inspection = found(stranger.bare(change))
    assert inspection.fault is not None and says in inspection.fault["message"]
    assert f"{stranger.file}:" in inspection.fault["message"] and line in inspection.fault["line"]


def test_dynamic_lds_that_is_not_given_is_out_of_bounds() -> None:
    inspection = found(replace(SOFTMAX, shared=0).bare())
    assert inspection.fault is not None and "of LDS, where the workgroup has 128" in inspection.fault["message"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            ("acc = combine(acc, other);", 'acc = combine(acc, other), printf("%f", acc.mean);'),
            "a kernel that prints needs ROCm",
        ),
        (("#include <string>", "#include <hipcub/hipcub.hpp>"), "'hipcub/hipcub.hpp' file not found"),
        (("block.sync();", "cg::this_grid().sync();"), "no member named 'this_grid'"),
    ],
)
def test_what_is_not_supported_is_named(change: tuple[str, str], says: str) -> None:
    inspection = found(NORM.bare(change, *([("#include <cassert>", "#include <cstdio>")] if "printf" in change[1] else [])))
    assert inspection.error is not None and inspection.error["kind"] == "compile" and says in inspection.error["message"]


def test_an_instance_that_nobody_launches_is_made_and_headers_beside_are_found(tmp_path: Path) -> None:
    (tmp_path / "twice.h").write_text("template <int N> __device__ float times(float x) { return N * x; }\n")
    text = '#include <hip/hip_runtime.h>\n#include "twice.h"\n'
    text += "template <int N> __global__ void k(float* y) { *y = times<N>(*y); }\n"
    inspection = found(InspectedKernel(text, "k<3>", file=str(tmp_path / "k.hip")))
    assert [readable(x["kernel"]) for x in inspection.kernels] == ["k<3>"]
    with pytest.raises(UsageError, match="holds no kernel"):
        found(InspectedKernel(text, "", file=str(tmp_path / "k.hip")))


def test_an_instance_is_judged_by_an_operator() -> None:
    """The launch is told by a comment; sizes, alpha and beta are not the operator's arguments."""
    needs_clang()
    import portakern as pk

    text = (FOLDER / "gemm.hip").read_text()
    for old, new in (
        (", int M, int N, int K, T alpha, T beta", ""), (", M, N, K, 1.f, 0.f", ""),
        ("alpha * acc + beta * C[row * N + col]", "acc"),
        ("constexpr int TILE = 32;", "constexpr int TILE = 32, M = 40, N = 70, K = 33;"),
        ("const int M = 512, N = 384, K = 256;", ""),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    told = "// portakern launch: kernel=gemm_tiled<float,32> grid=(3, 2, 1) block=(32, 32, 1) shared=0 args=(a, b, out)\n"
    wrong = text.replace("As[ty][k] * Bs[k][tx]", "As[ty][k] * Bs[k][tx ^ 1]")
    asked = {"target": "hip:gfx942", "dtype": "f32", "M": 40, "N": 70, "K": 33}
    rows = [pk.evaluate(load_operator("matmul"), source=told + x, **asked) for x in (text, wrong)]
    assert [(r.evidence, r.correct) for r in rows] == [("simulated", True), ("compiled", False)], [r.error for r in rows]


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z10gemm_tiledIfLi32EEvPKT_S2_PS0_iii", "gemm_tiled<float, 32>"),
        ("_ZN2ns1kILb1ELin3EEEvPf", "ns::k<true, -3>"),
        ("_Z1kIDF16_DF16bP6float4EvT_", "k<_Float16, __bf16, float4*>"),
        ("_Z1kI6float4S0_EvPT_", "k<...>"),
        ("_ZN12_GLOBAL__N_11kEPf", "(anonymous namespace)::k"),
        ("scale", "scale"),
    ],
)
def test_names_of_kernels_are_read_back(symbol: str, name: str) -> None:
    assert readable(symbol) == name
    assert is_called(symbol, symbol) and is_called(symbol, name.partition("<")[0]) and not is_called(symbol, "other")
