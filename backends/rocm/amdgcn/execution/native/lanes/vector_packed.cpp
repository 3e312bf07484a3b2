// VOP3P: two 16-bit or two 32-bit operations a lane, mixed-precision multiply-adds, and dot products.
//
// op_sel picks the half of each source that feeds the lower result, op_sel_hi the one for the upper; neg_lo and neg_hi negate
// them (CDNA3 ISA, "Packed math", RDNA3 ISA).
#include "../extremes.hpp"
#include "../half.hpp"

namespace {

using u32 = uint32_t;
using i32 = int32_t;

inline i32 signed16(u32 x) { return i32(x << 16) >> 16; }

// The 16 bits that source `k` gives to result half `h`, of lane value `x`.
struct Halves {
    const u32 *from;
    u32 shift[2], flip[2];
    u32 operator()(int i, int h) const { return ((from[i] >> shift[h]) & 0xffff) ^ flip[h]; }
};

inline Halves halves(Wave &w, const Op &op, int k) {
    Halves x{source(w, op, k), {}, {}};
    x.shift[0] = op.m.op_sel >> k & 1 ? 16 : 0;
    x.shift[1] = op.m.op_sel_hi >> k & 1 ? 16 : 0;
    x.flip[0] = op.m.neg_lo >> k & 1 ? 0x8000 : 0;
    x.flip[1] = op.m.neg_hi >> k & 1 ? 0x8000 : 0;
    return x;
}

template <int sources, class F> inline void packed16(Wave &w, const Op &op, F f) {
    const Halves a = halves(w, op, 0), b = sources > 1 ? halves(w, op, 1) : a, c = sources > 2 ? halves(w, op, 2) : a;
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = f(a(i, 0), b(i, 0), c(i, 0)) | f(a(i, 1), b(i, 1), c(i, 1)) << 16;
    store(w, op, r);
}

// f16 halves by way of f32 (half.hpp).
template <int sources, class F> inline void packed_f16(Wave &w, const Op &op, F f) {
    const auto run = [&] {
        packed16<sources>(w, op, [&w, &op, f](u32 a, u32 b, u32 c) {
            return f16_rounded(w, f16_shaped(w, op, f(f16_value(w, a), f16_value(w, b), f16_value(w, c))));
        });
    };
    if (!w.mode.round16_64) return run();
    HostMode mode(w.mode.round16_64, false, false);
    run();
}

#define PACKED_F16(name, sources, value)                                                                         \
    void name(Wave &w, const Op &op) {                                                                           \
        packed_f16<sources>(w, op, [](float a, float b, [[maybe_unused]] float c) -> float { return value; });   \
    }
#define PACKED_16(name, sources, value)                                                                          \
    void name(Wave &w, const Op &op) {                                                                           \
        const bool clamp = op.m.clamp;                                                                           \
        packed16<sources>(w, op, [clamp](u32 a, u32 b, [[maybe_unused]] u32 c) -> u32 {                          \
            (void)clamp;                                                                                         \
            return (value) & 0xffff;                                                                             \
        });                                                                                                      \
    }

inline u32 fit_u16(bool clamp, int64_t x) { return clamp ? u32(x < 0 ? 0 : x > 0xffff ? 0xffff : x) : u32(x); }
inline u32 fit_i16(bool clamp, int64_t x) { return clamp ? u32(x < -0x8000 ? -0x8000 : x > 0x7fff ? 0x7fff : x) : u32(x); }
inline float choose(u32 x) { return as_float(x); }

PACKED_F16(v_pk_add_f16, 2, a + b)
PACKED_F16(v_pk_mul_f16, 2, a * b)
PACKED_F16(v_pk_fma_f16, 3, f16_fma(a, b, c))
PACKED_F16(v_pk_max_num_f16, 2, choose(number_extreme<Max>(as_bits(a), as_bits(b))))
PACKED_F16(v_pk_min_num_f16, 2, choose(number_extreme<Min>(as_bits(a), as_bits(b))))

// v_max_f16 and v_min_f16 on each half: under MODE.IEEE a signaling NaN, made quiet, wins over a number.
template <void (*number)(Wave &, const Op &)> void pk_extreme_f16(Wave &w, const Op &op) {
    const Halves a = halves(w, op, 0), b = halves(w, op, 1);
    u32 x[2][kLanes], y[2][kLanes];
    for (int h = 0; h < 2; ++h)
        for (int i = 0; i < w.lanes; ++i) x[h][i] = a(i, h), y[h][i] = b(i, h);
    number(w, op);
    if (!w.mode.ieee) return;
    const auto signaling = [](u32 z) { return (z & 0x7e00) == 0x7c00 && (z & 0x1ff); };
    u32 *d = w.v[op.d[0].reg];
    for (int h = 0; h < 2; ++h)
        for (int i = 0; i < w.lanes; ++i) {
            if (!w.mask[i] || !(signaling(x[h][i]) || signaling(y[h][i]))) continue;
            const u32 quiet = (signaling(x[h][i]) ? x[h][i] : y[h][i]) | 0x200;
            d[i] = (d[i] & ~(0xffffu << 16 * h)) | quiet << 16 * h;
        }
}
PACKED_F16(v_pk_maximum_f16, 2, choose(nan_extreme<Max>(as_bits(a), as_bits(b))))
PACKED_F16(v_pk_minimum_f16, 2, choose(nan_extreme<Min>(as_bits(a), as_bits(b))))
PACKED_F16(v_pk_maximum3_f16, 3, choose(nan_extreme<Max>(nan_extreme<Max>(as_bits(a), as_bits(b)), as_bits(c))))
PACKED_F16(v_pk_minimum3_f16, 3, choose(nan_extreme<Min>(nan_extreme<Min>(as_bits(a), as_bits(b)), as_bits(c))))

PACKED_16(v_pk_add_u16, 2, fit_u16(clamp, int64_t(a) + b))
PACKED_16(v_pk_sub_u16, 2, fit_u16(clamp, int64_t(a) - b))
PACKED_16(v_pk_add_i16, 2, fit_i16(clamp, int64_t(signed16(a)) + signed16(b)))
PACKED_16(v_pk_sub_i16, 2, fit_i16(clamp, int64_t(signed16(a)) - signed16(b)))
PACKED_16(v_pk_mul_lo_u16, 2, a * b)
PACKED_16(v_pk_mad_u16, 3, fit_u16(clamp, int64_t(a) * b + c))
PACKED_16(v_pk_mad_i16, 3, fit_i16(clamp, int64_t(signed16(a)) * signed16(b) + signed16(c)))
PACKED_16(v_pk_lshlrev_b16, 2, b << (a & 15))
PACKED_16(v_pk_lshrrev_b16, 2, b >> (a & 15))
PACKED_16(v_pk_ashrrev_i16, 2, u32(signed16(b) >> (a & 15)))
PACKED_16(v_pk_max_u16, 2, a > b ? a : b)
PACKED_16(v_pk_min_u16, 2, a < b ? a : b)
PACKED_16(v_pk_max_i16, 2, signed16(a) > signed16(b) ? a : b)
PACKED_16(v_pk_min_i16, 2, signed16(a) < signed16(b) ? a : b)

// ---- two f32 a lane: op_sel picks the register of a pair ------------------------------------------------------------------------

inline const u32 *packed_source(Wave &w, const Op &op, int k, int h) {
    const u32 select = h ? op.m.op_sel_hi : op.m.op_sel, negate = h ? op.m.neg_hi : op.m.neg_lo;
    const u32 *from = source(w, op, k, select >> k & 1);
    if (!(negate >> k & 1)) return from;
    u32 *to = w.modified[k][h];
    PK_LANES(i, w) to[i] = from[i] ^ 0x80000000;
    return to;
}

template <int sources, class F> inline void packed_f32(Wave &w, const Op &op, F f) {
    in_f32_mode(w, [&] {
        for (int h = 0; h < 2; ++h) {
            const u32 *a = packed_source(w, op, 0, h), *b = packed_source(w, op, 1, h);
            const u32 *c = sources > 2 ? packed_source(w, op, 2, h) : a;
            u32 *r = w.result[h];
            PK_LANES(i, w) r[i] = as_bits(f(as_float(a[i]), as_float(b[i]), as_float(c[i])));
            shape_f32(w, op, r);
        }
    });
    finish_wide(w, op);
}

void v_pk_add_f32(Wave &w, const Op &op) {
    packed_f32<2>(w, op, [](float a, float b, float) { return a + b; });
}
void v_pk_mul_f32(Wave &w, const Op &op) {
    packed_f32<2>(w, op, [](float a, float b, float) { return a * b; });
}
void v_pk_fma_f32(Wave &w, const Op &op) {
    packed_f32<3>(w, op, [](float a, float b, float c) { return __builtin_fmaf(a, b, c); });
}

// The lower result from the first source, the upper one from the second (CDNA3 ISA, V_PK_MOV_B32).
void v_pk_mov_b32(Wave &w, const Op &op) {
    const u32 *low = source(w, op, 0, op.m.op_sel & 1), *high = source(w, op, 1, op.m.op_sel >> 1 & 1);
    PK_LANES(i, w) {
        w.result[0][i] = low[i];
        w.result[1][i] = high[i];
    }
    finish_wide(w, op);
}

// ---- mixed precision: op_sel_hi says which sources are f16, op_sel which half of them -------------------------------------------

inline const u32 *mixed_source(Wave &w, const Op &op, int k) {
    const u32 *from = source(w, op, k);
    u32 *to = w.modified[k][0];
    // Modifiers: neg_hi is abs here (RDNA3 ISA, V_FMA_MIX_F32); they act on the source in its own format.
    const bool half = op.m.op_sel_hi >> k & 1;
    const u32 shift = op.m.op_sel >> k & 1 ? 16 : 0;
    const bool absolute = op.m.neg_hi >> k & 1 || op.s[k].modifiers & kAbsolute;
    const bool negate = op.m.neg_lo >> k & 1 || op.s[k].modifiers & kNegate;
    if (half) {
        PK_LANES(i, w) to[i] = as_bits(f16_value(w, from[i] >> shift));
    } else {
        PK_LANES(i, w) to[i] = from[i];
    }
    if (absolute)
        PK_LANES(i, w) to[i] &= 0x7fffffff;
    if (negate)
        PK_LANES(i, w) to[i] ^= 0x80000000;
    return to;
}

inline u32 *mixed(Wave &w, const Op &op) {
    const u32 *a = mixed_source(w, op, 0), *b = mixed_source(w, op, 1), *c = mixed_source(w, op, 2);
    u32 *r = w.result[0];
    in_f32_mode(w, [&] { PK_LANES(i, w) r[i] = as_bits(__builtin_fmaf(as_float(a[i]), as_float(b[i]), as_float(c[i]))); });
    shape_f32(w, op, r);
    return r;
}

void v_fma_mix_f32(Wave &w, const Op &op) { store(w, op, mixed(w, op)); }

// The f32 result is rounded again, to f16, and goes into one half; the other stays (CDNA3 ISA, V_MAD_MIXLO_F16).
template <int shift> void v_fma_mix_half(Wave &w, const Op &op) {
    u32 *r = mixed(w, op);
    const u32 *old = w.v[op.d[0].reg];
    PK_LANES(i, w) r[i] = f16_rounded(w, as_float(r[i])) << shift | (old[i] & 0xffff0000u >> shift);
    store(w, op, r);
}

// ---- dot products -------------------------------------------------------------------------------------------------------------

// f16 and bf16 products are exact in f32; the guides give the order of the sums (CDNA3 ISA, RDNA4 ISA) and not
// whether they are rounded in between: here each product is added with one rounding.
template <class Convert> inline void dot2_float(Wave &w, const Op &op, Convert value) {
    const Halves a = halves(w, op, 0), b = halves(w, op, 1);
    const u32 *c = operand(w, op, 2);
    u32 *r = w.result[0];
    PK_LANES(i, w) {
        float sum = as_float(c[i]);
        sum = __builtin_fmaf(value(a(i, 0)), value(b(i, 0)), sum);
        sum = __builtin_fmaf(value(a(i, 1)), value(b(i, 1)), sum);
        r[i] = as_bits(sum);
    }
    shape_f32(w, op, r);
    store(w, op, r);
}

void v_dot2_f32_f16(Wave &w, const Op &op) {
    dot2_float(w, op, [](u32 h) { return as_float(f32_from_f16(h)); });
}
void v_dot2_f32_bf16(Wave &w, const Op &op) {
    dot2_float(w, op, [](u32 b) { return as_float(f32_from_bf16(b)); });
}

// The same with a sum and result of 16 bits, which is rounded once.
template <class Convert> inline void dot2_narrow(Wave &w, const Op &op, Convert value, u32 (*narrow)(u32, Round)) {
    const Halves a = halves(w, op, 0), b = halves(w, op, 1);
    const u32 *c = operand(w, op, 2);
    u32 *r = w.result[0];
    for (int i = 0; i < w.lanes; ++i) {
        float sum = value(c[i] & 0xffff);
        sum = __builtin_fmaf(value(a(i, 0)), value(b(i, 0)), sum);
        sum = __builtin_fmaf(value(a(i, 1)), value(b(i, 1)), sum);
        r[i] = narrow(as_bits(sum), Round::nearest_even);
    }
    finish_half(w, op, r);
}

void v_dot2_f16_f16(Wave &w, const Op &op) {
    dot2_narrow(w, op, [](u32 h) { return as_float(f32_from_f16(h)); }, f16_from_f32);
}
void v_dot2_bf16_bf16(Wave &w, const Op &op) {
    dot2_narrow(w, op, [](u32 b) { return as_float(f32_from_bf16(b)); }, bf16_from_f32);
}

// Four products of 8-bit floats (RDNA4 ISA, V_DOT4_F32_FP8_BF8), added as above.
template <class A, class B> void dot4_small(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1), *c = operand(w, op, 2);
    u32 *r = w.result[0];
    for (int i = 0; i < w.lanes; ++i) {
        float sum = as_float(c[i]);
        for (int n = 0; n < 32; n += 8)
            sum = __builtin_fmaf(as_float(f32_from_small(a[i] >> n & 0xff, A::value)), as_float(f32_from_small(b[i] >> n & 0xff, B::value)), sum);
        r[i] = as_bits(sum);
    }
    shape_f32(w, op, r);
    store(w, op, r);
}

inline u32 fit_i32(bool clamp, int64_t x) { return clamp ? u32(i32(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x)) : u32(x); }
inline u32 fit_u32(bool clamp, int64_t x) { return clamp && x > 0xffffffff ? ~0u : u32(x); }

inline int64_t element(u32 x, int n, int width, bool is_signed) {
    const u32 up = x << (32 - width * (n + 1));
    return is_signed ? int64_t(i32(up) >> (32 - width)) : int64_t(up >> (32 - width));
}

// `width` bits an element; iu forms take the signs from neg_lo (RDNA3 ISA, V_DOT4_I32_IU8).
inline void dot_integer(Wave &w, const Op &op, int width, bool sign_a, bool sign_b, bool unsigned_result) {
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1), *c = operand(w, op, 2);
    u32 *r = w.result[0];
    const bool clamp = op.m.clamp;
    for (int i = 0; i < w.lanes; ++i) {
        int64_t sum = unsigned_result ? int64_t(c[i]) : int64_t(i32(c[i]));
        for (int n = 0; n < 32 / width; ++n) sum += element(a[i], n, width, sign_a) * element(b[i], n, width, sign_b);
        r[i] = unsigned_result ? fit_u32(clamp, sum) : fit_i32(clamp, sum);
    }
    store(w, op, r);
}

template <int width, bool is_signed> void dot_plain(Wave &w, const Op &op) {
    dot_integer(w, op, width, is_signed, is_signed, !is_signed);
}
template <int width> void dot_iu(Wave &w, const Op &op) {
    dot_integer(w, op, width, op.m.neg_lo & 1, op.m.neg_lo & 2, false);
}

}  // namespace

#define ADD(name) add(#name, name);

HANDLERS(vector_packed) {
    ADD(v_pk_add_f16) ADD(v_pk_mul_f16) ADD(v_pk_fma_f16) ADD(v_pk_max_num_f16) ADD(v_pk_min_num_f16)
    add("v_pk_max_f16", pk_extreme_f16<v_pk_max_num_f16>);
    add("v_pk_min_f16", pk_extreme_f16<v_pk_min_num_f16>);
    ADD(v_pk_maximum_f16) ADD(v_pk_minimum_f16) ADD(v_pk_maximum3_f16) ADD(v_pk_minimum3_f16)
    ADD(v_pk_add_u16) ADD(v_pk_sub_u16) ADD(v_pk_add_i16) ADD(v_pk_sub_i16) ADD(v_pk_mul_lo_u16) ADD(v_pk_mad_u16)
    ADD(v_pk_mad_i16) ADD(v_pk_lshlrev_b16) ADD(v_pk_lshrrev_b16) ADD(v_pk_ashrrev_i16) ADD(v_pk_max_u16)
    ADD(v_pk_min_u16) ADD(v_pk_max_i16) ADD(v_pk_min_i16)
    ADD(v_pk_add_f32) ADD(v_pk_mul_f32) ADD(v_pk_fma_f32) ADD(v_pk_mov_b32)
    ADD(v_fma_mix_f32)
    add("v_fma_mixlo_f16", v_fma_mix_half<0>);
    add("v_fma_mixhi_f16", v_fma_mix_half<16>);
    ADD(v_dot2_f32_f16) ADD(v_dot2_f32_bf16)
    add("v_dot2c_f32_f16", v_dot2_f32_f16);
    add("v_dot2acc_f32_f16", v_dot2_f32_f16);
    add("v_dot2c_f32_bf16", v_dot2_f32_bf16);
    ADD(v_dot2_f16_f16) ADD(v_dot2_bf16_bf16)
    add("v_dot4_f32_fp8_fp8", (dot4_small<Fp8Ocp, Fp8Ocp>));
    add("v_dot4_f32_fp8_bf8", (dot4_small<Fp8Ocp, Bf8Ocp>));
    add("v_dot4_f32_bf8_fp8", (dot4_small<Bf8Ocp, Fp8Ocp>));
    add("v_dot4_f32_bf8_bf8", (dot4_small<Bf8Ocp, Bf8Ocp>));
    add("v_dot2_i32_i16", (dot_plain<16, true>));
    add("v_dot2_u32_u16", (dot_plain<16, false>));
    add("v_dot4_i32_i8", (dot_plain<8, true>));
    add("v_dot4_u32_u8", (dot_plain<8, false>));
    add("v_dot8_i32_i4", (dot_plain<4, true>));
    add("v_dot8_u32_u4", (dot_plain<4, false>));
    add("v_dot4c_i32_i8", (dot_plain<8, true>));
    add("v_dot8c_i32_i4", (dot_plain<4, true>));
    add("v_dot2c_i32_i16", (dot_plain<16, true>));
    add("v_dot4_i32_iu8", dot_iu<8>);
    add("v_dot8_i32_iu4", dot_iu<4>);
}
