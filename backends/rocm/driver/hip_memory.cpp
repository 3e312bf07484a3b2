#include <algorithm>

#include "hip_device.hpp"

namespace portakern::hip {

namespace {

void *address(pk_pointer pointer) { return reinterpret_cast<void *>(pointer); }

}  // namespace

pk_status allocate(DeviceState *device, std::size_t bytes, pk_pointer *out) {
    const CurrentDevice current(device);
    void *made = nullptr;
    const pk_status status = PK_HIP(device, Malloc, &made, std::max<std::size_t>(bytes, 1));
    *out = reinterpret_cast<pk_pointer>(made);
    return status;
}

pk_status free(DeviceState *device, pk_pointer pointer) {
    const CurrentDevice current(device);
    return PK_HIP(device, Free, address(pointer));
}

pk_status copy_in(DeviceState *device, pk_pointer to, const void *from, std::size_t bytes) {
    if (bytes == 0) return PK_OK;
    const CurrentDevice current(device);
    return PK_HIP(device, Memcpy, address(to), from, bytes, to_device);
}

pk_status copy_out(DeviceState *device, void *to, pk_pointer from, std::size_t bytes) {
    if (bytes == 0) return PK_OK;
    const CurrentDevice current(device);
    return PK_HIP(device, Memcpy, to, address(from), bytes, to_host);
}

pk_status copy(DeviceState *device, StreamState *stream, pk_pointer to, pk_pointer from, std::size_t bytes) {
    if (bytes == 0) return PK_OK;
    const CurrentDevice current(device);
    return PK_HIP(device, MemcpyAsync, address(to), address(from), bytes, on_device, stream->stream);
}

pk_status fill(DeviceState *device, StreamState *stream, pk_pointer to, std::uint8_t value, std::size_t bytes) {
    if (bytes == 0) return PK_OK;
    const CurrentDevice current(device);
    return PK_HIP(device, MemsetAsync, address(to), value, bytes, stream->stream);
}

}  // namespace portakern::hip
