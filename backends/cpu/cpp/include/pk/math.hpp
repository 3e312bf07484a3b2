// Functions on elements. Those on float are polynomials without branches or calls, so that loops over them vectorise;
// errors in units in the last place, against double precision, are measured by tests/cpu/test_math.py.
#pragma once
#include "pk/element.hpp"

namespace pk {

// ---- both hand on NaN

template <class T>
PK_INLINE T max(T a, T b) {
    return a > b || a != a ? a : b;
}
template <class T>
PK_INLINE T min(T a, T b) {
    return a < b || a != a ? a : b;
}

PK_INLINE float abs(float x) { return __builtin_fabsf(x); }
PK_INLINE double abs(double x) { return __builtin_fabs(x); }
PK_INLINE int32_t abs(int32_t x) { return x < 0 ? -x : x; }
PK_INLINE int64_t abs(int64_t x) { return x < 0 ? -x : x; }

PK_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
PK_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
PK_INLINE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
PK_INLINE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
PK_INLINE float floor(float x) { return __builtin_floorf(x); }
PK_INLINE double floor(double x) { return __builtin_floor(x); }
PK_INLINE float ceil(float x) { return __builtin_ceilf(x); }
PK_INLINE double ceil(double x) { return __builtin_ceil(x); }
PK_INLINE float trunc(float x) { return __builtin_truncf(x); }
PK_INLINE double trunc(double x) { return __builtin_trunc(x); }
PK_INLINE float round(float x) { return __builtin_rintf(x); }  // halves to even
PK_INLINE double round(double x) { return __builtin_rint(x); }
PK_INLINE bool isnan(float x) { return x != x; }
PK_INLINE bool isnan(double x) { return x != x; }

template <class T>
PK_INLINE T sign(T x) {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;  // NaN and signed zeros are handed on
}

// a b + c, fused where the processor can. The compiler fuses nothing by itself (-ffp-contract=off): a maximum of products and
// the same products less that maximum must be rounded alike.
PK_INLINE float mad(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

// ---- exponentials

// 2^n for -252 <= n <= 254, as a product of two normal powers so that results may be subnormal or infinite.
PK_INLINE float scale_by_power(float x, int32_t n) {
    const int32_t half = n >> 1;
    return x * bitcast<float>((half + 127) << 23) * bitcast<float>((n - half + 127) << 23);
}

// x = n log 2 + r with |r| <= log 2 / 2; the constant 1.5 * 2^23 rounds to an integer (Cody and Waite).
PK_INLINE float exp(float x) {
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    const float shifted = mad(x, 1.44269504f, 12582912.0f);
    const int32_t n = bitcast<int32_t>(shifted) - 0x4b400000;
    const float whole = shifted - 12582912.0f;
    const float r = mad(whole, 2.12194440e-4f, mad(whole, -0.693359375f, x));
    float p = 1.9875691500e-4f;
    p = mad(p, r, 1.3981999507e-3f);
    p = mad(p, r, 8.3334519073e-3f);
    p = mad(p, r, 4.1665795894e-2f);
    p = mad(p, r, 1.6666665459e-1f);
    p = mad(p, r, 5.0000001201e-1f);
    return scale_by_power(mad(p, r * r, r) + 1.0f, n);
}
PK_INLINE double exp(double x) { return __builtin_exp(x); }
PK_INLINE float exp2(float x) { return __builtin_exp2f(x); }
PK_INLINE double exp2(double x) { return __builtin_exp2(x); }
PK_INLINE float expm1(float x) { return __builtin_expm1f(x); }
PK_INLINE double expm1(double x) { return __builtin_expm1(x); }

PK_INLINE float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
PK_INLINE double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

// Near zero an odd polynomial, else 1 - 2 / (e^2|x| + 1).
PK_INLINE float tanh(float x) {
    const float a = abs(x), s = x * x;
    float p = -5.70498872745e-3f;
    p = mad(p, s, 2.06390887954e-2f);
    p = mad(p, s, -5.37397155531e-2f);
    p = mad(p, s, 1.33314422036e-1f);
    p = mad(p, s, -3.33332819422e-1f);
    const float near = mad(p * s, x, x);
    const float far = 1.0f - 2.0f / (exp(2.0f * a) + 1.0f);
    return a < 0.625f ? near : __builtin_copysignf(far, x);
}
PK_INLINE double tanh(double x) { return __builtin_tanh(x); }

// Near zero an odd polynomial, else 1 - e^p(|x|).
PK_INLINE float erf(float x) {
    const float a = abs(x), s = x * x;
    float near = -5.96761703e-4f;
    near = mad(near, s, 4.99119423e-3f);
    near = mad(near, s, -2.67681349e-2f);
    near = mad(near, s, 1.12819925e-1f);
    near = mad(near, s, -3.76125336e-1f);
    near = mad(near, s, 1.28379166e-1f);
    near = mad(near, x, x);
    float far = mad(-1.72853470e-5f, a, 3.83197126e-4f);
    far = mad(far, s, mad(-3.88396438e-3f, a, 2.42546219e-2f));
    far = mad(far, a, -1.06777877e-1f);
    far = mad(far, a, -6.34846687e-1f);
    far = mad(far, a, -1.28717512e-1f);
    far = 1.0f - exp(mad(far, a, -a));
    far = a > 4.0f ? 1.0f : far;  // 1 - erf(4) is half of 2^-25
    return a > 0.927734375f ? __builtin_copysignf(far, x) : near;
}
PK_INLINE double erf(double x) { return __builtin_erf(x); }

// ---- logarithms

// x = m 2^n with m between sqrt(1/2) and sqrt(2).
PK_INLINE float log(float x) {
    const bool tiny = x < 0x1p-126f;
    const float y = tiny ? x * 0x1p23f : x;
    const int32_t u = bitcast<int32_t>(y) - 0x3f3504f3;
    const int32_t n = u >> 23;
    const float whole = float(n) - (tiny ? 23.0f : 0.0f);
    const float r = bitcast<float>((u & 0x7fffff) + 0x3f3504f3) - 1.0f;
    float p = 7.0376836292e-2f;
    p = mad(p, r, -1.1514610310e-1f);
    p = mad(p, r, 1.1676998740e-1f);
    p = mad(p, r, -1.2420140846e-1f);
    p = mad(p, r, 1.4249322787e-1f);
    p = mad(p, r, -1.6668057665e-1f);
    p = mad(p, r, 2.0000714765e-1f);
    p = mad(p, r, -2.4999993993e-1f);
    p = mad(p, r, 3.3333331174e-1f);
    const float square = r * r;
    float result = mad(p * r, square, whole * -2.12194440e-4f);
    result = mad(whole, 0.693359375f, r + mad(-0.5f, square, result));
    result = x == 0.0f ? -INFINITY : x < 0.0f ? NAN : result;
    return x == INFINITY || x != x ? x : result;
}
PK_INLINE double log(double x) { return __builtin_log(x); }
PK_INLINE float log2(float x) { return __builtin_log2f(x); }
PK_INLINE double log2(double x) { return __builtin_log2(x); }
PK_INLINE float log1p(float x) { return __builtin_log1pf(x); }
PK_INLINE double log1p(double x) { return __builtin_log1p(x); }

// ---- the rest is the C library's

PK_INLINE float sin(float x) { return __builtin_sinf(x); }
PK_INLINE double sin(double x) { return __builtin_sin(x); }
PK_INLINE float cos(float x) { return __builtin_cosf(x); }
PK_INLINE double cos(double x) { return __builtin_cos(x); }
PK_INLINE float pow(float x, float y) { return __builtin_powf(x, y); }
PK_INLINE double pow(double x, double y) { return __builtin_pow(x, y); }

// ---- division that rounds down; the remainder has the sign of the divisor

// Of integers too, division by zero gives 0: processors trap on it, and elements beyond the end of an array, whose
// results are not used, may hold zeros. (So they do on the least integer divided by -1, which wraps round here.)
template <class T>
PK_INLINE T quotient(T a, T b) {
    return T(-1) < T(0) && b == T(-1) ? T(0 - uint64_t(a)) : b == 0 ? T(0) : a / b;
}
template <class T>
PK_INLINE T floordiv(T a, T b) {
    const T q = quotient(a, b), r = a - q * b;
    return q - T(b != 0 && r != 0 && (r < 0) != (b < 0));
}
PK_INLINE float floordiv(float a, float b) { return __builtin_floorf(a / b); }
PK_INLINE double floordiv(double a, double b) { return __builtin_floor(a / b); }
template <class T>
PK_INLINE T rem(T a, T b) {
    const T r = b == 0 ? T(0) : a - quotient(a, b) * b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
PK_INLINE float rem(float a, float b) {
    const float r = __builtin_fmodf(a, b);
    return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}
PK_INLINE double rem(double a, double b) {
    const double r = __builtin_fmod(a, b);
    return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

}  // namespace pk
