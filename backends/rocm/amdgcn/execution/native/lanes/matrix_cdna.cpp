// MFMA: D = A B + C of M x K and K x N, for one or more blocks. A wave of 64 lanes executes it whatever EXEC says (CDNA3 ISA).
//
// Layouts (CDNA3 ISA, "Matrix operand and result layouts", the same formulas in AMD's matrix instruction calculator):
// with E = K M B / 64 elements of A a lane, element e of lane l is A[i][k] of block b where
//     i = l % M,   b = l / M % B,   k = (l / (M B)) E + e
// and B likewise with j for i. Of D, N lanes in a row hold the N columns of one row. Rows of 32 bits go four by four: four
// registers hold four of them, 64 / N groups of four lie side by side in the lanes as far as the block has so many, and the rest
// follow in further registers, then the other blocks. Rows of f64 go one by one.
#include "../mfma.hpp"

namespace {

using Rows = const uint32_t (*)[kLanes];

template <class E, class S> inline void read_a(const Wave &w, const Op &op, typename E::Number (*a)[S::K][S::M]) {
    for (int b = 0; b < S::B; ++b)
        for (int k = 0; k < S::K; ++k)
            read_elements<E>(w.v + op.s[0].reg, k % S::held, S::M * (block_of_a(op, b) + S::B * (k / S::held)), S::M, a[b][k]);
}

template <class E, class S> inline void read_b(const Wave &w, const Op &op, typename E::Number (*y)[S::K][S::N]) {
    constexpr int rows = S::held * E::bits / 32 > 0 ? S::held * E::bits / 32 : 1;
    alignas(64) uint32_t moved[rows][kLanes];
    Rows from = w.v + op.s[1].reg;
    if (op.m.blgp) {
        for (int r = 0; r < rows; ++r)
            for (int l = 0; l < 64; ++l) moved[r][l] = from[r][lane_of_b(op.m.blgp, l)];
        from = moved;
    }
    for (int b = 0; b < S::B; ++b)
        for (int k = 0; k < S::K; ++k) read_elements<E>(from, k % S::held, S::N * (b + S::B * (k / S::held)), S::N, y[b][k]);
}

template <class Number> inline Number number_of(uint32_t x) { return bits_as<Number>(x); }

template <class S, class EA, class EB, class How> void mfma32(Wave &w, const Op &op) {
    using Number = typename EA::Number;
    alignas(64) Number a[S::B][S::K][S::M], y[S::B][S::K][S::N], d[S::B][S::M][S::N];
    read_a<EA, S>(w, op, a);
    read_b<EB, S>(w, op, y);
    const bool vector_c = op.s[2].kind == kVector;
    const Number constant = vector_c ? Number(0) : number_of<Number>(source(w, op, 2)[0]);
    for (int b = 0; b < S::B; ++b)
        for (int i = 0; i < S::M; ++i) {
            const Place p = place32<S>(i, b);
            if (vector_c)
                __builtin_memcpy(d[b][i], w.v[op.s[2].reg + p.reg] + p.lane, sizeof d[b][i]);
            else
                for (int j = 0; j < S::N; ++j) d[b][i][j] = constant;
        }
    for (int b = 0; b < S::B; ++b) multiply<How, S::N>(S::M, S::K, &a[b][0][0], y[b], d[b]);
    undefined32<S>(w, op, undefined_in(w, op.s[0]), undefined_in(w, op.s[1]));
    for (int b = 0; b < S::B; ++b)
        for (int i = 0; i < S::M; ++i) {
            const Place p = place32<S>(i, b);
            __builtin_memcpy(w.v[op.d[0].reg + p.reg] + p.lane, d[b][i], sizeof d[b][i]);
        }
}

// gfx90a flushes and sums in pairs, later generations do not.
template <class S, class E, class Flushed, int group> void mfma_half(Wave &w, const Op &op) {
    w.program->setup.generation == 90 ? mfma32<S, Flushed, Flushed, Pairwise<group>>(w, op) : mfma32<S, E, E, Chained>(w, op);
}

template <class S, class Fnuz, class Ocp, class FnuzB, class OcpB> void mfma_small(Wave &w, const Op &op) {
    w.program->setup.generation < 95 ? mfma32<S, ElementSmall<Fnuz>, ElementSmall<FnuzB>, Chained>(w, op)
                                     : mfma32<S, ElementSmall<Ocp>, ElementSmall<OcpB>, Chained>(w, op);
}

// ---- f64 -------------------------------------------------------------------------------------------------------------------------

inline double wide_at(const Wave &w, int reg, int lane) {
    return as_double(w.v[reg][lane] | uint64_t(w.v[reg + 1][lane]) << 32);
}

// Row i goes to 64 / (N B) rows side by side, blocks between; blgp negates A, B and C (CDNA3 ISA).
template <class S> void mfma64(Wave &w, const Op &op) {
    constexpr int side = 64 / (S::N * S::B);  // rows of one block side by side
    double result[S::B][S::M][S::N];
    const uint32_t negate = op.m.blgp | op.m.neg_lo;
    const bool vector_c = op.s[2].kind == kVector;
    const double constant = vector_c ? 0.0 : as_double(source(w, op, 2, 0)[0] | uint64_t(source(w, op, 2, 1)[0]) << 32);
    const auto at = [](int i, int j, int b) { return Place{2 * (i / side), S::N * (b + S::B * (i % side)) + j}; };
    for (int b = 0; b < S::B; ++b)
        for (int i = 0; i < S::M; ++i)
            for (int j = 0; j < S::N; ++j) {
                const Place p = at(i, j, b);
                double sum = vector_c ? wide_at(w, op.s[2].reg + p.reg, p.lane) : constant;
                if (negate & 4) sum = -sum;
                for (int k = 0; k < S::K; ++k) {
                    const int group = S::B * k;  // one element a lane
                    const double x = wide_at(w, op.s[0].reg, S::M * (b + group) + i);
                    const double y = wide_at(w, op.s[1].reg, S::N * (b + group) + j);
                    sum = __builtin_fma(negate & 1 ? -x : x, negate & 2 ? -y : y, sum);
                }
                result[b][i][j] = sum;
            }
    const uint64_t undefined = undefined_in(w, op.s[0]) | undefined_in(w, op.s[1]) | undefined_in(w, op.s[2]);
    for (unsigned r = op.d[0].reg; r < op.d[0].reg + op.d[0].dwords; ++r) w.undefined_v[r] = undefined ? ~uint64_t(0) : 0;
    for (int b = 0; b < S::B; ++b)
        for (int i = 0; i < S::M; ++i)
            for (int j = 0; j < S::N; ++j) {
                const Place p = at(i, j, b);
                const uint64_t x = as_bits(result[b][i][j]);
                w.v[op.d[0].reg + p.reg][p.lane] = uint32_t(x);
                w.v[op.d[0].reg + p.reg + 1][p.lane] = uint32_t(x >> 32);
            }
}

// gfx90a writes v_mfma_f32_32x32x1f32 where later generations write v_mfma_f32_32x32x1_2b_f32.
#define F32(M, K, B, old_name, name)                                                                         \
    add("v_mfma_f32_" old_name "f32", (mfma32<Shape<M, M, K, B>, ElementF32, ElementF32, Chained>));         \
    add("v_mfma_f32_" name "_f32", (mfma32<Shape<M, M, K, B>, ElementF32, ElementF32, Chained>));
#define F16(M, K, B, old_name, name)                                                                         \
    add("v_mfma_f32_" old_name "f16", (mfma_half<Shape<M, M, K, B>, ElementF16, ElementF16Flushed, 4>));     \
    add("v_mfma_f32_" name "_f16", (mfma_half<Shape<M, M, K, B>, ElementF16, ElementF16Flushed, 4>));
#define BF16(M, K, B, old_name, name)                                                                        \
    add("v_mfma_f32_" old_name "bf16_1k", (mfma_half<Shape<M, M, K, B>, ElementBf16, ElementBf16Flushed, 4>)); \
    add("v_mfma_f32_" name "_bf16", (mfma_half<Shape<M, M, K, B>, ElementBf16, ElementBf16Flushed, 4>));
#define BF16_NARROW(M, K, B, name)                                                                           \
    add("v_mfma_f32_" name "bf16", (mfma_half<Shape<M, M, K, B>, ElementBf16, ElementBf16Flushed, 2>));
#define I8(M, K, B, name) add("v_mfma_i32_" name, (mfma32<Shape<M, M, K, B>, ElementI8, ElementI8, Chained>));
#define SMALL(M, K, name)                                                                                    \
    add("v_mfma_f32_" name "_fp8_fp8", (mfma_small<Shape<M, M, K, 1>, Fp8Fnuz, Fp8Ocp, Fp8Fnuz, Fp8Ocp>));   \
    add("v_mfma_f32_" name "_fp8_bf8", (mfma_small<Shape<M, M, K, 1>, Fp8Fnuz, Fp8Ocp, Bf8Fnuz, Bf8Ocp>));   \
    add("v_mfma_f32_" name "_bf8_fp8", (mfma_small<Shape<M, M, K, 1>, Bf8Fnuz, Bf8Ocp, Fp8Fnuz, Fp8Ocp>));   \
    add("v_mfma_f32_" name "_bf8_bf8", (mfma_small<Shape<M, M, K, 1>, Bf8Fnuz, Bf8Ocp, Bf8Fnuz, Bf8Ocp>));

}  // namespace

HANDLERS(matrix_cdna) {
    F32(32, 1, 2, "32x32x1", "32x32x1_2b")
    F32(16, 1, 4, "16x16x1", "16x16x1_4b")
    F32(4, 1, 16, "4x4x1", "4x4x1_16b")
    F32(32, 2, 1, "32x32x2", "32x32x2")
    F32(16, 4, 1, "16x16x4", "16x16x4")
    F16(32, 4, 2, "32x32x4", "32x32x4_2b")
    F16(16, 4, 4, "16x16x4", "16x16x4_4b")
    F16(4, 4, 16, "4x4x4", "4x4x4_16b")
    F16(32, 8, 1, "32x32x8", "32x32x8")
    F16(16, 16, 1, "16x16x16", "16x16x16")
    BF16(32, 4, 2, "32x32x4", "32x32x4_2b")
    BF16(16, 4, 4, "16x16x4", "16x16x4_4b")
    BF16(4, 4, 16, "4x4x4", "4x4x4_16b")
    BF16(32, 8, 1, "32x32x8", "32x32x8")
    BF16(16, 16, 1, "16x16x16", "16x16x16")
    BF16_NARROW(32, 2, 2, "32x32x2")
    BF16_NARROW(16, 2, 4, "16x16x2")
    BF16_NARROW(4, 2, 16, "4x4x2")
    BF16_NARROW(32, 4, 1, "32x32x4")
    BF16_NARROW(16, 8, 1, "16x16x8")
    I8(32, 4, 2, "32x32x4i8")
    I8(16, 4, 4, "16x16x4i8")
    I8(4, 4, 16, "4x4x4i8")
    I8(32, 8, 1, "32x32x8i8")
    I8(16, 16, 1, "16x16x16i8")
    I8(32, 4, 2, "32x32x4_2b_i8")
    I8(16, 4, 4, "16x16x4_4b_i8")
    I8(4, 4, 16, "4x4x4_16b_i8")
    I8(32, 16, 1, "32x32x16_i8")
    I8(16, 32, 1, "16x16x32_i8")
    SMALL(16, 32, "16x16x32")
    SMALL(32, 16, "32x32x16")
    add("v_mfma_f32_16x16x8_xf32", (mfma32<Shape<16, 16, 8, 1>, ElementXf32, ElementXf32, Chained>));
    add("v_mfma_f32_32x32x4_xf32", (mfma32<Shape<32, 32, 4, 1>, ElementXf32, ElementXf32, Chained>));
    // gfx950
    add("v_mfma_f32_16x16x32_f16", (mfma32<Shape<16, 16, 32, 1>, ElementF16, ElementF16, Chained>));
    add("v_mfma_f32_32x32x16_f16", (mfma32<Shape<32, 32, 16, 1>, ElementF16, ElementF16, Chained>));
    add("v_mfma_f32_16x16x32_bf16", (mfma32<Shape<16, 16, 32, 1>, ElementBf16, ElementBf16, Chained>));
    add("v_mfma_f32_32x32x16_bf16", (mfma32<Shape<32, 32, 16, 1>, ElementBf16, ElementBf16, Chained>));
    I8(16, 64, 1, "16x16x64_i8")
    I8(32, 32, 1, "32x32x32_i8")
    // f64
    add("v_mfma_f64_16x16x4f64", (mfma64<Shape<16, 16, 4, 1>>));
    add("v_mfma_f64_16x16x4_f64", (mfma64<Shape<16, 16, 4, 1>>));
    add("v_mfma_f64_4x4x4f64", (mfma64<Shape<4, 4, 4, 4>>));
    add("v_mfma_f64_4x4x4_4b_f64", (mfma64<Shape<4, 4, 4, 4>>));
}
