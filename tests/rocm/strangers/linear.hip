// y = gelu(x W^T + b) for small batches (GEMV-like), half2 arithmetic, several activation functors by template
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <type_traits>
#include <cmath>

struct Gelu {
  __device__ __forceinline__ float operator()(float v) const {
    return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
  }
};
struct Silu {
  __host__ __device__ float operator()(float v) const { return v / (1.0f + expf(-v)); }
};
template <class T> struct is_half : std::false_type {};
template <> struct is_half<__half> : std::true_type {};

template <class Act, int WAVES>
__global__ void __launch_bounds__(WAVES * 64) linear_act(const __half* __restrict__ x, const __half* __restrict__ w,
                                                         const float* __restrict__ bias, __half* __restrict__ y, int N, int K) {
  static_assert(is_half<__half>::value, "half");
  const int lane = threadIdx.x & 63, wave = threadIdx.x >> 6;
  const int n = blockIdx.x * WAVES + wave, m = blockIdx.y;
  if (n >= N) return;
  const half2* xr = reinterpret_cast<const half2*>(x + (size_t)m * K);
  const half2* wr = reinterpret_cast<const half2*>(w + (size_t)n * K);
  float acc = 0.f;
  for (int k = lane; k < K / 2; k += 64) {
    const float2 a = __half22float2(xr[k]);
    const float2 b = __half22float2(wr[k]);
    acc = fmaf(a.x, b.x, acc);
    acc = fmaf(a.y, b.y, acc);
  }
#pragma unroll
  for (int mask = 32; mask > 0; mask >>= 1) acc += __shfl_xor(acc, mask, 64);
  if (lane == 0) y[(size_t)m * N + n] = __float2half_rn(Act{}(acc + bias[n]));
}

void run(const __half* x, const __half* w, const float* b, __half* y, int M, int N, int K, hipStream_t s) {
  linear_act<Gelu, 4><<<dim3((N + 3) / 4, M), 256, 0, s>>>(x, w, b, y, N, K);
  linear_act<Silu, 4><<<dim3((N + 3) / 4, M), 256, 0, s>>>(x, w, b, y, N, K);
}
