// Softmax of rows, as it is written for warps of 32 threads: one block a row, sums by shuffles.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cstdio>

__device__ float block_reduce(float v, bool largest) {
  __shared__ float part[32];
  for (int mask = 16; mask > 0; mask >>= 1) {
    const float other = __shfl_xor_sync(0xffffffff, v, mask);
    v = largest ? fmaxf(v, other) : v + other;
  }
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = part[0];
  for (int w = 1; w < blockDim.x / 32; ++w) v = largest ? fmaxf(v, part[w]) : v + part[w];
  __syncthreads();
  return v;
}

__global__ void __launch_bounds__(256) row_softmax(const __nv_bfloat16* __restrict__ x, __nv_bfloat16* __restrict__ out, int n) {
  const size_t row = size_t(blockIdx.x) * n;
  float top = -INFINITY, sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, __bfloat162float(__ldg(&x[row + i])));
  top = block_reduce(top, true);
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __expf(__bfloat162float(x[row + i]) - top);
  sum = block_reduce(sum, false);
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[row + i] = __float2bfloat16(__expf(__bfloat162float(x[row + i]) - top) / sum);
}

int main() {
  __nv_bfloat16 *x = nullptr, *out = nullptr;
  cudaMalloc(&x, 512 * 4096 * sizeof(__nv_bfloat16));
  cudaMalloc(&out, 512 * 4096 * sizeof(__nv_bfloat16));
  row_softmax<<<512, 256>>>(x, out, 4096);
  cudaError_t status = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorString(status));
  return status != cudaSuccess;
}
