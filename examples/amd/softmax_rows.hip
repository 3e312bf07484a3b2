// A kernel as somebody wrote it for an MI300X: softmax of rows, one workgroup each.  docs/amd.md looks at it without one.
#include <hip/hip_bf16.h>
#include <hip/hip_runtime.h>

template <bool IsMax> __device__ float over_block(float v) {
  __shared__ float part[4];  // 256 threads are four waves, on CDNA
  for (int d = warpSize / 2; d > 0; d /= 2) {
    const float other = __shfl_xor(v, d);
    v = IsMax ? fmaxf(v, other) : v + other;
  }
  __syncthreads();
  if (threadIdx.x % warpSize == 0) part[threadIdx.x / warpSize] = v;
  __syncthreads();
  v = part[0];
  for (int w = 1; w < 4; ++w) v = IsMax ? fmaxf(v, part[w]) : v + part[w];
  return v;
}

// portakern launch: kernel=softmax grid=(M, 1, 1) block=(256, 1, 1) shared=0 args=(x, out, N)
extern "C" __global__ __launch_bounds__(256) void softmax(const __hip_bfloat16* x, __hip_bfloat16* out, long n) {
  x += blockIdx.x * n;
  out += blockIdx.x * n;
  float largest = -INFINITY, sum = 0;
  for (long i = threadIdx.x; i < n; i += 256) largest = fmaxf(largest, __bfloat162float(x[i]));
  largest = over_block<true>(largest);
  for (long i = threadIdx.x; i < n; i += 256) sum += expf(__bfloat162float(x[i]) - largest);
  sum = over_block<false>(sum);
  for (long i = threadIdx.x; i < n; i += 256) out[i] = __float2bfloat16(expf(__bfloat162float(x[i]) - largest) / sum);
}
