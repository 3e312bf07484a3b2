// bfloat16 by CUDA's names; arithmetic in f32, rounded once.
#pragma once

#include "cuda_runtime.h"
#include "hip/hip_bf16.h"

using __nv_bfloat16 = __hip_bfloat16;
using nv_bfloat16 = __hip_bfloat16;
using __nv_bfloat162 = __hip_bfloat162;
using nv_bfloat162 = __hip_bfloat162;

namespace pk {
PK_FN __nv_bfloat16 narrow(float x) { return static_cast<__nv_bfloat16>(x); }
}  // namespace pk

PK_FN __nv_bfloat16 __int2bfloat16_rn(int x) { return pk::narrow(static_cast<float>(x)); }
PK_FN __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) { return pk::narrow(float(a) / float(b)); }
PK_FN __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return pk::narrow(__builtin_fmaf(float(a), float(b), float(c)));
}
PK_FN __nv_bfloat16 __hneg(__nv_bfloat16 x) { return pk::narrow(-float(x)); }
PK_FN __nv_bfloat16 __habs(__nv_bfloat16 x) { return pk::narrow(__builtin_fabsf(float(x))); }
PK_FN __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) { return pk::narrow(__builtin_fmaxf(float(a), float(b))); }
PK_FN __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) { return pk::narrow(__builtin_fminf(float(a), float(b))); }
PK_FN bool __hlt(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) < float(b); }
PK_FN bool __hle(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) <= float(b); }
PK_FN bool __hgt(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) > float(b); }
PK_FN bool __hge(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) >= float(b); }
PK_FN bool __heq(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) == float(b); }
PK_FN bool __hisnan(__nv_bfloat16 x) { return float(x) != float(x); }
PK_FN __nv_bfloat16 hexp(__nv_bfloat16 x) { return pk::narrow(expf(float(x))); }
PK_FN __nv_bfloat16 hlog(__nv_bfloat16 x) { return pk::narrow(logf(float(x))); }
PK_FN __nv_bfloat16 hsqrt(__nv_bfloat16 x) { return pk::narrow(sqrtf(float(x))); }
PK_FN __nv_bfloat16 hrsqrt(__nv_bfloat16 x) { return pk::narrow(rsqrtf(float(x))); }

PK_FN __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
PK_FN __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
PK_FN __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
PK_FN __nv_bfloat162 __float2bfloat162_rn(float x) { return {pk::narrow(x), pk::narrow(x)}; }
PK_FN float __low2float(__nv_bfloat162 x) { return float(x.x); }
PK_FN float __high2float(__nv_bfloat162 x) { return float(x.y); }
PK_FN __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
PK_FN __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hsub(a.x, b.x), __hsub(a.y, b.y)}; }
PK_FN __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
PK_FN __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
PK_FN __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
PK_FN __nv_bfloat162 __hmin2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
PK_FN __nv_bfloat162 operator+(__nv_bfloat162 a, __nv_bfloat162 b) { return __hadd2(a, b); }
PK_FN __nv_bfloat162 operator-(__nv_bfloat162 a, __nv_bfloat162 b) { return __hsub2(a, b); }
PK_FN __nv_bfloat162 operator*(__nv_bfloat162 a, __nv_bfloat162 b) { return __hmul2(a, b); }
