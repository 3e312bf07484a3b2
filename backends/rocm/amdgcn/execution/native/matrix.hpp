// What MFMA and WMMA share: element formats, products of small matrices, and undefinedness by row and column.
//
// Which element of A, B and D a lane's register holds is in matrix_cdna.cpp and matrix_rdna.cpp, with the documents.
#pragma once

#include "half.hpp"

namespace {

// ---- element formats: bits of storage, and the value that the raw bits stand for -----------------------------------------------

struct ElementF32 {
    using Number = float;
    static constexpr int bits = 32;
    static float value(uint32_t x) { return as_float(x); }
};
struct ElementXf32 {  // f32 cut to 10 bits of mantissa (arXiv:2511.10909, table of CDNA3; AMD's guide gives the precision only)
    using Number = float;
    static constexpr int bits = 32;
    static float value(uint32_t x) { return as_float(x & 0xffffe000); }
};
struct ElementF16 {
    using Number = float;
    static constexpr int bits = 16;
    static float value(uint32_t x) { return as_float(f32_from_f16(x)); }
};
struct ElementBf16 {
    using Number = float;
    static constexpr int bits = 16;
    static float value(uint32_t x) { return as_float(f32_from_bf16(x)); }
};
// Denormals as zeros: MFMA on f16 and bf16 of gfx90a (AMD, MIOpen documentation, "MI200 MFMA behavior specifics").
struct ElementF16Flushed : ElementF16 {
    static float value(uint32_t x) { return ElementF16::value(x & 0x7c00 ? x : x & 0x8000); }
};
struct ElementBf16Flushed : ElementBf16 {
    static float value(uint32_t x) { return ElementBf16::value(x & 0x7f80 ? x : x & 0x8000); }
};
template <class F> struct ElementSmall {
    using Number = float;
    static constexpr int bits = 8;
    static float value(uint32_t x) { return as_float(f32_from_small(x, F::value)); }
};
struct ElementI8 {
    using Number = int32_t;
    static constexpr int bits = 8;
    static int32_t value(uint32_t x) { return int32_t(x << 24) >> 24; }
};
struct ElementU8 {
    using Number = int32_t;
    static constexpr int bits = 8;
    static int32_t value(uint32_t x) { return int32_t(x); }
};
struct ElementI4 {
    using Number = int32_t;
    static constexpr int bits = 4;
    static int32_t value(uint32_t x) { return int32_t(x << 28) >> 28; }
};
struct ElementU4 {
    using Number = int32_t;
    static constexpr int bits = 4;
    static int32_t value(uint32_t x) { return int32_t(x); }
};

// `count` consecutive lanes of element `e` of a lane's registers, which begin at row `reg`.
template <class E> inline void read_elements(const uint32_t (*rows)[kLanes], int e, int lane, int count, typename E::Number *to) {
    const uint32_t *row = rows[e * E::bits / 32] + lane;
    const int shift = e * E::bits % 32;
    constexpr uint32_t mask = E::bits == 32 ? ~0u : (1u << E::bits % 32) - 1;
    for (int i = 0; i < count; ++i) to[i] = E::value(row[i] >> shift & mask);
}

// ---- products ------------------------------------------------------------------------------------------------------------------

// One row of D: the sum over k of a[k] b[k][j], added to d[j]. Order and rounding are where the generations differ, and AMD's
// guides say neither. Chained: a fused multiply-add for each k, rounded to nearest even.
struct Chained {
    template <int N> static void row(const float *a, int stride, int depth, const float (*b)[N], float *d) {
#if defined(__FMA__)
        // By hand, as the sums then stay in registers however hard the compiler tries.
        if constexpr (N % 8 == 0) {
            __m256 sums[N / 8];
#pragma GCC unroll 4
            for (int q = 0; q < N / 8; ++q) sums[q] = _mm256_loadu_ps(d + 8 * q);
            for (int k = 0; k < depth; ++k) {
                const __m256 x = _mm256_set1_ps(a[k * stride]);
#pragma GCC unroll 4
                for (int q = 0; q < N / 8; ++q) sums[q] = _mm256_fmadd_ps(x, _mm256_loadu_ps(b[k] + 8 * q), sums[q]);
            }
#pragma GCC unroll 4
            for (int q = 0; q < N / 8; ++q) _mm256_storeu_ps(d + 8 * q, sums[q]);
            return;
        }
#endif
        for (int k = 0; k < depth; ++k)
            for (int j = 0; j < N; ++j) d[j] = __builtin_fmaf(a[k * stride], b[k][j], d[j]);
    }
    template <int N> static void row(const int32_t *a, int stride, int depth, const int32_t (*b)[N], int32_t *d) {
        for (int k = 0; k < depth; ++k)
            for (int j = 0; j < N; ++j) d[j] = int32_t(uint32_t(d[j]) + uint32_t(a[k * stride] * b[k][j]));
    }
};

inline float flushed_denormal(float x) {
    const uint32_t b = as_bits(x);
    return as_float(b & 0x7f800000 ? b : b & 0x80000000);
}

// gfx90a on f16 and bf16: sums of `group` products, pair by pair, then added to D; denormal results become zeros (the order is
// the one measured in arXiv:2511.10909, the flushing AMD's, see ElementF16Flushed).
template <int group> struct Pairwise {
    template <int N> static void row(const float *a, int stride, int depth, const float (*b)[N], float *d) {
        for (int j = 0; j < N; ++j) d[j] = flushed_denormal(d[j]);
        for (int k = 0; k < depth; k += group)
            for (int j = 0; j < N; ++j) {
                float p[group];
                for (int n = 0; n < group; ++n) p[n] = flushed_denormal(a[(k + n) * stride] * b[k + n][j]);
                float sum = flushed_denormal(p[0] + p[1]);
                if (group == 4) sum = flushed_denormal(sum + flushed_denormal(p[group - 2] + p[group - 1]));
                d[j] = flushed_denormal(d[j] + sum);
            }
    }
};

// All of D, with A as [k][i]. One function for each number of columns, not for each shape and format: it is what takes long to
// compile, and the depth is not worth knowing.
template <class How, int N, class Number>
__attribute__((noinline)) void multiply(int rows, int depth, const Number *a, const Number (*b)[N], Number (*d)[N]) {
    for (int i = 0; i < rows; ++i) How::template row<N>(a + i, rows, depth, b, d[i]);
}

// ---- undefinedness ---------------------------------------------------------------------------------------------------------------

inline uint64_t undefined_in(const Wave &w, const Operand &o) {
    uint64_t any = 0;
    if (o.kind == kVector)
        for (unsigned r = o.reg; r < o.reg + o.dwords; ++r) any |= w.undefined_v[r];
    return any & all_lanes(w);
}

}  // namespace
