#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <chrono>
#include <iostream>

#define HIP_CHECK(call)                                                                      \
  do {                                                                                       \
    hipError_t err__ = (call);                                                               \
    if (err__ != hipSuccess) {                                                               \
      fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, hipGetErrorString(err__));           \
      exit(EXIT_FAILURE);                                                                    \
    }                                                                                        \
  } while (0)

constexpr int TILE = 32;

// C = alpha * A * B + beta * C, row major, tiled through LDS
template <typename T, int BLOCK>
__global__ void __launch_bounds__(BLOCK * BLOCK)
gemm_tiled(const T* __restrict__ A, const T* __restrict__ B, T* __restrict__ C, int M, int N, int K, T alpha, T beta) {
  __shared__ T As[BLOCK][BLOCK];
  __shared__ T Bs[BLOCK][BLOCK + 1];
  const auto tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * BLOCK + ty;
  const int col = blockIdx.x * BLOCK + tx;
  T acc = 0;
  for (int k0 = 0; k0 < K; k0 += BLOCK) {
    As[ty][tx] = (row < M && k0 + tx < K) ? A[row * K + k0 + tx] : T(0);
    Bs[ty][tx] = (k0 + ty < K && col < N) ? B[(k0 + ty) * N + col] : T(0);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BLOCK; ++k) acc += As[ty][k] * Bs[k][tx];
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = alpha * acc + beta * C[row * N + col];
}

int main(int argc, char** argv) {
  const int M = 512, N = 384, K = 256;
  std::vector<float> a(M * K), b(K * N), c(M * N, 0.f);
  for (auto& v : a) v = static_cast<float>(rand()) / RAND_MAX;
  for (auto& v : b) v = static_cast<float>(rand()) / RAND_MAX;
  float *da, *db, *dc;
  HIP_CHECK(hipMalloc(&da, a.size() * sizeof(float)));
  HIP_CHECK(hipMalloc((void**)&db, b.size() * sizeof(float)));
  HIP_CHECK(hipMalloc(&dc, c.size() * sizeof(float)));
  HIP_CHECK(hipMemcpy(da, a.data(), a.size() * sizeof(float), hipMemcpyHostToDevice));
  HIP_CHECK(hipMemcpy(db, b.data(), b.size() * sizeof(float), hipMemcpyHostToDevice));
  dim3 block(TILE, TILE), grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
  hipEvent_t start, stop;
  HIP_CHECK(hipEventCreate(&start));
  HIP_CHECK(hipEventCreate(&stop));
  HIP_CHECK(hipEventRecord(start));
  gemm_tiled<float, TILE><<<grid, block>>>(da, db, dc, M, N, K, 1.f, 0.f);
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipEventRecord(stop, 0));
  HIP_CHECK(hipEventSynchronize(stop));
  float ms = 0;
  HIP_CHECK(hipEventElapsedTime(&ms, start, stop));
  std::cout << "took " << ms << " ms\n";
  HIP_CHECK(hipMemcpy(c.data(), dc, c.size() * sizeof(float), hipMemcpyDeviceToHost));
  printf("%f\n", c[0]);
  hipFree(da); hipFree(db); hipFree(dc);
  return 0;
}
