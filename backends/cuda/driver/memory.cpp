// Device memory and copies.
#include "device.hpp"

namespace portakern::cuda {

pk_status allocate(pk_device_t device, size_t bytes, pk_pointer *out) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    return gpu.check(gpu.api.mem_alloc(out, bytes > 0 ? bytes : 1), "cuMemAlloc");
}

pk_status free(pk_device_t device, pk_pointer pointer) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    return gpu.check(gpu.api.mem_free(pointer), "cuMemFree");
}

pk_status copy_in(pk_device_t device, pk_pointer to, const void *from, size_t bytes) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    if (bytes == 0) return PK_OK;
    const pk_status status = gpu.check(gpu.api.memcpy_htod(to, from, bytes), "cuMemcpyHtoD");
    if (status != PK_OK) return status;
    // It returns once the host's pages are staged; the copy itself may still be under way.
    return gpu.check(gpu.api.stream_synchronize(nullptr), "cuStreamSynchronize");
}

pk_status copy_out(pk_device_t device, void *to, pk_pointer from, size_t bytes) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    if (bytes == 0) return PK_OK;
    return gpu.check(gpu.api.memcpy_dtoh(to, from, bytes), "cuMemcpyDtoH");
}

pk_status copy(pk_device_t device, pk_stream_t stream, pk_pointer to, pk_pointer from, size_t bytes) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    if (bytes == 0) return PK_OK;
    return gpu.check(gpu.api.memcpy_dtod_async(to, from, bytes, stream_of(stream)), "cuMemcpyDtoDAsync");
}

pk_status fill(pk_device_t device, pk_stream_t stream, pk_pointer to, uint8_t value, size_t bytes) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    if (bytes == 0) return PK_OK;
    return gpu.check(gpu.api.memset_d8_async(to, value, bytes, stream_of(stream)), "cuMemsetD8Async");
}

}  // namespace portakern::cuda
