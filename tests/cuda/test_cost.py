"""The NVIDIA cost model: threads are followed to the right counts, work is counted, and schedules are put into an order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portakern.api import one, typical, works
from portakern.backend import InspectedKernel
from portakern.backends.cuda.cost.estimator import Constants, CudaEstimator, bounds, constants_of, predicted
from portakern.backends.cuda.cost.features import Features
from portakern.backends.cuda.cost.rates import tensor_scale
from portakern.backends.cuda.cost.values import State, TooLong, follow
from portakern.backends.cuda.sass.disassembler import disassembler
from portakern.backends.cuda.sass.mix import tensor_shape
from portakern.backends.cuda.sass.reader import Instruction, read
from portakern.backends.cuda.toolchain import CudaToolchain
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.inspecting import arguments_of, examine
from portakern.study.steps import Build

ISAS = ("sm_80", "sm_90a", "sm_100a")
needs_tools = pytest.mark.skipif(
    disassembler() is None or not CudaToolchain().available(registry().target("cuda:sm_90a")),
    reason="no compiler or no disassembler for CUDA",
)


def built(op: str, target: str, **sizes: int) -> Build:
    operator = load_operator(op)
    (work,) = works(typical(operator, sizes), [one(target)], ["bf16"])
    return steps.build(work, estimate=True)


def code_of(*lines: str) -> tuple[Instruction, ...]:
    rows = [f"        /*{16 * n:04x}*/                   {x} ;" for n, x in enumerate(lines)]
    return read("\n".join(['\t.section\t.text.k,"ax"', *rows]))["k"]


def after(*lines: str, constants: bytes = b"", **special: int) -> dict[str, int | None]:
    state = State(constants, {f"SR_{k.replace('_', '.')}": v for k, v in special.items()})
    follow(code_of(*lines, "EXIT"), state)
    return state.r


@pytest.mark.quick
def test_a_product_of_tcgen05_is_what_its_descriptor_says() -> None:
    code = code_of("UMOV UR4, 0x8400490", "UTCHMMA gdesc[UR8], gdesc[UR10], tmem[UR12], tmem[UR14], idesc[UR4], UP0", "EXIT")
    followed = follow(code, State(b"", {}))
    assert tensor_shape(code[1], followed.described.get(1)) == (128, 256, 16)
    assert tensor_shape(code[1]) is None and tensor_scale("UTCQMMA") == 2 * tensor_scale("UTCHMMA")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("lines", "register", "value"),
    [
        (["MOV R1, 0x7", "IADD3 R2, R1, -0x8, RZ"], "R2", 0xFFFFFFFF),
        (["MOV R1, 0xffffffff", "IADD3 R2, P0, R1, 0x1, RZ", "IADD3.X R3, RZ, 0x5, RZ, P0, !PT"], "R3", 6),
        (["MOV R1, 0x3", "MOV R4, 0x5", "MOV R5, 0x1", "IMAD.WIDE R2, R1, 0x4, R4"], "R2", 17),
        (["MOV R1, 0xffffffff", "IMAD.WIDE.U32 R2, R1, R1, RZ"], "R3", 0xFFFFFFFE),
        (["MOV R1, 0xfffffffe", "IMAD.WIDE R2, R1, 0x4, RZ"], "R3", 0xFFFFFFFF),
        (["MOV R1, 0x3", "LEA R2, R1, 0x7, 0x4"], "R2", 55),
        (["MOV R1, 0x80000000", "LEA.HI R2, R1, 0x7, RZ, 0x1"], "R2", 8),
        (["MOV R1, 0xf0", "MOV R2, 0x3c", "LOP3.LUT R3, R1, R2, RZ, 0xc0, !PT"], "R3", 0x30),
        (["LDG.E R1, [R4.64]", "LOP3.LUT R3, R1, RZ, RZ, 0xc0, !PT"], "R3", 0),
        (["LDG.E R1, [R4.64]", "LOP3.LUT R3, R1, 0x1, RZ, 0xc0, !PT"], "R3", None),
        (["MOV R1, 0x80000000", "SHF.R.S32.HI R2, RZ, 0x1f, R1"], "R2", 0xFFFFFFFF),
        (["MOV R1, 0x81", "SHF.R.U32.HI R2, RZ, 0x7, R1"], "R2", 1),
        (["MOV R1, 0xfffffffe", "ISETP.GT.AND P0, PT, R1, RZ, PT", "SEL R2, 0x1, 0x2, P0"], "R2", 2),
        (["MOV R1, 0xfffffffe", "ISETP.GT.U32.AND P0, PT, R1, RZ, PT", "SEL R2, 0x1, 0x2, P0"], "R2", 1),
        (["S2R R1, SR_TID.X", "IMNMX R2, R1, 0x9, PT"], "R2", 9),
        (["LDC.64 R2, c[0x0][0x8]", "MOV R4, R3"], "R4", 4),
        (["HFMA2.MMA R2, -RZ, RZ, 0, 7.62939453125e-06"], "R2", 128),
        (["UMOV UR4, 0x5", "UIADD3 UR5, UR4, 0x1, URZ", "IMAD.U32 R1, RZ, RZ, UR5"], "R1", 6),
        (["MOV R1, 0x64", "I2F.U32.RP R2, R1", "MUFU.RCP R2, R2", "FMUL R3, R2, 2"], "R3", None),
    ],
)
def test_integers_are_followed(lines: list[str], register: str, value: int | None) -> None:
    words = b"".join(n.to_bytes(4, "little") for n in (1, 2, 3, 4))
    assert after(*lines, constants=words, TID_X=40)[register] == value


@pytest.mark.quick
def test_loops_run_as_often_as_their_condition_says() -> None:
    lines = ("MOV R1, RZ", "IADD3 R1, R1, 0x3, RZ", "ISETP.LT.AND P0, PT, R1, 0x20, PT", "@P0 BRA 0x10", "EXIT")
    way = follow(code_of(*lines), State(b"", {}))
    assert way.issued == [1, 11, 11, 11, 1] and way.done == [1, 11, 11, 10, 1] and not way.doubts
    with pytest.raises(TooLong):
        follow(code_of("MOV R1, RZ", "BRA 0x0"), State(b"", {}), limit=100)


@pytest.mark.quick
def test_a_branch_on_loaded_data_is_not_taken_and_told() -> None:
    way = follow(code_of("LDG.E R1, [R2.64]", "ISETP.NE.AND P0, PT, R1, RZ, PT", "@P0 BRA 0x0", "EXIT"), State(b"", {}))
    assert way.doubts == {2} and way.issued == [1, 1, 1, 1]


@pytest.mark.quick
def test_the_way_of_ordinary_numbers_is_taken() -> None:
    """Of a division, and of a root, whose test is of a number that nobody knows."""
    division = code_of("FCHK P0, R1, R2", "@!P0 BRA 0x30", "CALL.REL.NOINC 0x40", "EXIT", "EXIT")
    assert follow(division, State(b"", {})).issued == [1, 1, 0, 1, 0]
    root = code_of(
        "LDG.E R1, [R2.64]",
        "ISETP.GT.U32.AND P0, PT, R1, 0x1, PT",
        "@!P0 BRA 0x40",
        "CALL.REL.NOINC 0x50",
        "EXIT",
        "NOP",
        "EXIT",
    )
    way = follow(root, State(b"", {}))
    assert way.issued[3] == 0 and not way.doubts


TEXT = """
__global__ void __launch_bounds__(128) k(const float4* __restrict__ x, float* out, int rows, int cols) {
  float sum = 0.f;
  for (int r = blockIdx.x / 3; r < rows; r += rows / 7)
    for (int c = threadIdx.x; c < cols; c += 128) {
      const float4 v = x[(r % 16) * cols + c];
      sum = fmaf(v.x, v.y, fmaf(v.z, v.w, sum));
    }
  out[blockIdx.x * 128 + threadIdx.x] = sum;
}
"""


@needs_tools
@pytest.mark.parametrize("isa", ISAS)
def test_a_kernels_work_is_counted_through_divisions_and_loops(isa: str) -> None:
    """Blocks of 128 threads: rows / 7 is known only by dividing; 7 rows of 5 rounds for the block in the middle (number 6)."""
    asked = arguments_of("x=f32[16,640,4],out=f32[1536],rows=28,cols=640")
    kernel = InspectedKernel(TEXT, "", asked, (12, 1, 1), (128, 1, 1), file="k.cu")
    inspection = examine(kernel, f"cuda:{isa}")
    assert inspection.estimate is not None, inspection.notes
    (f,) = inspection.estimate["details"]["kernels"]
    rounds = len(range(6 // 3, 28, 28 // 7)) * 5
    assert f["flops"] == 12 * 128 * rounds * 4 and f["global_bytes"] == 12 * 128 * (rounds * 16 + 4)
    assert f["doubts"] == () and f["threads"] == 128 and f["blocks"] == 12
    assert "(estimate)" in inspection.estimate["report"][0]
    assert ("fitted on an H200" if isa == "sm_90a" else "fitted on no GPU") in inspection.estimate["confidence"]


@needs_tools
@pytest.mark.parametrize("isa", ISAS)
def test_products_have_their_flops_whatever_their_tiles(isa: str) -> None:
    made = built("matmul", f"cuda:{isa}", M=512, N=512, K=512)
    assert made.row.estimate is not None, (made.row.method, made.row.error)
    (f,) = made.row.estimate["details"]["kernels"]
    assert f["tensor_flops"] == pytest.approx(2 * 512**3, rel=0.01) and f["memory_bytes"] == 3 * 512 * 512 * 2


@needs_tools
def test_estimates_order_what_differs_by_a_factor() -> None:
    us = []
    for m in (1024, 4096, 16384):
        made = built("softmax", "cuda:h100-sxm", M=m, N=4096)
        assert made.row.estimate is not None and "H100" in made.row.estimate["report"][0]
        us.append(made.row.estimate["us"])
    assert us[0] < us[1] / 2 < us[2] / 6


@pytest.mark.quick
def test_bounds_are_joined_above_the_longest() -> None:
    f = Features("k", 1, 32, 32, 1.0, "threads", 1, issue=8.0, alu=1.0, tensor=0.0, shared=0.0, access=0.0, l2=1.0, memory=8.0,
                 latency=1.0, flops=0, tensor_flops=0, global_bytes=0, memory_bytes=0, instructions=0)  # fmt: skip
    c = replace(Constants(), launch_us=0.0)
    assert max(bounds(f, c).values()) < predicted(f, c) < sum(bounds(f, c).values())
    assert predicted(f, replace(c, launch_us=2.0)) == predicted(f, c) + 2.0
    alone = replace(f, issue=0.0)
    assert predicted(alone, c) == pytest.approx(8.0 / c.memory, rel=0.01)


@pytest.mark.quick
def test_what_is_not_modelled_says_so() -> None:
    assert not CudaEstimator().available(registry().target("cuda:sm_120"))
    assert tensor_scale("QGMMA.64x128x32.F32.E4M3.E4M3") == 2 and tensor_scale("HMMA.1688.F32.TF32") == 0.5


def test_constants_are_of_the_product_else_of_its_instruction_set():
    on = {t: constants_of(registry().target(f"cuda:{t}").device) for t in ("h200", "h100-sxm", "h100-pcie", "sm_90a", "b200")}
    assert on["h200"][0] == "an H200" and on["h200"] != on["h100-sxm"]
    assert on["h100-sxm"] == on["h100-pcie"] == on["sm_90a"] and "H100" in on["sm_90a"][0]
    assert on["b200"] == ("", Constants())
