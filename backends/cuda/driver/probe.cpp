// Finds the NVIDIA driver. Signatures follow the CUDA Driver API reference; cuda.h is not needed.
#include <string>

#include "drivers/library.hpp"
#include "drivers/registry.hpp"

namespace {

using portakern::Library;
using portakern::set_text;

// The driver writes version 13.0 as 13000.
std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void probe(const char *path, pk_probe *out) {
    const Library library(path, {"libcuda.so.1", "nvcuda.dll"});
    if (!portakern::open_for_probe(library, "cuInit", out)) return;

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

const pk_driver cuda_driver = {PK_DRIVER_ABI, sizeof(pk_driver), "cuda", "NVIDIA CUDA driver (libcuda)", probe};
PK_REGISTER_DRIVER(cuda_driver);

}  // namespace
