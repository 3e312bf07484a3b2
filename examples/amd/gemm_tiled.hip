// A program as somebody wrote it for hipcc: a tiled product and the host code that times it.  docs/amd.md looks at it without
// ROCm.  The next line alone is portakern's: it tells `portakern evaluate` how the kernel is called with an operator's arrays.
// portakern launch: kernel=gemm_tiled<float,32> grid=((N + 31) // 32, (M + 31) // 32, 1) block=(32, 32, 1) shared=0 args=(a, b, out, M, N, K)
#include <hip/hip_runtime.h>

#include <cstdio>
#include <vector>

template <typename T, int Tile>
__global__ void __launch_bounds__(Tile * Tile)
gemm_tiled(const T* __restrict__ A, const T* __restrict__ B, T* __restrict__ C, long M, long N, long K) {
  __shared__ T As[Tile][Tile];
  __shared__ T Bs[Tile][Tile];
  const auto x = threadIdx.x, y = threadIdx.y;
  const long row = blockIdx.y * Tile + y, col = blockIdx.x * Tile + x;
  T acc = 0;
  for (long k0 = 0; k0 < K; k0 += Tile) {
    As[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : T(0);
    Bs[y][x] = k0 + y < K && col < N ? B[(k0 + y) * N + col] : T(0);
    __syncthreads();
    for (int k = 0; k < Tile; ++k) acc += As[y][k] * Bs[k][x];
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = acc;
}

int main() {
  const long M = 4096, N = 4096, K = 4096;
  std::vector<float> a(M * K, 1.0f), b(K * N, 1.0f);
  float *da, *db, *dc;
  hipMalloc(&da, a.size() * sizeof(float));
  hipMalloc(&db, b.size() * sizeof(float));
  hipMalloc(&dc, M * N * sizeof(float));
  hipMemcpy(da, a.data(), a.size() * sizeof(float), hipMemcpyHostToDevice);
  hipMemcpy(db, b.data(), b.size() * sizeof(float), hipMemcpyHostToDevice);
  hipEvent_t begin, end;
  hipEventCreate(&begin);
  hipEventCreate(&end);
  hipEventRecord(begin);
  gemm_tiled<float, 32><<<dim3((N + 31) / 32, (M + 31) / 32), dim3(32, 32)>>>(da, db, dc, M, N, K);
  hipEventRecord(end);
  hipEventSynchronize(end);
  float ms = 0;
  hipEventElapsedTime(&ms, begin, end);
  printf("%.3f ms, %s\n", ms, hipGetErrorString(hipGetLastError()));
}
