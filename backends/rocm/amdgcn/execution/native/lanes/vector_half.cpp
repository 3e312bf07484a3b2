// Arithmetic on one 16-bit value a lane: f16, and integers of 16 bits.
//
// Sources: CDNA3 ISA, RDNA3/RDNA4 ISA. The mode bits for f16 are those shared with f64 (CDNA3 ISA
// "Mode register").
#include <algorithm>

#include "../extremes.hpp"
#include "../half.hpp"

namespace {

using u32 = uint32_t;
using i32 = int32_t;

inline i32 signed16(u32 x) { return i32(x << 16) >> 16; }
inline u32 saturate_u16(i32 x) { return u32(x < 0 ? 0 : x > 0xffff ? 0xffff : x); }
inline u32 saturate_i16(i32 x) { return u32(x < -0x8000 ? -0x8000 : x > 0x7fff ? 0x7fff : x) & 0xffff; }
inline u32 wrap16(i32 x) { return u32(x) & 0xffff; }

template <int sources, class F> inline void f16_lanes(Wave &w, const Op &op, Upper upper, F f) {
    const u32 *a = operand(w, op, 0);
    const u32 *b = sources > 1 ? operand(w, op, 1) : a, *c = sources > 2 ? operand(w, op, 2) : a;
    u32 *r = w.result[0];
    // Directed rounding must be the same at both steps; denormals of f16 are normal numbers in f32.
    const auto run = [&] {
        PK_LANES(i, w) r[i] = f16_rounded(w, f16_shaped(w, op, f(f16_value(w, a[i]), f16_value(w, b[i]), f16_value(w, c[i]))));
    };
    if (w.mode.round16_64) {
        HostMode mode(w.mode.round16_64, false, false);
        run();
    } else {
        run();
    }
    finish_half(w, op, r, upper);
}

#define F16(name, sources, upper, value)                                                                              \
    void name(Wave &w, const Op &op) {                                                                                \
        f16_lanes<sources>(w, op, Upper::upper,                                                                       \
                           [](float a, [[maybe_unused]] float b, [[maybe_unused]] float c) -> float { return value; }); \
    }

inline float choose(u32 x) { return as_float(x); }

F16(v_add_f16, 2, zero_on_gfx9, a + b)
F16(v_sub_f16, 2, zero_on_gfx9, a - b)
F16(v_subrev_f16, 2, zero_on_gfx9, b - a)
F16(v_mul_f16, 2, zero_on_gfx9, a * b)
F16(v_fma_f16, 3, keep, f16_fma(a, b, c))
F16(v_fmac_f16, 3, zero_on_gfx9, f16_fma(a, b, c))
F16(v_floor_f16, 1, zero_on_gfx9, __builtin_floorf(a))
F16(v_ceil_f16, 1, zero_on_gfx9, __builtin_ceilf(a))
F16(v_trunc_f16, 1, zero_on_gfx9, __builtin_truncf(a))
F16(v_rndne_f16, 1, zero_on_gfx9, __builtin_roundevenf(a))
F16(v_fract_f16, 1, zero_on_gfx9, a - __builtin_floorf(a))
// f16 in f32 keeps signaling NaNs apart only before the conversion; both come out quiet, so IEEE mode changes nothing but
// which operand wins, and the number wins unless it is set.
F16(v_max_num_f16, 2, zero_on_gfx9, choose(number_extreme<Max>(as_bits(a), as_bits(b))))
F16(v_min_num_f16, 2, zero_on_gfx9, choose(number_extreme<Min>(as_bits(a), as_bits(b))))
F16(v_max3_num_f16, 3, keep, choose(number_extreme<Max>(number_extreme<Max>(as_bits(a), as_bits(b)), as_bits(c))))
F16(v_min3_num_f16, 3, keep, choose(number_extreme<Min>(number_extreme<Min>(as_bits(a), as_bits(b)), as_bits(c))))
F16(v_med3_num_f16, 3, keep, choose(median(as_bits(a), as_bits(b), as_bits(c))))
F16(v_maximum_f16, 2, keep, choose(nan_extreme<Max>(as_bits(a), as_bits(b))))
F16(v_minimum_f16, 2, keep, choose(nan_extreme<Min>(as_bits(a), as_bits(b))))
F16(v_maxmin_num_f16, 3, keep, choose(number_extreme<Min>(number_extreme<Max>(as_bits(a), as_bits(b)), as_bits(c))))
F16(v_minmax_num_f16, 3, keep, choose(number_extreme<Max>(number_extreme<Min>(as_bits(a), as_bits(b)), as_bits(c))))
F16(v_maximumminimum_f16, 3, keep, choose(nan_extreme<Min>(nan_extreme<Max>(as_bits(a), as_bits(b)), as_bits(c))))
F16(v_minimummaximum_f16, 3, keep, choose(nan_extreme<Max>(nan_extreme<Min>(as_bits(a), as_bits(b)), as_bits(c))))
F16(v_maximum3_f16, 3, keep, choose(nan_extreme<Max>(nan_extreme<Max>(as_bits(a), as_bits(b)), as_bits(c))))
F16(v_minimum3_f16, 3, keep, choose(nan_extreme<Min>(nan_extreme<Min>(as_bits(a), as_bits(b)), as_bits(c))))

// A signaling f16 NaN under MODE.IEEE wins over a number.
inline bool signaling16(u32 x) { return (x & 0x7e00) == 0x7c00 && (x & 0x1ff); }

template <class Extreme> inline void extreme_f16(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1);
    u32 *r = w.result[0];
    PK_LANES(i, w) {
        const u32 x = as_bits(f16_value(w, a[i])), y = as_bits(f16_value(w, b[i]));
        u32 z = number_extreme<Extreme>(x, y);
        z = w.mode.ieee && signaling16(b[i]) ? y : z;
        z = w.mode.ieee && signaling16(a[i]) ? x : z;
        r[i] = f16_rounded(w, f16_shaped(w, op, as_float(z)));
    }
    finish_half(w, op, r);
}
void v_max_f16(Wave &w, const Op &op) { extreme_f16<Max>(w, op); }
void v_min_f16(Wave &w, const Op &op) { extreme_f16<Min>(w, op); }

void v_ldexp_f16(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *n = operand(w, op, 1);
    u32 *r = w.result[0];
    PK_LANES(i, w) {
        const i32 by = signed16(n[i]);
        const i32 bounded = by < -60 ? -60 : by > 60 ? 60 : by;
        const float x = f16_value(w, a[i]) * as_float(u32(bounded + 127) << 23);  // exact in f32
        r[i] = f16_rounded(w, f16_shaped(w, op, x));
    }
    finish_half(w, op, r);
}

inline i32 leading_exponent16(float x) {
    const u32 magnitude = as_bits(x) & 0x7fffffff;  // every f16 but 0 is normal in f32
    return magnitude == 0 || magnitude >= 0x7f800000 ? 0 : i32(magnitude >> 23) - 126;
}

void v_frexp_exp_i16_f16(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = wrap16(leading_exponent16(f16_value(w, a[i])));
    finish_half(w, op, r);
}
void v_frexp_mant_f16(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0);
    u32 *r = w.result[0];
    PK_LANES(i, w) {
        const float x = f16_value(w, a[i]);
        r[i] = f16_rounded(w, x * as_float(u32(127 - leading_exponent16(x)) << 23));
    }
    finish_half(w, op, r);
}

// ---- 16-bit integers --------------------------------------------------------------------------------------------------------

template <int sources, class F> inline void bits16(Wave &w, const Op &op, Upper upper, F f) {
    const u32 *a = operand(w, op, 0);
    const u32 *b = sources > 1 ? operand(w, op, 1) : a, *c = sources > 2 ? operand(w, op, 2) : a;
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = f(a[i] & 0xffff, b[i] & 0xffff, c[i] & 0xffff);
    finish_half(w, op, r, upper);
}

#define B16(name, sources, upper, value)                                                                      \
    void name(Wave &w, const Op &op) {                                                                        \
        bits16<sources>(w, op, Upper::upper,                                                                  \
                        [](u32 a, [[maybe_unused]] u32 b, [[maybe_unused]] u32 c) -> u32 { return value; });  \
    }
#define B16_SATURATING(name, sources, upper, wide, saturate)                                                  \
    void name(Wave &w, const Op &op) {                                                                        \
        const bool clamp = op.m.clamp;                                                                        \
        bits16<sources>(w, op, Upper::upper, [clamp](u32 a, u32 b, [[maybe_unused]] u32 c) -> u32 {           \
            return clamp ? saturate(i32(wide)) : wrap16(i32(wide));                                           \
        });                                                                                                   \
    }

B16(v_mov_b16, 1, keep, a)
B16(v_not_b16, 1, keep, ~a & 0xffff)
B16(v_and_b16, 2, keep, a & b)
B16(v_or_b16, 2, keep, a | b)
B16(v_xor_b16, 2, keep, a ^ b)
B16(v_lshlrev_b16, 2, zero_on_gfx9, b << (a & 15) & 0xffff)
B16(v_lshrrev_b16, 2, zero_on_gfx9, b >> (a & 15))
B16(v_ashrrev_i16, 2, zero_on_gfx9, wrap16(signed16(b) >> (a & 15)))
B16(v_mul_lo_u16, 2, zero_on_gfx9, a * b & 0xffff)
B16(v_min_u16, 2, zero_on_gfx9, a < b ? a : b)
B16(v_max_u16, 2, zero_on_gfx9, a < b ? b : a)
B16(v_min_i16, 2, zero_on_gfx9, signed16(a) < signed16(b) ? a : b)
B16(v_max_i16, 2, zero_on_gfx9, signed16(a) < signed16(b) ? b : a)
B16_SATURATING(v_add_u16, 2, zero_on_gfx9, a + b, saturate_u16)
B16_SATURATING(v_sub_u16, 2, zero_on_gfx9, a - b, saturate_u16)
B16_SATURATING(v_subrev_u16, 2, zero_on_gfx9, b - a, saturate_u16)
B16_SATURATING(v_add_i16, 2, keep, signed16(a) + signed16(b), saturate_i16)
B16_SATURATING(v_sub_i16, 2, keep, signed16(a) - signed16(b), saturate_i16)

// Medians and extremes of three.
B16(v_min3_u16, 3, keep, std::min({a, b, c}))
B16(v_max3_u16, 3, keep, std::max({a, b, c}))
B16(v_med3_u16, 3, keep, std::max(std::min(a, b), std::min(std::max(a, b), c)))
B16(v_min3_i16, 3, keep, wrap16(std::min({signed16(a), signed16(b), signed16(c)})))
B16(v_max3_i16, 3, keep, wrap16(std::max({signed16(a), signed16(b), signed16(c)})))
B16(v_med3_i16, 3, keep,
    wrap16(std::max(std::min(signed16(a), signed16(b)), std::min(std::max(signed16(a), signed16(b)), signed16(c)))))

template <Upper upper> void v_mad_u16(Wave &w, const Op &op) {
    const bool clamp = op.m.clamp;
    bits16<3>(w, op, upper, [clamp](u32 a, u32 b, u32 c) -> u32 {
        const uint64_t wide = uint64_t(a) * b + c;
        return clamp && wide > 0xffff ? 0xffff : u32(wide) & 0xffff;
    });
}
template <Upper upper> void v_mad_i16(Wave &w, const Op &op) {
    const bool clamp = op.m.clamp;
    bits16<3>(w, op, upper, [clamp](u32 a, u32 b, u32 c) -> u32 {
        const int64_t wide = int64_t(signed16(a)) * signed16(b) + signed16(c);
        return clamp ? u32(wide < -0x8000 ? -0x8000 : wide > 0x7fff ? 0x7fff : wide) & 0xffff : u32(wide) & 0xffff;
    });
}

void v_cndmask_b16(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1);
    const uint64_t chosen = read_lane_mask(w, op.s[2]);
    if (!op.m.dpp_kind) {
        const uint64_t undefined = (undefined_source(w, op, 0) & ~chosen) | (undefined_source(w, op, 1) & chosen);
        set_undefined_lanes(w, op, undefined | undefined_source(w, op, 2), exec_of(w));
    }
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = (chosen >> i & 1 ? b[i] : a[i]) & 0xffff;
    finish_half(w, op, r, Upper::keep);
}

// Two halves into one register.
void v_pack_b32_f16(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = (a[i] & 0xffff) | b[i] << 16;
    store(w, op, r);
}

void v_sat_pk_u8_i16(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0);
    u32 *r = w.result[0];
    const auto byte = [](i32 x) { return u32(x < 0 ? 0 : x > 255 ? 255 : x); };
    PK_LANES(i, w) r[i] = byte(signed16(a[i])) | byte(signed16(a[i] >> 16)) << 8;
    finish_half(w, op, r);
}

}  // namespace

#define ADD(name) add(#name, name);

HANDLERS(vector_half) {
    ADD(v_add_f16) ADD(v_sub_f16) ADD(v_subrev_f16) ADD(v_mul_f16) ADD(v_fma_f16) ADD(v_fmac_f16)
    add("v_fmaak_f16", v_fmac_f16);
    add("v_fmamk_f16", v_fmac_f16);
    ADD(v_floor_f16) ADD(v_ceil_f16) ADD(v_trunc_f16) ADD(v_rndne_f16) ADD(v_fract_f16) ADD(v_max_f16) ADD(v_min_f16)
    ADD(v_max_num_f16) ADD(v_min_num_f16) ADD(v_max3_num_f16) ADD(v_min3_num_f16) ADD(v_med3_num_f16)
    ADD(v_maximum_f16) ADD(v_minimum_f16) ADD(v_maximum3_f16) ADD(v_minimum3_f16)
    for (const char *name : {"v_maxmin_f16", "v_maxmin_num_f16"}) add(name, v_maxmin_num_f16);
    for (const char *name : {"v_minmax_f16", "v_minmax_num_f16"}) add(name, v_minmax_num_f16);
    ADD(v_maximumminimum_f16) ADD(v_minimummaximum_f16)
    add("v_max3_f16", v_max3_num_f16);
    add("v_min3_f16", v_min3_num_f16);
    add("v_med3_f16", v_med3_num_f16);
    ADD(v_ldexp_f16) ADD(v_frexp_exp_i16_f16) ADD(v_frexp_mant_f16)
    ADD(v_mov_b16) ADD(v_not_b16) ADD(v_and_b16) ADD(v_or_b16) ADD(v_xor_b16) ADD(v_lshlrev_b16) ADD(v_lshrrev_b16)
    ADD(v_ashrrev_i16) ADD(v_mul_lo_u16) ADD(v_min_u16) ADD(v_max_u16) ADD(v_min_i16) ADD(v_max_i16)
    ADD(v_add_u16) ADD(v_sub_u16) ADD(v_subrev_u16) ADD(v_add_i16) ADD(v_sub_i16)
    ADD(v_min3_u16) ADD(v_max3_u16) ADD(v_med3_u16) ADD(v_min3_i16) ADD(v_max3_i16) ADD(v_med3_i16)
    add("v_mad_u16", v_mad_u16<Upper::keep>);
    add("v_mad_i16", v_mad_i16<Upper::keep>);
    // As VI had them (Vega ISA, "VOP3a instructions"): without op_sel, and the upper half becomes zero.
    add("v_mad_legacy_u16", v_mad_u16<Upper::zero_on_gfx9>);
    add("v_mad_legacy_i16", v_mad_i16<Upper::zero_on_gfx9>);
    add("v_add_nc_u16", v_add_u16);
    add("v_sub_nc_u16", v_sub_u16);
    add("v_add_nc_i16", v_add_i16);
    add("v_sub_nc_i16", v_sub_i16);
    ADD(v_cndmask_b16) ADD(v_pack_b32_f16) ADD(v_sat_pk_u8_i16)
}
