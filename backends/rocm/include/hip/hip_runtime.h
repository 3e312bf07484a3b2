// Stands in for ROCm's header of this name where ROCm is not installed: as much of HIP's device side as kernels commonly use,
// by the names of the HIP programming guide.  What is not here is an error of the compiler that names it.
#pragma once

#include "pk/device.h"
#include "pk/math.h"

#include "hip/vector_types.h"

#define HIP_VERSION_MAJOR 0
#define __HIP_PLATFORM_AMD__ 1

// HIP's launch bounds are an upper limit, and the second is a number of waves per SIMD.
#undef __launch_bounds__
#define PK_BOUNDS_1(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define PK_BOUNDS_2(threads, waves) __attribute__((amdgpu_flat_work_group_size(1, threads), amdgpu_waves_per_eu(waves)))
#define PK_BOUNDS(a, b, which, ...) which
#define __launch_bounds__(...) PK_BOUNDS(__VA_ARGS__, PK_BOUNDS_2, PK_BOUNDS_1, )(__VA_ARGS__)

#define __noinline__ __attribute__((noinline))
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];

// ---- where a thread is --------------------------------------------------------------------------------------------

namespace pk {

struct BlockSize {
  struct X { PK_FN operator unsigned() const { return __builtin_amdgcn_workgroup_size_x(); } } x;
  struct Y { PK_FN operator unsigned() const { return __builtin_amdgcn_workgroup_size_y(); } } y;
  struct Z { PK_FN operator unsigned() const { return __builtin_amdgcn_workgroup_size_z(); } } z;
};

template <int Axis> struct BlockCount {  // LLVM AMDGPUUsage, code object V5: hidden_block_count_x, _y, _z come first
  PK_FN operator unsigned() const {
    return ((const __attribute__((address_space(4))) unsigned*)__builtin_amdgcn_implicitarg_ptr())[Axis];
  }
};

struct GridSize {
  BlockCount<0> x;
  BlockCount<1> y;
  BlockCount<2> z;
};

}  // namespace pk

static __attribute__((device)) const pk::BlockSize blockDim = {};
static __attribute__((device)) const pk::GridSize gridDim = {};
static __attribute__((device)) constexpr int warpSize = pk::wave;

// ---- barriers, fences and atomics ---------------------------------------------------------------------------------

PK_FN void __syncthreads() { pk::sync(); }
PK_FN void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
PK_FN void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }

template <class T> PK_FN T atomicAdd(T* where, T value) {
  return __hip_atomic_fetch_add(where, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T> PK_FN T atomicSub(T* where, T value) {
  return __hip_atomic_fetch_sub(where, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T> PK_FN T atomicAnd(T* where, T value) {
  return __hip_atomic_fetch_and(where, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T> PK_FN T atomicOr(T* where, T value) {
  return __hip_atomic_fetch_or(where, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T> PK_FN T atomicXor(T* where, T value) {
  return __hip_atomic_fetch_xor(where, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
PK_FN unsigned atomicInc(unsigned* where, unsigned limit) {
  return __builtin_amdgcn_atomic_inc32(where, limit, __ATOMIC_RELAXED, "agent");
}
PK_FN unsigned atomicDec(unsigned* where, unsigned limit) {
  return __builtin_amdgcn_atomic_dec32(where, limit, __ATOMIC_RELAXED, "agent");
}
template <class T> PK_FN T atomicMax(T* where, T value) {
  return __hip_atomic_fetch_max(where, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T> PK_FN T atomicMin(T* where, T value) {
  return __hip_atomic_fetch_min(where, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T> PK_FN T atomicExch(T* where, T value) {
  return __hip_atomic_exchange(where, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T> PK_FN T atomicCAS(T* where, T expected, T desired) {
  __hip_atomic_compare_exchange_strong(where, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                       __HIP_MEMORY_SCOPE_AGENT);
  return expected;
}

// ---- lanes of a wave ------------------------------------------------------------------------------------------------

PK_FN int __lane_id() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }

namespace pk {

template <class T> PK_FN T from_lane(T value, int lane) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "lanes exchange values of 4 or 8 bytes");
  if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(T, __builtin_amdgcn_ds_bpermute(lane << 2, __builtin_bit_cast(int, value)));
  } else {
    auto halves = __builtin_bit_cast(i32x2, value);
    halves.x = __builtin_amdgcn_ds_bpermute(lane << 2, halves.x);
    halves.y = __builtin_amdgcn_ds_bpermute(lane << 2, halves.y);
    return __builtin_bit_cast(T, halves);
  }
}

}  // namespace pk

template <class T> PK_FN T __shfl(T value, int lane, int width = warpSize) {
  const int self = __lane_id();
  return pk::from_lane(value, (lane & (width - 1)) | (self & ~(width - 1)));
}
template <class T> PK_FN T __shfl_xor(T value, int mask, int width = warpSize) {
  const int self = __lane_id(), from = self ^ mask;
  return pk::from_lane(value, (from ^ self) >= width ? self : from);
}
template <class T> PK_FN T __shfl_down(T value, unsigned delta, int width = warpSize) {
  const int self = __lane_id();
  return pk::from_lane(value, (self & (width - 1)) + int(delta) >= width ? self : self + int(delta));
}
template <class T> PK_FN T __shfl_up(T value, unsigned delta, int width = warpSize) {
  const int self = __lane_id();
  return pk::from_lane(value, (self & (width - 1)) < int(delta) ? self : self - int(delta));
}
template <class T> PK_FN T __shfl_sync(unsigned long long, T value, int lane, int width = warpSize) {
  return __shfl(value, lane, width);
}
template <class T> PK_FN T __shfl_xor_sync(unsigned long long, T value, int mask, int width = warpSize) {
  return __shfl_xor(value, mask, width);
}
template <class T> PK_FN T __shfl_down_sync(unsigned long long, T value, unsigned delta, int width = warpSize) {
  return __shfl_down(value, delta, width);
}

PK_FN unsigned long long __ballot(int predicate) {
#if defined(__GFX9__)
  return __builtin_amdgcn_uicmpl(static_cast<unsigned long long>(predicate != 0), 0ull, 33);
#else
  return __builtin_amdgcn_ballot_w32(predicate != 0);
#endif
}
PK_FN int __any(int predicate) { return __ballot(predicate) != 0; }
PK_FN int __all(int predicate) { return __ballot(!predicate) == 0; }
PK_FN int __popc(unsigned x) { return __builtin_popcount(x); }
PK_FN int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
PK_FN int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
PK_FN int __ffs(int x) { return __builtin_ffs(x); }

// ---- arithmetic -------------------------------------------------------------------------------------------------------

PK_FN float expf(float x) { return pk::exp(x); }
PK_FN float exp2f(float x) { return __builtin_exp2f(x); }
PK_FN float logf(float x) { return pk::log(x); }
PK_FN float tanhf(float x) { return pk::tanh(x); }
PK_FN float erff(float x) { return pk::erf(x); }
PK_FN float sqrtf(float x) { return pk::sqrt(x); }
PK_FN float rsqrtf(float x) { return pk::rsqrt(x); }
PK_FN float fabsf(float x) { return __builtin_fabsf(x); }
PK_FN float floorf(float x) { return __builtin_floorf(x); }
PK_FN float ceilf(float x) { return __builtin_ceilf(x); }
PK_FN float rintf(float x) { return __builtin_rintf(x); }
PK_FN float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
PK_FN float fminf(float a, float b) { return __builtin_fminf(a, b); }
PK_FN float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
PK_FN float __expf(float x) { return __builtin_amdgcn_exp2f(x * 1.44269504f); }
PK_FN float __logf(float x) { return __builtin_amdgcn_logf(x) * 0.693147181f; }
PK_FN float __fdividef(float a, float b) { return a * __builtin_amdgcn_rcpf(b); }
PK_FN float __frcp_rn(float x) { return 1.0f / x; }
PK_FN float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
PK_FN int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
PK_FN unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
PK_FN float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
template <class T> PK_FN constexpr T min(T a, T b) { return b < a ? b : a; }
template <class T> PK_FN constexpr T max(T a, T b) { return a < b ? b : a; }
