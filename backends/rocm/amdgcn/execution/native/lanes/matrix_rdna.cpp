// WMMA: D = A B + C of 16 x 16 x K by a wave of 32 lanes, all of which must be active.
//
// Layouts. RDNA3 (ISA "Wave matrix multiply accumulate"): lane l holds all of row l % 16 of A and of column l % 16 of B, both
// halves of the wave the same; register r of D holds row 2 r + l / 16, column l % 16. RDNA4 (ISA; AMD's matrix
// instruction calculator): the halves hold different depths, in registers of two dwords: element e of 16 bits of lane l is depth
// e % 4 + 8 (e / 4) + 4 (l / 16), while smaller elements go half by half; register r of D holds row r + 8 (l / 16). Results of
// 16 bits lie in one half of eight registers (RDNA3, op_sel says which) or two a register (RDNA4).
#include "../matrix.hpp"

namespace {

constexpr int kRows = 16, kColumns = 16;

inline bool replicates(const Wave &w) { return w.program->setup.generation < 120; }

// Depth `k` of a row of A or column of B: which half of the wave holds it, and as which element.
template <class E, int K> inline void find_depth(bool replicated, int k, int *half, int *element) {
    if (replicated) {
        *half = 0;
        *element = k;
    } else if (E::bits == 16) {
        *half = k / 4 % 2;
        *element = k % 4 + 4 * (k / 8);
    } else {
        *half = k / (K / 2);
        *element = k % (K / 2);
    }
}

// Rows of A or columns of B whose result is undefined: what is in them was never written, or the halves of the wave, which
// RDNA3 wants alike, differ.
inline uint32_t undefined_lines(const Wave &w, const Operand &o) {
    uint64_t lanes = undefined_in(w, o);
    if (replicates(w))
        for (unsigned r = o.reg; r < o.reg + o.dwords; ++r)
            for (int l = 0; l < 16; ++l) lanes |= uint64_t(w.v[r][l] != w.v[r][l + 16]) << l;
    return uint32_t(lanes | lanes >> 16) & 0xffff;
}

void need_all_lanes(const Wave &w, const Op &op) {
    if (!w.full) fail(w, op, "matrix operation", "lanes are inactive: EXEC must be all ones (RDNA3 ISA 7.9)");
}

// A as [k][i], B as [k][j].
template <class E, int K> inline void read_operand(const Wave &w, const Op &op, int s, typename E::Number (*to)[16]) {
    const bool replicated = replicates(w);
    for (int k = 0; k < K; ++k) {
        int half, element;
        find_depth<E, K>(replicated, k, &half, &element);
        read_elements<E>(w.v + op.s[s].reg, element, 16 * half, 16, to[k]);
    }
}

// Signs of 16-bit elements: neg_lo for even ones, neg_hi for odd ones (RDNA3 ISA, "NEG").
template <int K> inline void negate(const Op &op, int s, float (*x)[16]) {
    for (int k = 0; k < K; ++k)
        if ((k & 1 ? op.m.neg_hi : op.m.neg_lo) >> s & 1)
            for (int i = 0; i < 16; ++i) x[k][i] = -x[k][i];
}

// ---- C and D: eight accumulators a lane ------------------------------------------------------------------------------------------

inline int row_of(const Wave &w, int r, int half) { return replicates(w) ? 2 * r + half : r + 8 * half; }

// Register r of D holds rows of both halves; two rows a register where results are packed.
inline void set_undefined(Wave &w, const Op &op) {
    const uint32_t rows = undefined_lines(w, op.s[0]), columns = undefined_lines(w, op.s[1]);
    const int each = op.d[0].dwords < 8 ? 2 : 1;
    uint64_t now[8] = {};
    for (int r = 0; r < op.d[0].dwords; ++r) {
        if (op.s[2].kind == kVector) now[r] = w.undefined_v[op.s[2].reg + unsigned(r)];
        for (int half = 0; half < 2; ++half)
            for (int n = 0; n < each; ++n) {
                const bool row = rows >> row_of(w, each * r + n, half) & 1;
                now[r] |= uint64_t(row ? 0xffff : columns) << 16 * half;
            }
    }
    for (int r = 0; r < op.d[0].dwords; ++r) w.undefined_v[op.d[0].reg + unsigned(r)] = now[r];
}

inline uint32_t initial(Wave &w, const Op &op, int r, int lane) {
    return op.s[2].kind == kVector ? w.v[op.s[2].reg + unsigned(r)][lane] : source(w, op, 2)[0];
}

template <class Number, class From> inline void read_c(Wave &w, Number (*d)[16], From from) {
    for (int r = 0; r < 8; ++r)
        for (int l = 0; l < 32; ++l) d[row_of(w, r, l / 16)][l % 16] = from(r, l);
}

template <class EA, class EB, int K> void wmma_f32(Wave &w, const Op &op) {
    need_all_lanes(w, op);
    alignas(64) float a[K][16], b[K][16], d[16][16];
    read_operand<EA, K>(w, op, 0, a);
    read_operand<EB, K>(w, op, 1, b);
    if (EA::bits == 16) negate<K>(op, 0, a), negate<K>(op, 1, b);
    const bool negative = op.m.neg_lo & 4, absolute = op.m.neg_hi & 4;
    read_c(w, d, [&](int r, int l) {
        uint32_t x = initial(w, op, r, l);
        x = absolute ? x & 0x7fffffff : x;
        return as_float(negative ? x ^ 0x80000000 : x);
    });
    multiply<Chained, kColumns>(kRows, K, &a[0][0], b, d);
    set_undefined(w, op);
    for (int r = 0; r < 8; ++r)
        for (int l = 0; l < 32; ++l) w.v[op.d[0].reg + unsigned(r)][l] = as_bits(d[row_of(w, r, l / 16)][l % 16]);
}

struct NarrowF16 {
    static float wide(uint32_t x) { return as_float(f32_from_f16(x)); }
    static uint32_t narrow(float x) { return f16_from_f32(as_bits(x)); }
};
struct NarrowBf16 {
    static float wide(uint32_t x) { return as_float(f32_from_bf16(x)); }
    static uint32_t narrow(float x) { return bf16_from_f32(as_bits(x)); }
};

// The sums are kept in f32 and rounded once at the end; the guides do not say how often hardware rounds them.
template <class E, class Narrow> void wmma_narrow(Wave &w, const Op &op) {
    need_all_lanes(w, op);
    constexpr int K = 16;
    alignas(64) float a[K][16], b[K][16], d[16][16];
    read_operand<E, K>(w, op, 0, a);
    read_operand<E, K>(w, op, 1, b);
    negate<K>(op, 0, a);
    negate<K>(op, 1, b);
    const bool one_each = replicates(w);
    const uint32_t shift = op.m.op_sel & 4 ? 16 : 0;
    const bool negative = op.m.neg_lo & 4, absolute = op.m.neg_hi & 4;
    read_c(w, d, [&](int r, int l) {
        const uint32_t x = one_each ? initial(w, op, r, l) >> shift : initial(w, op, r / 2, l) >> 16 * (r % 2);
        const float c = Narrow::wide(x & 0xffff), magnitude = absolute && c < 0 ? -c : c;
        return negative ? -magnitude : magnitude;
    });
    multiply<Chained, kColumns>(kRows, K, &a[0][0], b, d);
    set_undefined(w, op);
    for (int r = 0; r < 8; ++r)
        for (int l = 0; l < 32; ++l) {
            const uint32_t x = Narrow::narrow(d[row_of(w, r, l / 16)][l % 16]);
            const uint32_t at = one_each ? shift : 16 * (r % 2);
            uint32_t &to = w.v[op.d[0].reg + unsigned(one_each ? r : r / 2)][l];
            to = (to & ~(0xffffu << at)) | x << at;
        }
}

template <class Signed, class Unsigned, int K> void wmma_i32(Wave &w, const Op &op) {
    need_all_lanes(w, op);
    alignas(64) int32_t a[K][16], b[K][16];
    int64_t d[16][16];
    op.m.neg_lo & 1 ? read_operand<Signed, K>(w, op, 0, a) : read_operand<Unsigned, K>(w, op, 0, a);
    op.m.neg_lo & 2 ? read_operand<Signed, K>(w, op, 1, b) : read_operand<Unsigned, K>(w, op, 1, b);
    read_c(w, d, [&](int r, int l) { return int64_t(int32_t(initial(w, op, r, l))); });
    for (int i = 0; i < 16; ++i)
        for (int k = 0; k < K; ++k)
            for (int j = 0; j < 16; ++j) d[i][j] += int64_t(a[k][i]) * b[k][j];
    set_undefined(w, op);
    for (int r = 0; r < 8; ++r)
        for (int l = 0; l < 32; ++l) {
            int64_t x = d[row_of(w, r, l / 16)][l % 16];
            if (op.m.clamp) x = x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x;
            w.v[op.d[0].reg + unsigned(r)][l] = uint32_t(x);
        }
}

using Fp8 = ElementSmall<Fp8Ocp>;
using Bf8 = ElementSmall<Bf8Ocp>;

}  // namespace

HANDLERS(matrix_rdna) {
    add("v_wmma_f32_16x16x16_f16", (wmma_f32<ElementF16, ElementF16, 16>));
    add("v_wmma_f32_16x16x16_bf16", (wmma_f32<ElementBf16, ElementBf16, 16>));
    add("v_wmma_f32_16x16x16_fp8_fp8", (wmma_f32<Fp8, Fp8, 16>));
    add("v_wmma_f32_16x16x16_fp8_bf8", (wmma_f32<Fp8, Bf8, 16>));
    add("v_wmma_f32_16x16x16_bf8_fp8", (wmma_f32<Bf8, Fp8, 16>));
    add("v_wmma_f32_16x16x16_bf8_bf8", (wmma_f32<Bf8, Bf8, 16>));
    add("v_wmma_f16_16x16x16_f16", (wmma_narrow<ElementF16, NarrowF16>));
    add("v_wmma_bf16_16x16x16_bf16", (wmma_narrow<ElementBf16, NarrowBf16>));
    add("v_wmma_i32_16x16x16_iu8", (wmma_i32<ElementI8, ElementU8, 16>));
    add("v_wmma_i32_16x16x16_iu4", (wmma_i32<ElementI4, ElementU4, 16>));
    add("v_wmma_i32_16x16x32_iu4", (wmma_i32<ElementI4, ElementU4, 32>));
}
