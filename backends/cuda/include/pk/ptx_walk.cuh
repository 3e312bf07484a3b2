// PTX of a walk in which one product's result is the next one's left operand and never leaves registers (PTX ISA, "Asynchronous
// Warpgroup Level Matrix Multiply-Accumulate Instructions", "Parallel Synchronization": bar). Only sm_90a has it all.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/ptx_wgmma.cuh"

namespace pk::ptx {

// ---- barriers by number ----------------------------------------------------------------------------------------------
// `threads` of the block meet at barrier `number` (0 is __syncthreads): those that wait, and those that only arrive.

PK_DEVICE void numbered_wait(int number, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory"); }
PK_DEVICE void numbered_arrive(int number, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// ---- registers of products that are under way --------------------------------------------------------------------------

/// Nothing that reads or writes `x` moves across this.
PK_DEVICE void settle(float& x) { asm volatile("" : "+f"(x)::"memory"); }
PK_DEVICE void settle(uint32_t& x) { asm volatile("" : "+r"(x)::"memory"); }

/// `x`, which is not below 0, has been computed when products are waited for. ptxas moves such a wait up, before all work that does
/// not need it; past an access to memory it moves none. That `x` is not below 0 it cannot know, and nothing is ever stored.
PK_DEVICE void computed_here(float x) {
    asm volatile("{.reg .pred p; setp.lt.f32 p, %0, 0f00000000; @p st.shared.f32 [%1], %0;}" ::"f"(x), "r"(0) : "memory");
}

// D += A B of m64 nN k16 as in pk/ptx_wgmma.cuh, with A in registers: lane l of warp w holds rows 16 w + l / 4 (a0, a2) and 8
// below (a1, a3), columns 2 (l % 4) and the next, 8 further in a2 and a3.
#define PK_D(n) "+f"(d0[2 * (n)]), "+f"(d0[2 * (n) + 1]), "+f"(d8[2 * (n)]), "+f"(d8[2 * (n) + 1])
#define PK_WGMMA_R64(E) \
    asm volatile( \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." E "." E " {" \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
        "}, {%32, %33, %34, %35}, %36, 1, 1, 1, %37;" \
        : PK_D(0), PK_D(1), PK_D(2), PK_D(3), PK_D(4), PK_D(5), PK_D(6), PK_D(7) \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "n"(TurnB))
#define PK_WGMMA_R128(E) \
    asm volatile( \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." E "." E " {" \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
        "}, {%64, %65, %66, %67}, %68, 1, 1, 1, %69;" \
        : PK_D(0), PK_D(1), PK_D(2), PK_D(3), PK_D(4), PK_D(5), PK_D(6), PK_D(7), \
          PK_D(8), PK_D(9), PK_D(10), PK_D(11), PK_D(12), PK_D(13), PK_D(14), PK_D(15) \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "n"(TurnB))
#define PK_WGMMA_R256(E) \
    asm volatile( \
        "wgmma.mma_async.sync.aligned.m64n256k16.f32." E "." E " {" \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127" \
        "}, {%128, %129, %130, %131}, %132, 1, 1, 1, %133;" \
        : PK_D(0), PK_D(1), PK_D(2), PK_D(3), PK_D(4), PK_D(5), PK_D(6), PK_D(7), \
          PK_D(8), PK_D(9), PK_D(10), PK_D(11), PK_D(12), PK_D(13), PK_D(14), PK_D(15), \
          PK_D(16), PK_D(17), PK_D(18), PK_D(19), PK_D(20), PK_D(21), PK_D(22), PK_D(23), \
          PK_D(24), PK_D(25), PK_D(26), PK_D(27), PK_D(28), PK_D(29), PK_D(30), PK_D(31) \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "n"(TurnB))

template <class E, int N, int TurnB>
PK_DEVICE void wgmma_of_registers(float* d0, float* d8, const uint32_t& a0, const uint32_t& a1, const uint32_t& a2,
                                  const uint32_t& a3, uint64_t b) {
    static_assert(N == 64 || N == 128 || N == 256, "columns that a product has here");
    if constexpr (N == 64 && same<E, bf16>) PK_WGMMA_R64("bf16");
    else if constexpr (N == 64) PK_WGMMA_R64("f16");
    else if constexpr (N == 128 && same<E, bf16>) PK_WGMMA_R128("bf16");
    else if constexpr (N == 128) PK_WGMMA_R128("f16");
    else if constexpr (same<E, bf16>) PK_WGMMA_R256("bf16");
    else PK_WGMMA_R256("f16");
}

#undef PK_WGMMA_R64
#undef PK_WGMMA_R128
#undef PK_WGMMA_R256
#undef PK_D

}  // namespace pk::ptx
