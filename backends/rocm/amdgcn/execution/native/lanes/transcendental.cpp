// Transcendental instructions. The guides state how accurate they are and not which bits come out, so this model is the
// function in double, rounded once to the result: within half a unit in the last place, and so within every bound below.
//
//   v_exp_f32 v_log_f32 v_rcp_f32 v_rsq_f32 v_sqrt_f32   1 ulp, denormals flushed in and out whatever MODE says
//   v_exp_f16 v_log_f16 v_rcp_f16 v_rsq_f16 v_sqrt_f16   0.51 ulp, denormals as in MODE
//   v_rcp_f64 v_rsq_f64                                  2^29 ulp; v_sqrt_f64 the same
//   v_sin_f32 v_cos_f32                                  no bound; arguments in turns, the domain [-256, 256]
// (RDNA3 ISA, "VOP1 instructions", descriptions of V_EXP_F32 and those after it; the instructions are those of CDNA.)
// What is written for such a unit to feed on (clang's exp, log, sqrt and division) asks for no more than these bounds.
#include "../half.hpp"

namespace {

using u32 = uint32_t;

inline u32 without_denormal(u32 x) { return x & 0x7f800000 ? x : x & 0x80000000; }

// 2^x by a Taylor polynomial around the nearest integer: off by less than 1e-14 of the result.
inline double exp2_of(double x) {
    const double bounded = x > 1100.0 ? 1100.0 : x < -1100.0 ? -1100.0 : x;  // NaN passes
    const double n = __builtin_roundeven(bounded);
    const double t = (bounded - n) * 0.693147180559945309417;
    double p = 1.0 / 479001600;
    p = p * t + 1.0 / 39916800;
    p = p * t + 1.0 / 3628800;
    p = p * t + 1.0 / 362880;
    p = p * t + 1.0 / 40320;
    p = p * t + 1.0 / 5040;
    p = p * t + 1.0 / 720;
    p = p * t + 1.0 / 120;
    p = p * t + 1.0 / 24;
    p = p * t + 1.0 / 6;
    p = p * t + 0.5;
    p = p * t + 1.0;
    p = p * t + 1.0;
    // In two factors, since 2^n may be outside double's range where the product is not.
    const int32_t whole = n == n ? int32_t(n) : 0, half = whole >> 1;
    const double scale = as_double(uint64_t(half + 1023) << 52) * as_double(uint64_t(whole - half + 1023) << 52);
    return x == x ? p * scale : x;
}

// log2 of a normal positive number, from the series of artanh: off by less than 1e-13.
inline double log2_of(double x) {
    const uint64_t b = as_bits(x);
    int64_t exponent = int64_t(b >> 52) - 1023;
    double m = as_double((b & 0xfffffffffffffull) | 0x3ff0000000000000ull);
    const bool above = m > 1.4142135623730951;
    m = above ? m * 0.5 : m;
    exponent += above;
    const double s = (m - 1.0) / (m + 1.0), q = s * s;
    double p = 1.0 / 19;
    p = p * q + 1.0 / 17;
    p = p * q + 1.0 / 15;
    p = p * q + 1.0 / 13;
    p = p * q + 1.0 / 11;
    p = p * q + 1.0 / 9;
    p = p * q + 1.0 / 7;
    p = p * q + 1.0 / 5;
    p = p * q + 1.0 / 3;
    p = p * q + 1.0;
    return double(exponent) + 2.8853900817779268147 * s * p;
}

// sin(2 pi r) for |r| <= 1/4.
inline double sine_of_turns(double r) {
    const double t = r * 6.283185307179586477, q = t * t;
    double p = 1.0 / 355687428096000.0;
    p = -p * q + 1.0 / 1307674368000.0;
    p = -p * q + 1.0 / 6227020800.0;
    p = -p * q + 1.0 / 39916800;
    p = -p * q + 1.0 / 362880;
    p = -p * q + 1.0 / 5040;
    p = -p * q + 1.0 / 120;
    p = -p * q + 1.0 / 6;
    p = -p * q + 1.0;
    return t * p;
}

constexpr float kInfinity = __builtin_inff();
constexpr float kNan = __builtin_nanf("");

inline float exp2_float(float x) { return float(exp2_of(double(x))); }

inline float log2_float(float x) {
    const float r = float(log2_of(double(x)));
    return x != x ? x : x == 0.0f ? -kInfinity : x < 0.0f ? kNan : x == kInfinity ? x : r;
}

inline float reciprocal(float x) { return 1.0f / x; }
inline float reciprocal_root(float x) { return float(1.0 / __builtin_sqrt(double(x))); }
inline float square_root(float x) { return __builtin_sqrtf(x); }

// Outside its domain the sine is 0 and the cosine 1 (CDNA3 ISA, V_SIN_F32).
inline float sine(float x) {
    const double r = double(x) - __builtin_roundeven(double(x));
    const double folded = r > 0.25 ? 0.5 - r : r < -0.25 ? -0.5 - r : r;
    const float s = float(sine_of_turns(folded));
    return x - x != 0.0f ? kNan : x > 256.0f || x < -256.0f ? 0.0f : s;
}
inline float cosine(float x) {
    const double r = double(x) - __builtin_roundeven(double(x));
    const float c = float(sine_of_turns(0.25 - (r < 0.0 ? -r : r)));
    return x - x != 0.0f ? kNan : x > 256.0f || x < -256.0f ? 1.0f : c;
}

template <float (*f)(float)> void transcendental_f32(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = without_denormal(as_bits(f(as_float(without_denormal(a[i])))));
    finish_f32(w, op, r);
}

template <float (*f)(float)> void transcendental_f16(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = f16_rounded(w, f16_shaped(w, op, f(f16_value(w, a[i]))));
    finish_half(w, op, r);
}

template <class F> inline void transcendental_f64(Wave &w, const Op &op, F f) {
    const Wide a = wide_operand(w, op, 0);
    in_f64_mode(w, [&] { PK_LANES(i, w) set_wide(w, i, as_bits(f(as_double(a[i])))); });
    finish_wide(w, op);
}

void v_rcp_f64(Wave &w, const Op &op) {
    transcendental_f64(w, op, [](double x) { return 1.0 / x; });
}
void v_rsq_f64(Wave &w, const Op &op) {
    transcendental_f64(w, op, [](double x) { return 1.0 / __builtin_sqrt(x); });
}
void v_sqrt_f64(Wave &w, const Op &op) {
    transcendental_f64(w, op, [](double x) { return __builtin_sqrt(x); });
}

// One scalar value through the vector unit (RDNA4 ISA, V_S_EXP_F32 and others). EXEC plays no part.
template <float (*f)(float)> void scalar_f32(Wave &w, const Op &op) {
    u32 x = operand(w, op, 0)[0];
    x = without_denormal(as_bits(f(as_float(without_denormal(x)))));
    if (op.m.omod) x = as_bits(scaled(as_float(x), op.m.omod));
    if (op.m.clamp) x = as_bits(clamped(as_float(x), true));
    if (op.d[0].reg != kNull) w.s[op.d[0].reg] = x;
}
template <float (*f)(float)> void scalar_f16(Wave &w, const Op &op) {
    const u32 x = operand(w, op, 0)[0];
    if (op.d[0].reg != kNull) w.s[op.d[0].reg] = f16_rounded(w, f16_shaped(w, op, f(f16_value(w, x))));
}

#define ALL(name, f)                                   \
    add("v_" name "_f32", transcendental_f32<f>);      \
    add("v_" name "_f16", transcendental_f16<f>);
#define SCALAR(name, f)                                \
    add("v_s_" name "_f32", scalar_f32<f>);            \
    add("v_s_" name "_f16", scalar_f16<f>);

}  // namespace

HANDLERS(transcendental) {
    ALL("exp", exp2_float)
    ALL("log", log2_float)
    ALL("rcp", reciprocal)
    ALL("rsq", reciprocal_root)
    ALL("sqrt", square_root)
    ALL("sin", sine)
    ALL("cos", cosine)
    SCALAR("exp", exp2_float)
    SCALAR("log", log2_float)
    SCALAR("rcp", reciprocal)
    SCALAR("rsq", reciprocal_root)
    SCALAR("sqrt", square_root)
    add("v_rcp_iflag_f32", transcendental_f32<reciprocal>);
    add("v_rcp_f64", v_rcp_f64);
    add("v_rsq_f64", v_rsq_f64);
    add("v_sqrt_f64", v_sqrt_f64);
}
