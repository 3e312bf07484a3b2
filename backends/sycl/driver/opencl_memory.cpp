// Memory of the device: shared virtual memory, whose addresses are the host's.
#include <algorithm>

#include "opencl_device.hpp"

namespace portakern::opencl {

namespace {

void *address(pk_pointer pointer) { return reinterpret_cast<void *>(pointer); }

pk_status copied(DeviceState *device, StreamState *stream, void *to, const void *from, std::size_t bytes, bool wait) {
    if (bytes == 0) return PK_OK;
    if (wait && stream->gate != nullptr) {
        return refused(PK_INVALID, "a copy that waits was asked for behind a closed gate: it would never end");
    }
    return enqueue(device, stream, "clEnqueueSVMMemcpy", [&](cl_uint count, const Event *events, Event *made) {
        return device->api.EnqueueSVMMemcpy(stream->queue, wait ? 1 : 0, to, from, bytes, count, events, made);
    });
}

}  // namespace

pk_status allocate(DeviceState *device, std::size_t bytes, pk_pointer *out) {
    constexpr cl_uint alignment = 128;  // of OpenCL's widest vectors
    void *made = device->api.SVMAlloc(device->context, mem_read_write, std::max<std::size_t>(bytes, 1), alignment);
    if (made == nullptr) return refused(PK_FAILED, "clSVMAlloc gives no " + std::to_string(bytes) + " bytes");
    *out = reinterpret_cast<pk_pointer>(made);
    return PK_OK;
}

pk_status free(DeviceState *device, pk_pointer pointer) {
    if (pointer == 0) return PK_OK;
    // Unlike other drivers' functions clSVMFree does not wait for the kernels that use the memory.
    const pk_status status = synchronize(device, nullptr, -1);
    device->api.SVMFree(device->context, address(pointer));
    return status;
}

pk_status copy_in(DeviceState *device, pk_pointer to, const void *from, std::size_t bytes) {
    return copied(device, device->first, address(to), from, bytes, true);
}

pk_status copy_out(DeviceState *device, void *to, pk_pointer from, std::size_t bytes) {
    return copied(device, device->first, to, address(from), bytes, true);
}

pk_status copy(DeviceState *device, StreamState *stream, pk_pointer to, pk_pointer from, std::size_t bytes) {
    return copied(device, stream, address(to), address(from), bytes, false);
}

pk_status fill(DeviceState *device, StreamState *stream, pk_pointer to, std::uint8_t value, std::size_t bytes) {
    if (bytes == 0) return PK_OK;
    return enqueue(device, stream, "clEnqueueSVMMemFill", [&](cl_uint count, const Event *events, Event *made) {
        return device->api.EnqueueSVMMemFill(stream->queue, address(to), &value, 1, bytes, count, events, made);
    });
}

}  // namespace portakern::opencl
