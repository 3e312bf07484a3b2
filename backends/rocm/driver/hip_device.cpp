// Finding AMD's GPUs and opening one.
#include "hip_device.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "hip_sysfs.hpp"

namespace portakern::hip {

namespace {

// Twice the largest last-level cache that AMD's GPUs have, the 256 MB of MI300X's Infinity Cache: what a flush moves at
// least, since HIP tells the size of the L2 only and the kernel may not tell the rest.
constexpr std::int64_t least_flush = std::int64_t{512} << 20;

// The instruction set, found in the property structure by its form: where it lies changes between versions, and the
// structure holds no other text that begins like that.
std::string architecture(const Api &api, int ordinal) {
    auto *ask = api.GetDevicePropertiesR0600 != nullptr ? api.GetDevicePropertiesR0600 : api.GetDeviceProperties;
    std::vector<char> room(16384);
    if (ask == nullptr || ask(room.data(), ordinal) != success) return {};
    static constexpr char prefix[] = "gfx";
    const auto begin = std::search(room.begin(), room.end(), prefix, prefix + 3);
    const auto end = std::find_if_not(begin, room.end(), [](unsigned char c) { return std::isgraph(c) != 0; });
    return {begin, end};
}

std::string pci_address(const Api &api, int ordinal) {
    char text[64] = {};
    return api.DeviceGetPCIBusId != nullptr && api.DeviceGetPCIBusId(text, sizeof(text), ordinal) == success ? text
                                                                                                             : "";
}

std::string uuid(const Api &api, int ordinal) {
    unsigned char bytes[16] = {};
    if (api.DeviceGetUuid == nullptr || api.DeviceGetUuid(bytes, ordinal) != success) return {};
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
    if (!open_for_probe(api.library, "hipGetDeviceCount", out)) return;
    set_text(out->version, api.version());
    int count = 0;
    if (const int status = api.GetDeviceCount(&count); status != success) {
        const char *words = api.GetErrorString != nullptr ? api.GetErrorString(status) : "";
        set_text(out->error, "hipGetDeviceCount returned " + std::to_string(status) + " (" + words + ")");
        return;
    }
    out->device_count = count;
    if (count == 0) set_text(out->error, "the runtime finds no GPU");
}

pk_status open(const char *path, std::int32_t ordinal, DeviceState **out) {
    std::unique_ptr<DeviceState> device(new (std::nothrow) DeviceState(path));
    if (!device) return refused(PK_FAILED, "out of memory");
    const Api &api = device->api;
    if (!api.library.is_open())
        return refused(PK_NO_DEVICE, "AMD's HIP runtime is not installed here: " + api.library.error());
    if (!api.missing.empty()) return refused(PK_NO_DEVICE, "AMD's HIP runtime here has no " + api.missing);
    int count = 0;
    int status = api.Init(0);
    const char *asked = "hipInit";
    if (status == success) {
        status = api.GetDeviceCount(&count);
        asked = "hipGetDeviceCount";
    }
    if (status != success) {
        failed(api, asked, status);  // the words stay; whatever it is, there is no device to use
        return PK_NO_DEVICE;
    }
    if (ordinal < 0 || ordinal >= count) {
        return refused(PK_NO_DEVICE,
                       "there is no AMD GPU " + std::to_string(ordinal) + ": HIP finds " + std::to_string(count));
    }
    device->ordinal = ordinal;
    device->arch = architecture(api, ordinal);
    device->pci = pci_address(api, ordinal);
    device->cache_bytes =
        std::max<std::int64_t>(api.attribute(l2_cache_size, ordinal), deepest_cache_bytes(device->pci));
    device->flush_bytes = std::max(2 * device->cache_bytes, least_flush);
    *out = device.release();
    return PK_OK;
}

void close(DeviceState *device) {
    release_own(device);
    delete device;
}

pk_status facts(DeviceState *device, pk_facts *out) {
    const Api &api = device->api;
    const int n = device->ordinal;
    char name[256] = {};
    if (const pk_status status = PK_HIP(device, DeviceGetName, name, sizeof(name), n); status != PK_OK) return status;
    set_text(out->name, name);
    set_text(out->arch, device->arch);
    set_text(out->version, api.version());
    set_text(out->uuid, uuid(api, n));
    out->ordinal = n;
    out->units = api.attribute(multiprocessor_count, n);
    out->clock_khz = api.attribute(clock_rate, n);
    out->memory_clock_khz = api.attribute(memory_clock_rate, n);
    out->bus_bits = api.attribute(memory_bus_width, n);
    out->shared_bytes = api.attribute(max_shared_memory_per_block, n);
    std::size_t total = 0;
    if (api.DeviceTotalMem != nullptr && api.DeviceTotalMem(&total, n) == success) {
        out->memory_bytes = static_cast<std::int64_t>(total);
    }
    out->cache_bytes = device->cache_bytes;
    // Events are stamped with the constant clock, whose rate is in kHz.
    const int ticks = api.attribute(wall_clock_rate, n);
    out->timer_ns = ticks > 0 ? 1'000'000 / ticks : 0;
    out->flush_bytes = device->flush_bytes;
    return PK_OK;
}

// HIP itself tells nothing; whether clocks are throttled is not among what the kernel's sensors tell.
pk_status health(DeviceState *device, pk_health *out) {
    out->clock_mhz = out->memory_clock_mhz = out->temperature_c = out->power_mw = out->throttled = -1;
    out->reason[0] = '\0';
    read_sensors(device->pci, out);
    return PK_OK;
}

}  // namespace portakern::hip
