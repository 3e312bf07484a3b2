// What is called of OpenCL: signatures and constants as the OpenCL 3.0 specification has them; CL/cl.h is not needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "drivers/library.hpp"
#include "portakern/driver.h"

namespace portakern::opencl {

using cl_int = std::int32_t;
using cl_uint = std::uint32_t;
using cl_ulong = std::uint64_t;

using Platform = struct cl_platform *;
using DeviceId = struct cl_device *;
using Context = struct cl_context *;
using Queue = struct cl_queue *;
using Program = struct cl_program *;
using Kernel = struct cl_kernel *;
using Event = struct cl_event *;

constexpr cl_ulong device_type_all = 0xFFFFFFFF, device_type_cpu = 2;
constexpr cl_uint platform_version = 0x0901, platform_name = 0x0902;
constexpr cl_uint device_type = 0x1000, device_max_compute_units = 0x1002, device_max_clock_frequency = 0x100C,
                  device_global_mem_cache_size = 0x101E, device_global_mem_size = 0x101F,
                  device_local_mem_size = 0x1023, device_profiling_timer_resolution = 0x1025, device_name = 0x102B,
                  driver_version = 0x102D, device_extensions = 0x1030, device_svm_capabilities = 0x1053,
                  device_uuid = 0x106A;
constexpr cl_ulong svm_fine_grain_system = 4;
constexpr cl_uint queue_context = 0x1090, queue_properties = 0x1093;
constexpr cl_ulong queue_out_of_order = 1, queue_profiling = 2;
constexpr cl_ulong mem_read_write = 1;
constexpr cl_uint program_build_log = 0x1183;
constexpr cl_uint event_execution_status = 0x11D3;
constexpr cl_uint profiling_start = 0x1282, profiling_end = 0x1283;
constexpr cl_int complete = 0, no_platform_found = -1001;  // the latter from cl_khr_icd

// The functions of one library. A missing one makes `missing` name it.
struct Api {
    explicit Api(const char *path);

    Library library;
    std::string missing;

    cl_int (*GetPlatformIDs)(cl_uint, Platform *, cl_uint *) = nullptr;
    cl_int (*GetPlatformInfo)(Platform, cl_uint, std::size_t, void *, std::size_t *) = nullptr;
    cl_int (*GetDeviceIDs)(Platform, cl_ulong, cl_uint, DeviceId *, cl_uint *) = nullptr;
    cl_int (*GetDeviceInfo)(DeviceId, cl_uint, std::size_t, void *, std::size_t *) = nullptr;
    Context (*CreateContext)(const std::intptr_t *, cl_uint, const DeviceId *,
                             void (*)(const char *, const void *, std::size_t, void *), void *, cl_int *) = nullptr;
    cl_int (*ReleaseContext)(Context) = nullptr;
    Queue (*CreateCommandQueueWithProperties)(Context, DeviceId, const cl_ulong *, cl_int *) = nullptr;
    cl_int (*GetCommandQueueInfo)(Queue, cl_uint, std::size_t, void *, std::size_t *) = nullptr;
    cl_int (*RetainCommandQueue)(Queue) = nullptr;
    cl_int (*ReleaseCommandQueue)(Queue) = nullptr;
    cl_int (*Flush)(Queue) = nullptr;
    cl_int (*Finish)(Queue) = nullptr;
    void *(*SVMAlloc)(Context, cl_ulong, std::size_t, cl_uint) = nullptr;
    void (*SVMFree)(Context, void *) = nullptr;
    cl_int (*EnqueueSVMMemcpy)(Queue, cl_uint, void *, const void *, std::size_t, cl_uint, const Event *,
                               Event *) = nullptr;
    cl_int (*EnqueueSVMMemFill)(Queue, void *, const void *, std::size_t, std::size_t, cl_uint, const Event *,
                                Event *) = nullptr;
    Program (*CreateProgramWithBinary)(Context, cl_uint, const DeviceId *, const std::size_t *, const unsigned char **,
                                       cl_int *, cl_int *) = nullptr;
    Program (*CreateProgramWithSource)(Context, cl_uint, const char **, const std::size_t *, cl_int *) = nullptr;
    cl_int (*BuildProgram)(Program, cl_uint, const DeviceId *, const char *, void (*)(Program, void *),
                           void *) = nullptr;
    cl_int (*GetProgramBuildInfo)(Program, DeviceId, cl_uint, std::size_t, void *, std::size_t *) = nullptr;
    cl_int (*ReleaseProgram)(Program) = nullptr;
    Kernel (*CreateKernel)(Program, const char *, cl_int *) = nullptr;
    cl_int (*ReleaseKernel)(Kernel) = nullptr;
    cl_int (*SetKernelArg)(Kernel, cl_uint, std::size_t, const void *) = nullptr;
    cl_int (*SetKernelArgSVMPointer)(Kernel, cl_uint, const void *) = nullptr;
    cl_int (*EnqueueNDRangeKernel)(Queue, Kernel, cl_uint, const std::size_t *, const std::size_t *,
                                   const std::size_t *, cl_uint, const Event *, Event *) = nullptr;
    Event (*CreateUserEvent)(Context, cl_int *) = nullptr;
    cl_int (*SetUserEventStatus)(Event, cl_int) = nullptr;
    cl_int (*GetEventInfo)(Event, cl_uint, std::size_t, void *, std::size_t *) = nullptr;
    cl_int (*GetEventProfilingInfo)(Event, cl_uint, std::size_t, void *, std::size_t *) = nullptr;
    cl_int (*RetainEvent)(Event) = nullptr;
    cl_int (*ReleaseEvent)(Event) = nullptr;

    // A figure of a device; 0 if it does not tell.
    template <typename Value>
    Value figure(DeviceId device, cl_uint what) const {
        Value value{};
        return GetDeviceInfo(device, what, sizeof(value), &value, nullptr) == 0 ? value : Value{};
    }

    std::string text(DeviceId device, cl_uint what) const;
    std::string text(Platform platform, cl_uint what) const;
};

// The specification's name of an error code; empty for codes it does not have.
const char *error_name(cl_int code);

// Keep what went wrong for `last_error` of this thread and give the status to answer with.
pk_status failed(const char *function, cl_int code, const std::string &detail = "");
pk_status refused(pk_status status, const std::string &text);
void last_error(pk_device_t, pk_error *out);

}  // namespace portakern::opencl
