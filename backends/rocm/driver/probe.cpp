// Finds AMD's HIP runtime. Signatures follow the HIP runtime API reference; hip_runtime.h is not needed.
#include <string>

#include "drivers/library.hpp"
#include "drivers/registry.hpp"

namespace {

using portakern::Library;
using portakern::set_text;

// HIP_VERSION is major * 10^7 + minor * 10^5 + patch.
std::string version_text(int version) {
    return std::to_string(version / 10'000'000) + "." + std::to_string(version / 100'000 % 100) + "." +
           std::to_string(version % 100'000);
}

void probe(const char *path, pk_probe *out) {
    const Library library(path, {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                 "amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"});
    if (!portakern::open_for_probe(library, "hipGetDeviceCount", out)) return;

    if (auto *get_version = library.function<int(int *)>("hipRuntimeGetVersion")) {
        int version = 0;
        if (get_version(&version) == 0) set_text(out->version, version_text(version));
    }
    int count = 0;
    const int status = library.function<int(int *)>("hipGetDeviceCount")(&count);
    if (status != 0) {
        set_text(out->error, "hipGetDeviceCount returned " + std::to_string(status));
        return;
    }
    out->device_count = count;
}

const pk_driver hip_driver = {PK_DRIVER_ABI, sizeof(pk_driver), "hip", "AMD HIP runtime (libamdhip64)", probe};
PK_REGISTER_DRIVER(hip_driver);

}  // namespace
