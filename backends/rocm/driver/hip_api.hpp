// What is called of HIP: signatures and constants of the HIP Runtime API reference (ROCm 5.2 to 7); no header of ROCm
// is needed. Enumerators keep their numbers between those versions, structures do not: none is read but for its text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "drivers/library.hpp"
#include "portakern/driver.h"

namespace portakern::hip {

using Stream = struct hip_stream *;
using Event = struct hip_event *;
using Module = struct hip_module *;
using Function = struct hip_function *;
using Graph = struct hip_graph *;
using GraphExec = struct hip_graph_exec *;

constexpr int success = 0, no_device = 100, invalid_device = 101, not_ready = 600;
constexpr int clock_rate = 5, l2_cache_size = 19, memory_bus_width = 59, memory_clock_rate = 60,
              multiprocessor_count = 63, max_shared_memory_per_block = 74, can_use_stream_wait_value = 10013,
              wall_clock_rate = 10017;
constexpr int to_device = 1, to_host = 2, on_device = 3;  // hipMemcpyKind
constexpr unsigned non_blocking = 1;                      // hipStreamCreateWithFlags
constexpr unsigned signal_memory = 2;                     // hipExtMallocWithFlags
constexpr unsigned mapped = 2, coherent = 0x40000000;     // hipHostMalloc
constexpr unsigned wait_until_at_least = 0;               // hipStreamWaitValue32
constexpr int capture_thread_local = 1;                   // hipStreamBeginCapture

// Every function returns a hipError_t but those that give its words.
#define PK_HIP_REQUIRED(F)                                                                                           \
    F(Init, int(unsigned))                                                                                           \
    F(GetDeviceCount, int(int *))                                                                                    \
    F(GetDevice, int(int *))                                                                                         \
    F(SetDevice, int(int))                                                                                           \
    F(DeviceGetName, int(char *, int, int))                                                                          \
    F(DeviceGetAttribute, int(int *, int, int))                                                                      \
    F(GetErrorName, const char *(int))                                                                               \
    F(GetErrorString, const char *(int))                                                                             \
    F(Malloc, int(void **, std::size_t))                                                                             \
    F(Free, int(void *))                                                                                             \
    F(Memcpy, int(void *, const void *, std::size_t, int))                                                           \
    F(MemcpyAsync, int(void *, const void *, std::size_t, int, Stream))                                              \
    F(MemsetAsync, int(void *, int, std::size_t, Stream))                                                            \
    F(ModuleLoadData, int(Module *, const void *))                                                                   \
    F(ModuleUnload, int(Module))                                                                                     \
    F(ModuleGetFunction, int(Function *, Module, const char *))                                                      \
    F(ModuleLaunchKernel,                                                                                            \
      int(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **, void **)) \
    F(StreamCreateWithFlags, int(Stream *, unsigned))                                                                \
    F(StreamDestroy, int(Stream))                                                                                    \
    F(StreamQuery, int(Stream))                                                                                      \
    F(StreamSynchronize, int(Stream))                                                                                \
    F(DeviceSynchronize, int())                                                                                      \
    F(EventCreateWithFlags, int(Event *, unsigned))                                                                  \
    F(EventRecord, int(Event, Stream))                                                                               \
    F(EventElapsedTime, int(float *, Event, Event))                                                                  \
    F(EventDestroy, int(Event))

#define PK_HIP_OPTIONAL(F)                                                                                  \
    F(RuntimeGetVersion, int(int *))                                                                        \
    F(DriverGetVersion, int(int *))                                                                         \
    F(GetDevicePropertiesR0600, int(char *, int))                                                           \
    F(GetDeviceProperties, int(char *, int))                                                                \
    F(DeviceTotalMem, int(std::size_t *, int))                                                              \
    F(DeviceGetPCIBusId, int(char *, int, int))                                                             \
    F(DeviceGetUuid, int(unsigned char *, int))                                                             \
    F(ModuleLaunchCooperativeKernel,                                                                        \
      int(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **)) \
    F(StreamWaitValue32, int(Stream, void *, std::uint32_t, unsigned, std::uint32_t))                       \
    F(ExtMallocWithFlags, int(void **, std::size_t, unsigned))                                              \
    F(HostMalloc, int(void **, std::size_t, unsigned))                                                      \
    F(HostFree, int(void *))                                                                                \
    F(HostGetDevicePointer, int(void **, void *, unsigned))                                                 \
    F(StreamBeginCapture, int(Stream, int))                                                                 \
    F(StreamEndCapture, int(Stream, Graph *))                                                               \
    F(GraphInstantiate, int(GraphExec *, Graph, void *, char *, std::size_t))                               \
    F(GraphLaunch, int(GraphExec, Stream))                                                                  \
    F(GraphExecDestroy, int(GraphExec))                                                                     \
    F(GraphDestroy, int(Graph))

// The functions of one libamdhip64. `missing` names a required one that it lacks.
struct Api {
    explicit Api(const char *path);

    Library library;
    std::string missing;
#define PK_MEMBER(name, signature)    \
    using name##Function = signature; \
    name##Function *name = nullptr;
    PK_HIP_REQUIRED(PK_MEMBER)
    PK_HIP_OPTIONAL(PK_MEMBER)
#undef PK_MEMBER

    // 0 where the device does not tell.
    int attribute(int what, int ordinal) const;

    // "5.2.21153"; empty if it does not tell.
    std::string version() const;
};

// Keep what went wrong for `last_error` of this thread and give the status to answer with.
pk_status failed(const Api &api, const char *function, int code);
pk_status refused(pk_status status, const std::string &text);
void last_error(pk_device_t, pk_error *out);

}  // namespace portakern::hip
