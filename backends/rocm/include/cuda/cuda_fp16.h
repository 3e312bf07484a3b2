// Half precision: HIP's header here has CUDA's names, and these beside them.
#pragma once

#include "cuda_runtime.h"
#include "hip/hip_fp16.h"

PK_FN __half __float2half_rz(float x) { return __builtin_bit_cast(__half, static_cast<unsigned short>(
    __builtin_bit_cast(unsigned, __builtin_amdgcn_cvt_pkrtz(x, 0.0f)) & 0xffff)); }
PK_FN __half hceil(__half x) { return __builtin_ceilf16(x); }
PK_FN __half hfloor(__half x) { return __builtin_floorf16(x); }
PK_FN __half htrunc(__half x) { return __builtin_truncf16(x); }
PK_FN __half htanh(__half x) { return static_cast<__half>(tanhf(static_cast<float>(x))); }
PK_FN bool __hne(__half a, __half b) { return a != b; }
PK_FN bool __hisinf(__half x) { return __builtin_isinf(static_cast<float>(x)); }
PK_FN __half2 __hneg2(__half2 x) { return {-x.x, -x.y}; }
PK_FN __half2 __habs2(__half2 x) { return {__habs(x.x), __habs(x.y)}; }
PK_FN __half2 __h2div(__half2 a, __half2 b) { return {a.x / b.x, a.y / b.y}; }
PK_FN __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
PK_FN __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }
PK_FN __half2 __lowhigh2highlow(__half2 x) { return {x.y, x.x}; }
PK_FN __half2& operator+=(__half2& a, __half2 b) { return a = a + b; }
PK_FN __half2& operator*=(__half2& a, __half2 b) { return a = a * b; }
