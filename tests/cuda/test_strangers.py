"""CUDA files as people have them, host code and all: compiled without a host compiler, counted; mistakes are at their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from portakern.backend import InspectedKernel
from portakern.backends.cuda.sass.disassembler import disassembler
from portakern.backends.cuda.sass.mix import access_bytes, kind_of, lane_flops, mix_of, tensor_shape
from portakern.backends.cuda.sass.reader import Control, read
from portakern.backends.cuda.toolchain import CudaToolchain
from portakern.emit.mangled import readable
from portakern.registry import registry
from portakern.study.inspecting import Inspection, examine

FILE = Path(__file__).parent / "strangers" / "reduce.cu"
needs_compiler = pytest.mark.skipif(
    not CudaToolchain().available(registry().target("cuda:sm_90a")), reason="neither NVRTC nor nvcc"
)
needs_disassembler = pytest.mark.skipif(disassembler() is None, reason="neither nvdisasm nor cuobjdump")


def found(text: str, isa: str = "sm_90a", entry: str = "", block: tuple[int, int, int] | None = None) -> Inspection:
    return examine(InspectedKernel(text, entry, block=block, file=str(FILE)), f"cuda:{isa}")


@needs_compiler
@pytest.mark.parametrize("isa", ["sm_80", "sm_90a", "sm_100a", "sm_120"])
def test_a_file_with_host_code_gives_the_resources_of_each_kernel(isa: str) -> None:
    inspection = found(FILE.read_text(), isa)
    kernels = {readable(k["kernel"]): k for k in inspection.kernels}
    assert inspection.error is None and set(kernels) == {"sums::row_sum<float, 256>", "scaled"}
    assert kernels["sums::row_sum<float, 256>"]["shared_bytes"] == 32
    assert all(k["spills"] == 0 and 0 < k["registers"] < 64 and k["occupancy"] == 1 for k in kernels.values())
    (unknown,) = inspection.remarks
    assert unknown["kind"] == "note" and "row_sum<T, 128><<<" in unknown["source"]


@needs_compiler
@needs_disassembler
def test_instructions_are_counted_by_pipe() -> None:
    inspection = found(FILE.read_text(), entry="scaled")
    mix = inspection.instructions["scaled"]
    assert (mix["f32"], mix["global"], mix["shared"], mix["barrier"]) == (2, 2, 2, 1)
    assert "LDG.E.128.CONSTANT" in inspection.assembly and ".visible .entry scaled" in inspection.assembly


@needs_compiler
def test_an_instance_that_nobody_launches_is_made() -> None:
    inspection = found(FILE.read_text(), entry="row_sum<__half, 128>")
    assert [readable(k["kernel"]) for k in inspection.kernels] == ["sums::row_sum<__half, 128>"] and not inspection.remarks


@needs_compiler
def test_launch_bounds_say_how_many_threads_occupancy_is_of() -> None:
    text = "__global__ void __launch_bounds__(64) k(float* x) { __shared__ float s[5000]; s[threadIdx.x] = x[0]; x[1] = s[3]; }"
    shares = [found(text, block=block).kernels[0]["occupancy"] for block in (None, (64, 1, 1), (32, 1, 1))]
    assert shares[0] == shares[1] > shares[2]


@needs_compiler
@pytest.mark.parametrize(
    ("change", "line", "says"),
    [
        (("sum = warp_sum(sum);", "sum = warp_sum(sun);"), 37, 'identifier "sun" is undefined'),
        (("part[kWarps]", "part[kWarp]"), 34, 'identifier "kWarp" is undefined'),
        (("float a, int n) {", "float a int n) {"), 46, 'expected a ")"'),
    ],
)
def test_a_mistake_is_the_compilers_message_at_the_files_line(change: tuple[str, str], line: int, says: str) -> None:
    assert FILE.read_text().count(change[0]) == 1
    error = found(FILE.read_text().replace(*change)).error
    assert error is not None and error["kind"] == "compile" and f"reduce.cu({line}): error: {says}" in error["message"]


@needs_compiler
def test_pytorch_extensions_are_read_past() -> None:
    text = """#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
template <typename scalar_t> __global__ void relu(const scalar_t* x, scalar_t* y, int64_t n) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] > scalar_t(0) ? x[i] : scalar_t(0);
}
torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  relu<float><<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "relu"); }
"""
    assert [readable(k["kernel"]) for k in found(text).kernels] == ["relu<float>"]


NVDISASM = """
	.section	.text.k,"ax",@progbits
.text.k:
	//## File "/pk/base.cuh", line 48 inlined at "/k.cu", line 7
	//## File "/k.cu", line 7
        /*0000*/                   S2R R3, SR_CTAID.X ;                    /* 0x0000000000037919 */
                                                                           /* 0x000e620000002500 */
.L_x_0:
        /*0010*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;  /* 0x0000000402047981 */
                                                                           /* 0x002ea2000c1e9d00 */
	//## File "/k.cu", line 9
        /*0020*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR12], R24 ;  /* 0x43e000000c1879f0 */
                                                                           /* 0x004fe20008701818 */
        /*0030*/              @!P0 BRA `(.L_x_0) ;                         /* 0xfffffff800c49947 */
                                                                           /* 0x000fea000383ffff */
        /*0040*/                   EXIT ;                                  /* 0x000000000000794d */
                                                                           /* 0x000fea0003800000 */
.L_x_1:
        /*0050*/                   BRA `(.L_x_1);                          /* 0xfffffffc00fc7947 */
                                                                           /* 0x000fc0000383ffff */
        /*0060*/                   NOP;                                    /* 0x0000000000007918 */
                                                                           /* 0x000fc00000000000 */
"""
CUOBJDUMP = """
		Function : k
        /*0000*/                   LDS.64 R4, [R2] ;                       /* 0x0000000402047984 */
                                                                           /* 0x002ea20000000a00 */
        /*0010*/              @!P0 BRA 0x0 ;                               /* 0xfffffff800c49947 */
                                                                           /* 0x000fea000383ffff */
"""


@pytest.mark.quick
def test_nvdisasms_text_is_read() -> None:
    code = read(NVDISASM)["k"]
    assert [x.opcode for x in code] == ["S2R", "LDG.E.128.CONSTANT", "HGMMA.64x256x16.F32.BF16", "BRA", "EXIT"]
    assert [x.line for x in code] == [7, 7, 9, 9, 9] and code[3].guard == "!P0" and code[3].target == 1
    assert code[0].control == Control(stall=1, writes=1) and code[1].control == Control(1, 2, -1, (1,))
    assert mix_of(code) == {"tensor": 1, "global": 1, "lanes": 1, "branch": 2}
    assert tensor_shape(code[2]) == (64, 256, 16) and access_bytes(code[1]) == 16


@pytest.mark.quick
def test_cuobjdumps_text_is_read() -> None:
    code = read(CUOBJDUMP)["k"]
    assert [(kind_of(x), x.target) for x in code] == [("shared", -1), ("branch", 0)] and access_bytes(code[0]) == 8


@pytest.mark.quick
@pytest.mark.parametrize(
    ("opcode", "kind", "flops", "shape"),
    [
        ("FFMA.FTZ", "f32", 2, None), ("HFMA2.BF16_V2", "f16", 4, None), ("DFMA", "f64", 2, None),
        ("MUFU.EX2", "special", 0, None),
        ("HMMA.16816.F32.BF16", "tensor", 0, (16, 8, 16)), ("IMMA.16832.S8.S8", "tensor", 0, (16, 8, 32)),
        ("UTMALDG.2D", "copy engine", 0, None), ("SYNCS.PHASECHK.TRANS64.TRYWAIT", "copy engine", 0, None),
        ("LDGSTS.E.BYPASS.128", "global", 0, None), ("LDSM.16.M88.4", "shared", 0, None), ("STL.64", "local", 0, None),
        ("IMAD.WIDE.U32", "integer", 0, None), ("LDGDEPBAR", "barrier", 0, None), ("ULDC.64", "constant", 0, None),
        ("I2FP.F32.S32", "convert", 0, None), ("SHFL.BFLY", "lanes", 0, None), ("ATOMS.ADD", "shared", 0, None),
        ("ATOMG.E.ADD.STRONG.GPU", "global", 0, None), ("FADD2", "f32", 2, None),
    ],
)  # fmt: skip
def test_kinds_flops_and_shapes(opcode: str, kind: str, flops: int, shape: tuple[int, int, int] | None) -> None:
    (x,) = read(f'\t.section\t.text.k,"ax"\n        /*0000*/    {opcode} R0, R1 ;\n')["k"]
    assert (kind_of(x), lane_flops(x), tensor_shape(x)) == (kind, flops, shape)
