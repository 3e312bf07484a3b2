// Arithmetic on elements: functions accurate to a few units in the last place (CUDA C++ Programming
// Guide, Mathematical Functions Appendix). Nothing here is a fast-math variant; divisions of floats are within 2 units
// where the compiler is told so (--prec-div=false). max and min hand on NaN. Only what is written as fma is fused
// (--fmad=false): a maximum of products and the same products less that maximum must be rounded alike.
#pragma once
#include "pk/base.cuh"
#include "pk/ptx.cuh"

namespace pk {

// ---- functions -----------------------------------------------------------------------------------------------------

PK_DEVICE float max(float a, float b) { return ptx::max_nan(a, b); }
PK_DEVICE float min(float a, float b) { return ptx::min_nan(a, b); }
template <class T> PK_DEVICE T max(T a, T b) { return a > b || a != a ? a : b; }
template <class T> PK_DEVICE T min(T a, T b) { return a < b || a != a ? a : b; }

/// a - b of integers, as minimums and maximums of it are computed rightly (see ptx::minus).
PK_DEVICE int32_t minus(int32_t a, int32_t b) { return ptx::minus(a, b); }
PK_DEVICE uint32_t minus(uint32_t a, uint32_t b) { return static_cast<uint32_t>(ptx::minus(static_cast<int>(a), static_cast<int>(b))); }

#define PK_MATH_1(name, f32_name, f64_name)                      \
    PK_DEVICE float name(float x) { return ::f32_name(x); }      \
    PK_DEVICE double name(double x) { return ::f64_name(x); }
PK_MATH_1(exp, expf, exp)
PK_MATH_1(exp2, exp2f, exp2)
PK_MATH_1(expm1, expm1f, expm1)
PK_MATH_1(log, logf, log)
PK_MATH_1(log2, log2f, log2)
PK_MATH_1(log1p, log1pf, log1p)
PK_MATH_1(sqrt, sqrtf, sqrt)
PK_MATH_1(tanh, tanhf, tanh)
PK_MATH_1(erf, erff, erf)
PK_MATH_1(sin, sinf, sin)
PK_MATH_1(cos, cosf, cos)
PK_MATH_1(floor, floorf, floor)
PK_MATH_1(ceil, ceilf, ceil)
PK_MATH_1(trunc, truncf, trunc)
PK_MATH_1(round, rintf, rint)  // halves to even
#undef PK_MATH_1

/// 2^x by the instruction alone: within 2 ulp, zero where that is no normal number.
PK_DEVICE float exp2_flushed(float x) { return ptx::power_of_two(x); }

PK_DEVICE float rsqrt(float x) { return ::rsqrtf(x); }
PK_DEVICE double rsqrt(double x) { return ::rsqrt(x); }
template <class T> PK_DEVICE T reciprocal(T x) { return T(1) / x; }
/// exp(-x) is 2^t with t = -x log2(e) and what rounding takes from t put back, so it is within a few units for every x.
PK_DEVICE float sigmoid(float x) {
    // Beyond, the result is 1, or less than the smallest normal number and flushed to zero; a power of infinity would be NaN.
    const float y = ptx::min_nan(ptx::max_nan(x, -88.5f), 88.5f);
    const float t = y * -1.4426950f, rest = ::fmaf(y, -1.4426950f, -t);
    const float power = ptx::power_of_two(t);
    return ptx::reciprocal(1.0f + ::fmaf(power, rest * 0.6931472f, power));
}
PK_DEVICE double sigmoid(double x) { return 1.0 / (1.0 + ::exp(-x)); }

/// a b + c rounded once. Integers have no rounding.
PK_DEVICE float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
PK_DEVICE double fma(double a, double b, double c) { return ::fma(a, b, c); }
template <class T> PK_DEVICE T fma(T a, T b, T c) { return a * b + c; }

PK_DEVICE float abs(float x) { return ::fabsf(x); }
PK_DEVICE double abs(double x) { return ::fabs(x); }
template <class T> PK_DEVICE T abs(T x) { return x < 0 ? -x : x; }
template <class T> PK_DEVICE T sign(T x) { return x != x ? x : static_cast<T>((T(0) < x) - (x < T(0))); }
template <class T> PK_DEVICE bool isnan(T x) { return x != x; }

PK_DEVICE float pow(float a, float b) { return ::powf(a, b); }
PK_DEVICE double pow(double a, double b) { return ::pow(a, b); }
template <class T> PK_DEVICE T pow(T a, T b) {  // integers; a negative exponent gives what truncation leaves
    T y = 1;
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    for (; b; b /= 2, a *= a)
        if (b % 2) y *= a;
    return y;
}

/// Division rounded down. What lies beyond the end of a tile may be divided by zero: that gives 0 and traps nowhere.
PK_DEVICE float floordiv(float a, float b) { return ::floorf(a / b); }
PK_DEVICE double floordiv(double a, double b) { return ::floor(a / b); }
template <class T> PK_DEVICE T floordiv(T a, T b) {
    if (b == 0) return 0;
    if (T(-1) < T(0) && b == T(-1)) return T(0 - static_cast<uint64_t>(a));  // the least number has no opposite: it wraps round
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/// Remainder with the sign of the divisor.
PK_DEVICE float rem(float a, float b) {
    const float r = ::fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
PK_DEVICE double rem(double a, double b) {
    const double r = ::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class T> PK_DEVICE T rem(T a, T b) {
    if (b == 0 || (T(-1) < T(0) && b == T(-1))) return 0;
    const T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// ---- what a reduction does with two values -------------------------------------------------------------------------

struct Sum {
    template <class T> static PK_DEVICE T identity() { return T(0); }
    template <class T> static PK_DEVICE T join(T a, T b) { return a + b; }
};
struct Prod {
    template <class T> static PK_DEVICE T identity() { return T(1); }
    template <class T> static PK_DEVICE T join(T a, T b) { return a * b; }
};

template <class T> struct Lowest {
    static PK_DEVICE T value() { return T(-1) < T(0) ? T(T(1) << (8 * sizeof(T) - 1)) : T(0); }
};
template <> struct Lowest<float> {
    static PK_DEVICE float value() { return -INFINITY; }
};
template <> struct Lowest<double> {
    static PK_DEVICE double value() { return -INFINITY; }
};
template <> struct Lowest<bool> {
    static PK_DEVICE bool value() { return false; }
};

struct Max {
    template <class T> static PK_DEVICE T identity() { return Lowest<T>::value(); }
    template <class T> static PK_DEVICE T join(T a, T b) { return pk::max(a, b); }
};
struct Min {
    template <class T> static PK_DEVICE T identity() {
        if constexpr (same<T, float> || same<T, double>) return INFINITY;
        else if constexpr (same<T, bool>) return true;
        else return ~Lowest<T>::value();
    }
    template <class T> static PK_DEVICE T join(T a, T b) { return pk::min(a, b); }
};
struct Any {
    template <class T> static PK_DEVICE T identity() { return T(0); }
    template <class T> static PK_DEVICE T join(T a, T b) { return a || b; }
};
struct All {
    template <class T> static PK_DEVICE T identity() { return T(1); }
    template <class T> static PK_DEVICE T join(T a, T b) { return a && b; }
};

}  // namespace pk
