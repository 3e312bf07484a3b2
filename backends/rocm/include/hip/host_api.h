// The host's side of HIP, as far as it must be understood to compile a file for the device: nothing here is ever called, and
// what functions are called with is not looked at.
#pragma once

#include "hip/vector_types.h"

enum hipError_t {
  hipSuccess, hipErrorInvalidValue, hipErrorOutOfMemory, hipErrorNotInitialized, hipErrorInvalidConfiguration = 9,
  hipErrorInvalidDevice = 101, hipErrorNotReady = 600, hipErrorLaunchFailure = 719, hipErrorNotSupported = 801, hipErrorUnknown = 999
};
enum hipMemcpyKind { hipMemcpyHostToHost, hipMemcpyHostToDevice, hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice, hipMemcpyDefault };
enum hipFuncAttribute { hipFuncAttributeMaxDynamicSharedMemorySize = 8, hipFuncAttributePreferredSharedMemoryCarveout = 9 };
enum hipFuncCache_t { hipFuncCachePreferNone, hipFuncCachePreferShared, hipFuncCachePreferL1, hipFuncCachePreferEqual };
enum hipStreamCaptureMode { hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal, hipStreamCaptureModeRelaxed };
enum hipDeviceAttribute_t {
  hipDeviceAttributeWarpSize, hipDeviceAttributeMultiprocessorCount, hipDeviceAttributeMaxThreadsPerBlock,
  hipDeviceAttributeMaxSharedMemoryPerBlock, hipDeviceAttributeClockRate, hipDeviceAttributeCooperativeLaunch
};

enum : unsigned {
  hipStreamDefault = 0, hipStreamNonBlocking = 1, hipEventDefault = 0, hipEventBlockingSync = 1, hipEventDisableTiming = 2,
  hipHostMallocDefault = 0, hipHostMallocPortable = 1, hipHostMallocMapped = 2, hipMemAttachGlobal = 1, hipDeviceScheduleAuto = 0
};

using hipStream_t = struct ihipStream_t*;
using hipEvent_t = struct ihipEvent_t*;
using hipModule_t = struct ihipModule_t*;
using hipFunction_t = struct ihipModuleSymbol_t*;
using hipGraph_t = struct ihipGraph*;
using hipGraphExec_t = struct hipGraphExec*;
using hipDeviceptr_t = void*;
using hipDevice_t = int;

struct hipUUID { char bytes[16]; };
struct hipDeviceProp_t {
  char name[256];
  hipUUID uuid;
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerMultiprocessor, totalConstMem, maxSharedMemoryPerMultiProcessor;
  int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate, memoryClockRate, memoryBusWidth;
  int major, minor, multiProcessorCount, l2CacheSize, maxThreadsPerMultiProcessor, computeMode, concurrentKernels, pciBusID;
  int pciDeviceID, pciDomainID, integrated, canMapHostMemory, cooperativeLaunch, managedMemory;
  char gcnArchName[256];
};

#define PK_HOST(name) extern "C" hipError_t name(...);
PK_HOST(hipMalloc) PK_HOST(hipMallocAsync) PK_HOST(hipMallocManaged) PK_HOST(hipMallocPitch) PK_HOST(hipHostMalloc)
PK_HOST(hipHostRegister) PK_HOST(hipHostUnregister) PK_HOST(hipHostGetDevicePointer) PK_HOST(hipFree) PK_HOST(hipFreeAsync)
PK_HOST(hipHostFree) PK_HOST(hipMemcpy) PK_HOST(hipMemcpyAsync) PK_HOST(hipMemcpy2D) PK_HOST(hipMemcpyToSymbol)
PK_HOST(hipMemcpyFromSymbol) PK_HOST(hipMemcpyHtoD) PK_HOST(hipMemcpyDtoH) PK_HOST(hipMemset) PK_HOST(hipMemsetAsync)
PK_HOST(hipMemGetInfo) PK_HOST(hipMemPrefetchAsync) PK_HOST(hipMemAdvise) PK_HOST(hipGetSymbolAddress)
PK_HOST(hipStreamCreate) PK_HOST(hipStreamCreateWithFlags) PK_HOST(hipStreamCreateWithPriority) PK_HOST(hipStreamDestroy)
PK_HOST(hipStreamSynchronize) PK_HOST(hipStreamWaitEvent) PK_HOST(hipStreamQuery) PK_HOST(hipStreamBeginCapture)
PK_HOST(hipStreamEndCapture) PK_HOST(hipGraphInstantiate) PK_HOST(hipGraphLaunch) PK_HOST(hipGraphDestroy)
PK_HOST(hipGraphExecDestroy) PK_HOST(hipEventCreate) PK_HOST(hipEventCreateWithFlags) PK_HOST(hipEventDestroy)
PK_HOST(hipEventRecord) PK_HOST(hipEventSynchronize) PK_HOST(hipEventElapsedTime) PK_HOST(hipEventQuery)
PK_HOST(hipInit) PK_HOST(hipSetDevice) PK_HOST(hipGetDevice) PK_HOST(hipGetDeviceCount) PK_HOST(hipGetDeviceProperties)
PK_HOST(hipDeviceGetAttribute) PK_HOST(hipDeviceSynchronize) PK_HOST(hipDeviceReset) PK_HOST(hipDeviceGet)
PK_HOST(hipDeviceGetName) PK_HOST(hipDeviceSetCacheConfig) PK_HOST(hipDeviceCanAccessPeer) PK_HOST(hipDeviceEnablePeerAccess)
PK_HOST(hipSetDeviceFlags) PK_HOST(hipDriverGetVersion) PK_HOST(hipRuntimeGetVersion) PK_HOST(hipGetLastError)
PK_HOST(hipPeekAtLastError) PK_HOST(hipFuncSetAttribute) PK_HOST(hipFuncSetCacheConfig) PK_HOST(hipFuncGetAttributes)
PK_HOST(hipOccupancyMaxActiveBlocksPerMultiprocessor) PK_HOST(hipOccupancyMaxPotentialBlockSize) PK_HOST(hipLaunchKernel)
PK_HOST(hipLaunchCooperativeKernel) PK_HOST(hipExtLaunchKernel) PK_HOST(hipModuleLoad) PK_HOST(hipModuleLoadData)
PK_HOST(hipModuleGetFunction) PK_HOST(hipModuleLaunchKernel) PK_HOST(hipModuleUnload)
#undef PK_HOST

extern "C" const char* hipGetErrorString(hipError_t);
extern "C" const char* hipGetErrorName(hipError_t);

// What <<< >>> stands for.
extern "C" hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, hipStream_t stream = nullptr);

#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_SYMBOL(x) x
#define hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...) (kernel)<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
