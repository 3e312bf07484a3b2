// Conversions between formats.
//
// Sources: CDNA3 ISA, CDNA4 ISA, RDNA3/RDNA4 ISA; formats in floats.hpp.
// To integers: towards zero, NaN to 0, saturating. To f16 and from f64: MODE's rounding for f16 and f64.
#include "../half.hpp"

namespace {

using u32 = uint32_t;
using i32 = int32_t;

template <class F> inline void converted(Wave &w, const Op &op, F f) {
    const u32 *a = operand(w, op, 0);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = f(a[i]);
}
template <class F> inline void converted2(Wave &w, const Op &op, F f) {
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = f(a[i], b[i]);
}

inline i32 integer(double x) { return x != x ? 0 : x <= -2147483648.0 ? INT32_MIN : x >= 2147483647.0 ? INT32_MAX : i32(x); }
inline u32 natural(double x) { return !(x > 0.0) ? 0 : x >= 4294967295.0 ? ~0u : u32(int64_t(x)); }
inline double limited(double x, double low, double high) { return x != x ? 0.0 : x < low ? low : x > high ? high : x; }

// ---- f32 and integers --------------------------------------------------------------------------------------------------------

#define TO_FLOAT(name, value)                                                                          \
    void name(Wave &w, const Op &op) {                                                                 \
        in_f32_mode(w, [&] { converted(w, op, [](u32 a) -> u32 { return as_bits(float(value)); }); }); \
        finish_f32(w, op, w.result[0]);                                                                \
    }
#define TO_BITS(name, value)                                          \
    void name(Wave &w, const Op &op) {                                \
        converted(w, op, [](u32 a) -> u32 { return u32(value); });    \
        finish_bits(w, op, w.result[0]);                              \
    }
#define TO_BITS2(name, value)                                                 \
    void name(Wave &w, const Op &op) {                                        \
        converted2(w, op, [](u32 a, u32 b) -> u32 { return u32(value); });    \
        finish_bits(w, op, w.result[0]);                                      \
    }

TO_FLOAT(v_cvt_f32_i32, i32(a))
TO_FLOAT(v_cvt_f32_u32, a)
TO_FLOAT(v_cvt_f32_ubyte0, a & 0xff)
TO_FLOAT(v_cvt_f32_ubyte1, a >> 8 & 0xff)
TO_FLOAT(v_cvt_f32_ubyte2, a >> 16 & 0xff)
TO_FLOAT(v_cvt_f32_ubyte3, a >> 24)
TO_BITS(v_cvt_i32_f32, integer(as_float(a)))
TO_BITS(v_cvt_u32_f32, natural(as_float(a)))
TO_BITS(v_cvt_floor_i32_f32, integer(__builtin_floorf(as_float(a))))
TO_BITS(v_cvt_nearest_i32_f32, integer(__builtin_floorf(as_float(a) + 0.5f)))
TO_BITS(v_cvt_i32_i16, i32(a << 16) >> 16)
TO_BITS(v_cvt_u32_u16, a & 0xffff)

// ---- pairs of 16 bits ------------------------------------------------------------------------------------------------------------

inline u32 both(u32 low, u32 high) { return (low & 0xffff) | high << 16; }

TO_BITS2(v_cvt_pk_u16_u32, both(a > 0xffff ? 0xffff : a, b > 0xffff ? 0xffff : b))
TO_BITS2(v_cvt_pk_i16_i32, both(u32(i32(limited(i32(a), -32768, 32767))), u32(i32(limited(i32(b), -32768, 32767)))))
TO_BITS2(v_cvt_pk_i16_f32, both(u32(i32(limited(as_float(a), -32768, 32767))), u32(i32(limited(as_float(b), -32768, 32767)))))
TO_BITS2(v_cvt_pk_u16_f32, both(u32(i32(limited(as_float(a), 0, 65535))), u32(i32(limited(as_float(b), 0, 65535)))))
TO_BITS2(v_cvt_pk_norm_i16_f32, both(u32(i32(__builtin_roundeven(limited(as_float(a), -1, 1) * 32767))),
                                     u32(i32(__builtin_roundeven(limited(as_float(b), -1, 1) * 32767)))))
TO_BITS2(v_cvt_pk_norm_u16_f32, both(u32(i32(__builtin_roundeven(limited(as_float(a), 0, 1) * 65535))),
                                     u32(i32(__builtin_roundeven(limited(as_float(b), 0, 1) * 65535)))))
TO_BITS2(v_cvt_pk_rtz_f16_f32, both(f16_from_f32(a, Round::to_zero), f16_from_f32(b, Round::to_zero)))
// To nearest even whatever MODE says (CDNA4 ISA).
TO_BITS2(v_cvt_pk_bf16_f32, both(bf16_from_f32(a), bf16_from_f32(b)))
TO_BITS2(v_cvt_pk_f16_f32, both(f16_from_f32(a), f16_from_f32(b)))

void v_cvt_pk_u8_f32(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *byte = operand(w, op, 1), *rest = operand(w, op, 2);
    u32 *r = w.result[0];
    PK_LANES(i, w) {
        const u32 shift = (byte[i] & 3) * 8;
        r[i] = (rest[i] & ~(0xffu << shift)) | u32(i32(limited(as_float(a[i]), 0, 255))) << shift;
    }
    finish_bits(w, op, r);
}

// ---- f16 and bf16 ------------------------------------------------------------------------------------------------------------

void v_cvt_f16_f32(Wave &w, const Op &op) {
    const bool flush = w.mode.flush32_in;
    converted(w, op, [&w, &op, flush](u32 a) {
        a = flush && !(a & 0x7f800000) ? a & 0x80000000 : a;
        return f16_rounded(w, f16_shaped(w, op, as_float(a)));
    });
    finish_half(w, op, w.result[0]);
}

void v_cvt_f32_f16(Wave &w, const Op &op) {
    converted(w, op, [&w](u32 a) { return as_bits(f16_value(w, a)); });
    finish_f32(w, op, w.result[0]);
}

void v_cvt_f32_bf16(Wave &w, const Op &op) {
    converted(w, op, [](u32 a) { return f32_from_bf16(a & 0xffff); });
    finish_f32(w, op, w.result[0]);
}

void v_cvt_f16_u16(Wave &w, const Op &op) {
    converted(w, op, [&w, &op](u32 a) { return f16_rounded(w, f16_shaped(w, op, float(a & 0xffff))); });
    finish_half(w, op, w.result[0]);
}
void v_cvt_f16_i16(Wave &w, const Op &op) {
    converted(w, op, [&w, &op](u32 a) { return f16_rounded(w, f16_shaped(w, op, float(i32(a << 16) >> 16))); });
    finish_half(w, op, w.result[0]);
}
void v_cvt_u16_f16(Wave &w, const Op &op) {
    converted(w, op, [&w](u32 a) { return u32(i32(limited(f16_value(w, a), 0, 65535))); });
    finish_half(w, op, w.result[0]);
}
void v_cvt_i16_f16(Wave &w, const Op &op) {
    converted(w, op, [&w](u32 a) { return u32(i32(limited(f16_value(w, a), -32768, 32767))) & 0xffff; });
    finish_half(w, op, w.result[0]);
}

// ---- fp8 and bf8 -------------------------------------------------------------------------------------------------------------

inline bool has_fnuz(const Wave &w) { return w.program->setup.generation < 95; }

template <class Fnuz, class Ocp> inline u32 to_small(const Wave &w, u32 x) {
    return has_fnuz(w) ? small_from_f32(x, w.mode.saturate_f16, Fnuz{}) : small_from_f32(x, w.mode.saturate_f16, Ocp{});
}
template <class Fnuz, class Ocp> inline u32 from_small(const Wave &w, u32 x) {
    return f32_from_small(x & 0xff, has_fnuz(w) ? Fnuz::value : Ocp::value);
}

// Two numbers into one half of the register; the other stays.
template <class Fnuz, class Ocp> void cvt_pk_small(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1);
    u32 *r = w.result[0];
    for (int i = 0; i < w.lanes; ++i) r[i] = to_small<Fnuz, Ocp>(w, a[i]) | to_small<Fnuz, Ocp>(w, b[i]) << 8;
    finish_half(w, op, r, Upper::keep);
}

// Stochastic rounding as the guides write it: random bits are added to the significand, which wraps within its 23 bits, and
// the sum is rounded to nearest (CDNA3 ISA, V_CVT_SR_FP8_F32). One byte of the register is written: op_sel bits 2 and 3.
template <class Fnuz, class Ocp> void cvt_sr_small(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *random = operand(w, op, 1), *old = w.v[op.d[0].reg];
    const u32 shift = 8 * (op.m.op_sel >> 2 & 3);
    u32 *r = w.result[0];
    for (int i = 0; i < w.lanes; ++i) {
        const bool finite = (a[i] & 0x7f800000) != 0x7f800000;
        const u32 x = finite ? (a[i] & 0xff800000) | ((a[i] + (random[i] >> 12)) & 0x7fffff) : a[i];
        r[i] = (old[i] & ~(0xffu << shift)) | to_small<Fnuz, Ocp>(w, x) << shift;
    }
    store(w, op, r);
}

// One byte: chosen by SDWA on CDNA, by byte_sel (in m.extra) on RDNA4.
template <class Fnuz, class Ocp> void cvt_f32_small(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0);
    const u32 shift = 8 * (op.m.extra & 3);
    u32 *r = w.result[0];
    for (int i = 0; i < w.lanes; ++i) r[i] = from_small<Fnuz, Ocp>(w, a[i] >> shift);
    finish_f32(w, op, r);
}

template <class Fnuz, class Ocp> void cvt_pk_f32_small(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0);
    for (int i = 0; i < w.lanes; ++i) {
        w.result[0][i] = from_small<Fnuz, Ocp>(w, a[i]);
        w.result[1][i] = from_small<Fnuz, Ocp>(w, a[i] >> 8);
    }
    finish_wide(w, op);
}

// Two numbers of 8 bits (one half of the register, by op_sel) or of 4 (one byte, by both bits) times a power of two, which is the
// exponent of the second source (CDNA4 ISA, V_CVT_SCALEF32_PK_*).
inline float small_value(u32 x, int format) {
    static constexpr float halves_of_fp4[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    if (format == 2) return x & 8 ? -halves_of_fp4[x & 7] : halves_of_fp4[x & 7];
    return as_float(f32_from_small(x & 0xff, format ? bf8_ocp : fp8_ocp));
}

enum Into { kIntoF32, kIntoF16, kIntoBf16 };

template <int format, Into into> void cvt_scaled(Wave &w, const Op &op) {
    const u32 *a = source(w, op, 0), *scale = source(w, op, 1);
    const u32 shift = format == 2 ? 8 * (op.m.op_sel & 3) : 16 * (op.m.op_sel & 1), bits = format == 2 ? 4 : 8;
    for (int i = 0; i < w.lanes; ++i) {
        const u32 exponent = scale[i] >> 23 & 0xff;
        const float factor = exponent == 255 ? as_float(0x7fc00000) : exponent ? as_float(exponent << 23) : 0x1p-127f;
        u32 got[2];
        for (u32 n = 0; n < 2; ++n) {
            const u32 x = as_bits(small_value(a[i] >> (shift + bits * n) & ((1u << bits) - 1), format) * factor);
            got[n] = into == kIntoF32 ? x : into == kIntoF16 ? f16_from_f32(x) : bf16_from_f32(x);
        }
        w.result[0][i] = into == kIntoF32 ? got[0] : got[0] | got[1] << 16;
        w.result[1][i] = got[1];
    }
    into == kIntoF32 ? finish_wide(w, op) : store(w, op, w.result[0]);
}

// ---- f64 ---------------------------------------------------------------------------------------------------------------------

template <class F> inline void from_f64(Wave &w, const Op &op, F f) {
    const Wide a = wide_operand(w, op, 0);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = f(as_double(a[i]));
}
template <class F> inline void to_f64(Wave &w, const Op &op, F f) {
    const u32 *a = operand(w, op, 0);
    PK_LANES(i, w) set_wide(w, i, as_bits(double(f(a[i]))));
    finish_wide(w, op);
}

void v_cvt_f64_f32(Wave &w, const Op &op) {
    in_f32_mode(w, [&] { to_f64(w, op, [](u32 a) { return as_float(a); }); });
}
void v_cvt_f64_i32(Wave &w, const Op &op) { to_f64(w, op, [](u32 a) { return i32(a); }); }
void v_cvt_f64_u32(Wave &w, const Op &op) { to_f64(w, op, [](u32 a) { return a; }); }
void v_cvt_f32_f64(Wave &w, const Op &op) {
    const auto run = [&] { from_f64(w, op, [](double a) { return as_bits(float(a)); }); };
    if (plain_f32(w.mode) && plain_f64(w.mode)) {
        run();
    } else {
        HostMode mode(w.mode.round32, w.mode.flush16_64_in, w.mode.flush32_out);
        run();
    }
    finish_f32(w, op, w.result[0]);
}
void v_cvt_i32_f64(Wave &w, const Op &op) {
    from_f64(w, op, [](double a) { return u32(integer(a)); });
    finish_bits(w, op, w.result[0]);
}
void v_cvt_u32_f64(Wave &w, const Op &op) {
    from_f64(w, op, [](double a) { return natural(a); });
    finish_bits(w, op, w.result[0]);
}

}  // namespace

#define ADD(name) add(#name, name);

#define SCALED(format, number)                                                           \
    add("v_cvt_scalef32_pk_f32_" format, (cvt_scaled<number, kIntoF32>));               \
    add("v_cvt_scalef32_pk_f16_" format, (cvt_scaled<number, kIntoF16>));               \
    add("v_cvt_scalef32_pk_bf16_" format, (cvt_scaled<number, kIntoBf16>));

HANDLERS(convert) {
    SCALED("fp8", 0)
    SCALED("bf8", 1)
    SCALED("fp4", 2)
    ADD(v_cvt_f32_i32) ADD(v_cvt_f32_u32) ADD(v_cvt_f32_ubyte0) ADD(v_cvt_f32_ubyte1) ADD(v_cvt_f32_ubyte2)
    ADD(v_cvt_f32_ubyte3) ADD(v_cvt_i32_f32) ADD(v_cvt_u32_f32) ADD(v_cvt_floor_i32_f32) ADD(v_cvt_nearest_i32_f32)
    add("v_cvt_flr_i32_f32", v_cvt_floor_i32_f32);
    add("v_cvt_rpi_i32_f32", v_cvt_nearest_i32_f32);
    ADD(v_cvt_i32_i16) ADD(v_cvt_u32_u16)
    ADD(v_cvt_pk_u16_u32) ADD(v_cvt_pk_i16_i32) ADD(v_cvt_pk_i16_f32) ADD(v_cvt_pk_u16_f32) ADD(v_cvt_pk_norm_i16_f32)
    ADD(v_cvt_pk_norm_u16_f32) ADD(v_cvt_pk_rtz_f16_f32) ADD(v_cvt_pk_bf16_f32) ADD(v_cvt_pk_f16_f32) ADD(v_cvt_pk_u8_f32)
    add("v_cvt_pknorm_i16_f32", v_cvt_pk_norm_i16_f32);
    add("v_cvt_pknorm_u16_f32", v_cvt_pk_norm_u16_f32);
    add("v_cvt_pkrtz_f16_f32", v_cvt_pk_rtz_f16_f32);
    ADD(v_cvt_f16_f32) ADD(v_cvt_f32_f16) ADD(v_cvt_f32_bf16) ADD(v_cvt_f16_u16) ADD(v_cvt_f16_i16) ADD(v_cvt_u16_f16)
    ADD(v_cvt_i16_f16)
    add("v_cvt_pk_fp8_f32", (cvt_pk_small<Fp8Fnuz, Fp8Ocp>));
    add("v_cvt_pk_bf8_f32", (cvt_pk_small<Bf8Fnuz, Bf8Ocp>));
    add("v_cvt_sr_fp8_f32", (cvt_sr_small<Fp8Fnuz, Fp8Ocp>));
    add("v_cvt_sr_bf8_f32", (cvt_sr_small<Bf8Fnuz, Bf8Ocp>));
    add("v_cvt_f32_fp8", (cvt_f32_small<Fp8Fnuz, Fp8Ocp>));
    add("v_cvt_f32_bf8", (cvt_f32_small<Bf8Fnuz, Bf8Ocp>));
    add("v_cvt_pk_f32_fp8", (cvt_pk_f32_small<Fp8Fnuz, Fp8Ocp>));
    add("v_cvt_pk_f32_bf8", (cvt_pk_f32_small<Bf8Fnuz, Bf8Ocp>));
    ADD(v_cvt_f64_f32) ADD(v_cvt_f64_i32) ADD(v_cvt_f64_u32) ADD(v_cvt_f32_f64) ADD(v_cvt_i32_f64) ADD(v_cvt_u32_f64)
}
