// LayerNorm over the last dimension in bfloat16 with vectorised loads and Welford's algorithm
#include <hip/hip_runtime.h>
#include <hip/hip_bfloat16.h>
#include <hip/hip_cooperative_groups.h>
#include <algorithm>
#include <cassert>
#include <string>
namespace cg = cooperative_groups;

struct Welford { float mean, m2, n; };

__device__ Welford combine(Welford a, Welford b) {
  if (b.n == 0.0f) return a;
  const float n = a.n + b.n, d = b.mean - a.mean;
  return {a.mean + d * (b.n / n), a.m2 + b.m2 + d * d * (a.n * b.n / n), n};
}

template <int THREADS>
__global__ __launch_bounds__(THREADS, 2) void layernorm(const hip_bfloat16* __restrict__ x, const float* __restrict__ w,
                                                        const float* __restrict__ b, hip_bfloat16* __restrict__ y, int n, float eps) {
  cg::thread_block block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  __shared__ Welford part[THREADS / 32];
  const size_t base = size_t(blockIdx.x) * n;
  Welford acc{0.f, 0.f, 0.f};
  for (int i = block.thread_rank(); i < n; i += block.size()) {
    const float v = float(x[base + i]);
    acc.n += 1.f;
    const float d = v - acc.mean;
    acc.mean += d / acc.n;
    acc.m2 += d * (v - acc.mean);
  }
  for (int o = warp.size() / 2; o > 0; o /= 2) {
    Welford other{warp.shfl_down(acc.mean, o), warp.shfl_down(acc.m2, o), warp.shfl_down(acc.n, o)};
    acc = combine(acc, other);
  }
  if (warp.thread_rank() == 0) part[threadIdx.x / 32] = acc;
  block.sync();
  if (threadIdx.x == 0) {
    for (int i = 1; i < THREADS / 32; ++i) acc = combine(acc, part[i]);
    part[0] = acc;
  }
  cg::sync(block);
  const float mean = part[0].mean, inv = rsqrtf(part[0].m2 / n + eps);
  for (int i = threadIdx.x; i < n; i += THREADS) {
    y[base + i] = hip_bfloat16((float(x[base + i]) - mean) * inv * w[i] + b[i]);
  }
}

template __global__ void layernorm<256>(const hip_bfloat16*, const float*, const float*, hip_bfloat16*, int, float);

void launch(const hip_bfloat16* x, const float* w, const float* b, hip_bfloat16* y, int rows, int n, hipStream_t stream) {
  assert(n > 0);
  layernorm<256><<<rows, 256, 0, stream>>>(x, w, b, y, n, 1e-5f);
}
