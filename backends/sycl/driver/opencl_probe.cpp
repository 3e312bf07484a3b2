// Finds the OpenCL loader and the platforms behind it. Signatures and constants follow the OpenCL 3.0 specification.
#include <cstdint>
#include <string>
#include <vector>

#include "drivers/library.hpp"
#include "drivers/registry.hpp"

namespace {

using portakern::Library;
using portakern::set_text;

constexpr std::uint64_t device_type_all = 0xFFFFFFFF;
constexpr std::uint32_t platform_version = 0x0901;
constexpr int no_platform_found = -1001;  // cl_khr_icd

using GetPlatforms = int(std::uint32_t, void **, std::uint32_t *);
using GetPlatformInfo = int(void *, std::uint32_t, std::size_t, void *, std::size_t *);
using GetDevices = int(void *, std::uint64_t, std::uint32_t, void **, std::uint32_t *);

void probe(const char *path, pk_probe *out) {
    const Library library(path, {"libOpenCL.so.1", "libOpenCL.so", "OpenCL.dll"});
    if (!portakern::open_for_probe(library, "clGetPlatformIDs", out)) return;

    auto *get_platforms = library.function<GetPlatforms>("clGetPlatformIDs");
    std::uint32_t platform_count = 0;
    const int status = get_platforms(0, nullptr, &platform_count);
    if (status == no_platform_found || (status == 0 && platform_count == 0)) {
        set_text(out->error, "the loader is there, but no platform is registered with it");
        return;
    }
    if (status != 0) {
        set_text(out->error, "clGetPlatformIDs returned " + std::to_string(status));
        return;
    }
    std::vector<void *> platforms(platform_count);
    get_platforms(platform_count, platforms.data(), nullptr);

    if (auto *get_info = library.function<GetPlatformInfo>("clGetPlatformInfo")) {
        char version[128] = {};
        if (get_info(platforms[0], platform_version, sizeof(version) - 1, version, nullptr) == 0) {
            set_text(out->version, version);
        }
    }
    if (auto *get_devices = library.function<GetDevices>("clGetDeviceIDs")) {
        for (void *platform : platforms) {
            std::uint32_t count = 0;
            if (get_devices(platform, device_type_all, 0, nullptr, &count) == 0) {
                out->device_count += static_cast<std::int32_t>(count);
            }
        }
    }
    if (out->device_count == 0) set_text(out->error, "no platform offers a device");
}

const pk_driver opencl_driver = {PK_DRIVER_ABI, sizeof(pk_driver), "opencl", "OpenCL loader (libOpenCL)", probe};
PK_REGISTER_DRIVER(opencl_driver);

}  // namespace
