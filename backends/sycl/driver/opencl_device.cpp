// Finding OpenCL's devices and opening one.
#include "opencl_device.hpp"

#include <algorithm>
#include <cstdio>
#include <new>

#include "drivers/cpu_cache.hpp"

namespace portakern::opencl {

namespace {

struct Found {
    Platform platform;
    DeviceId id;
};

// Every device of every platform, in the library's order. The status of clGetPlatformIDs.
cl_int all_devices(const Api &api, std::vector<Found> *found) {
    cl_uint count = 0;
    const cl_int status = api.GetPlatformIDs(0, nullptr, &count);
    if (status != complete || count == 0) return status;
    std::vector<Platform> platforms(count);
    api.GetPlatformIDs(count, platforms.data(), nullptr);
    for (Platform platform : platforms) {
        cl_uint devices = 0;
        if (api.GetDeviceIDs(platform, device_type_all, 0, nullptr, &devices) != complete || devices == 0) continue;
        std::vector<DeviceId> ids(devices);
        api.GetDeviceIDs(platform, device_type_all, devices, ids.data(), nullptr);
        for (DeviceId id : ids) found->push_back({platform, id});
    }
    return complete;
}

std::string driver_text(const Api &api, Platform platform, DeviceId id) {
    return api.text(platform, platform_name) + " " + api.text(id, driver_version);
}

bool is_cpu(const Api &api, DeviceId id) { return (api.figure<cl_ulong>(id, device_type) & device_type_cpu) != 0; }

// What the driver states for a CPU is often one core's: the machine knows better.
std::int64_t cache_bytes(const Api &api, DeviceId id) {
    const auto stated = static_cast<std::int64_t>(api.figure<cl_ulong>(id, device_global_mem_cache_size));
    return is_cpu(api, id) ? std::max(stated, last_level_cache_bytes()) : stated;
}

std::string uuid(const Api &api, DeviceId id) {
    unsigned char bytes[16] = {};
    if (api.text(id, device_extensions).find("cl_khr_device_uuid") == std::string::npos ||
        api.GetDeviceInfo(id, device_uuid, sizeof(bytes), bytes, nullptr) != complete) {
        return {};
    }
    std::string text;
    for (unsigned char byte : bytes) {
        char pair[3];
        std::snprintf(pair, sizeof(pair), "%02x", byte);
        text += pair;
    }
    return text;
}

}  // namespace

void probe(const char *path, pk_probe *out) {
    const Api api(path);
    if (!open_for_probe(api.library, "clGetPlatformIDs", out)) return;
    if (api.GetPlatformInfo == nullptr || api.GetDeviceIDs == nullptr || api.GetDeviceInfo == nullptr) {
        set_text(out->error, "the library lacks cl" + api.missing);
        return;
    }
    std::vector<Found> found;
    const cl_int status = all_devices(api, &found);
    if (status != complete && status != no_platform_found) {
        set_text(out->error, "clGetPlatformIDs returned " + std::to_string(status));
        return;
    }
    cl_uint platforms = 0;
    Platform first = nullptr;
    if (api.GetPlatformIDs(1, &first, &platforms) != complete || platforms == 0) {
        set_text(out->error, "the loader is there, but no platform is registered with it");
        return;
    }
    set_text(out->version, api.text(first, platform_version));
    out->device_count = static_cast<std::int32_t>(found.size());
    if (found.empty()) set_text(out->error, "no platform offers a device");
}

pk_status open(const char *path, std::int32_t ordinal, DeviceState **out) {
    std::unique_ptr<DeviceState> device(new (std::nothrow) DeviceState(path));
    if (!device) return refused(PK_FAILED, "out of memory");
    const Api &api = device->api;
    if (!api.library.is_open()) return refused(PK_NO_DEVICE, api.library.error());
    if (!api.missing.empty()) {
        return refused(PK_UNSUPPORTED, "the OpenCL library has no cl" + api.missing + "; OpenCL 2.0 is needed");
    }
    std::vector<Found> found;
    if (const cl_int status = all_devices(api, &found); status != complete && status != no_platform_found) {
        failed("clGetPlatformIDs", status);
        return PK_NO_DEVICE;
    }
    if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= found.size()) {
        return refused(PK_NO_DEVICE, "there is no OpenCL device " + std::to_string(ordinal) + ": the library shows " +
                                         std::to_string(found.size()));
    }
    device->platform = found[ordinal].platform;
    device->id = found[ordinal].id;
    device->ordinal = ordinal;
    if (api.figure<cl_ulong>(device->id, device_svm_capabilities) == 0) {
        return refused(PK_UNSUPPORTED,
                       api.text(device->id, device_name) +
                           " has no shared virtual memory, without which it has no addresses to hand out");
    }
    device->description =
        api.text(device->id, device_name) + " (" + driver_text(api, device->platform, device->id) + ")";
    device->is_cpu = is_cpu(api, device->id);
    device->cache_bytes = cache_bytes(api, device->id);
    cl_int status = complete;
    device->context = api.CreateContext(nullptr, 1, &device->id, nullptr, nullptr, &status);
    if (status != complete) return failed("clCreateContext", status);
    device->finisher = std::make_unique<Finisher>();
    StreamState *first = nullptr;
    if (const pk_status made = stream_create(device.get(), &first); made != PK_OK) {
        api.ReleaseContext(device->context);
        return made;
    }
    device->first = first;
    *out = device.release();
    return PK_OK;
}

void close(DeviceState *device) {
    release_own(device);
    while (!device->streams.empty()) {
        StreamState *stream = &device->streams.front();
        device->first = stream == device->first ? nullptr : device->first;
        stream_destroy(device, stream);
    }
    device->api.ReleaseContext(device->context);
    delete device;
}

pk_status facts(DeviceState *device, pk_facts *out) {
    const Api &api = device->api;
    const DeviceId id = device->id;
    set_text(out->name, api.text(id, device_name));
    set_text(out->version, driver_text(api, device->platform, id));
    set_text(out->uuid, uuid(api, id));
    out->ordinal = device->ordinal;
    out->units = static_cast<std::int32_t>(api.figure<cl_uint>(id, device_max_compute_units));
    out->clock_khz = static_cast<std::int32_t>(api.figure<cl_uint>(id, device_max_clock_frequency)) * 1000;
    out->shared_bytes = static_cast<std::int32_t>(api.figure<cl_ulong>(id, device_local_mem_size));
    out->memory_bytes = static_cast<std::int64_t>(api.figure<cl_ulong>(id, device_global_mem_size));
    out->cache_bytes = device->cache_bytes;
    out->timer_ns = static_cast<std::int64_t>(api.figure<std::size_t>(id, device_profiling_timer_resolution));
    out->flush_bytes = 2 * device->cache_bytes;
    out->host_memory = (api.figure<cl_ulong>(id, device_svm_capabilities) & svm_fine_grain_system) != 0 ? 1 : 0;
    return PK_OK;
}

}  // namespace portakern::opencl
