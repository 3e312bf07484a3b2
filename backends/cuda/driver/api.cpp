#include "api.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "drivers/library.hpp"

namespace portakern::cuda {

namespace {

// One function: its name without suffix, and the CUDA version that brought the signature declared for it, by which
// cuGetProcAddress tells cuMemAlloc from cuMemAlloc_v2.
struct Entry {
    const char *name;
    int version;
    void **place;
    bool optional;
};

template <typename F>
Entry entry(const char *name, int version, F *&place, bool optional = false) {
    return {name, version, reinterpret_cast<void **>(&place), optional};
}

std::vector<Entry> entries(Api &a);

class Finder {
  public:
    explicit Finder(const Library &library)
        : newer_(library.function<Newer>("cuGetProcAddress_v2")), older_(library.function<Older>("cuGetProcAddress")) {}

    bool works() const { return newer_ != nullptr || older_ != nullptr; }

    void *find(const char *name, int version) const {
        void *found = nullptr;
        int status = 0;
        const Result result = newer_ != nullptr ? newer_(name, &found, version, 0, &status) : older_(name, &found, version, 0);
        return result == success ? found : nullptr;
    }

  private:
    using Newer = Result(const char *, void **, int, std::uint64_t, int *);
    using Older = Result(const char *, void **, int, std::uint64_t);
    Newer *newer_;
    Older *older_;
};

std::string load_functions(const Library &library, Api &api) {
    if (!library.is_open()) return "the NVIDIA driver is not installed here (" + library.error() + ")";
    const Finder finder(library);
    if (!finder.works()) return "this NVIDIA driver has no cuGetProcAddress; CUDA 11.4 or newer is needed";
    for (const Entry &x : entries(api)) {
        *x.place = finder.find(x.name, x.version);
        if (*x.place == nullptr && !x.optional) {
            return std::string("this NVIDIA driver has no ") + x.name + " of CUDA " + version_text(x.version) + ", which is needed";
        }
    }
    const Result result = api.init(0);
    return result == success ? std::string() : "the NVIDIA driver does not start: cuInit: " + words_of(api, result);
}

std::vector<Entry> entries(Api &a) {
    return {
        entry("cuInit", 2000, a.init),
        entry("cuDriverGetVersion", 2020, a.driver_get_version),
        entry("cuGetErrorName", 6000, a.get_error_name),
        entry("cuGetErrorString", 6000, a.get_error_string),
        entry("cuDeviceGet", 2000, a.device_get),
        entry("cuDeviceGetCount", 2000, a.device_get_count),
        entry("cuDeviceGetName", 2000, a.device_get_name),
        entry("cuDeviceGetAttribute", 2000, a.device_get_attribute),
        entry("cuDeviceTotalMem", 3020, a.device_total_mem),
        entry("cuDeviceGetUuid", 11040, a.device_get_uuid),
        entry("cuDeviceGetPCIBusId", 4010, a.device_get_pci_bus_id),
        entry("cuDevicePrimaryCtxRetain", 7000, a.primary_ctx_retain),
        entry("cuCtxGetCurrent", 4000, a.ctx_get_current),
        entry("cuCtxSetCurrent", 4000, a.ctx_set_current),
        entry("cuCtxSynchronize", 2000, a.ctx_synchronize),
        entry("cuCtxResetPersistingL2Cache", 11000, a.ctx_reset_persisting_l2_cache),
        entry("cuCtxRecordEvent", 12050, a.ctx_record_event, true),
        entry("cuModuleLoadData", 2000, a.module_load_data),
        entry("cuModuleUnload", 2000, a.module_unload),
        entry("cuModuleGetFunction", 2000, a.module_get_function),
        entry("cuFuncGetAttribute", 2020, a.func_get_attribute),
        entry("cuFuncSetAttribute", 9000, a.func_set_attribute),
        entry("cuFuncLoad", 12040, a.func_load, true),
        entry("cuFuncGetParamInfo", 12040, a.func_get_param_info, true),
        entry("cuMemAlloc", 3020, a.mem_alloc),
        entry("cuMemFree", 3020, a.mem_free),
        entry("cuMemHostAlloc", 2020, a.mem_host_alloc),
        entry("cuMemFreeHost", 2000, a.mem_free_host),
        entry("cuMemHostGetDevicePointer", 3020, a.mem_host_get_device_pointer),
        entry("cuMemcpyHtoD", 3020, a.memcpy_htod),
        entry("cuMemcpyDtoH", 3020, a.memcpy_dtoh),
        entry("cuMemcpyDtoDAsync", 3020, a.memcpy_dtod_async),
        entry("cuMemsetD8Async", 3020, a.memset_d8_async),
        entry("cuLaunchKernel", 4000, a.launch_kernel),
        entry("cuLaunchKernelEx", 11060, a.launch_kernel_ex, true),
        entry("cuStreamCreate", 2000, a.stream_create),
        entry("cuStreamDestroy", 4000, a.stream_destroy),
        entry("cuStreamQuery", 2000, a.stream_query),
        entry("cuStreamSynchronize", 2000, a.stream_synchronize),
        entry("cuStreamWaitValue32", 11070, a.stream_wait_value_32, true),
        entry("cuStreamBeginCapture", 10010, a.stream_begin_capture),
        entry("cuStreamEndCapture", 10000, a.stream_end_capture),
        entry("cuStreamIsCapturing", 10000, a.stream_is_capturing),
        entry("cuThreadExchangeStreamCaptureMode", 10010, a.thread_exchange_capture_mode),
        entry("cuGraphGetRootNodes", 10000, a.graph_get_root_nodes),
        entry("cuGraphNodeGetDependentNodes", 10000, a.graph_node_get_dependent_nodes),
        entry("cuGraphExecKernelNodeSetParams", 12000, a.graph_exec_kernel_node_set_params, true),
        entry("cuGraphInstantiateWithFlags", 11040, a.graph_instantiate),
        entry("cuGraphUpload", 11010, a.graph_upload),
        entry("cuGraphLaunch", 10000, a.graph_launch),
        entry("cuGraphExecDestroy", 10000, a.graph_exec_destroy),
        entry("cuGraphDestroy", 10000, a.graph_destroy),
        entry("cuTensorMapEncodeTiled", 12000, a.tensor_map_encode_tiled, true),
        entry("cuTensorMapEncodeIm2col", 12000, a.tensor_map_encode_im2col, true),
        entry("cuEventCreate", 2000, a.event_create),
        entry("cuEventDestroy", 4000, a.event_destroy),
        entry("cuEventQuery", 2000, a.event_query),
        entry("cuEventRecord", 2000, a.event_record),
        entry("cuEventElapsedTime", 2000, a.event_elapsed_time),
    };
}

}  // namespace

const Api *open_api(const char *path, std::string *error) {
    static std::mutex mutex;
    static std::map<std::string, std::unique_ptr<Api>> opened;

    const std::lock_guard<std::mutex> locked(mutex);
    std::unique_ptr<Api> &slot = opened[path != nullptr ? path : ""];
    if (slot == nullptr) {
        const Library library(path, {"libcuda.so.1", "nvcuda.dll"});
        auto api = std::make_unique<Api>();
        *error = load_functions(library, *api);
        if (error->empty()) slot = std::move(api);
    }
    return slot.get();
}

std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string words_of(const Api &api, Result code) {
    const char *name = nullptr, *text = nullptr;
    api.get_error_name(code, &name);
    api.get_error_string(code, &text);
    return std::string(name != nullptr ? name : "error") + " (" + std::to_string(code) + "): " + (text != nullptr ? text : "");
}

}  // namespace portakern::cuda
