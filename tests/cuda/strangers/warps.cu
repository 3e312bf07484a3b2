// Much of what device code takes of CUDA, in one kernel whose results can be known.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <math_constants.h>
namespace cg = cooperative_groups;
__device__ float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
__constant__ float table[4] = {1, 2, 3, 4};
__device__ __noinline__ int helper(int x) { return x + 1; }
__global__ void __launch_bounds__(128, 4) k(const __half2* __restrict__ h, const __nv_bfloat162* b, float4* f, unsigned* u, double* d, int n) {
  extern __shared__ char raw[];
  float* s = reinterpret_cast<float*>(raw);
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  const int i = block.thread_rank();
  s[i] = fmaxf(-CUDART_INF_F, float(i));
  block.sync();
  __half2 x = __hfma2(h[i], h[i], __float2half2_rn(1.0f));
  x = x + x; x += x;
  __nv_bfloat162 y = __hmul2(b[i], __float2bfloat162_rn(2.0f));
  float v = __low2float(x) + __bfloat162float(y.x) + table[i & 3] + s[i ^ 1];
  v = isinf(v) ? 0.f : v;
  v = cg::reduce(tile, v, cg::plus<float>());
  const unsigned votes = __ballot_sync(0xffffffff, i % 3 == 0);
  const unsigned same = __match_any_sync(__activemask(), i / 4);
  u[i] = __popc(votes) + __reduce_add_sync(0xffffffff, 1u) * 1000 + __popc(same) * 100000 + (warpSize == 32 ? 1000000 : 0);
  f[i] = f[i] + make_float4(v, __int_as_float(__float_as_int(v)), rsqrtf(4.0f), __expf(0.f));
  atomicAdd(&d[0], 1.0);
  atomicMax(&u[n - 1], __byte_perm(0x03020100, 0x07060504, 0x7531));
  __stcs(&u[i + 128], __ldcs(&u[i]) + helper(1) + __syncthreads_count(i < 5));
  __syncwarp();
}
int main() { k<<<1, 128, 512>>>(0, 0, 0, 0, 0, 3); }
