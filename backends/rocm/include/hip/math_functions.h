// Arithmetic by C's names, C++'s overloads and HIP's intrinsics, over the functions of pk/math.h.
#pragma once

#include "pk/math.h"

#define PK_UNARY(name, of)                                             \
  PK_FN float name##f(float x) { return of(x); }                       \
  PK_FN float name(float x) { return of(x); }                          \
  PK_FN double name(double x) { return of(x); }                        \
  namespace std {                                                      \
  PK_FN float name(float x) { return of(x); }                          \
  PK_FN double name(double x) { return of(x); }                        \
  }
#define PK_BINARY(name, of)                                            \
  PK_FN float name##f(float x, float y) { return of(x, y); }           \
  PK_FN float name(float x, float y) { return of(x, y); }              \
  PK_FN double name(double x, double y) { return of(x, y); }           \
  namespace std {                                                      \
  PK_FN float name(float x, float y) { return of(x, y); }              \
  PK_FN double name(double x, double y) { return of(x, y); }           \
  }
#define PK_TEST(name, builtin)                                         \
  PK_FN bool name(float x) { return builtin(x); }                      \
  PK_FN bool name(double x) { return builtin(x); }                     \
  namespace std {                                                      \
  PK_FN bool name(float x) { return builtin(x); }                      \
  PK_FN bool name(double x) { return builtin(x); }                     \
  }

namespace pk::hip {

PK_FN float trunc(float x) { return __builtin_truncf(x); }
PK_FN double trunc(double x) { return __builtin_trunc(x); }
PK_FN float away(float x) { return __builtin_roundf(x); }
PK_FN double away(double x) { return __builtin_round(x); }
PK_FN float most(float x, float y) { return __builtin_fmaxf(x, y); }
PK_FN double most(double x, double y) { return __builtin_fmax(x, y); }
PK_FN float least(float x, float y) { return __builtin_fminf(x, y); }
PK_FN double least(double x, double y) { return __builtin_fmin(x, y); }
PK_FN float sign_of(float x, float y) { return __builtin_copysignf(x, y); }
PK_FN double sign_of(double x, double y) { return __builtin_copysign(x, y); }
template <class T> PK_FN T exp10(T x) { return pk::exp(x * T(2.302585092994045684)); }
template <class T> PK_FN T log10(T x) { return pk::log2(x) * T(0.30102999566398119521); }
template <class T> PK_FN T erfc(T x) { return T(1) - pk::erf(x); }
template <class T> PK_FN T tan(T x) { return pk::sin(x) / pk::cos(x); }
template <class T> PK_FN T sinh(T x) { return (pk::expm1(x) - pk::expm1(-x)) / T(2); }
template <class T> PK_FN T cosh(T x) { return (pk::exp(x) + pk::exp(-x)) / T(2); }
template <class T> PK_FN T hypot(T x, T y) { return pk::sqrt(x * x + y * y); }

}  // namespace pk::hip

PK_UNARY(exp, pk::exp)
PK_UNARY(exp2, pk::exp2)
PK_UNARY(exp10, pk::hip::exp10)
PK_UNARY(expm1, pk::expm1)
PK_UNARY(log, pk::log)
PK_UNARY(log2, pk::log2)
PK_UNARY(log10, pk::hip::log10)
PK_UNARY(log1p, pk::log1p)
PK_UNARY(tanh, pk::tanh)
PK_UNARY(sinh, pk::hip::sinh)
PK_UNARY(cosh, pk::hip::cosh)
PK_UNARY(erf, pk::erf)
PK_UNARY(erfc, pk::hip::erfc)
PK_UNARY(sin, pk::sin)
PK_UNARY(cos, pk::cos)
PK_UNARY(tan, pk::hip::tan)
PK_UNARY(sqrt, pk::sqrt)
PK_UNARY(rsqrt, pk::rsqrt)
PK_UNARY(fabs, pk::abs)
PK_UNARY(floor, pk::floor)
PK_UNARY(ceil, pk::ceil)
PK_UNARY(trunc, pk::hip::trunc)
PK_UNARY(rint, pk::round)
PK_UNARY(nearbyint, pk::round)
PK_UNARY(round, pk::hip::away)
PK_BINARY(pow, pk::pow)
PK_BINARY(fmod, __builtin_elementwise_fmod)
PK_BINARY(fmax, pk::hip::most)
PK_BINARY(fmin, pk::hip::least)
PK_BINARY(copysign, pk::hip::sign_of)
PK_BINARY(hypot, pk::hip::hypot)
PK_TEST(isnan, __builtin_isnan)
PK_TEST(isinf, __builtin_isinf)
PK_TEST(isfinite, __builtin_isfinite)
#undef PK_UNARY
#undef PK_BINARY
#undef PK_TEST

PK_FN int abs(int x) { return x < 0 ? -x : x; }
PK_FN long abs(long x) { return x < 0 ? -x : x; }
PK_FN float abs(float x) { return __builtin_fabsf(x); }
PK_FN double abs(double x) { return __builtin_fabs(x); }
namespace std {
PK_FN int abs(int x) { return x < 0 ? -x : x; }
PK_FN long abs(long x) { return x < 0 ? -x : x; }
PK_FN float abs(float x) { return __builtin_fabsf(x); }
PK_FN double abs(double x) { return __builtin_fabs(x); }
}
PK_FN float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
PK_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
PK_FN double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
PK_FN void sincosf(float x, float* s, float* c) { *s = pk::sin(x), *c = pk::cos(x); }

namespace pk::hip {

template <class T> constexpr bool is_float = same<T, float> || same<T, double>;
template <class A, class B> using common = decltype(true ? A() : B());

}  // namespace pk::hip

// Of numbers of any two types, and on the host too; of a NaN and a number, the number.
template <class A, class B> __attribute__((host, device)) constexpr auto min(A a, B b) {
  using T = pk::hip::common<A, B>;
  const T x = a, y = b;
  if constexpr (pk::hip::is_float<T>) return y < x || x != x ? y : x;
  else return y < x ? y : x;
}
template <class A, class B> __attribute__((host, device)) constexpr auto max(A a, B b) {
  using T = pk::hip::common<A, B>;
  const T x = a, y = b;
  if constexpr (pk::hip::is_float<T>) return y > x || x != x ? y : x;
  else return y > x ? y : x;
}

PK_FN float __expf(float x) { return __builtin_amdgcn_exp2f(x * 1.44269504f); }
PK_FN float __exp2f(float x) { return __builtin_amdgcn_exp2f(x); }
PK_FN float __exp10f(float x) { return __builtin_amdgcn_exp2f(x * 3.32192809f); }
PK_FN float __logf(float x) { return __builtin_amdgcn_logf(x) * 0.693147181f; }
PK_FN float __log2f(float x) { return __builtin_amdgcn_logf(x); }
PK_FN float __log10f(float x) { return __builtin_amdgcn_logf(x) * 0.301029996f; }
PK_FN float __powf(float x, float y) { return __builtin_amdgcn_exp2f(y * __builtin_amdgcn_logf(x)); }
PK_FN float __sinf(float x) { return __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(x * 0.159154943f)); }
PK_FN float __cosf(float x) { return __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(x * 0.159154943f)); }
PK_FN float __fdividef(float a, float b) { return a * __builtin_amdgcn_rcpf(b); }
PK_FN float __saturatef(float x) { return __builtin_amdgcn_fmed3f(x, 0.0f, 1.0f); }
PK_FN float __frcp_rn(float x) { return 1.0f / x; }
PK_FN float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
PK_FN float __frsqrt_rn(float x) { return pk::rsqrt(x); }
PK_FN float __fadd_rn(float a, float b) { return a + b; }
PK_FN float __fsub_rn(float a, float b) { return a - b; }
PK_FN float __fmul_rn(float a, float b) { return a * b; }
PK_FN float __fdiv_rn(float a, float b) { return a / b; }
PK_FN float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
PK_FN float __int2float_rn(int x) { return static_cast<float>(x); }
PK_FN float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
PK_FN int __float2int_rn(float x) { return static_cast<int>(__builtin_rintf(x)); }
PK_FN int __float2int_rz(float x) { return static_cast<int>(x); }
PK_FN int __float2int_rd(float x) { return static_cast<int>(__builtin_floorf(x)); }
PK_FN int __float2int_ru(float x) { return static_cast<int>(__builtin_ceilf(x)); }
PK_FN unsigned __float2uint_rn(float x) { return static_cast<unsigned>(__builtin_rintf(x)); }
PK_FN float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
PK_FN int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
PK_FN unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
PK_FN float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
