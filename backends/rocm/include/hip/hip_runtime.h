// Stands in for ROCm's header of this name where ROCm is not installed: as much of HIP's device side as kernels commonly use,
// by the names of the HIP programming guide, and of the host's side what it takes to read past it.  What is not here is an
// error of the compiler that names it.
#pragma once

#include "hip/atomics.h"
#include "hip/host_api.h"
#include "hip/lanes.h"
#include "hip/math_functions.h"
#include "hip/vector_types.h"

#define HIP_VERSION_MAJOR 0
#define __HIP_PLATFORM_AMD__ 1

// HIP's launch bounds are an upper limit, and the second is a number of waves per SIMD.
#undef __launch_bounds__
#define PK_BOUNDS_1(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define PK_BOUNDS_2(threads, waves) __attribute__((amdgpu_flat_work_group_size(1, threads), amdgpu_waves_per_eu(waves)))
#define PK_BOUNDS(a, b, which, ...) which
#define __launch_bounds__(...) PK_BOUNDS(__VA_ARGS__, PK_BOUNDS_2, PK_BOUNDS_1, )(__VA_ARGS__)

#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];

// ---- where a thread is --------------------------------------------------------------------------------------------

namespace pk {

PK_INDEX(BlockSize, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_workgroup_size_z());

// Blocks of the grid along an axis (LLVM AMDGPUUsage, code object V5: hidden_block_count_x, _y, _z come first).
template <int Axis> PK_FN unsigned block_count() {
  return ((const __attribute__((address_space(4))) unsigned*)__builtin_amdgcn_implicitarg_ptr())[Axis];
}

PK_INDEX(GridSize, block_count<0>(), block_count<1>(), block_count<2>());

}  // namespace pk

static __attribute__((device)) const pk::BlockSize blockDim = {};
static __attribute__((device)) const pk::GridSize gridDim = {};

#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z

// ---- barriers and fences --------------------------------------------------------------------------------------------

PK_FN void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  pk::written_to_lds();
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
PK_FN void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
PK_FN void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
PK_FN void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }

template <class T> PK_FN T __ldg(const T* from) { return *from; }

// What only ROCm's device libraries can do.
extern "C" __attribute__((device, unavailable("a kernel that prints needs ROCm: take the printf out to have it compiled here")))
int printf(const char*, ...);

extern "C" __attribute__((device)) inline void __assert_fail(const char*, const char*, int, const char*) { __builtin_trap(); }
