// bfloat16 by HIP's names, over the compiler's own type.
#pragma once

#include "hip/hip_runtime.h"

using __hip_bfloat16 = __bf16;
using hip_bfloat16 = __bf16;
struct __attribute__((aligned(4))) __hip_bfloat162 { __hip_bfloat16 x, y; };

#define PK_HD __attribute__((host, device)) inline __attribute__((always_inline))

PK_HD __hip_bfloat16 __float2bfloat16(float x) { return static_cast<__bf16>(x); }
PK_HD __hip_bfloat16 __float2bfloat16_rn(float x) { return static_cast<__bf16>(x); }
PK_HD __hip_bfloat16 __double2bfloat16(double x) { return static_cast<__bf16>(static_cast<float>(x)); }
PK_HD float __bfloat162float(__hip_bfloat16 x) { return static_cast<float>(x); }
PK_HD __hip_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __builtin_bit_cast(__bf16, x); }
PK_HD unsigned short __bfloat16_as_ushort(__hip_bfloat16 x) { return __builtin_bit_cast(unsigned short, x); }
PK_HD __hip_bfloat162 __floats2bfloat162_rn(float a, float b) { return {static_cast<__bf16>(a), static_cast<__bf16>(b)}; }
PK_HD __hip_bfloat162 __float22bfloat162_rn(float2 x) { return __floats2bfloat162_rn(x.x, x.y); }
PK_HD float2 __bfloat1622float2(__hip_bfloat162 x) { return {static_cast<float>(x.x), static_cast<float>(x.y)}; }
PK_HD __hip_bfloat16 __low2bfloat16(__hip_bfloat162 x) { return x.x; }
PK_HD __hip_bfloat16 __high2bfloat16(__hip_bfloat162 x) { return x.y; }
PK_FN __hip_bfloat16 __hadd(__hip_bfloat16 a, __hip_bfloat16 b) { return static_cast<__bf16>(float(a) + float(b)); }
PK_FN __hip_bfloat16 __hsub(__hip_bfloat16 a, __hip_bfloat16 b) { return static_cast<__bf16>(float(a) - float(b)); }
PK_FN __hip_bfloat16 __hmul(__hip_bfloat16 a, __hip_bfloat16 b) { return static_cast<__bf16>(float(a) * float(b)); }

#undef PK_HD
