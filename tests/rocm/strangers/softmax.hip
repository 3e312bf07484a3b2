// Row softmax, half in, half out, one block per row; warp shuffles and a dynamic LDS buffer.
#include "hip/hip_runtime.h"
#include "hip/hip_fp16.h"
#include <stdio.h>
#include <math.h>

__device__ __forceinline__ float warp_reduce_max(float v) {
  for (int offset = warpSize / 2; offset > 0; offset >>= 1) v = fmaxf(v, __shfl_down(v, offset));
  return __shfl(v, 0);
}

__device__ __forceinline__ float warp_reduce_sum(float v) {
  for (int offset = warpSize >> 1; offset > 0; offset >>= 1) v += __shfl_xor(v, offset, warpSize);
  return v;
}

__global__ void softmax_kernel(const __half* x, __half* y, int cols) {
  extern __shared__ float buffer[];
  __shared__ float red[32];
  const int lane = threadIdx.x % warpSize, wid = threadIdx.x / warpSize, nw = (blockDim.x + warpSize - 1) / warpSize;
  const __half* in = x + (size_t)blockIdx.x * cols;
  __half* out = y + (size_t)blockIdx.x * cols;
  float m = -INFINITY;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    const float v = __half2float(in[i]);
    buffer[i] = v;
    m = max(m, v);
  }
  m = warp_reduce_max(m);
  if (lane == 0) red[wid] = m;
  __syncthreads();
  m = (lane < nw) ? red[lane] : -INFINITY;
  m = warp_reduce_max(m);
  float s = 0.f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    buffer[i] = __expf(buffer[i] - m);
    s += buffer[i];
  }
  s = warp_reduce_sum(s);
  __syncthreads();
  if (lane == 0) red[wid] = s;
  __syncthreads();
  s = (lane < nw) ? red[lane] : 0.f;
  s = warp_reduce_sum(s);
  const float inv = 1.0f / s;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) out[i] = __float2half(buffer[i] * inv);
}

int main() {
  int rows = 128, cols = 1000;
  __half *x, *y;
  hipMalloc((void**)&x, rows * cols * sizeof(__half));
  hipMalloc((void**)&y, rows * cols * sizeof(__half));
  hipLaunchKernelGGL(softmax_kernel, dim3(rows), dim3(256), cols * sizeof(float), 0, x, y, cols);
  hipDeviceSynchronize();
  printf("done\n");
  return 0;
}
