// Sparse products: D = A B + D, where of every four neighbouring depths of A two are held, and 2 bits each say which (CDNA3 ISA,
// "Sparse matrices", V_SMFMAC; RDNA4 ISA, V_SWMMAC). AMD's matrix instruction calculator gives the same places.
//
// A lies in registers as a dense matrix of half the depth would; the indices of a lane's elements follow each other in one register,
// 2 bits an element. Where they need 8 or 16 bits of it, `abid` (with cbsz 0) or `index_key` says which of the sets. Each product
// takes the row of B that the index names, so infinities in the other rows play no part.
#include "../mfma.hpp"

namespace {

constexpr int kPair = 2, kGroup = 4;  // held, of so many

// Which of the sets of 2 n bits.
inline uint32_t first_bit(int n, int set) { return 2 * n >= 32 ? 0 : uint32_t(2 * n * (set & (32 / (2 * n) - 1))); }

// Row of B for element `e` of a lane, which is at compressed depth `k`.
inline int depth_of(uint32_t indices, uint32_t from, int e, int k) {
    return k / kPair * kGroup + int(indices >> (from + 2 * uint32_t(e)) & 3);
}

// d[j] += a[k] b[the row that rows[k] names][j], a fused multiply-add for each k.
template <int N, int K> inline void add_row(const float *a, const int *rows, const float (*b)[N], float *d) {
    for (int k = 0; k < K; ++k)
        for (int j = 0; j < N; ++j) d[j] = __builtin_fmaf(a[k], b[rows[k]][j], d[j]);
}
template <int N, int K> inline void add_row(const int32_t *a, const int *rows, const int32_t (*b)[N], int32_t *d) {
    for (int k = 0; k < K; ++k)
        for (int j = 0; j < N; ++j) d[j] = int32_t(uint32_t(d[j]) + uint32_t(a[k]) * uint32_t(b[rows[k]][j]));
}

// ---- CDNA --------------------------------------------------------------------------------------------------------------------------

template <int M, int K, class EA, class EB> void smfmac(Wave &w, const Op &op) {
    using Number = typename EA::Number;
    using A = Shape<M, M, K / 2, 1>;
    using B = Shape<M, M, K, 1>;
    alignas(64) Number b[K][M], d[M];
    for (int k = 0; k < K; ++k) read_elements<EB>(w.v + op.s[1].reg, k % B::held, M * (k / B::held), M, b[k]);
    const uint32_t from = first_bit(A::held, op.m.cbsz ? 0 : op.m.abid);
    Op dense = op;  // with C where a dense product has it, and no broadcast
    dense.s[2] = op.d[0];
    dense.m.cbsz = dense.m.abid = dense.m.blgp = 0;
    undefined32<B>(w, dense, undefined_in(w, op.s[0]) | undefined_in(w, op.s[2]), undefined_in(w, op.s[1]));
    alignas(64) uint32_t result[M * M / 64][kLanes];
    for (int i = 0; i < M; ++i) {
        Number a[K / 2];
        int rows[K / 2];
        for (int k = 0; k < K / 2; ++k) {
            const int lane = i + M * (k / A::held), e = k % A::held;
            read_elements<EA>(w.v + op.s[0].reg, e, lane, 1, a + k);
            rows[k] = depth_of(w.v[op.s[2].reg][lane], from, e, k);
        }
        const Place p = place32<B>(i, 0);
        __builtin_memcpy(d, w.v[op.d[0].reg + unsigned(p.reg)] + p.lane, sizeof d);
        add_row<M, K / 2>(a, rows, b, d);
        __builtin_memcpy(result[p.reg] + p.lane, d, sizeof d);
    }
    __builtin_memcpy(w.v[op.d[0].reg], result, sizeof result);
}

template <int M, int K, class Fnuz, class Ocp, class FnuzB, class OcpB> void smfmac_small(Wave &w, const Op &op) {
    w.program->setup.generation < 95 ? smfmac<M, K, ElementSmall<Fnuz>, ElementSmall<FnuzB>>(w, op)
                                     : smfmac<M, K, ElementSmall<Ocp>, ElementSmall<OcpB>>(w, op);
}

// ---- RDNA 4 ------------------------------------------------------------------------------------------------------------------------

// Depth `k` of K: which half of the wave holds it, and as which element. They take turns by quarters of K where elements have 16
// bits (dense products are 16 deep: by fours), and have half of K each otherwise.
template <class E> inline void find(int K, int k, int *half, int *element) {
    const int run = E::bits == 16 ? K / 4 : K / 2;
    *half = k / run % 2;
    *element = k % run + run * (k / (2 * run));
}

template <class EA, class EB, int K> struct Operands {
    typename EA::Number a[16][K / 2];
    int rows[16][K / 2];
    typename EB::Number b[K][16];

    Operands(const Wave &w, const Op &op) {
        for (int k = 0; k < K; ++k) {
            int half, e;
            find<EB>(K, k, &half, &e);
            read_elements<EB>(w.v + op.s[1].reg, e, 16 * half, 16, b[k]);
        }
        const uint32_t from = first_bit(K / 4, op.m.extra);
        for (int k = 0; k < K / 2; ++k) {
            int half, e;
            find<EA>(K / 2, k, &half, &e);
            typename EA::Number column[16];
            read_elements<EA>(w.v + op.s[0].reg, e, 16 * half, 16, column);
            for (int i = 0; i < 16; ++i) {
                a[i][k] = column[i];
                rows[i][k] = depth_of(w.v[op.s[2].reg][16 * half + i], from, e, k);
            }
        }
        if (EA::bits != 16) return;
        for (int i = 0; i < 16; ++i)
            for (int k = 0; k < K / 2; ++k)
                if ((k & 1 ? op.m.neg_hi : op.m.neg_lo) & 1) a[i][k] = -a[i][k];
        for (int k = 0; k < K; ++k)
            for (int j = 0; j < 16; ++j)
                if ((k & 1 ? op.m.neg_hi : op.m.neg_lo) & 2) b[k][j] = -b[k][j];
    }
};

// Register r of D holds row r + 8 (l / 16), two rows a register where results have 16 bits.
inline void mark(Wave &w, const Op &op) {
    if (!w.full) fail(w, op, "matrix operation", "lanes are inactive: EXEC must be all ones (RDNA3 ISA 7.9)");
    uint64_t lines = undefined_in(w, op.s[0]) | undefined_in(w, op.s[2]), columns = undefined_in(w, op.s[1]);
    const uint32_t rows = uint32_t(lines | lines >> 16) & 0xffff;
    columns = (columns | columns >> 16) & 0xffff;
    const int each = op.d[0].dwords < 8 ? 2 : 1;
    for (int r = 0; r < op.d[0].dwords; ++r)
        for (int half = 0; half < 2; ++half)
            for (int n = 0; n < each; ++n)
                w.undefined_v[op.d[0].reg + unsigned(r)] |= uint64_t(rows >> (each * r + n + 8 * half) & 1 ? 0xffff : columns) << 16 * half;
}

template <class EA, class EB, int K> void swmmac_f32(Wave &w, const Op &op) {
    mark(w, op);
    const Operands<EA, EB, K> x(w, op);
    for (int i = 0; i < 16; ++i) {
        uint32_t *const row = w.v[op.d[0].reg + unsigned(i % 8)] + 16 * (i / 8);
        float d[16];
        __builtin_memcpy(d, row, sizeof d);
        add_row<16, K / 2>(x.a[i], x.rows[i], x.b, d);
        __builtin_memcpy(row, d, sizeof d);
    }
}

struct Half : ElementF16 {
    static uint32_t narrow(float x) { return f16_from_f32(as_bits(x)); }
};
struct Brain : ElementBf16 {
    static uint32_t narrow(float x) { return bf16_from_f32(as_bits(x)); }
};

// Sums in f32, rounded once at the end, as for WMMA.
template <class E> void swmmac_narrow(Wave &w, const Op &op) {
    mark(w, op);
    constexpr int K = 32;
    const Operands<E, E, K> x(w, op);
    for (int i = 0; i < 16; ++i) {
        uint32_t *const row = w.v[op.d[0].reg + unsigned(i % 8 / 2)] + 16 * (i / 8);
        const int at = 16 * (i % 2);
        float d[16];
        for (int j = 0; j < 16; ++j) d[j] = E::value(row[j] >> at & 0xffff);
        add_row<16, K / 2>(x.a[i], x.rows[i], x.b, d);
        for (int j = 0; j < 16; ++j) row[j] = (row[j] & ~(0xffffu << at)) | E::narrow(d[j]) << at;
    }
}

template <class EA, class EB, int K> void add_whole(Wave &w, const Op &op) {
    const Operands<EA, EB, K> x(w, op);
    for (int i = 0; i < 16; ++i) {
        uint32_t *const row = w.v[op.d[0].reg + unsigned(i % 8)] + 16 * (i / 8);
        for (int j = 0; j < 16; ++j) {
            int64_t sum = int32_t(row[j]);
            for (int k = 0; k < K / 2; ++k) sum += int64_t(x.a[i][k]) * x.b[x.rows[i][k]][j];
            if (op.m.clamp) sum = sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum;
            row[j] = uint32_t(sum);
        }
    }
}

template <class Signed, class Unsigned, int K> void swmmac_i32(Wave &w, const Op &op) {
    mark(w, op);
    if (op.m.neg_lo & 1)
        op.m.neg_lo & 2 ? add_whole<Signed, Signed, K>(w, op) : add_whole<Signed, Unsigned, K>(w, op);
    else
        op.m.neg_lo & 2 ? add_whole<Unsigned, Signed, K>(w, op) : add_whole<Unsigned, Unsigned, K>(w, op);
}

using Fp8 = ElementSmall<Fp8Ocp>;
using Bf8 = ElementSmall<Bf8Ocp>;

#define SMFMAC(M, K, kind, E) add("v_smfmac_" kind, (smfmac<M, K, E, E>));
#define SMFMAC_SMALL(M, K, name)                                                                    \
    add("v_smfmac_f32_" name "_fp8_fp8", (smfmac_small<M, K, Fp8Fnuz, Fp8Ocp, Fp8Fnuz, Fp8Ocp>));   \
    add("v_smfmac_f32_" name "_fp8_bf8", (smfmac_small<M, K, Fp8Fnuz, Fp8Ocp, Bf8Fnuz, Bf8Ocp>));   \
    add("v_smfmac_f32_" name "_bf8_fp8", (smfmac_small<M, K, Bf8Fnuz, Bf8Ocp, Fp8Fnuz, Fp8Ocp>));   \
    add("v_smfmac_f32_" name "_bf8_bf8", (smfmac_small<M, K, Bf8Fnuz, Bf8Ocp, Bf8Fnuz, Bf8Ocp>));

}  // namespace

HANDLERS(matrix_sparse) {
    SMFMAC(16, 32, "f32_16x16x32_f16", ElementF16)
    SMFMAC(32, 16, "f32_32x32x16_f16", ElementF16)
    SMFMAC(16, 32, "f32_16x16x32_bf16", ElementBf16)
    SMFMAC(32, 16, "f32_32x32x16_bf16", ElementBf16)
    SMFMAC(16, 64, "i32_16x16x64_i8", ElementI8)
    SMFMAC(32, 32, "i32_32x32x32_i8", ElementI8)
    SMFMAC_SMALL(16, 64, "16x16x64")
    SMFMAC_SMALL(32, 32, "32x32x32")
    // gfx950
    SMFMAC(16, 64, "f32_16x16x64_f16", ElementF16)
    SMFMAC(32, 32, "f32_32x32x32_f16", ElementF16)
    SMFMAC(16, 64, "f32_16x16x64_bf16", ElementBf16)
    SMFMAC(32, 32, "f32_32x32x32_bf16", ElementBf16)
    SMFMAC(16, 128, "i32_16x16x128_i8", ElementI8)
    SMFMAC(32, 64, "i32_32x32x64_i8", ElementI8)
    SMFMAC_SMALL(16, 128, "16x16x128")
    SMFMAC_SMALL(32, 64, "32x32x64")
    add("v_swmmac_f32_16x16x32_f16", (swmmac_f32<ElementF16, ElementF16, 32>));
    add("v_swmmac_f32_16x16x32_bf16", (swmmac_f32<ElementBf16, ElementBf16, 32>));
    add("v_swmmac_f32_16x16x32_fp8_fp8", (swmmac_f32<Fp8, Fp8, 32>));
    add("v_swmmac_f32_16x16x32_fp8_bf8", (swmmac_f32<Fp8, Bf8, 32>));
    add("v_swmmac_f32_16x16x32_bf8_fp8", (swmmac_f32<Bf8, Fp8, 32>));
    add("v_swmmac_f32_16x16x32_bf8_bf8", (swmmac_f32<Bf8, Bf8, 32>));
    add("v_swmmac_f16_16x16x32_f16", (swmmac_narrow<Half>));
    add("v_swmmac_bf16_16x16x32_bf16", (swmmac_narrow<Brain>));
    add("v_swmmac_i32_16x16x32_iu8", (swmmac_i32<ElementI8, ElementU8, 32>));
    add("v_swmmac_i32_16x16x32_iu4", (swmmac_i32<ElementI4, ElementU4, 32>));
    add("v_swmmac_i32_16x16x64_iu4", (swmmac_i32<ElementI4, ElementU4, 64>));
}
