// The matrix product of bf16, two elements of k at a time. AVX-512 BF16 has an instruction for it, vdpbf16ps, which neither
// SYCL nor SPIR-V has a word for: where the toolchain defines PK_AVX512_BF16, the innermost loop is in assembly
// (SPV_INTEL_inline_assembly). Elsewhere the same pairs are two multiply-adds.
#pragma once
#include "pk/cpu.hpp"

namespace pk {

// The bits of floats that are bf16 already.
template <class V>
PK_INLINE auto upper_half(V v) {
    if constexpr (is_vector<V>) return convert<vec<uint16_t, Shape<V>::lanes>>(bits<vec<uint32_t, Shape<V>::lanes>>(v) >> 16);
    else return static_cast<uint16_t>(bits<uint32_t>(v) >> 16);
}

// To each sum are added the products of the lower and of the upper halves of two words, which are bf16.
PK_INLINE float16 add_pairs(float16 sum, uint16 a, uint16 b) {
    const float16 lower = pk::fma(bits<float16>(a << 16), bits<float16>(b << 16), sum);
    return pk::fma(bits<float16>(a & 0xffff0000u), bits<float16>(b & 0xffff0000u), lower);
}

// M x W vectors of sums over `pairs` words of M rows of a, `pitch` words apart, and of a strip of W vectors.
template <int M, int W>
PK_INLINE void add_block(float16 (&sum)[M][W], const uint32_t* a, int pitch, const uint16* strip, int pairs) {
    for (int k = 0; k < pairs; ++k)
#pragma unroll
        for (int r = 0; r < M; ++r)
#pragma unroll
            for (int w = 0; w < W; ++w) sum[r][w] = add_pairs(sum[r][w], uint16(a[r * pitch + k]), strip[k * W + w]);
}

#if defined(PK_AVX512_BF16)
#define PK_EACH_OF_16(F) \
    F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#define PK_LOAD_SUM(n) "vmovups 64*" #n "(%[sum]), %%zmm" #n "\n"
#define PK_STORE_SUM(n) "vmovups %%zmm" #n ", 64*" #n "(%[sum])\n"
#define PK_SAVE(n) "vmovups %%zmm" #n ", 64*" #n "(%[saved])\n"
#define PK_RESTORE(n) "vmovups 64*" #n "(%[saved]), %%zmm" #n "\n"
#define PK_ROW(word, left, right) \
    "vbroadcastss " word ", %%zmm18\n" \
    "vdpbf16ps %%zmm16, %%zmm18, %%zmm" #left "\n" \
    "vdpbf16ps %%zmm17, %%zmm18, %%zmm" #right "\n"

// Sums in zmm0 to zmm15, the strip's row in zmm16 and zmm17, a word of a in zmm18. What SPIR-V knows no name of is put back:
// these, and the flags, which go below what a function may keep under the stack pointer.
PK_INLINE void add_block(float16 (&sum)[8][2], const uint32_t* a, int pitch, const uint16* strip, int pairs) {
    if (pairs == 0) return;
    float16 saved[19];
    const uint32_t* upper = a + 4 * int64_t(pitch);
    int64_t left = pairs;
    asm volatile(
        "lea -128(%%rsp), %%rsp\n"
        "pushfq\n"
        PK_EACH_OF_16(PK_SAVE) PK_SAVE(16) PK_SAVE(17) PK_SAVE(18)
        PK_EACH_OF_16(PK_LOAD_SUM)
        "1:\n"
        "vmovups (%[strip]), %%zmm16\n"
        "vmovups 64(%[strip]), %%zmm17\n"
        PK_ROW("(%[a])", 0, 1)
        PK_ROW("(%[a],%[pitch])", 2, 3)
        PK_ROW("(%[a],%[pitch],2)", 4, 5)
        PK_ROW("(%[a],%[pitch3])", 6, 7)
        PK_ROW("(%[upper])", 8, 9)
        PK_ROW("(%[upper],%[pitch])", 10, 11)
        PK_ROW("(%[upper],%[pitch],2)", 12, 13)
        PK_ROW("(%[upper],%[pitch3])", 14, 15)
        "add $4, %[a]\n"
        "add $4, %[upper]\n"
        "add $128, %[strip]\n"
        "dec %[left]\n"
        "jnz 1b\n"
        PK_EACH_OF_16(PK_STORE_SUM)
        PK_EACH_OF_16(PK_RESTORE) PK_RESTORE(16) PK_RESTORE(17) PK_RESTORE(18)
        "popfq\n"
        "lea 128(%%rsp), %%rsp\n"
        : [a] "+r"(a), [upper] "+r"(upper), [strip] "+r"(strip), [left] "+r"(left)
        : [sum] "r"(&sum), [saved] "r"(&saved), [pitch] "r"(4 * int64_t(pitch)), [pitch3] "r"(12 * int64_t(pitch))
        : "memory");
}
#undef PK_EACH_OF_16
#undef PK_LOAD_SUM
#undef PK_STORE_SUM
#undef PK_SAVE
#undef PK_RESTORE
#undef PK_ROW
#endif

template <int M, int W>
PK_INLINE void add_rows(float* c, int c_pitch, const uint16_t* a, int a_pitch, const uint16* strip, int pairs) {
    float16 sum[M][W];
#pragma unroll
    for (int r = 0; r < M; ++r)
#pragma unroll
        for (int w = 0; w < W; ++w) sum[r][w] = load<16>(c + r * c_pitch + w * 16);
    add_block(sum, reinterpret_cast<const uint32_t*>(a), a_pitch / 2, strip, pairs);
#pragma unroll
    for (int r = 0; r < M; ++r)
#pragma unroll
        for (int w = 0; w < W; ++w) store(sum[r][w], c + r * c_pitch + w * 16);
}

// c += a b for packed tiles of bf16, rows x depth and depth x columns. 16 W columns of b are put into words of two rows first;
// M x 16 W sums stay in registers while k runs.
template <int M, int W, int most>
PK_INLINE void product_of_pairs(float* c, int c_pitch, uint16_t* a, int a_pitch, const uint16_t* b, int b_pitch, int rows,
                                int columns, int depth) {
    uint16 strip[(most + 1) / 2 * W];
    const int even = depth / 2, pairs = (depth + 1) / 2;
    if (pairs > even)
        for (int i = 0; i < rows; ++i) a[i * a_pitch + depth] = 0;
    for (int j = 0; j < columns; j += 16 * W) {
        const auto word = [&](int k, int w) {
            return convert<uint16>(*reinterpret_cast<const loose<uint16_t, 16>*>(b + k * b_pitch + j + w * 16));
        };
        for (int k = 0; k < even; ++k)
            for (int w = 0; w < W; ++w) strip[k * W + w] = word(2 * k, w) | word(2 * k + 1, w) << 16;
        if (pairs > even)
            for (int w = 0; w < W; ++w) strip[even * W + w] = word(2 * even, w);
        int i = 0;
        for (; i + M <= rows; i += M) add_rows<M, W>(c + i * c_pitch + j, c_pitch, a + i * a_pitch, a_pitch, strip, pairs);
        for (; i < rows; ++i) add_rows<1, W>(c + i * c_pitch + j, c_pitch, a + i * a_pitch, a_pitch, strip, pairs);
    }
}

}  // namespace pk
