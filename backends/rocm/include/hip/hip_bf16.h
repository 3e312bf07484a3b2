// bfloat16 by HIP's names, over the compiler's own type.
#pragma once

#include "hip/hip_runtime.h"

using __hip_bfloat16 = __bf16;
using hip_bfloat16 = __bf16;
struct __attribute__((aligned(4))) __hip_bfloat162 { __hip_bfloat16 x, y; };

PK_FN __hip_bfloat16 __float2bfloat16(float x) { return static_cast<__bf16>(x); }
PK_FN float __bfloat162float(__hip_bfloat16 x) { return static_cast<float>(x); }
