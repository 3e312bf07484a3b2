// Finds the Level Zero loader. Signatures follow the Level Zero specification 1.x; ze_api.h is not needed.
#include <cstdint>
#include <string>
#include <vector>

#include "drivers/library.hpp"
#include "drivers/registry.hpp"

namespace {

using portakern::Library;
using portakern::set_text;

using Init = unsigned(std::uint32_t);
using GetHandles = unsigned(std::uint32_t *, void **);
using GetDevices = unsigned(void *, std::uint32_t *, void **);
using GetApiVersion = unsigned(void *, std::uint32_t *);

std::string failed(const char *function, unsigned status) {
    return std::string(function) + " returned " + std::to_string(status);
}

// ze_api_version_t holds the major number in the upper half.
std::string version_text(std::uint32_t version) {
    return std::to_string(version >> 16) + "." + std::to_string(version & 0xFFFF);
}

void probe(const char *path, pk_probe *out) {
    const Library library(path, {"libze_loader.so.1", "libze_loader.so", "ze_loader.dll"});
    if (!portakern::open_for_probe(library, "zeInit", out)) return;

    if (const unsigned status = library.function<Init>("zeInit")(0); status != 0) {
        set_text(out->error, failed("zeInit", status));
        return;
    }
    auto *get_drivers = library.function<GetHandles>("zeDriverGet");
    auto *get_devices = library.function<GetDevices>("zeDeviceGet");
    auto *get_version = library.function<GetApiVersion>("zeDriverGetApiVersion");
    if (get_drivers == nullptr || get_devices == nullptr || get_version == nullptr) {
        set_text(out->error, "the library lacks zeDriverGet, zeDeviceGet or zeDriverGetApiVersion");
        return;
    }
    std::uint32_t driver_count = 0;
    if (const unsigned status = get_drivers(&driver_count, nullptr); status != 0) {
        set_text(out->error, failed("zeDriverGet", status));
        return;
    }
    std::vector<void *> handles(driver_count);
    get_drivers(&driver_count, handles.data());
    for (void *handle : handles) {
        std::uint32_t version = 0;
        if (out->version[0] == '\0' && get_version(handle, &version) == 0) set_text(out->version, version_text(version));
        std::uint32_t count = 0;
        if (get_devices(handle, &count, nullptr) == 0) out->device_count += static_cast<std::int32_t>(count);
    }
}

const pk_driver level_zero_driver = {PK_DRIVER_ABI, sizeof(pk_driver), "level_zero", "Level Zero loader (libze_loader)",
                                     probe};
PK_REGISTER_DRIVER(level_zero_driver);

}  // namespace
