// CUDA's device side on AMD: kernels that were written for CUDA are compiled for AMD as they are.
//
// A warp stays 32 threads.  Where a wave has 64 lanes it is two warps: shuffles, votes and masks are those of a thread's own half,
// so that what a kernel computes does not hang on the chip.  What has no counterpart is not here, and the compiler names it.
#pragma once

#define PK_CUDA 1
#include "hip/hip_runtime.h"

#undef __HIP_PLATFORM_AMD__
#undef __launch_bounds__
#define __launch_bounds__(threads, ...) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __managed__ __attribute__((device))

#include "cuda_intrinsics.h"
#include "cuda_warps.h"

// ---- what kept declarations may name of the host's side ---------------------------------------------------------------

using cudaError_t = int;
using cudaStream_t = struct pk_stream*;
using cudaEvent_t = struct pk_event*;
constexpr cudaError_t cudaSuccess = 0;
