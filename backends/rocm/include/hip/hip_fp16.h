// Half precision by HIP's names, over the compiler's own type.
#pragma once

#include "hip/hip_runtime.h"

using __half = _Float16;
using half = _Float16;
struct __attribute__((aligned(4))) __half2 { __half x, y; };
using half2 = __half2;

PK_FN __half __float2half(float x) { return static_cast<__half>(x); }
PK_FN __half __float2half_rn(float x) { return static_cast<__half>(x); }
PK_FN float __half2float(__half x) { return static_cast<float>(x); }
PK_FN __half2 __floats2half2_rn(float a, float b) { return {static_cast<__half>(a), static_cast<__half>(b)}; }
PK_FN __half __hadd(__half a, __half b) { return a + b; }
PK_FN __half __hsub(__half a, __half b) { return a - b; }
PK_FN __half __hmul(__half a, __half b) { return a * b; }
PK_FN __half __hfma(__half a, __half b, __half c) { return __builtin_fmaf16(a, b, c); }
