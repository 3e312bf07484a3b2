// The PTX instructions the tile library is made of, one function each (PTX ISA, section "Instruction Set").
// Everything above this file is plain C++, so another definition of these functions runs it on a CPU.
#pragma once
#include "pk/base.cuh"

namespace pk::ptx {

PK_DEVICE int opaque(int x) {  // x, of which the compiler knows nothing
    asm volatile("" : "+r"(x));
    return x;
}

// a - x, of which a minimum or maximum is taken. ptxas joins the two for Hopper and, up to 13.5 at least, loses a sign where `a` is a
// constant that it finds only when it has unrolled a loop: max(32 - x, 0) becomes max(x - 32, 0). A sum with what was negated
// before is joined rightly.
PK_DEVICE int minus(int a, int x) {
    int negative;
    asm("neg.s32 %0, %1;" : "=r"(negative) : "r"(x));
    return a + negative;
}

/// Whether it holds for any lane of the warp.
PK_DEVICE bool any(bool holds) { return __any_sync(0xffffffffu, holds); }

// ---- conversions ---------------------------------------------------------------------------------------------------

PK_DEVICE float from_bf16(unsigned short bits) {  // one permutation of bytes, from either half of a register
    float y;
    asm("mov.b32 %0, {0, %1};" : "=f"(y) : "h"(bits));
    return y;
}

PK_DEVICE float from_f16(unsigned short bits) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
    return y;
}

PK_DEVICE unsigned short to_f16(float x) {  // to nearest, ties to even
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

PK_DEVICE unsigned short to_bf16(float x) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

PK_DEVICE uint32_t to_bf16_pair(float low, float high) {
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

PK_DEVICE uint32_t to_f16_pair(float low, float high) {
    uint32_t bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

// 8-bit floats, in pairs of which the lower one is used (sm_89 and later). What has no number of its format is not for these.

PK_DEVICE float from_e4m3(unsigned char bits) {
    uint32_t pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<unsigned short>(bits)));
    return from_f16(static_cast<unsigned short>(pair));
}

PK_DEVICE float from_e5m2(unsigned char bits) {  // the upper half of a binary16
    return from_f16(static_cast<unsigned short>(bits << 8));
}

PK_DEVICE unsigned char to_e4m3(float x) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return static_cast<unsigned char>(pair);
}

PK_DEVICE unsigned char to_e5m2(float x) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return static_cast<unsigned char>(pair);
}

PK_DEVICE uint32_t to_tf32(float x) {  // to nearest, ties away from zero
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

PK_DEVICE float power_of_two(float x) {  // within 2 ulp; zero for x below -126
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

PK_DEVICE float reciprocal(float x) {  // within 1 ulp; zero for x beyond 2^126
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// ---- maximum and minimum that hand on NaN -------------------------------------------------------------------------

PK_DEVICE float max_nan(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

PK_DEVICE float min_nan(float a, float b) {
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

// ---- stores --------------------------------------------------------------------------------------------------------
// Whole words to global memory. Said in PTX since the compiler splits the store of a word that was put together from
// 16-bit values into stores of these.

PK_DEVICE void store_global(void* to, uint16_t w) { asm volatile("st.global.b16 [%0], %1;" ::"l"(to), "h"(w) : "memory"); }
PK_DEVICE void store_global(void* to, uint32_t w) { asm volatile("st.global.b32 [%0], %1;" ::"l"(to), "r"(w) : "memory"); }
PK_DEVICE void store_global(void* to, uint2 w) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(w.x), "r"(w.y) : "memory");
}
PK_DEVICE void store_global(void* to, uint4 w) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w) : "memory");
}

// The same, and 16 bytes or fewer from global memory, for lines that L2 shall give up last (evict_last).

PK_DEVICE uint64_t keep_longest() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
PK_DEVICE void store_kept(void* to, uint16_t w) {
    asm volatile("st.global.L2::cache_hint.b16 [%0], %1, %2;" ::"l"(to), "h"(w), "l"(keep_longest()) : "memory");
}
PK_DEVICE void store_kept(void* to, uint32_t w) {
    asm volatile("st.global.L2::cache_hint.b32 [%0], %1, %2;" ::"l"(to), "r"(w), "l"(keep_longest()) : "memory");
}
PK_DEVICE void store_kept(void* to, uint2 w) {
    asm volatile("st.global.L2::cache_hint.v2.b32 [%0], {%1, %2}, %3;" ::"l"(to), "r"(w.x), "r"(w.y), "l"(keep_longest()) : "memory");
}
PK_DEVICE void store_kept(void* to, uint4 w) {
    asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w),
                 "l"(keep_longest())
                 : "memory");
}
PK_DEVICE void load_kept(const void* from, uint16_t& w) {
    asm("ld.global.L2::cache_hint.b16 %0, [%1], %2;" : "=h"(w) : "l"(from), "l"(keep_longest()));
}
PK_DEVICE void load_kept(const void* from, uint32_t& w) {
    asm("ld.global.L2::cache_hint.b32 %0, [%1], %2;" : "=r"(w) : "l"(from), "l"(keep_longest()));
}
PK_DEVICE void load_kept(const void* from, uint2& w) {
    asm("ld.global.L2::cache_hint.v2.b32 {%0, %1}, [%2], %3;" : "=r"(w.x), "=r"(w.y) : "l"(from), "l"(keep_longest()));
}
PK_DEVICE void load_kept(const void* from, uint4& w) {
    asm("ld.global.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
        : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
        : "l"(from), "l"(keep_longest()));
}

// ---- asynchronous copies to shared memory -------------------------------------------------------------------------

/// Makes this thread's writes to shared memory known to the asynchronous proxy: matrix and copy engines read through it (sm_90).
PK_DEVICE void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

PK_DEVICE uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

/// 16 bytes from global to shared memory, past L1; only the first `bytes` are read and zeros fill the rest.
PK_DEVICE void copy_async_16(void* to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
}

/// 4 bytes, or as many zeros.
PK_DEVICE void copy_async_4(void* to, const void* from, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}

PK_DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int Pending> PK_DEVICE void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// ---- matrix fragments ---------------------------------------------------------------------------------------------
// ldmatrix reads 8 x 8 matrices of 16-bit elements: lane 8 i + r gives the address of row r of matrix i, and lane l
// receives, of each matrix, row l / 4, columns 2 (l % 4) and the next (row and column swapped with .trans).

PK_DEVICE void load_matrix_4(uint32_t (&d)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(shared_address(row))
                 : "memory");
}

PK_DEVICE void load_matrix_4_transposed(uint32_t (&d)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// The way back: word i of lane l is row l / 4, columns 2 (l % 4) and the next, of matrix i; lane 8 i + r gives the address of
/// row r of matrix i (sm_90 and later).
PK_DEVICE void store_matrix_4(void* row, const uint32_t (&d)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)), "r"(d[0]),
                 "r"(d[1]), "r"(d[2]), "r"(d[3])
                 : "memory");
}

// mma.sync with g = lane / 4 and t = lane % 4. Accumulator: c0, c1 at (g, 2t) and (g, 2t + 1), c2, c3 eight rows below.
// 16-bit A: a0 at (g, 2t..), a1 eight rows below, a2 and a3 eight columns further; B: b0 at (2t.., g), b1 eight below.

PK_DEVICE void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

PK_DEVICE void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 8-bit operands, m16n8k32: as those of 16 bits, with four elements in a register in place of two. 8-bit floats: sm_89 and later.
#define PK_MMA_8(name, T, C, types)                                                                                      \
    PK_DEVICE void name(T(&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {                                    \
        asm("mma.sync.aligned.m16n8k32.row.col." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
            : C(c[0]), C(c[1]), C(c[2]), C(c[3])                                                                         \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                              \
    }
PK_MMA_8(mma_s8, int32_t, "+r", "s32.s8.s8.s32")
PK_MMA_8(mma_u8, int32_t, "+r", "s32.u8.u8.s32")
PK_MMA_8(mma_e4m3, float, "+f", "f32.e4m3.e4m3.f32")
PK_MMA_8(mma_e5m2, float, "+f", "f32.e5m2.e5m2.f32")
#undef PK_MMA_8

// TF32, m16n8k8: a0 at (g, t), a1 eight rows below, a2 and a3 four columns further; b0 at (t, g), b1 four below.
PK_DEVICE void mma_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace pk::ptx
