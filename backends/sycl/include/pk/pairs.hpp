// The matrix product of bf16, two elements of k at a time. AVX-512 BF16 has an instruction for it, vdpbf16ps, which neither
// SYCL nor SPIR-V has a word for: where the toolchain defines PK_AVX512_BF16, the innermost loop is in assembly
// (SPV_INTEL_inline_assembly). Elsewhere the same pairs are two multiply-adds.
#pragma once
#include "pk/turned.hpp"

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

// M x W vectors of sums over `pairs` words of M rows of a, which lie `pitch` words apart and their words `step`, and of a strip.
template <int M, int W>
PK_INLINE void add_block(float16 (&sum)[M][W], const uint32_t* a, int pitch, int step, const uint16* strip, int pairs) {
    for (int k = 0; k < pairs; ++k)
#pragma unroll
        for (int r = 0; r < M; ++r)
#pragma unroll
            for (int w = 0; w < W; ++w) sum[r][w] = add_pairs(sum[r][w], uint16(a[r * pitch + k * step]), strip[k * W + w]);
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
PK_INLINE void add_block(float16 (&sum)[8][2], const uint32_t* a, int pitch, int step, const uint16* strip, int pairs) {
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
        "add %[step], %[a]\n"
        "add %[step], %[upper]\n"
        "add $128, %[strip]\n"
        "dec %[left]\n"
        "jnz 1b\n"
        PK_EACH_OF_16(PK_STORE_SUM)
        PK_EACH_OF_16(PK_RESTORE) PK_RESTORE(16) PK_RESTORE(17) PK_RESTORE(18)
        "popfq\n"
        "lea 128(%%rsp), %%rsp\n"
        : [a] "+&r"(a), [upper] "+&r"(upper), [strip] "+&r"(strip), [left] "+&r"(left)  // apart from equal numbers below
        : [sum] "r"(&sum), [saved] "r"(&saved), [pitch] "r"(4 * int64_t(pitch)), [pitch3] "r"(12 * int64_t(pitch)),
          [step] "r"(4 * int64_t(step))
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
PK_INLINE void add_rows(float* c, int c_pitch, const uint32_t* a, int pitch, int step, const uint16* strip, int pairs) {
    float16 sum[M][W];
#pragma unroll
    for (int r = 0; r < M; ++r)
#pragma unroll
        for (int w = 0; w < W; ++w) sum[r][w] = load<16>(c + r * c_pitch + w * 16);
    add_block(sum, a, pitch, step, strip, pairs);
#pragma unroll
    for (int r = 0; r < M; ++r)
#pragma unroll
        for (int w = 0; w < W; ++w) store(sum[r][w], c + r * c_pitch + w * 16);
}

// The words of N neighbours in two rows, `pitch` apart: the first row is in the lower halves.
template <int N>
PK_INLINE vec<uint32_t, N> side_by_side(const uint16_t* row, int pitch) {
    const auto half = [](const uint16_t* p) { return convert<vec<uint32_t, N>>(reinterpret_cast<const loose<uint16_t, N>*>(p)->v); };
    return half(row) | half(row + pitch) << 16;
}

// c += a b for packed tiles of bf16, rows x depth and depth x columns; turned round: a lies as [k, m], b as [n, k]. 16 W columns
// of b are put into words of two elements of k first; M x 16 W sums stay in registers while k runs.
template <int M, int W, int most, bool turned_a = false, bool turned_b = false>
PK_INLINE void product_of_pairs(float* c, int c_pitch, uint16_t* a, int a_pitch, uint16_t* b, int b_pitch, int rows, int columns,
                                int depth) {
    constexpr int words = (most + 31) / 32 * 16;
    uint16 strip[words * W];
    uint32_t some[turned_a ? words * M : 1];
    const int pairs = (depth + 1) / 2;
    if (depth % 2) {  // the upper halves of the last words
        for (int i = 0; i < rows; ++i) a[turned_a ? depth * a_pitch + i : i * a_pitch + depth] = 0;
        for (int j = 0; j < columns; ++j) b[turned_b ? j * b_pitch + depth : depth * b_pitch + j] = 0;
    }
    for (int j = 0; j < columns; j += 16 * W) {
        if constexpr (turned_b)
            turn_into_strip<W>(strip, reinterpret_cast<const uint32_t*>(b + j * b_pitch), b_pitch / 2, pairs);
        else
            for (int k = 0; k < pairs; ++k)
                for (int w = 0; w < W; ++w) strip[k * W + w] = side_by_side<16>(b + 2 * k * b_pitch + j + 16 * w, b_pitch);
        int i = 0;
        for (; i + M <= rows; i += M) {
            const uint32_t* from = reinterpret_cast<const uint32_t*>(a + i * a_pitch);
            if constexpr (turned_a) {
                for (int k = 0; k < pairs; ++k)
                    reinterpret_cast<loose<uint32_t, M>*>(some + k * M)->v = side_by_side<M>(a + 2 * k * a_pitch + i, a_pitch);
                from = some;
            }
            add_rows<M, W>(c + i * c_pitch + j, c_pitch, from, turned_a ? 1 : a_pitch / 2, turned_a ? M : 1, strip, pairs);
        }
        for (; i < rows; ++i) {
            const uint32_t* from = reinterpret_cast<const uint32_t*>(a + i * a_pitch);
            if constexpr (turned_a) {
                for (int k = 0; k < pairs; ++k) some[k] = a[2 * k * a_pitch + i] | uint32_t(a[(2 * k + 1) * a_pitch + i]) << 16;
                from = some;
            }
            add_rows<1, W>(c + i * c_pitch + j, c_pitch, from, 1, 1, strip, pairs);
        }
    }
}

}  // namespace pk
