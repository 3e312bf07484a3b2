// Half precision by HIP's names, over the compiler's own type.
#pragma once

#include "hip/hip_runtime.h"

using __half = _Float16;
using half = _Float16;
struct __attribute__((aligned(4))) __half2 { __half x, y; };
using half2 = __half2;

#define PK_HD __attribute__((host, device)) inline __attribute__((always_inline))

PK_HD __half __float2half(float x) { return static_cast<__half>(x); }
PK_HD __half __float2half_rn(float x) { return static_cast<__half>(x); }
PK_HD __half __double2half(double x) { return static_cast<__half>(x); }
PK_HD float __half2float(__half x) { return static_cast<float>(x); }
PK_HD __half __int2half_rn(int x) { return static_cast<__half>(x); }
PK_HD int __half2int_rn(__half x) { return static_cast<int>(__builtin_rintf(static_cast<float>(x))); }
PK_HD __half __ushort_as_half(unsigned short x) { return __builtin_bit_cast(__half, x); }
PK_HD unsigned short __half_as_ushort(__half x) { return __builtin_bit_cast(unsigned short, x); }

PK_FN __half __hadd(__half a, __half b) { return a + b; }
PK_FN __half __hsub(__half a, __half b) { return a - b; }
PK_FN __half __hmul(__half a, __half b) { return a * b; }
PK_FN __half __hdiv(__half a, __half b) { return a / b; }
PK_FN __half __hneg(__half a) { return -a; }
PK_FN __half __habs(__half a) { return __builtin_fabsf16(a); }
PK_FN __half __hfma(__half a, __half b, __half c) { return __builtin_fmaf16(a, b, c); }
PK_FN __half __hmax(__half a, __half b) { return __builtin_fmaxf16(a, b); }
PK_FN __half __hmin(__half a, __half b) { return __builtin_fminf16(a, b); }
PK_FN bool __hlt(__half a, __half b) { return a < b; }
PK_FN bool __hle(__half a, __half b) { return a <= b; }
PK_FN bool __hgt(__half a, __half b) { return a > b; }
PK_FN bool __hge(__half a, __half b) { return a >= b; }
PK_FN bool __heq(__half a, __half b) { return a == b; }
PK_FN bool __hisnan(__half a) { return a != a; }
PK_FN __half hexp(__half x) { return static_cast<__half>(pk::exp(static_cast<float>(x))); }
PK_FN __half hlog(__half x) { return static_cast<__half>(pk::log(static_cast<float>(x))); }
PK_FN __half hsqrt(__half x) { return __builtin_sqrtf16(x); }
PK_FN __half hrsqrt(__half x) { return static_cast<__half>(pk::rsqrt(static_cast<float>(x))); }
PK_FN __half hrcp(__half x) { return static_cast<__half>(1.0f / static_cast<float>(x)); }

// ---- two at a time -----------------------------------------------------------------------------------------------

PK_HD __half2 make_half2(__half x, __half y) { return {x, y}; }
PK_HD __half2 __halves2half2(__half x, __half y) { return {x, y}; }
PK_HD __half2 __half2half2(__half x) { return {x, x}; }
PK_HD __half2 __float2half2_rn(float x) { return {static_cast<__half>(x), static_cast<__half>(x)}; }
PK_HD __half2 __floats2half2_rn(float a, float b) { return {static_cast<__half>(a), static_cast<__half>(b)}; }
PK_HD __half2 __float22half2_rn(float2 x) { return {static_cast<__half>(x.x), static_cast<__half>(x.y)}; }
PK_HD float2 __half22float2(__half2 x) { return {static_cast<float>(x.x), static_cast<float>(x.y)}; }
PK_HD __half __low2half(__half2 x) { return x.x; }
PK_HD __half __high2half(__half2 x) { return x.y; }
PK_HD float __low2float(__half2 x) { return static_cast<float>(x.x); }
PK_HD float __high2float(__half2 x) { return static_cast<float>(x.y); }
PK_FN __half2 __hadd2(__half2 a, __half2 b) { return {a.x + b.x, a.y + b.y}; }
PK_FN __half2 __hsub2(__half2 a, __half2 b) { return {a.x - b.x, a.y - b.y}; }
PK_FN __half2 __hmul2(__half2 a, __half2 b) { return {a.x * b.x, a.y * b.y}; }
PK_FN __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
PK_FN __half2 __hmax2(__half2 a, __half2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
PK_FN __half2 __hmin2(__half2 a, __half2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
PK_FN __half2 h2exp(__half2 x) { return {hexp(x.x), hexp(x.y)}; }
PK_FN __half2 h2sqrt(__half2 x) { return {hsqrt(x.x), hsqrt(x.y)}; }
PK_FN __half2 operator+(__half2 a, __half2 b) { return __hadd2(a, b); }
PK_FN __half2 operator-(__half2 a, __half2 b) { return __hsub2(a, b); }
PK_FN __half2 operator*(__half2 a, __half2 b) { return __hmul2(a, b); }

#undef PK_HD
