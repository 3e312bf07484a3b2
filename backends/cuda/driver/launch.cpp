// Loading kernels and launching them.
#include <memory>
#include <new>

#include "cubin.hpp"
#include "launch.hpp"

namespace portakern::cuda {

namespace {

struct LoadedModule {
    Module handle = nullptr;
    std::map<std::string, std::vector<std::size_t>> parameters;  // of a cubin's kernels
    std::vector<std::unique_ptr<Kernel>> kernels;
};

LoadedModule *module_of(pk_module_t module) { return reinterpret_cast<LoadedModule *>(module); }

constexpr std::size_t portable_cluster = 8;

// Since CUDA 12 the driver loads a kernel's code at its first launch, which waits for the device: for ever if a stream
// stands behind a gate.
pk_status load_now(Gpu &gpu, Function function) {
    if (gpu.api.func_load != nullptr) return gpu.check(gpu.api.func_load(function), "cuFuncLoad");
    int registers = 0;
    return gpu.check(gpu.api.func_get_attribute(&registers, num_regs, function), "cuFuncGetAttribute");
}

// For what is no cubin (PTX), which only the driver has compiled.
void ask_for_parameters(const Gpu &gpu, Kernel &kernel) {
    if (gpu.api.func_get_param_info == nullptr) return;
    std::size_t offset = 0, size = 0;
    Result result = success;
    while ((result = gpu.api.func_get_param_info(kernel.function, kernel.sizes.size(), &offset, &size)) == success) {
        kernel.sizes.push_back(size);
    }
    kernel.sizes_known = result == invalid_value;  // what it answers behind the last one
}

pk_status set_up(Gpu &gpu, Kernel &kernel, uint32_t shared_bytes) {
    pk_status status = load_now(gpu, kernel.function);
    if (status == PK_OK && shared_bytes > 0) {
        status = gpu.check(gpu.api.func_set_attribute(kernel.function, max_dynamic_shared_size_bytes, static_cast<int>(shared_bytes)),
                           "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)");
    }
    if (status == PK_OK && !kernel.sizes_known) ask_for_parameters(gpu, kernel);
    return status;
}

bool arguments_fit(const Kernel &kernel, const pk_launch &launch) {
    if (!kernel.sizes_known) return true;
    if (kernel.sizes.size() != launch.arg_count) return false;
    for (uint32_t i = 0; i < launch.arg_count; ++i) {
        if (kernel.sizes[i] != launch.args[i].size) return false;
    }
    return true;
}

std::size_t cluster_of(const pk_launch &x) { return std::size_t{x.cluster[0]} * x.cluster[1] * x.cluster[2]; }

std::string mismatch(const Kernel &kernel, const pk_launch &launch) {
    std::string text = "the kernel's parameters have (";
    for (std::size_t i = 0; i < kernel.sizes.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(kernel.sizes[i]);
    text += ") bytes, the arguments given have (";
    for (uint32_t i = 0; i < launch.arg_count; ++i) text += (i > 0 ? ", " : "") + std::to_string(launch.args[i].size);
    return text + ")";
}

// Attributes of the launch; returns how many.
unsigned attributes_of(const pk_launch &x, LaunchAttribute *out) {
    unsigned count = 0;
    if (cluster_of(x) > 1) {
        out[count].id = attribute_cluster_dimension;
        for (int i = 0; i < 3; ++i) out[count].value.cluster[i] = x.cluster[i];
        ++count;
    }
    if ((x.attributes & PK_LAUNCH_COOPERATIVE) != 0) {
        out[count].id = attribute_cooperative;
        out[count++].value.flag = 1;
    }
    if ((x.attributes & PK_LAUNCH_OVERLAP_PREVIOUS) != 0) {
        out[count].id = attribute_programmatic_stream_serialization;
        out[count++].value.flag = 1;
    }
    return count;
}

// Also where there are no attributes: it is a little quicker than cuLaunchKernel (2.95 against 3.08 us on the host of an
// H200, driver 580).
pk_status launch_extended(Gpu &gpu, const Kernel &kernel, Stream stream, const pk_launch &x, void **args) {
    LaunchAttribute attributes[3];
    unsigned count = 0;
    if (x.attributes != 0 || cluster_of(x) > 1) count = attributes_of(x, attributes);
    if (cluster_of(x) > portable_cluster) {
        const Result result = gpu.api.func_set_attribute(kernel.function, non_portable_cluster_size_allowed, 1);
        if (result != success) return fail(gpu, result, "cuFuncSetAttribute(NON_PORTABLE_CLUSTER_SIZE_ALLOWED)");
    }
    const LaunchConfig config = {{x.grid[0], x.grid[1], x.grid[2]}, {x.block[0], x.block[1], x.block[2]}, x.shared_bytes, stream,
                                 attributes, count};
    return gpu.check(gpu.api.launch_kernel_ex(&config, kernel.function, args, nullptr), "cuLaunchKernelEx");
}

pk_status launch_plain(Gpu &gpu, const Kernel &kernel, Stream stream, const pk_launch &x, void **args) {
    if (x.attributes != 0 || cluster_of(x) > 1) {
        return fail(PK_UNSUPPORTED, "clusters and launch attributes need a driver of CUDA 11.6 or newer");
    }
    return gpu.check(gpu.api.launch_kernel(kernel.function, x.grid[0], x.grid[1], x.grid[2], x.block[0], x.block[1], x.block[2],
                                           x.shared_bytes, stream, args, nullptr),
                     "cuLaunchKernel");
}

}  // namespace

pk_status check_arguments(const pk_launch &launch) {
    const Kernel &kernel = kernel_of(launch.kernel);
    return arguments_fit(kernel, launch) ? PK_OK : fail(PK_INVALID, mismatch(kernel, launch));
}

pk_status load(pk_device_t device, const void *binary, size_t bytes, pk_module_t *out) try {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    if (bytes == 0) return fail(PK_INVALID, "the binary is empty");
    auto module = std::make_unique<LoadedModule>();
    // PTX is text that ends with a zero byte, which the caller's may lack; a cubin knows its own length.
    const std::string image(static_cast<const char *>(binary), bytes);
    const pk_status status = gpu.check(gpu.api.module_load_data(&module->handle, image.c_str()), "cuModuleLoadData");
    if (status != PK_OK) return status;
    module->parameters = parameter_sizes(image);
    *out = reinterpret_cast<pk_module_t>(module.release());
    return PK_OK;
} catch (const std::bad_alloc &) {
    return fail(PK_FAILED, "the host has no memory left");
}

void unload(pk_device_t device, pk_module_t module) {
    Gpu &gpu = gpu_of(device);
    if (const CurrentContext current(gpu); current) gpu.api.module_unload(module_of(module)->handle);
    delete module_of(module);
}

pk_status kernel(pk_device_t device, pk_module_t module, const char *name, uint32_t shared_bytes, pk_kernel_t *out) try {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    auto made = std::make_unique<Kernel>();
    pk_status status = gpu.check(gpu.api.module_get_function(&made->function, module_of(module)->handle, name), "cuModuleGetFunction");
    const auto &parameters = module_of(module)->parameters;
    if (const auto told = parameters.find(name); told != parameters.end()) {
        made->sizes = told->second;
        made->sizes_known = true;
    }
    if (status == PK_OK) status = set_up(gpu, *made, shared_bytes);
    if (status != PK_OK) return status;
    const std::lock_guard<std::mutex> locked(gpu.mutex);
    auto &kernels = module_of(module)->kernels;
    kernels.push_back(std::move(made));
    *out = reinterpret_cast<pk_kernel_t>(kernels.back().get());
    return PK_OK;
} catch (const std::bad_alloc &) {
    return fail(PK_FAILED, "the host has no memory left");
}

pk_status launch(pk_device_t device, pk_stream_t stream, const pk_launch *launch) try {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    if (const pk_status status = check_arguments(*launch); status != PK_OK) return status;
    if ((launch->attributes & ~(PK_LAUNCH_COOPERATIVE | PK_LAUNCH_OVERLAP_PREVIOUS)) != 0) {
        return fail(PK_UNSUPPORTED, "an attribute of the launch is not known here");
    }
    Arguments args(*launch);
    const auto how = gpu.api.launch_kernel_ex != nullptr ? launch_extended : launch_plain;
    return how(gpu, kernel_of(launch->kernel), stream_of(stream), *launch, args.data());
} catch (const std::bad_alloc &) {
    return fail(PK_FAILED, "the host has no memory left");
}

}  // namespace portakern::cuda
