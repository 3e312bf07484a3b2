// What is called in libcuda. Types, values and signatures follow the CUDA Driver API reference; cuda.h is not needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace portakern::cuda {

using Result = int;
using Device = int;
using Context = struct ContextOpaque *;
using Module = struct ModuleOpaque *;
using Function = struct FunctionOpaque *;
using Stream = struct StreamOpaque *;
using Event = struct EventOpaque *;
using Graph = struct GraphOpaque *;
using GraphExec = struct GraphExecOpaque *;
using GraphNode = struct GraphNodeOpaque *;
using Pointer = std::uint64_t;

struct Uuid {
    unsigned char bytes[16];
};

enum : Result { success = 0, invalid_value = 1, not_ready = 600, not_supported = 801 };

// CUdevice_attribute
enum : int {
    clock_rate = 13,
    multiprocessor_count = 16,
    memory_clock_rate = 36,
    global_memory_bus_width = 37,
    l2_cache_size = 38,
    compute_capability_major = 75,
    compute_capability_minor = 76,
    max_shared_memory_per_block_optin = 97,
    max_persisting_l2_cache_size = 108,
};

// CUfunction_attribute
enum : int { num_regs = 4, max_dynamic_shared_size_bytes = 8, non_portable_cluster_size_allowed = 14 };

// CUlaunchAttributeID
enum : int { attribute_cooperative = 2, attribute_cluster_dimension = 4, attribute_programmatic_stream_serialization = 6 };

struct LaunchAttribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int flag;
        unsigned cluster[3];
        void *aligned;
    } value;
};
static_assert(sizeof(LaunchAttribute) == 72, "as in cuda.h");

struct LaunchConfig {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    Stream stream;
    LaunchAttribute *attributes;
    unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56, "as in cuda.h");

// CUDA_KERNEL_NODE_PARAMS_v2
struct KernelNodeParams {
    Function function;
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    void **args;
    void **extra;
    void *kernel;
    Context context;
};
static_assert(sizeof(KernelNodeParams) == 72, "as in cuda.h");

enum : int { capture_none = 0 };  // CUstreamCaptureStatus

enum : unsigned {
    host_alloc_portable = 1,
    host_alloc_mapped = 2,
    stream_wait_geq = 0,
    capture_relaxed = 2,
    stream_non_blocking = 1,
};

// The functions of one libcuda. A null pointer: this driver is too old for it (only for those marked optional).
struct Api {
    Result (*init)(unsigned flags);
    Result (*driver_get_version)(int *version);
    Result (*get_error_name)(Result code, const char **name);
    Result (*get_error_string)(Result code, const char **text);

    Result (*device_get)(Device *device, int ordinal);
    Result (*device_get_count)(int *count);
    Result (*device_get_name)(char *name, int bytes, Device device);
    Result (*device_get_attribute)(int *value, int attribute, Device device);
    Result (*device_total_mem)(std::size_t *bytes, Device device);
    Result (*device_get_uuid)(Uuid *uuid, Device device);
    Result (*device_get_pci_bus_id)(char *text, int bytes, Device device);

    Result (*primary_ctx_retain)(Context *context, Device device);
    Result (*ctx_get_current)(Context *context);
    Result (*ctx_set_current)(Context context);
    Result (*ctx_synchronize)();
    Result (*ctx_reset_persisting_l2_cache)();
    Result (*ctx_record_event)(Context context, Event event);  // optional, CUDA 12.5

    Result (*module_load_data)(Module *module, const void *image);
    Result (*module_unload)(Module module);
    Result (*module_get_function)(Function *function, Module module, const char *name);
    Result (*func_get_attribute)(int *value, int attribute, Function function);
    Result (*func_set_attribute)(Function function, int attribute, int value);
    Result (*func_load)(Function function);                                                                  // optional, 12.4
    Result (*func_get_param_info)(Function function, std::size_t n, std::size_t *offset, std::size_t *size);  // optional, 12.4

    Result (*mem_alloc)(Pointer *pointer, std::size_t bytes);
    Result (*mem_free)(Pointer pointer);
    Result (*mem_host_alloc)(void **pointer, std::size_t bytes, unsigned flags);
    Result (*mem_free_host)(void *pointer);
    Result (*mem_host_get_device_pointer)(Pointer *pointer, void *host, unsigned flags);
    Result (*memcpy_htod)(Pointer to, const void *from, std::size_t bytes);
    Result (*memcpy_dtoh)(void *to, Pointer from, std::size_t bytes);
    Result (*memcpy_dtod_async)(Pointer to, Pointer from, std::size_t bytes, Stream stream);
    Result (*memset_d8_async)(Pointer to, unsigned char value, std::size_t count, Stream stream);

    Result (*launch_kernel)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                            unsigned block_z, unsigned shared_bytes, Stream stream, void **args, void **extra);
    Result (*launch_kernel_ex)(const LaunchConfig *config, Function function, void **args, void **extra);  // optional, 11.6

    Result (*stream_create)(Stream *stream, unsigned flags);
    Result (*stream_destroy)(Stream stream);
    Result (*stream_query)(Stream stream);
    Result (*stream_synchronize)(Stream stream);
    Result (*stream_wait_value_32)(Stream stream, Pointer address, std::uint32_t value, unsigned flags);  // optional, 11.7

    Result (*stream_begin_capture)(Stream stream, int mode);
    Result (*stream_end_capture)(Stream stream, Graph *graph);
    Result (*stream_is_capturing)(Stream stream, int *status);
    Result (*thread_exchange_capture_mode)(int *mode);
    Result (*graph_instantiate)(GraphExec *exec, Graph graph, unsigned long long flags);
    Result (*graph_get_root_nodes)(Graph graph, GraphNode *nodes, std::size_t *count);
    Result (*graph_node_get_dependent_nodes)(GraphNode node, GraphNode *nodes, std::size_t *count);
    Result (*graph_exec_kernel_node_set_params)(GraphExec exec, GraphNode node, const KernelNodeParams *params);  // optional, 12.0
    Result (*graph_upload)(GraphExec exec, Stream stream);
    Result (*graph_launch)(GraphExec exec, Stream stream);
    Result (*graph_exec_destroy)(GraphExec exec);
    Result (*graph_destroy)(Graph graph);

    // optional, 12.0; enumerations are CUtensorMapDataType, -Interleave, -Swizzle, -L2promotion, -FloatOOBfill
    Result (*tensor_map_encode_tiled)(void *map, int dtype, std::uint32_t rank, void *address, const std::uint64_t *shape,
                                      const std::uint64_t *strides, const std::uint32_t *box, const std::uint32_t *steps,
                                      int interleave, int swizzle, int promotion, int fill);
    Result (*tensor_map_encode_im2col)(void *map, int dtype, std::uint32_t rank, void *address, const std::uint64_t *shape,
                                       const std::uint64_t *strides, const int *lower, const int *upper, std::uint32_t channels,
                                       std::uint32_t pixels, const std::uint32_t *steps, int interleave, int swizzle,
                                       int promotion, int fill);

    Result (*event_create)(Event *event, unsigned flags);
    Result (*event_destroy)(Event event);
    Result (*event_query)(Event event);
    Result (*event_record)(Event event, Stream stream);
    Result (*event_elapsed_time)(float *milliseconds, Event begin, Event end);
};

// The library at `path` (null: the usual names), opened and initialised once per process and path. Null with `error`
// saying why: no library, too old a driver, or cuInit failed.
const Api *open_api(const char *path, std::string *error);

// The driver writes version 13.0 as 13000.
std::string version_text(int version);

// "CUDA_ERROR_X: its words", as the driver has them.
std::string words_of(const Api &api, Result code);

}  // namespace portakern::cuda
