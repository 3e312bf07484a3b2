// Functions on elements, accurate to a few units in the last place and never the hardware's approximations alone.
//
// log and sqrt of floats lower to inline code in the compiler; the others are made here, since the usual device
// library is not needed to compile.  max and min hand on NaN.
#pragma once

#include "pk/device.h"

namespace pk {

template <class To, class From> PK_FN To bitcast(From x) { return __builtin_bit_cast(To, x); }

// ---- numbers of any type ------------------------------------------------------------------------------------------

template <class T> PK_FN bool isnan(T x) { return x != x; }
template <class T> PK_FN T abs(T x) { return x < T(0) ? -x : x; }
PK_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
PK_FN double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
template <> PK_FN float abs(float x) { return __builtin_fabsf(x); }
template <> PK_FN double abs(double x) { return __builtin_fabs(x); }

// NaN in either operand comes out: !(a < b) also holds when b is NaN, and a is looked at by itself.
template <class T> PK_FN T max(T a, T b) { return a > b || a != a ? a : b; }
template <class T> PK_FN T min(T a, T b) { return a < b || a != a ? a : b; }

#if __has_builtin(__builtin_elementwise_maximum)
template <> PK_FN float max(float a, float b) { return __builtin_elementwise_maximum(a, b); }  // one instruction on gfx950 and gfx12
template <> PK_FN float min(float a, float b) { return __builtin_elementwise_minimum(a, b); }
#endif

template <class T> PK_FN T sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }

// The quotient rounded down, and the remainder with the sign of the divisor.  What lies beyond the end of a tile may be
// divided by zero: left undefined, the compiler would conclude that nothing lies there and drop the bounds of loads and stores.
template <class T> PK_FN T floordiv(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0) && b == T(-1)) return T(0 - static_cast<unsigned long>(a));  // the least number wraps round
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
template <class T> PK_FN T rem(T a, T b) {
  if (b == 0 || (T(-1) < T(0) && b == T(-1))) return 0;
  const T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

PK_FN float floor(float x) { return __builtin_floorf(x); }
PK_FN float ceil(float x) { return __builtin_ceilf(x); }
PK_FN float trunc(float x) { return __builtin_truncf(x); }
PK_FN float round(float x) { return __builtin_rintf(x); }  // halves to even
PK_FN float sqrt(float x) { return __builtin_sqrtf(x); }
PK_FN double floor(double x) { return __builtin_floor(x); }
PK_FN double ceil(double x) { return __builtin_ceil(x); }
PK_FN double trunc(double x) { return __builtin_trunc(x); }
PK_FN double round(double x) { return __builtin_rint(x); }
PK_FN double sqrt(double x) { return __builtin_sqrt(x); }
template <class T> PK_FN T rsqrt(T x) { return T(1) / sqrt(x); }

template <> PK_FN float floordiv(float a, float b) { return floor(a / b); }
template <> PK_FN double floordiv(double a, double b) { return floor(a / b); }

namespace detail {

// The remainder of a by b: exact, since every step takes away a multiple of b that leaves an exact difference.
template <class T> PK_FN T remainder(T a, T b) {
  T r = abs(a), d = abs(b);
  if (!(r < T(INFINITY)) || !(d > T(0))) return T(NAN);
  if (d < T(INFINITY)) {
    while (r >= d) {
      T step = d;
      while (step + step <= r) step += step;
      r -= step;
    }
  }
  r = a < T(0) ? -r : r;
  return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
}

// c[0] x^(N-1) + ... + c[N-1]
template <int N, class T> PK_FN T polynomial(T x, const T (&c)[N]) {
  T sum = c[0];
#pragma unroll
  for (int i = 1; i < N; ++i) sum = sizeof(T) == 4 ? __builtin_fmaf(sum, x, c[i]) : __builtin_fma(sum, x, c[i]);
  return sum;
}

}  // namespace detail

template <> PK_FN float rem(float a, float b) { return detail::remainder(a, b); }
template <> PK_FN double rem(double a, double b) { return detail::remainder(a, b); }

// ---- double -------------------------------------------------------------------------------------------------------

namespace detail {

// x 2^n; in two steps, so that results below the normal range are rounded once.
PK_FN double scale(double x, int n) {
  const int half = n / 2;
  return x * bitcast<double>(int64_t(1023 + half) << 52) * bitcast<double>(int64_t(1023 + n - half) << 52);
}

// exp(r) - 1 for |r| < 0.35: the Taylor series, whose next term is below 2^-56 of the sum.
PK_FN double expm1_near_zero(double r) {
  double term = r, sum = r;
#pragma unroll
  for (int n = 2; n < 15; ++n) {
    term *= r / n;
    sum += term;
  }
  return sum;
}

constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;  // their sum is ln 2 to 2^-97

}  // namespace detail

PK_FN double exp(double x) {
  if (!(x < 709.79)) return x + INFINITY;
  if (x < -745.2) return 0.0;
  const double n = round(x * 1.4426950408889634);
  const double r = __builtin_fma(-n, detail::ln2_low, __builtin_fma(-n, detail::ln2_high, x));
  return detail::scale(1.0 + detail::expm1_near_zero(r), static_cast<int>(n));
}

PK_FN double expm1(double x) { return abs(x) < 0.34 ? detail::expm1_near_zero(x) : exp(x) - 1.0; }

PK_FN double exp2(double x) {
  if (!(x < 1024.0)) return x + INFINITY;
  if (x < -1076.0) return 0.0;
  const double n = round(x);
  return detail::scale(1.0 + detail::expm1_near_zero((x - n) * 0.6931471805599453), static_cast<int>(n));
}

PK_FN double log(double x) {
  if (!(x > 0.0)) return x == 0.0 ? -INFINITY : NAN;
  if (x == INFINITY) return x;
  int shift = 0;
  if (x < 0x1p-1022) { x *= 0x1p54; shift = -54; }
  const int64_t bits = bitcast<int64_t>(x);
  int e = static_cast<int>(bits >> 52) - 1023;
  double m = bitcast<double>((bits & 0x000fffffffffffffll) | 0x3ff0000000000000ll);
  if (m > 1.4142135623730951) { m *= 0.5; e += 1; }
  // log m = 2 atanh(s) with s = (m - 1) / (m + 1), |s| < 0.172
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double sum = 0.0;
#pragma unroll
  for (int n = 21; n >= 3; n -= 2) sum = (sum + 1.0 / n) * s2;
  const double n = e + shift;
  return n * detail::ln2_high + (2.0 * s + (2.0 * s * sum + n * detail::ln2_low));
}

PK_FN double log2(double x) { return log(x) * 1.4426950408889634; }
PK_FN double log1p(double x) {
  const double u = 1.0 + x;
  return u == 1.0 || u == INFINITY ? x : log(u) * (x / (u - 1.0));
}
PK_FN double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
PK_FN double tanh(double x) {
  if (abs(x) > 20.0) return x > 0.0 ? 1.0 : -1.0;
  const double e = expm1(2.0 * x);
  return e / (e + 2.0);
}

PK_FN double erf(double x) {
  const double a = abs(x);
  if (a != a) return x;
  double y = 1.0;
  if (a < 3.0) {  // 2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (2n+1)!!, all terms positive
    double term = a, sum = a;
    for (int n = 1; n < 60; ++n) {
      term *= 2.0 * a * a / (2 * n + 1);
      sum += term;
    }
    y = 1.1283791670955126 * exp(-a * a) * sum;
  } else if (a < 6.0) {  // erfc as a continued fraction
    double f = a;
    for (int n = 40; n > 0; --n) f = a + n * 0.5 / f;
    y = 1.0 - exp(-a * a) * 0.5641895835477563 / f;
  }
  return x < 0.0 ? -y : y;
}

namespace detail {

// Quarter turns in a large x, exactly (Payne and Hanek, 1983): the mantissa times those bits of 2/pi that matter modulo 4.
PK_FN double many_quarter_turns(double x, int& quarter) {
  static constexpr uint64_t two_over_pi[] = {
      0,  // so that bits before the point can be asked for
      0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
      0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
      0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
      0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
      0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
  const uint64_t bits = bitcast<uint64_t>(x);
  const int e = static_cast<int>(bits >> 52 & 0x7ff) - 1075;  // |x| = m 2^e
  const uint64_t m = (bits & 0x000fffffffffffffull) | 0x0010000000000000ull;
  const int word = (e + 62) / 64, shift = (e + 62) % 64;
  uint64_t w[3];
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    w[i] = shift ? two_over_pi[word + i] << shift | two_over_pi[word + i + 1] >> (64 - shift) : two_over_pi[word + i];
  }
  const unsigned __int128 low = static_cast<unsigned __int128>(m) * w[2];
  const unsigned __int128 middle = static_cast<unsigned __int128>(m) * w[1] + static_cast<uint64_t>(low >> 64);
  const uint64_t r0 = m * w[0] + static_cast<uint64_t>(middle >> 64), r1 = static_cast<uint64_t>(middle);
  // r0 counts 2^-62 of a quarter turn, modulo 4.
  quarter = static_cast<int>(r0 >> 62);
  const int64_t high = static_cast<int64_t>(r0 << 2 | r1 >> 62);  // the fraction, in [-1/2, 1/2) when taken as signed
  quarter += high < 0;
  const double fraction = static_cast<double>(high) * 0x1p-64 + static_cast<double>(r1 << 2) * 0x1p-128;
  const double r = fraction * 0x1.921fb54442d18p+0;
  if (bits >> 63) quarter = -quarter;
  return bits >> 63 ? -r : r;
}

// The angle left after the nearest quarter turn, and which quarter that is.
PK_FN double quarter_turns(double x, int& quarter) {
  if (abs(x) >= 0x1p+30) return many_quarter_turns(x, quarter);
  const double n = round(x * 0.6366197723675814);
  double r = __builtin_fma(-n, 0x1.921fb54442d18p+0, x);
  r = __builtin_fma(-n, 0x1.1a62633145c07p-54, r);
  quarter = static_cast<int>(static_cast<int64_t>(n) & 3);
  return r;
}

PK_FN double sine_of(double r, int quarter) {
  const double s = r * r;
  const double sine_terms[] = {-7.647163731819816e-13, 1.6059043836821613e-10, -2.505210838544172e-08,
                               2.7557319223985893e-06, -0.0001984126984126984, 0.008333333333333333,
                               -0.16666666666666666};
  const double cosine_terms[] = {4.779477332387385e-14, -1.1470745597729725e-11, 2.08767569878681e-09,
                                 -2.755731922398589e-07, 2.48015873015873e-05, -0.001388888888888889,
                                 0.041666666666666664, -0.5};
  const double sine = __builtin_fma(r * s, polynomial(s, sine_terms), r);
  const double cosine = __builtin_fma(s, polynomial(s, cosine_terms), 1.0);
  const double y = quarter & 1 ? cosine : sine;
  return quarter & 2 ? -y : y;
}

}  // namespace detail

PK_FN double sin(double x) {
  if (!(abs(x) < INFINITY)) return NAN;
  int quarter;
  const double r = detail::quarter_turns(x, quarter);
  return detail::sine_of(r, quarter);
}

PK_FN double cos(double x) {
  if (!(abs(x) < INFINITY)) return NAN;
  int quarter;
  const double r = detail::quarter_turns(x, quarter);
  return detail::sine_of(r, quarter + 1);
}

namespace detail {

// |x|^y with the sign and the special cases of C's pow.
template <class T, class Power> PK_FN T power(T x, T y, Power magnitude) {
  if (y == T(0) || x == T(1)) return T(1);
  const bool whole = round(y) == y, odd = whole && abs(y) < T(9007199254740992.0) && round(y * T(0.5)) * T(2) != y;
  if (x < T(0) && !whole && x != T(-INFINITY)) return T(NAN);
  const T p = magnitude(abs(x), y);
  return (x < T(0) || (x == T(0) && T(1) / x < T(0))) && odd ? -p : p;
}

}  // namespace detail

PK_FN double pow(double x, double y) {
  return detail::power(x, y, [](double a, double b) { return a == 1.0 ? 1.0 : exp(b * log(a)); });
}

// ---- float --------------------------------------------------------------------------------------------------------

// 2^n times the hardware's exp2 of what is left of x log2 e, which two steps keep to 2^-48: the error is that of v_exp_f32 (1 ulp)
// and of one rounding.  Very large x come out as infinity or 0 and NaN as NaN, since only n is kept in range.
PK_FN float exp(float x) {
  const float n = round(__builtin_amdgcn_fmed3f(x * 0x1.715476p+0f, -300.0f, 300.0f));
  float f = __builtin_fmaf(x, 0x1.715476p+0f, -n);
  f = __builtin_fmaf(x, 0x1.4ae0bep-26f, f);
  return __builtin_ldexpf(__builtin_amdgcn_exp2f(f), static_cast<int>(n));
}

PK_FN float exp2(float x) { return __builtin_amdgcn_exp2f(x); }  // within 1 ulp; below 2^-126 it is 0
PK_FN float log(float x) { return __builtin_logf(x); }
PK_FN float log2(float x) { return __builtin_log2f(x); }

// tanh with an error that is small next to 1, for what only exponentials read.
PK_FN float tanh_of_score(float x) {
  return 1.0f - 2.0f * __builtin_amdgcn_rcpf(__builtin_amdgcn_exp2f(x * 0x1.715476p+1f) + 1.0f);
}

PK_FN float expm1(float x) {
  if (abs(x) >= 0.5f) return exp(x) - 1.0f;
  const float c[] = {1.98412698e-4f, 1.38888889e-3f, 8.33333333e-3f, 4.16666667e-2f, 1.66666667e-1f, 0.5f};
  return __builtin_fmaf(x * x, detail::polynomial(x, c), x);
}

PK_FN float log1p(float x) {
  const float u = 1.0f + x;
  return u == 1.0f || u == INFINITY ? x : log(u) * (x / (u - 1.0f));
}

PK_FN float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

// Up to 0.55 x + x^3 p(x^2), p a Chebyshev fit of relative error 2e-9; beyond that from exp.
PK_FN float tanh(float x) {
  const float a = abs(x), s = x * x;
  const float c[] = {-0.00661022775f, 0.0213093888f, -0.0539094284f, 0.133331135f, -0.333333313f};
  const float near = __builtin_fmaf(x * s, detail::polynomial(s, c), x);
  const float far = 1.0f - 2.0f / (exp(2.0f * a) + 1.0f);
  return a < 0.55f ? near : __builtin_copysignf(far, x);
}

// Up to 0.93 x + x p(x^2), beyond that 1 - exp(-x q(x)); Chebyshev fits of errors 5e-10 and 1.4e-7 (in the exponent).
PK_FN float erf(float x) {
  const float a = abs(x), s = x * x;
  const float p[] = {8.31687939e-5f, -8.13044491e-4f, 5.19998930e-3f, -2.68589966e-2f,
                     1.12836890e-1f, -3.76126319e-1f, 1.28379166e-1f};
  const float q[] = {-1.04606568e-6f, 3.43887506e-5f, -4.98824986e-4f, 4.30378923e-3f,
                     -2.51395497e-2f, 1.07855655e-1f, 6.34148180e-1f, 1.12890279f};
  const float near = __builtin_fmaf(x, detail::polynomial(s, p), x);
  const float b = min(a, 4.0f);
  const float far = 1.0f - exp(-b * detail::polynomial(b, q));
  return a < 0.93f ? near : __builtin_copysignf(far, x);
}

// Reduced in double, so that large arguments keep their digits.
PK_FN float sin(float x) { return static_cast<float>(sin(static_cast<double>(x))); }
PK_FN float cos(float x) { return static_cast<float>(cos(static_cast<double>(x))); }

PK_FN float pow(float x, float y) {
  return static_cast<float>(pow(static_cast<double>(x), static_cast<double>(y)));
}

}  // namespace pk
