// Arithmetic on f32.
//
// Sources: CDNA3 ISA and RDNA3/RDNA4 ISA, the entry of each instruction. Sums, products and fused
// multiply-adds are those of IEEE 754 under MODE's rounding and denormals (CDNA3 ISA, "Mode register"); the payload of a
// NaN that an operation makes is not documented, and here is the host's.
#include "../extremes.hpp"
#include "../modifiers.hpp"

namespace {

using u32 = uint32_t;
using i32 = int32_t;

#define UNARY(name, value) \
    void name(Wave &w, const Op &op) { f32_1(w, op, [](float a) -> float { return value; }); }
#define BINARY(name, value) \
    void name(Wave &w, const Op &op) { f32_2(w, op, [](float a, float b) -> float { return value; }); }

BINARY(v_add_f32, a + b)
BINARY(v_sub_f32, a - b)
BINARY(v_subrev_f32, b - a)
BINARY(v_mul_f32, a * b)
BINARY(v_mul_dx9_zero_f32, a == 0.0f || b == 0.0f ? 0.0f : a * b)

// v_fma, v_fmac (the third source is the destination), v_fmaak and v_fmamk (in the order of their operands).
void v_fma_f32(Wave &w, const Op &op) {
    f32_3(w, op, [](float a, float b, float c) { return __builtin_fmaf(a, b, c); });
}
void v_fma_dx9_zero_f32(Wave &w, const Op &op) {
    f32_3(w, op, [](float a, float b, float c) { return a == 0.0f || b == 0.0f ? 0.0f + c : __builtin_fmaf(a, b, c); });
}

// v_mad and v_mac (gfx90a) round twice and take denormals as zero whatever MODE says (LLVM, GCNSubtarget and the intrinsic
// llvm.amdgcn.fmad.ftz, which becomes them).
inline float flushed_f32(float x) { return as_bits(x) & 0x7f800000 ? x : as_float(as_bits(x) & 0x80000000); }
void v_mad_f32(Wave &w, const Op &op) {
    f32_3(w, op, [](float a, float b, float c) {
        return flushed_f32(flushed_f32(flushed_f32(a) * flushed_f32(b)) + flushed_f32(c));
    });
}

// Rounding to an integer value depends on no mode.
UNARY(v_floor_f32, __builtin_floorf(a))
UNARY(v_ceil_f32, __builtin_ceilf(a))
UNARY(v_trunc_f32, __builtin_truncf(a))
UNARY(v_rndne_f32, __builtin_roundevenf(a))
UNARY(v_fract_f32, a - __builtin_floorf(a))

// ---- choices between operands: no arithmetic, so denormals are flushed by hand -----------------------------------------------

inline u32 without_denormal(u32 x) { return x & 0x7f800000 ? x : x & 0x80000000; }

const u32 *flushed(Wave &w, const Op &op, int k) {
    const u32 *from = operand(w, op, k);
    if (__builtin_expect(!(w.mode.flush32_in | w.mode.flush32_out), 1)) return from;
    u32 *to = w.modified[k][0];
    PK_LANES(i, w) to[i] = without_denormal(from[i]);
    return to;
}

void finish_choice(Wave &w, const Op &op) {
    u32 *r = w.result[0];
    has_result_modifiers(op) ? finish_f32(w, op, r) : store(w, op, r);
}

template <u32 (*choose)(u32, u32)> void choice2(Wave &w, const Op &op) {
    const u32 *a = flushed(w, op, 0), *b = flushed(w, op, 1);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = choose(a[i], b[i]);
    finish_choice(w, op);
}

template <u32 (*first)(u32, u32), u32 (*second)(u32, u32)> void choice3(Wave &w, const Op &op) {
    const u32 *a = flushed(w, op, 0), *b = flushed(w, op, 1), *c = flushed(w, op, 2);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = second(first(a[i], b[i]), c[i]);
    finish_choice(w, op);
}

constexpr auto max_ieee = ieee_extreme<Max>, min_ieee = ieee_extreme<Min>;
constexpr auto max_num = number_extreme<Max>, min_num = number_extreme<Min>;
constexpr auto maximum = nan_extreme<Max>, minimum = nan_extreme<Min>;

void v_max_f32(Wave &w, const Op &op) { w.mode.ieee ? choice2<max_ieee>(w, op) : choice2<max_num>(w, op); }
void v_min_f32(Wave &w, const Op &op) { w.mode.ieee ? choice2<min_ieee>(w, op) : choice2<min_num>(w, op); }
void v_max3_f32(Wave &w, const Op &op) {
    w.mode.ieee ? choice3<max_ieee, max_ieee>(w, op) : choice3<max_num, max_num>(w, op);
}
void v_min3_f32(Wave &w, const Op &op) {
    w.mode.ieee ? choice3<min_ieee, min_ieee>(w, op) : choice3<min_num, min_num>(w, op);
}
void v_maxmin_f32(Wave &w, const Op &op) {
    w.mode.ieee ? choice3<max_ieee, min_ieee>(w, op) : choice3<max_num, min_num>(w, op);
}
void v_minmax_f32(Wave &w, const Op &op) {
    w.mode.ieee ? choice3<min_ieee, max_ieee>(w, op) : choice3<min_num, max_num>(w, op);
}
void v_med3_f32(Wave &w, const Op &op) {
    const u32 *a = flushed(w, op, 0), *b = flushed(w, op, 1), *c = flushed(w, op, 2);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = median(a[i], b[i], c[i]);
    finish_choice(w, op);
}

// ---- exponents -----------------------------------------------------------------------------------------------------------------

// x 2^n rounded once: the product is exact in double.
inline float scaled_by(float x, i32 n) {
    const i32 bounded = n < -600 ? -600 : n > 600 ? 600 : n;
    return float(double(x) * as_double(uint64_t(bounded + 1023) << 52));
}

void v_ldexp_f32(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *n = operand(w, op, 1);
    u32 *r = w.result[0];
    in_f32_mode(w, [&] { PK_LANES(i, w) r[i] = as_bits(scaled_by(as_float(a[i]), i32(n[i]))); });
    finish_f32(w, op, r);
}

inline i32 leading_exponent(u32 x) {  // e with |x| = m 2^e, m in [0.5, 1)
    const u32 magnitude = x & 0x7fffffff;
    if (magnitude == 0 || magnitude >= 0x7f800000) return 0;
    if (magnitude < 0x800000) return 32 - __builtin_clz(magnitude) - 149;
    return i32(magnitude >> 23) - 126;
}

void v_frexp_exp_i32_f32(Wave &w, const Op &op) {
    const u32 *a = flushed(w, op, 0);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = u32(leading_exponent(a[i]));
    finish_bits(w, op, r);
}

void v_frexp_mant_f32(Wave &w, const Op &op) {
    const u32 *a = flushed(w, op, 0);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = as_bits(scaled_by(as_float(a[i]), -leading_exponent(a[i])));
    finish_f32(w, op, r);
}

}  // namespace

#define ADD(name) add(#name, name);

HANDLERS(vector_float) {
    ADD(v_add_f32) ADD(v_sub_f32) ADD(v_subrev_f32) ADD(v_mul_f32) ADD(v_mul_dx9_zero_f32)
    add("v_mul_legacy_f32", v_mul_dx9_zero_f32);
    ADD(v_fma_f32) ADD(v_fma_dx9_zero_f32)
    add("v_fmac_f32", v_fma_f32);
    ADD(v_mad_f32)
    add("v_mac_f32", v_mad_f32);
    add("v_madak_f32", v_mad_f32);
    add("v_madmk_f32", v_mad_f32);
    add("v_fmac_dx9_zero_f32", v_fma_dx9_zero_f32);
    add("v_fmaak_f32", v_fma_f32);
    add("v_fmamk_f32", v_fma_f32);
    ADD(v_floor_f32) ADD(v_ceil_f32) ADD(v_trunc_f32) ADD(v_rndne_f32) ADD(v_fract_f32)
    ADD(v_max_f32) ADD(v_min_f32) ADD(v_max3_f32) ADD(v_min3_f32) ADD(v_maxmin_f32) ADD(v_minmax_f32) ADD(v_med3_f32)
    add("v_max_num_f32", choice2<max_num>);
    add("v_min_num_f32", choice2<min_num>);
    add("v_max3_num_f32", choice3<max_num, max_num>);
    add("v_min3_num_f32", choice3<min_num, min_num>);
    add("v_maxmin_num_f32", choice3<max_num, min_num>);
    add("v_minmax_num_f32", choice3<min_num, max_num>);
    add("v_med3_num_f32", v_med3_f32);
    add("v_maximum_f32", choice2<maximum>);
    add("v_minimum_f32", choice2<minimum>);
    add("v_maximum3_f32", choice3<maximum, maximum>);
    add("v_minimum3_f32", choice3<minimum, minimum>);
    add("v_maximumminimum_f32", choice3<maximum, minimum>);
    add("v_minimummaximum_f32", choice3<minimum, maximum>);
    ADD(v_ldexp_f32) ADD(v_frexp_exp_i32_f32) ADD(v_frexp_mant_f32)
}
