"""Wait states: what clang compiles has enough of them, and one less is found, as is one less in every rule's own words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portakern.backends.rocm.amdgcn import hazards
from portakern.backends.rocm.amdgcn.assembly.parser import Assembly, parse
from portakern.backends.rocm.amdgcn.execution.program import native
from portakern.backends.rocm.amdgcn.isa import GENERATIONS
from portakern.errors import SimulatorError
from tests.rocm.execution.hip_code import compiled
from tests.rocm.execution.machine_code import assembles, run, text
from tests.rocm.helpers import needs_clang

pytestmark = pytest.mark.quick

MATRIX = r"""
#include <hip/hip_runtime.h>
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x8 __attribute__((ext_vector_type(8)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x16 __attribute__((ext_vector_type(16)));
typedef double f64x4 __attribute__((ext_vector_type(4)));
#define KERNEL extern "C" __global__ void __launch_bounds__(64)
#define M16(a, b, c) __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0)
#define M32(a, b, c) __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0)
#define M4(a, b, c) __builtin_amdgcn_mfma_f32_4x4x4f16(a, b, c, 0, 0, 0)
#define F16(a, b, c) __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c, 0, 0, 0)
#define F32(a, b, c) __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, c, 0, 0, 0)
#define D16(a, b, c) __builtin_amdgcn_mfma_f64_16x16x4f64(a, b, c, 0, 0, 0)
#define D4(a, b, c) __builtin_amdgcn_mfma_f64_4x4x4f64(a, b, c, 0, 0, 0)

#define READ(name, A, C, product)                                          \
  KERNEL stored_##name(const A* a, C* c) { *c = product(a[0], a[1], *c); } \
  KERNEL used_##name(const A* a, C* c) { C d = product(a[0], a[1], *c); *c = d * d; }
READ(m4, f16x4, f32x4, M4)
READ(m16, f16x4, f32x4, M16)
READ(m32, f16x4, f32x16, M32)
READ(f16, float, f32x4, F16)
READ(f32, float, f32x16, F32)
READ(d16, double, f64x4, D16)
READ(d4, double, double, D4)

#define FACTOR(name, A, C, product)                        \
  KERNEL factor_##name(const A* a, C* c) {                 \
    C d = product(a[0], a[1], *c);                         \
    *c = product(__builtin_bit_cast(A, d.xy), a[1], *c); \
  }
FACTOR(m4, f16x4, f32x4, M4)
FACTOR(m16, f16x4, f32x4, M16)
FACTOR(m32, f16x4, f32x16, M32)
KERNEL factor_f16(const float* a, f32x4* c) { f32x4 d = F16(a[0], a[1], *c); *c = F16(d.x, a[1], *c); }
KERNEL factor_f32(const float* a, f32x16* c) { f32x16 d = F32(a[0], a[1], *c); *c = F32(d.x, a[1], *c); }
KERNEL factor_d16(const double* a, f64x4* c) { f64x4 d = D16(a[0], a[1], *c); *c = D16(d.x, a[1], *c); }
KERNEL factor_d4(const double* a, double* c) { double d = D4(a[0], a[1], *c); *c = D4(d, a[1], *c); }
KERNEL moved_in(const f16x4* a, f32x4* c) { f16x4 x = a[0] + a[1]; *c = M16(x, x, *c); }
KERNEL chained_d4(const double* a, double* c) { *c = D4(a[0], a[1], D4(a[1], a[0], *c)); }
KERNEL dots(const unsigned* a, int* c) {
  int d = __builtin_amdgcn_sdot4(a[0], a[1], *c, false);
  *c = __builtin_amdgcn_sdot4(d, a[1], d, false) + d;
}
"""

PLAIN = r"""
#include <hip/hip_runtime.h>
#define KERNEL extern "C" __global__ void __launch_bounds__(64)
KERNEL divided(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x] / y[threadIdx.x]; }
KERNEL roots(const float* x, float* y) { y[threadIdx.x] = __builtin_amdgcn_rcpf(x[threadIdx.x]) + 1; }
KERNEL lanes(const int* x, int* y) {
  y[threadIdx.x] = __builtin_amdgcn_readlane(x[threadIdx.x], __builtin_amdgcn_readfirstlane(y[0]));
}
KERNEL moved(const int* x, int* y) {
  int a = x[threadIdx.x] + 1;
  y[threadIdx.x] = a + __builtin_amdgcn_mov_dpp(a, 0xb1, 0xf, 0xf, true);
}
KERNEL summed(const float* x, float* y) {
  float v = x[threadIdx.x];
  for (int d = warpSize / 2; d; d /= 2) v += __shfl_down(v, d);
  y[threadIdx.x] = v;
}
KERNEL chosen(const float* x, float* y, int n) {
  const int first = __builtin_amdgcn_readfirstlane(n + threadIdx.x);
  y[threadIdx.x] = x[first + threadIdx.x];
}
"""

POINTERS = "s_load_dwordx4 s[4:7], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\ns_waitcnt lgkmcnt(0)\n"

TOO_SOON = {
    "a store's data": ("gfx942", "global_store_dwordx4 v0, v[4:7], s[4:5]\nv_mov_b32_e32 v5, 0", "2 wait states must lie"),
    "M0 of a copy to LDS": ("gfx942", "s_mov_b32 m0, 0\nglobal_load_lds_dword v1, s[4:5]", "1 wait states must lie"),
    "a lane by a scalar": ("gfx90a", "v_readfirstlane_b32 s8, v0\nv_readlane_b32 s9, v1, s8", "4 wait states must lie"),
    "an address by a scalar": ("gfx90a", "v_readfirstlane_b32 s8, v0\nbuffer_load_dword v2, v1, s[8:11], 0 offen",
                               "5 wait states must lie"),
    "lanes after v_cmpx": ("gfx90a", "v_cmpx_gt_u32_e32 vcc, 7, v0\nv_mov_b32_dpp v2, v3 row_shl:1", "5 wait states must lie"),
    "half a register": ("gfx942", "v_add_f16_sdwa v2, v3, v4 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0 "
                        "src1_sel:WORD_0\nv_add_f16_e32 v5, v2, v2", "1 wait states must lie"),
    "swapped lanes": ("gfx950", "v_mov_b32_e32 v2, v3\nv_permlane32_swap_b32 v2, v4", "2 wait states must lie"),
    "over a branch": ("gfx90a", "v_readfirstlane_b32 s8, v0\ns_branch next\ns_nop 7\nnext:\nv_readlane_b32 s9, v1, s8",
                      "4 wait states must lie between, and 1 do"),
    "round a loop": ("gfx90a", "s_mov_b32 s8, 0\nagain:\nv_readlane_b32 s9, v1, s8\nv_readfirstlane_b32 s8, v0\n"
                     "s_cmp_lg_u32 s9, 0\ns_cbranch_scc1 again", "4 wait states must lie between, and 2 do"),
    "a product's factor": ("gfx1201", "v_wmma_f32_16x16x16_f16 v[8:15], v[0:3], v[4:7], v[8:15]\n"
                           "v_wmma_f32_16x16x16_f16 v[16:23], v[8:11], v[4:7], v[16:23]", "1 vector instructions must lie"),
    "registers given back": ("gfx1100", "v_mov_b32_e32 v2, v3\ns_sendmsg sendmsg(MSG_DEALLOC_VGPRS)", "gives registers back"),
    "a root": ("gfx1100", "v_rcp_f32_e32 v2, v3\nv_add_f32_e32 v4, v2, v2", "6 vector instructions must lie"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _tools() -> None:
    needs_clang()
    native()


def found(assembly: Assembly, kernel: str, isa: str) -> list[hazards.Hazard]:
    return hazards.find(assembly, kernel, GENERATIONS[isa])


@pytest.mark.parametrize("isa", ["gfx90a", "gfx942", "gfx950"])
def test_every_wait_state_of_matrix_kernels_is_needed_and_enough(isa: str) -> None:
    assembly = parse(compiled(isa, MATRIX))
    shortened = 0
    for kernel in assembly.kernels:
        assert found(assembly, kernel, isa) == []
        for n in range(assembly.labels[kernel], assembly.end_of(kernel)):
            i = assembly.instructions[n]
            if i.mnemonic == "s_nop":
                assembly.instructions[n] = replace(i, operands=(str(int(i.operands[0]) - 1),))
                assert found(assembly, kernel, isa), (kernel, i.line)
                assembly.instructions[n] = i
                shortened += 1
    assert shortened > 30


@pytest.mark.parametrize("isa", GENERATIONS)
def test_nothing_is_found_in_what_clang_compiles(isa: str) -> None:
    assembly = parse(compiled(isa, PLAIN))
    assert [hazard.message for kernel in assembly.kernels for hazard in found(assembly, kernel, isa)] == []


@pytest.mark.parametrize("name", TOO_SOON)
def test_what_comes_too_soon_is_found(name: str) -> None:
    isa, body, says = TOO_SOON[name]
    assembly = text(isa, body)
    assembles(isa, assembly)
    hazard = found(parse(assembly), "kernel", isa)[0]
    assert says in hazard.message, hazard.message
    enough = "v_nop\n" * 6 if isa in ("gfx1100", "gfx1201") else "s_nop 4\n"
    first, _, rest = body.partition("\n")
    if name not in ("round a loop", "registers given back"):
        assert found(parse(text(isa, f"{first}\n{enough}{rest}")), "kernel", isa) == []


@pytest.mark.parametrize(("second", "found_states"), [("v5, v7, v[0:3]", None), ("v5, v7, v[20:23]", 9)])
def test_a_product_that_adds_to_another_one_has_waited_for_it(second: str, found_states: int | None) -> None:
    """Eight passes lie behind it then, however soon it follows; one of its own registers says nothing of them."""
    products = f"v_mfma_f32_16x16x4_f32 v[0:3], v4, v6, v[0:3]\nv_mfma_f32_16x16x4_f32 v[16:19], {second}\n"
    body = f"{products}s_nop 7\nv_mov_b32_e32 v0, 0"
    hazard = found(parse(text("gfx942", body)), "kernel", "gfx942")
    assert [h.found for h in hazard] == [found_states] * (found_states is not None)


def test_loads_that_may_be_repeated_together() -> None:
    """Where registers are kept for it (XNACK), a load that overwrites an address stands alone."""
    loads = "global_load_dword v2, v[4:5], off\n{}global_load_dword v6, v[6:7], off"
    for between, isa, mask, wrong in (("", "gfx942", 1, True), ("s_nop 0\n", "gfx942", 1, False), ("", "gfx942", 0, False)):
        assembly = text(isa, loads.format(between)).replace(
            "\t.end_amdhsa_kernel", f"\t\t.amdhsa_reserve_xnack_mask {mask}\n\t.end_amdhsa_kernel"
        )
        assert bool(found(parse(assembly), "kernel", isa)) == wrong
    alone = text("gfx942", loads.format("")).replace("v6, v[6:7]", "v6, v[8:9]")
    assert not found(parse(alone.replace("\t.end_amdhsa_kernel", "\t\t.amdhsa_reserve_xnack_mask 1\n\t.end_amdhsa_kernel")),
                     "kernel", "gfx942")  # fmt: skip


def test_the_machine_reports_it_before_anything_runs() -> None:
    body = f"{POINTERS}v_readfirstlane_b32 s8, v0\nv_readlane_b32 s9, v1, s8\nglobal_store_dword v1, v0, s[6:7]"
    with pytest.raises(SimulatorError) as raised:
        run("gfx942", body, [0] * 256)
    assert "kernel: missing wait states: line " in raised.value.message
    assert "`v_readlane_b32 s9, v1, s8`: it takes its lane from a scalar register" in raised.value.message
