// Histogram with LDS atomics, float4 loads and a grid-stride loop, plus a global sum by atomicAdd
#include <hip/hip_runtime.h>
#include <iostream>

#define BINS 256

extern "C" __global__ void histogram(const uint4* __restrict__ data, unsigned int* __restrict__ hist, unsigned long long* total, size_t n) {
  __shared__ unsigned int local[BINS];
  for (int i = hipThreadIdx_x; i < BINS; i += hipBlockDim_x) local[i] = 0;
  __syncthreads();
  unsigned long long seen = 0;
  for (size_t i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x; i < n; i += (size_t)hipBlockDim_x * hipGridDim_x) {
    const uint4 v = data[i];
    atomicAdd(&local[v.x & 0xff], 1u);
    atomicAdd(&local[v.y & 0xff], 1u);
    atomicAdd(&local[v.z & 0xff], 1u);
    atomicAdd(&local[v.w & 0xff], 1u);
    seen += 4;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < BINS; i += blockDim.x)
    if (local[i]) atomicAdd(&hist[i], local[i]);
  for (int d = warpSize / 2; d; d /= 2) seen += __shfl_down(seen, d);
  if ((threadIdx.x & (warpSize - 1)) == 0) atomicAdd(total, seen);
}

int main() {
  unsigned* hist; uint4* data; unsigned long long* total;
  size_t n = 1 << 20;
  (void)hipMalloc(&hist, BINS * sizeof(unsigned));
  (void)hipMalloc(&data, n * sizeof(uint4));
  (void)hipMalloc(&total, 8);
  (void)hipMemset(hist, 0, BINS * sizeof(unsigned));
  hipDeviceProp_t prop;
  (void)hipGetDeviceProperties(&prop, 0);
  std::cout << prop.name << " " << prop.multiProcessorCount << std::endl;
  hipLaunchKernelGGL(histogram, dim3(prop.multiProcessorCount * 4), dim3(256), 0, 0, data, hist, total, n);
  (void)hipDeviceSynchronize();
}
