// Code objects and launches.
#include <new>

#include "hip_device.hpp"

namespace portakern::hip {

namespace {

constexpr std::uint32_t most_arguments = 256;

}  // namespace

pk_status load(DeviceState *device, const void *binary, std::size_t bytes, ModuleState **out) {
    // hipModuleLoadData is not told where the image ends: what is no ELF file would be read past its end.
    static constexpr unsigned char magic[] = {0x7F, 'E', 'L', 'F'};
    if (bytes < sizeof(magic) ||
        !std::equal(magic, magic + sizeof(magic), static_cast<const unsigned char *>(binary))) {
        return refused(PK_INVALID, "the binary is no code object: it does not begin as an ELF file does");
    }
    const CurrentDevice current(device);
    Module module = nullptr;
    if (const pk_status status = PK_HIP(device, ModuleLoadData, &module, binary); status != PK_OK) return status;
    *out = new (std::nothrow) ModuleState;
    if (*out == nullptr) return refused(PK_FAILED, "out of memory");
    (*out)->module = module;
    return PK_OK;
}

void unload(DeviceState *device, ModuleState *module) {
    const CurrentDevice current(device);
    device->api.ModuleUnload(module->module);
    delete module;
}

// Dynamic LDS needs no leave on AMD's GPUs: what a block may have is known, and the launch says how much it wants.
pk_status kernel(DeviceState *device, ModuleState *module, const char *name, std::uint32_t, KernelState **out) {
    const CurrentDevice current(device);
    Function function = nullptr;
    if (const pk_status status = PK_HIP(device, ModuleGetFunction, &function, module->module, name); status != PK_OK) {
        return status;
    }
    const std::lock_guard lock(device->mutex);
    module->kernels.push_back({function});
    *out = &module->kernels.back();
    return PK_OK;
}

pk_status launch(DeviceState *device, StreamState *stream, const pk_launch *what) {
    if (what->cluster[0] * what->cluster[1] * what->cluster[2] > 1) {
        return refused(PK_UNSUPPORTED, "AMD's GPUs have no clusters of blocks");
    }
    const bool cooperative = what->attributes == PK_LAUNCH_COOPERATIVE;
    if (what->attributes != 0 && (!cooperative || device->api.ModuleLaunchCooperativeKernel == nullptr)) {
        return refused(PK_UNSUPPORTED, "this HIP runtime cannot launch with these attributes");
    }
    if (what->arg_count > most_arguments) return refused(PK_INVALID, "more arguments than a kernel can have");
    void *values[most_arguments];
    for (std::uint32_t i = 0; i < what->arg_count; ++i) values[i] = const_cast<void *>(what->args[i].value);

    const CurrentDevice current(device);
    const auto &[gx, gy, gz] = what->grid;
    const auto &[bx, by, bz] = what->block;
    Function function = reinterpret_cast<KernelState *>(what->kernel)->function;
    if (cooperative) {
        return PK_HIP(device, ModuleLaunchCooperativeKernel, function, gx, gy, gz, bx, by, bz, what->shared_bytes,
                      stream->stream, values);
    }
    return PK_HIP(device, ModuleLaunchKernel, function, gx, gy, gz, bx, by, bz, what->shared_bytes, stream->stream,
                  values, nullptr);
}

}  // namespace portakern::hip
