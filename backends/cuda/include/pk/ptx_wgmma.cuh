// PTX of the Hopper warpgroup product, wgmma: four warps multiply operands that stay in shared memory (PTX ISA,
// "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions"). Only sm_90a has it.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/ptx.cuh"

namespace pk::ptx {

PK_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
PK_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending> PK_DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// Matrix descriptor of what lies `offset` bytes into a tile, in the 128-byte swizzling mode. `leading` is the distance in bytes
/// between panels of 64 elements where these run along rows (columns) of the result, unused where they run along k; `stride` the
/// one between groups of eight rows of 128 bytes. Shared memory ends below 2^18, so adding an offset carries into no other field:
/// the descriptors of a tile are one, plus constants.
PK_DEVICE uint64_t wgmma_descriptor(const void* tile, int offset, int leading, int stride) {
    constexpr uint32_t swizzle_128 = 1u << 30;
    const uint32_t start = static_cast<uint32_t>(leading >> 4) << 16 | (shared_address(tile) & 0x3ffff) >> 4;
    const uint32_t low = start + static_cast<uint32_t>(offset >> 4), high = swizzle_128 | static_cast<uint32_t>(stride >> 4);
    return static_cast<uint64_t>(high) << 32 | low;
}

// D += A B of m64 nN k16. Lane l of warp w of the warpgroup holds rows 16 w + l / 4 (in d0) and 8 below (in d8), of
// each 8 columns the two from 2 (l % 4) on. TurnA, TurnB: the operand is stored with k along its rows. Without `keep`, D = A B.
#define PK_D(C, n) C(d0[2 * (n)]), C(d0[2 * (n) + 1]), C(d8[2 * (n)]), C(d8[2 * (n) + 1])
#define PK_WGMMA_64(C, FORM, TAIL, ...) \
    asm volatile( \
        "{.reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64" FORM " {" \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
        "}, %32, %33, p" TAIL ";}" \
        : PK_D(C, 0), PK_D(C, 1), PK_D(C, 2), PK_D(C, 3), PK_D(C, 4), PK_D(C, 5), PK_D(C, 6), PK_D(C, 7) \
        : "l"(a), "l"(b), "r"(keep)__VA_ARGS__)
#define PK_WGMMA_128(C, FORM, TAIL, ...) \
    asm volatile( \
        "{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128" FORM " {" \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
        "}, %64, %65, p" TAIL ";}" \
        : PK_D(C, 0), PK_D(C, 1), PK_D(C, 2), PK_D(C, 3), PK_D(C, 4), PK_D(C, 5), PK_D(C, 6), PK_D(C, 7), \
          PK_D(C, 8), PK_D(C, 9), PK_D(C, 10), PK_D(C, 11), PK_D(C, 12), PK_D(C, 13), PK_D(C, 14), PK_D(C, 15) \
        : "l"(a), "l"(b), "r"(keep)__VA_ARGS__)
#define PK_WGMMA_192(C, FORM, TAIL, ...) \
    asm volatile( \
        "{.reg .pred p; setp.ne.b32 p, %98, 0; wgmma.mma_async.sync.aligned.m64n192" FORM " {" \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
        "}, %96, %97, p" TAIL ";}" \
        : PK_D(C, 0), PK_D(C, 1), PK_D(C, 2), PK_D(C, 3), PK_D(C, 4), PK_D(C, 5), PK_D(C, 6), PK_D(C, 7), \
          PK_D(C, 8), PK_D(C, 9), PK_D(C, 10), PK_D(C, 11), PK_D(C, 12), PK_D(C, 13), PK_D(C, 14), PK_D(C, 15), \
          PK_D(C, 16), PK_D(C, 17), PK_D(C, 18), PK_D(C, 19), PK_D(C, 20), PK_D(C, 21), PK_D(C, 22), PK_D(C, 23) \
        : "l"(a), "l"(b), "r"(keep)__VA_ARGS__)
#define PK_WGMMA_256(C, FORM, TAIL, ...) \
    asm volatile( \
        "{.reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256" FORM " {" \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127" \
        "}, %128, %129, p" TAIL ";}" \
        : PK_D(C, 0), PK_D(C, 1), PK_D(C, 2), PK_D(C, 3), PK_D(C, 4), PK_D(C, 5), PK_D(C, 6), PK_D(C, 7), \
          PK_D(C, 8), PK_D(C, 9), PK_D(C, 10), PK_D(C, 11), PK_D(C, 12), PK_D(C, 13), PK_D(C, 14), PK_D(C, 15), \
          PK_D(C, 16), PK_D(C, 17), PK_D(C, 18), PK_D(C, 19), PK_D(C, 20), PK_D(C, 21), PK_D(C, 22), PK_D(C, 23), \
          PK_D(C, 24), PK_D(C, 25), PK_D(C, 26), PK_D(C, 27), PK_D(C, 28), PK_D(C, 29), PK_D(C, 30), PK_D(C, 31) \
        : "l"(a), "l"(b), "r"(keep)__VA_ARGS__)

// Of 8-bit operands k32, both with k along their rows: nothing is turned. Sums of integers wrap round at 32 bits.
#define PK_WGMMA(N, FIRST, SECOND)                                                                                       \
    template <class E, int TurnA, int TurnB, class T>                                                                    \
    PK_DEVICE void wgmma_##N(T* d0, T* d8, uint64_t a, uint64_t b, int keep = 1) {                                        \
        static_assert(half_width<E> || (!TurnA && !TurnB), "8-bit operands have k along their rows");                     \
        if constexpr (same<E, bf16>)                                                                                     \
            PK_WGMMA_##N("+f", "k16.f32.bf16.bf16", ", 1, 1, %" #FIRST ", %" #SECOND, , "n"(TurnA), "n"(TurnB));          \
        else if constexpr (same<E, f16>)                                                                                 \
            PK_WGMMA_##N("+f", "k16.f32.f16.f16", ", 1, 1, %" #FIRST ", %" #SECOND, , "n"(TurnA), "n"(TurnB));            \
        else if constexpr (same<E, f8e4m3>) PK_WGMMA_##N("+f", "k32.f32.e4m3.e4m3", ", 1, 1", );                          \
        else if constexpr (same<E, f8e5m2>) PK_WGMMA_##N("+f", "k32.f32.e5m2.e5m2", ", 1, 1", );                          \
        else if constexpr (same<E, uint8_t>) PK_WGMMA_##N("+r", "k32.s32.u8.u8", "", );                                  \
        else PK_WGMMA_##N("+r", "k32.s32.s8.s8", "", );                                                                  \
    }
PK_WGMMA(64, 35, 36)
PK_WGMMA(128, 67, 68)
PK_WGMMA(192, 99, 100)
PK_WGMMA(256, 131, 132)

#undef PK_WGMMA
#undef PK_WGMMA_64
#undef PK_WGMMA_128
#undef PK_WGMMA_192
#undef PK_WGMMA_256
#undef PK_D

}  // namespace pk::ptx
