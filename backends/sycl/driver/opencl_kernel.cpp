// Programs and kernels, the ones of this driver included.
#include <cstring>
#include <new>

#include "../shim/own_kernels.hpp"
#include "opencl_device.hpp"

namespace portakern::opencl {

namespace {

// A binary may begin with the device it was built for: drivers take binaries of another version or CPU for theirs.
constexpr char heading[] = "portakern opencl program\n";
constexpr std::size_t heading_size = sizeof(heading) - 1;

// Takes off the heading; false, with the error kept, for another device's binary.
bool behead(DeviceState *device, const unsigned char **binary, std::size_t *bytes) {
    if (*bytes < heading_size || std::memcmp(*binary, heading, heading_size) != 0) return true;
    const unsigned char *begin = *binary + heading_size;
    const auto *end = static_cast<const unsigned char *>(std::memchr(begin, '\n', *bytes - heading_size));
    const std::string built_for(begin, end != nullptr ? end : begin);
    if (end == nullptr || built_for != device->description) {
        refused(PK_INVALID, "the program was built for " + built_for + "; this device is " + device->description);
        return false;
    }
    *bytes -= static_cast<std::size_t>(end + 1 - *binary);
    *binary = end + 1;
    return true;
}

// Builds a program that was created; releases it if that fails.
pk_status built(DeviceState *device, Program program) {
    const cl_int status = device->api.BuildProgram(program, 1, &device->id, "", nullptr, nullptr);
    if (status == complete) return PK_OK;
    std::string log(200, '\0');
    device->api.GetProgramBuildInfo(program, device->id, program_build_log, log.size() - 1, log.data(), nullptr);
    device->api.ReleaseProgram(program);
    return failed("clBuildProgram", status, log.c_str());
}

// ---- what the driver launches itself

pk_status prepare_own(DeviceState *device) {
    const std::lock_guard lock(device->mutex);
    if (device->own != nullptr) return PK_OK;
    const Api &api = device->api;
    const char *text = own_kernels;
    cl_int status = complete;
    Program program = api.CreateProgramWithSource(device->context, 1, &text, nullptr, &status);
    if (status != complete) return failed("clCreateProgramWithSource", status);
    if (const pk_status made = built(device, program); made != PK_OK) return made;
    device->read = api.CreateKernel(program, "pk_read", &status);
    if (status == complete) device->empty = api.CreateKernel(program, "pk_empty", &status);
    if (status == complete) device->wake = api.CreateKernel(program, "pk_wake", &status);
    if (status != complete) {
        api.ReleaseProgram(program);
        return failed("clCreateKernel", status);
    }
    device->own = program;
    return PK_OK;
}

// The memory that `flush` reads, written once: pages that never were share one page of zeros.
pk_status prepare_swept(DeviceState *device, StreamState *stream) {
    const std::lock_guard lock(device->mutex);
    if (device->swept != nullptr) return PK_OK;
    const std::size_t wanted = static_cast<std::size_t>(2 * device->cache_bytes);
    const std::size_t bytes = whole_groups(wanted) * bytes_per_group;
    pk_pointer made = 0;
    if (const pk_status status = allocate(device, bytes, &made); status != PK_OK) return status;
    device->swept = reinterpret_cast<void *>(made);
    device->swept_bytes = static_cast<std::int64_t>(bytes);
    return fill(device, stream, made, 0x5A, bytes);
}

pk_status run(DeviceState *device, StreamState *stream, Kernel kernel, const std::size_t (&groups)[3],
              const std::size_t (&block)[3]) {
    const std::size_t work[3] = {groups[0] * block[0], groups[1] * block[1], groups[2] * block[2]};
    return enqueue(device, stream, "clEnqueueNDRangeKernel", [&](cl_uint count, const Event *events, Event *made) {
        return device->api.EnqueueNDRangeKernel(stream->queue, kernel, 3, nullptr, work, block, count, events, made);
    });
}

cl_int set(const Api &api, Kernel kernel, cl_uint index, const pk_arg &arg) {
    if (arg.kind != PK_ARG_POINTER) return api.SetKernelArg(kernel, index, arg.size, arg.value);
    void *pointer = nullptr;
    std::memcpy(&pointer, arg.value, sizeof(pointer));
    if (pointer == nullptr) return api.SetKernelArg(kernel, index, sizeof(pointer), nullptr);  // of an empty array
    return api.SetKernelArgSVMPointer(kernel, index, pointer);
}

}  // namespace

pk_status load(DeviceState *device, const void *binary, std::size_t bytes, ModuleState **out) {
    auto *begin = static_cast<const unsigned char *>(binary);
    if (!behead(device, &begin, &bytes)) return PK_INVALID;
    if (bytes == 0) return refused(PK_INVALID, "the binary is empty");
    cl_int of_binary = complete, status = complete;
    Program program =
        device->api.CreateProgramWithBinary(device->context, 1, &device->id, &bytes, &begin, &of_binary, &status);
    if (status != complete) return failed("clCreateProgramWithBinary", status);
    if (const pk_status made = built(device, program); made != PK_OK) return made;
    *out = new (std::nothrow) ModuleState;
    if (*out == nullptr) return refused(PK_FAILED, "out of memory");
    (*out)->program = program;
    return PK_OK;
}

void unload(DeviceState *device, ModuleState *module) {
    for (KernelState &kernel : module->kernels) device->api.ReleaseKernel(kernel.kernel);
    device->api.ReleaseProgram(module->program);
    delete module;
}

pk_status kernel(DeviceState *device, ModuleState *module, const char *name, std::uint32_t shared_bytes,
                 KernelState **out) {
    if (shared_bytes != 0) return refused(PK_UNSUPPORTED, "local memory of an OpenCL kernel is declared in it");
    cl_int status = complete;
    Kernel made = device->api.CreateKernel(module->program, name, &status);
    if (status != complete) return failed("clCreateKernel", status, name);
    const std::lock_guard lock(device->mutex);
    module->kernels.emplace_back();
    module->kernels.back().kernel = made;
    *out = &module->kernels.back();
    return PK_OK;
}

pk_status launch(DeviceState *device, StreamState *stream, const pk_launch *what) {
    if (what->attributes != 0 || what->shared_bytes != 0 ||
        what->cluster[0] * what->cluster[1] * what->cluster[2] > 1) {
        return refused(PK_UNSUPPORTED, "OpenCL has no clusters, launch attributes or dynamic local memory");
    }
    auto *kernel = reinterpret_cast<KernelState *>(what->kernel);
    const std::lock_guard lock(kernel->setting);
    for (cl_uint i = 0; i < what->arg_count; ++i) {
        const cl_int status = set(device->api, kernel->kernel, i, what->args[i]);
        if (status != complete) return failed("clSetKernelArg", status, "argument " + std::to_string(i));
    }
    return run(device, stream, kernel->kernel, {what->grid[0], what->grid[1], what->grid[2]},
               {what->block[0], what->block[1], what->block[2]});
}

pk_status prepare_flush(DeviceState *device) {
    if (device->cache_bytes == 0) return refused(PK_UNSUPPORTED, "the size of the device's cache is not known");
    const pk_status status = prepare_own(device);
    return status == PK_OK ? prepare_swept(device, device->first) : status;
}

pk_status flush(DeviceState *device, StreamState *stream) {
    if (const pk_status status = prepare_flush(device); status != PK_OK) return status;
    const std::lock_guard lock(device->mutex);
    const Api &api = device->api;
    api.SetKernelArgSVMPointer(device->read, 0, device->swept);
    api.SetKernelArg(device->read, 1, sizeof(lines_per_group), &lines_per_group);
    api.SetKernelArgSVMPointer(device->read, 2, device->swept);
    const std::size_t groups = static_cast<std::size_t>(device->swept_bytes) / bytes_per_group;
    if (const pk_status status = run(device, stream, device->read, {groups, 1, 1}, {1, 1, 1}); status != PK_OK)
        return status;
    // A CPU device's runtime went out of the caches, too, and how it starts a kernel is not what is asked for.
    return device->is_cpu ? launch_empty(device, stream) : PK_OK;
}

pk_status launch_empty(DeviceState *device, StreamState *stream) {
    if (const pk_status status = prepare_own(device); status != PK_OK) return status;
    return run(device, stream, device->empty, {1, 1, 1}, {1, 1, 1});
}

pk_status launch_wake(DeviceState *device, StreamState *stream) {
    if (const pk_status status = prepare_own(device); status != PK_OK) return status;
    const std::lock_guard lock(device->mutex);
    device->api.SetKernelArg(device->wake, 0, sizeof(wake_turns), &wake_turns);
    device->api.SetKernelArg(device->wake, 1, sizeof(void *), nullptr);
    const auto units = device->api.figure<cl_uint>(device->id, device_max_compute_units);
    return run(device, stream, device->wake, {std::size_t{units} * wake_groups_per_unit, 1, 1}, {1, 1, 1});
}

void release_own(DeviceState *device) {
    if (device->own != nullptr) {
        device->api.ReleaseKernel(device->read);
        device->api.ReleaseKernel(device->empty);
        device->api.ReleaseKernel(device->wake);
        device->api.ReleaseProgram(device->own);
    }
    if (device->swept != nullptr) device->api.SVMFree(device->context, device->swept);
}

}  // namespace portakern::opencl
