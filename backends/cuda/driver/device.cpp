#include "device.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "drivers/library.hpp"
#include "drivers/registry.hpp"
#include "nvml.hpp"

namespace portakern::cuda {

namespace {

// A flush reads this many times the level-2 cache. Twice is enough on an H200: four times, or writing first, gives the
// same times within 1%, although each half of its cache may hold copies of the other's lines.
constexpr std::size_t flush_factor = 2;

// "The resolution of this value is approximately 0.5 microseconds" (CUDA Driver API, cuEventElapsedTime). An H200 with
// driver 580 counts in steps of 32 ns.
constexpr int64_t event_resolution_ns = 500;

// What Nsight Compute shows for our empty kernel: gpu__time_duration.sum with --clock-control none is 1310 to 1410 ns in five
// runs on H200s with driver 580 (benchmarks/ncu_agreement.py --calibrate). An event pair around it shows 2660 to 2880, and
// around others 1300 (waiting, copying) to 1550 (operators) more than ncu: 1340 takes 1400 to 1540 off, which is within
// 0.3 us of both sorts. Nothing is known of other architectures.
double empty_kernel_ns(int capability) { return capability == 90 ? 1340.0 : 0.0; }

// Errors after which the driver answers every further call of the process with the same error (CUDA Driver API,
// CUresult: "the context cannot be used"; and those by which the device itself is gone).
constexpr Result fatal_codes[] = {4, 46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721};

thread_local pk_error latest{};

void remember(pk_status code, bool fatal, const char *name, const std::string &text) {
    latest = {};
    latest.code = code;
    latest.fatal = fatal ? 1 : 0;
    set_text(latest.name, name != nullptr ? name : "");
    set_text(latest.text, text);
}

int attribute_of(const Api &api, Device device, int which) {
    int value = 0;
    return api.device_get_attribute(&value, which, device) == success ? value : 0;
}

int capability_of(const Api &api, Device device) {
    return 10 * attribute_of(api, device, compute_capability_major) + attribute_of(api, device, compute_capability_minor);
}

// As NVIDIA's tools write it.
std::string uuid_text(const Uuid &uuid) {
    std::string text = "GPU";
    char byte[4];
    for (int i = 0; i < 16; ++i) {
        if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        std::snprintf(byte, sizeof byte, "%02x", uuid.bytes[i]);
        text += byte;
    }
    return text;
}

std::string uuid_of(const Gpu &gpu) {
    Uuid uuid{};
    return gpu.api.device_get_uuid(&uuid, gpu.handle) == success ? uuid_text(uuid) : std::string();
}

}  // namespace

pk_status fail(pk_status code, const std::string &text) {
    remember(code, false, nullptr, text);
    return code;
}

pk_status fail(Gpu &gpu, Result code, const char *function) {
    const char *name = nullptr, *text = nullptr;
    gpu.api.get_error_name(code, &name);
    gpu.api.get_error_string(code, &text);
    const bool fatal = std::find(std::begin(fatal_codes), std::end(fatal_codes), code) != std::end(fatal_codes);
    remember(code, fatal, name, std::string(function) + ": " + (text != nullptr ? text : "no words for it"));
    return code;
}

void last_error(pk_device_t, pk_error *out) { *out = latest; }

// ---- opening

Gpu::Gpu(const Api &functions, int number, Device given)
    : api(functions),
      ordinal(number),
      handle(given),
      units(attribute(multiprocessor_count)),
      capability(capability_of(functions, given)),
      flush_bytes(flush_factor * static_cast<std::size_t>(attribute(l2_cache_size))) {}

int Gpu::attribute(int which) const { return attribute_of(api, handle, which); }

void probe(const char *path, pk_probe *out) {
    const Library library(path, {"libcuda.so.1", "nvcuda.dll"});
    if (!open_for_probe(library, "cuInit", out)) return;

    if (auto *get_version = library.function<int(int *)>("cuDriverGetVersion")) {
        int version = 0;
        if (get_version(&version) == 0) set_text(out->version, version_text(version));
    }
    if (const int status = library.function<int(unsigned)>("cuInit")(0); status != 0) {
        set_text(out->error, "cuInit returned " + std::to_string(status));
        return;
    }
    auto *get_count = library.function<int(int *)>("cuDeviceGetCount");
    int count = 0;
    const int status = get_count != nullptr ? get_count(&count) : -1;
    if (status != 0) {
        set_text(out->error, "cuDeviceGetCount returned " + std::to_string(status));
        return;
    }
    out->device_count = count;
}

// A device is kept for the rest of the process: its context is shared with whoever else uses it, and tearing down at
// exit would race with the driver's own exit handlers.
pk_status open(const char *path, int32_t ordinal, pk_device_t *out) {
    static std::mutex mutex;
    static std::map<std::pair<const Api *, int>, Gpu *> gpus;

    std::string error;
    const Api *api = open_api(path, &error);
    if (api == nullptr) return fail(PK_NO_DEVICE, error);
    int count = 0;
    if (api->device_get_count(&count) != success || ordinal < 0 || ordinal >= count) {
        return fail(PK_NO_DEVICE, "there is no GPU " + std::to_string(ordinal) + ", the driver has " + std::to_string(count));
    }
    const std::lock_guard<std::mutex> locked(mutex);
    Gpu *&slot = gpus[{api, ordinal}];
    if (slot == nullptr) {
        Device handle = 0;
        if (const Result result = api->device_get(&handle, ordinal); result != success) {
            return fail(PK_NO_DEVICE, "cuDeviceGet: " + words_of(*api, result));
        }
        slot = new Gpu(*api, ordinal, handle);
    }
    *out = reinterpret_cast<pk_device_t>(slot);
    return PK_OK;
}

void close(pk_device_t device) {
    // The flush's memory is large; the rest is small and stays.
    Gpu &gpu = gpu_of(device);
    const std::lock_guard<std::mutex> locked(gpu.mutex);
    if (gpu.helpers.flush_memory == 0) return;
    if (const CurrentContext current(gpu); current && gpu.api.mem_free(gpu.helpers.flush_memory) == success) {
        gpu.helpers.flush_memory = 0;
        gpu.helpers_ready = false;
    }
}

// ---- the current context

CurrentContext::CurrentContext(Gpu &gpu) : gpu_(gpu) {
    Context wanted = gpu.context.load(std::memory_order_acquire);
    if (wanted == nullptr) {
        const std::lock_guard<std::mutex> locked(gpu.mutex);
        wanted = gpu.context.load(std::memory_order_relaxed);
        if (wanted == nullptr) {
            status_ = gpu.check(gpu.api.primary_ctx_retain(&wanted, gpu.handle), "cuDevicePrimaryCtxRetain");
            if (status_ != PK_OK) return;
            gpu.context.store(wanted, std::memory_order_release);
        }
    }
    status_ = gpu.check(gpu.api.ctx_get_current(&before_), "cuCtxGetCurrent");
    if (status_ != PK_OK || before_ == wanted) return;
    status_ = gpu.check(gpu.api.ctx_set_current(wanted), "cuCtxSetCurrent");
    changed_ = status_ == PK_OK;
}

CurrentContext::~CurrentContext() {
    if (changed_ && (before_ != nullptr || gpu_.ordinal != 0)) gpu_.api.ctx_set_current(before_);
}

// ---- what is known of it

pk_status facts(pk_device_t device, pk_facts *out) {
    const Gpu &gpu = gpu_of(device);
    const Api &api = gpu.api;
    if (api.device_get_name(out->name, sizeof out->name, gpu.handle) != success) out->name[0] = '\0';
    set_text(out->arch, "sm_" + std::to_string(gpu.capability));
    int version = 0;
    if (api.driver_get_version(&version) == success) set_text(out->version, version_text(version));
    set_text(out->uuid, uuid_of(gpu));
    std::size_t memory = 0;
    if (api.device_total_mem(&memory, gpu.handle) == success) out->memory_bytes = static_cast<int64_t>(memory);
    out->ordinal = gpu.ordinal;
    out->units = gpu.units;
    out->clock_khz = gpu.attribute(clock_rate);
    out->memory_clock_khz = gpu.attribute(memory_clock_rate);
    out->bus_bits = gpu.attribute(global_memory_bus_width);
    out->shared_bytes = gpu.attribute(max_shared_memory_per_block_optin);
    out->cache_bytes = gpu.attribute(l2_cache_size);
    out->persisting_bytes = gpu.attribute(max_persisting_l2_cache_size);
    out->timer_ns = event_resolution_ns;
    out->flush_bytes = static_cast<int64_t>(gpu.flush_bytes);
    out->empty_kernel_ns = empty_kernel_ns(gpu.capability);
    return PK_OK;
}

pk_status health(pk_device_t device, pk_health *out) {
    const Gpu &gpu = gpu_of(device);
    char bus[32] = "";
    if (gpu.api.device_get_pci_bus_id(bus, sizeof bus, gpu.handle) != success) bus[0] = '\0';
    std::string error;
    if (read_health(uuid_of(gpu), bus, out, &error)) return PK_OK;
    return fail(PK_UNSUPPORTED, error);
}

namespace {

constexpr pk_driver table = {
    PK_DRIVER_ABI, sizeof(pk_driver), "cuda", "NVIDIA CUDA driver (libcuda)",
    probe,
    open, close, facts, health, last_error,
    allocate, free, copy_in, copy_out, copy, fill,
    load, unload, kernel, launch,
    stream_create, stream_wrap, stream_destroy, synchronize,
    event_create, event_destroy, event_record, event_elapsed,
    gate_create, gate_destroy, gate_close, gate_open,
    capture_begin, capture_end, graph_launch, graph_destroy,
    flush, reset_persisting, launch_empty,
    stream_native,
    graph_make, graph_update,
    tensor_map,
};
PK_REGISTER_DRIVER(table);

}  // namespace

}  // namespace portakern::cuda
