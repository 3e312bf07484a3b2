// MFMA on 8, 6 and 4-bit floats with a scale for every 32 elements of a row of A and of a column of B (CDNA4).
//
// cbsz and blgp name the formats of A and B (CDNA4 ISA, "MFMA with block exponent scaling"; OCP "Microscaling Formats" 1.0): 0 fp8,
// 1 bf8, 2 fp6 (E2M3), 3 bf6 (E3M2), 4 fp4 (E2M1). A lane holds 32 elements of row l % M: of 6 and 4 bits those of depth
// 32 (l / M) + e; of 8 bits the first 16 from depth 16 (l / M) on, the others K / 2 further. Its scale is a byte (2^(x - 127),
// 255 is NaN) of the scale register, by op_sel and op_sel_hi, and belongs to depths 32 (l / M) and on of that row.
//
// How sums are rounded is not documented: here the 32 products of a scale are summed in double and rounded once with D.
#include "../mfma.hpp"

namespace {

constexpr Format fp6_ocp{2, 3, 1, Specials::ieee}, bf6_ocp{3, 2, 3, Specials::ieee}, fp4_ocp{2, 1, 1, Specials::ieee};

// Formats without NaN and infinity.
inline double finite(uint32_t x, const Format &f) {
    const int mantissa = int(x & ((1u << f.mantissa_bits) - 1));
    const int exponent = int(x >> f.mantissa_bits & ((1u << f.exponent_bits) - 1));
    const int significand = exponent ? mantissa + (1 << f.mantissa_bits) : mantissa;
    const double magnitude = __builtin_ldexp(double(significand), (exponent ? exponent : 1) - f.bias - f.mantissa_bits);
    return x >> (f.exponent_bits + f.mantissa_bits) & 1 ? -magnitude : magnitude;
}

// What every pattern of bits stands for, by format.
struct Values {
    double of[5][256];
    Values() {
        for (uint32_t x = 0; x < 256; ++x) {
            of[0][x] = double(as_float(f32_from_small(x, fp8_ocp)));
            of[1][x] = double(as_float(f32_from_small(x, bf8_ocp)));
            of[2][x] = finite(x & 63, fp6_ocp);
            of[3][x] = finite(x & 63, bf6_ocp);
            of[4][x] = finite(x & 15, fp4_ocp);
        }
    }
};

inline const double *values_of(int format) {
    static const Values values;
    return values.of[format < 4 ? format : 4];
}

inline int bits_of(int format) { return format < 2 ? 8 : format < 4 ? 6 : 4; }

// Element `e` of a lane's registers; those of 6 bits cross from one register to the next.
inline uint32_t raw_element(const Wave &w, unsigned reg, int e, int bits, int lane) {
    const int from = e * bits;
    uint64_t two = w.v[reg + unsigned(from) / 32][lane];
    if (from % 32 + bits > 32) two |= uint64_t(w.v[reg + unsigned(from) / 32 + 1][lane]) << 32;
    return uint32_t(two >> from % 32) & ((1u << bits) - 1);
}

// Lines (rows of A, columns of B) of K elements, unscaled, and the scales of their blocks.
template <int M, int K> struct Lines {
    double x[M][K], scale[M][K / 32];
};

template <int M, int K> inline void read_lines(Wave &w, const Op &op, int s, int format, bool scaled, Lines<M, K> &to) {
    const int bits = bits_of(format);
    if (op.s[s].dwords != unsigned(bits)) fail(w, op, "unknown instruction", "its format (cbsz, blgp) needs another number of registers");
    const uint32_t *scales = scaled ? source(w, op, 3 + s) : nullptr;
    const double *const values = values_of(format);
    const uint32_t byte = (op.m.op_sel >> s & 1) | (op.m.op_sel_hi >> s & 1) << 1;
    for (int lane = 0; lane < 64; ++lane) {
        const int line = lane % M, group = lane / M;
        for (int e = 0; e < 32; ++e) {
            const int k = bits == 8 ? 16 * group + e % 16 + K / 2 * (e / 16) : 32 * group + e;
            to.x[line][k] = values[raw_element(w, op.s[s].reg, e, bits, lane)];
        }
        const uint32_t exponent = scaled ? scales[lane] >> 8 * byte & 0xff : 127;
        to.scale[line][group] = exponent == 255 ? double(__builtin_nanf("")) : __builtin_ldexp(1.0, int(exponent) - 127);
    }
}

template <int M, int K, bool Scaled> void mfma_f8f6f4(Wave &w, const Op &op) {
    using S = Shape<M, M, K, 1>;
    static Lines<M, K> thread_local a, y;
    read_lines<M, K>(w, op, 0, op.m.cbsz, Scaled, a);
    read_lines<M, K>(w, op, 1, op.m.blgp, Scaled, y);
    const bool vector_c = op.s[2].kind == kVector;
    const float constant = vector_c ? 0.0f : as_float(source(w, op, 2)[0]);
    float d[M][M];
    for (int i = 0; i < M; ++i) {
        const Place p = place32<S>(i, 0);
        for (int j = 0; j < M; ++j) {
            float sum = vector_c ? as_float(w.v[op.s[2].reg + unsigned(p.reg)][p.lane + j]) : constant;
            for (int block = 0; block < K / 32; ++block) {
                double part = 0;
                for (int k = 32 * block; k < 32 * block + 32; ++k) part += a.x[i][k] * y.x[j][k];
                sum = float(double(sum) + part * a.scale[i][block] * y.scale[j][block]);
            }
            d[i][j] = sum;
        }
    }
    const auto undefined = [&](int s) { return undefined_in(w, op.s[s]) | (Scaled ? undefined_in(w, op.s[3 + s]) : 0); };
    undefined32<S>(w, op, undefined(0), undefined(1));
    for (int i = 0; i < M; ++i) {
        const Place p = place32<S>(i, 0);
        __builtin_memcpy(w.v[op.d[0].reg + unsigned(p.reg)] + p.lane, d[i], sizeof d[i]);
    }
}

}  // namespace

HANDLERS(matrix_scaled) {
    add("v_mfma_scale_f32_16x16x128_f8f6f4", (mfma_f8f6f4<16, 128, true>));
    add("v_mfma_scale_f32_32x32x64_f8f6f4", (mfma_f8f6f4<32, 64, true>));
    add("v_mfma_f32_16x16x128_f8f6f4", (mfma_f8f6f4<16, 128, false>));
    add("v_mfma_f32_32x32x64_f8f6f4", (mfma_f8f6f4<32, 64, false>));
}
