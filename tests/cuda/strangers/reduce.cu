// A file as people have them: host code, a template launched by instances, dynamic shared memory, checks of errors.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cstdio>
#include <type_traits>
#include <vector>

#define CHECK(call)                                                                  \
  do {                                                                               \
    cudaError_t status = call;                                                       \
    if (status != cudaSuccess) std::printf("%s\n", cudaGetErrorString(status));      \
  } while (0)

namespace sums {

constexpr int kWarps = 8;

struct Shape {
  int rows, cols;
  Shape(int r, int c) : rows(r), cols(c) {}
  __host__ __device__ std::int64_t size() const { return std::int64_t(rows) * cols; }
};

template <typename T> __device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(0xffffffff, v, mask);
  return v;
}

template <typename T, int THREADS>
__global__ void __launch_bounds__(THREADS) row_sum(const T* __restrict__ x, float* __restrict__ out, int cols) {
  static_assert(std::is_same<T, float>::value || std::is_same<T, __half>::value, "float or half");
  __shared__ float part[kWarps];
  float sum = 0.f;
  for (int i = threadIdx.x; i < cols; i += THREADS) sum += static_cast<float>(x[blockIdx.x * cols + i]);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = warp_sum(threadIdx.x < THREADS / 32 ? part[threadIdx.x] : 0.f);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
  }
}

extern "C" __global__ void scaled(const float4* x, float4* y, float a, int n) {
  extern __shared__ float4 held[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) held[threadIdx.x] = __ldg(&x[i]);
  __syncthreads();
  if (i < n) y[i] = make_float4(a * held[threadIdx.x].x, a * held[threadIdx.x].y, held[threadIdx.x].z, held[threadIdx.x].w);
}

static void launch(const std::vector<float>& host, float* x, float* out) {
  constexpr int threads = 32 * kWarps;
  row_sum<float, threads><<<dim3(16), threads>>>(x, out, 1000);
  CHECK(cudaGetLastError());
}

template <typename T> void launch_as(T* x, float* out) { row_sum<T, 128><<<16, 128>>>(x, out, 1000); }

}  // namespace sums

int main() {
  std::vector<float> host(16 * 1000, 1.f);
  float *x = nullptr, *out = nullptr;
  CHECK(cudaMalloc(&x, host.size() * sizeof(float)));
  sums::launch(host, x, out);
  sums::scaled<<<4, 256, 256 * sizeof(float4)>>>(reinterpret_cast<float4*>(x), reinterpret_cast<float4*>(out), 2.f, 1000);
  std::printf("%f\n", host[0]);
  return 0;
}
