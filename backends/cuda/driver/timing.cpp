// What timing needs: events, gates, and what is queued between samples.
#include <atomic>
#include <new>

#include "device.hpp"
#include "helpers.hpp"

namespace portakern::cuda {

namespace {

// Open for the tickets up to the number in the word, which lies in page-locked memory that both sides see. Numbers only
// grow (and wrap), so that a gate is closed again without a race against those who still stand behind it.
struct Gate {
    std::atomic<uint32_t> *word;
    Pointer address;
    std::atomic<uint32_t> ticket;
};
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the device reads the word as it is");

Gate *gate_of(pk_gate_t gate) { return reinterpret_cast<Gate *>(gate); }

constexpr unsigned flush_threads = 512;
constexpr unsigned flush_blocks_per_unit = 8;
constexpr std::size_t flush_vector = 16;  // bytes that a thread reads at once

Event event_of(pk_event_t event) { return reinterpret_cast<Event>(event); }

pk_status launch_helper(Gpu &gpu, Function function, unsigned blocks, unsigned threads, Stream stream, void **args) {
    return gpu.check(gpu.api.launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, args, nullptr), "cuLaunchKernel");
}

}  // namespace

// ---- our own kernels and memory

pk_status Gpu::load_helpers() {
    pk_status status = check(api.module_load_data(&helpers.module, helpers_ptx), "cuModuleLoadData of the timing kernels");
    const struct {
        const char *name;
        Function *place;
    } kernels[] = {{"pk_empty", &helpers.empty}, {"pk_flush", &helpers.flush}, {"pk_gate", &helpers.gate}};
    for (const auto &x : kernels) {
        if (status == PK_OK) status = check(api.module_get_function(x.place, helpers.module, x.name), "cuModuleGetFunction");
        int registers = 0;  // asking loads the code now
        if (status == PK_OK) status = check(api.func_get_attribute(&registers, num_regs, *x.place), "cuFuncGetAttribute");
    }
    return status;
}

pk_status Gpu::prepare_helpers() {
    const std::lock_guard<std::mutex> locked(mutex);
    if (helpers_ready) return PK_OK;
    pk_status status = helpers.gate != nullptr ? PK_OK : load_helpers();
    if (status == PK_OK && flush_bytes > 0) {
        status = check(api.mem_alloc(&helpers.flush_memory, flush_bytes), "cuMemAlloc of the memory that a flush reads");
        if (status == PK_OK) status = check(api.memset_d8_async(helpers.flush_memory, 0, flush_bytes, nullptr), "cuMemsetD8Async");
        if (status == PK_OK) status = check(api.stream_synchronize(nullptr), "cuStreamSynchronize");
    }
    helpers_ready = status == PK_OK;
    return status;
}

// ---- events

pk_status event_create(pk_device_t device, pk_event_t *out) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    return gpu.check(gpu.api.event_create(reinterpret_cast<Event *>(out), 0), "cuEventCreate");
}

void event_destroy(pk_device_t device, pk_event_t event) {
    Gpu &gpu = gpu_of(device);
    if (const CurrentContext current(gpu); current) gpu.api.event_destroy(event_of(event));
}

pk_status event_record(pk_device_t device, pk_stream_t stream, pk_event_t event) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    return gpu.check(gpu.api.event_record(event_of(event), stream_of(stream)), "cuEventRecord");
}

pk_status event_elapsed(pk_device_t device, pk_event_t begin, pk_event_t end, double *nanoseconds) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    float milliseconds = 0;
    const pk_status status = gpu.check(gpu.api.event_elapsed_time(&milliseconds, event_of(begin), event_of(end)), "cuEventElapsedTime");
    *nanoseconds = 1e6 * static_cast<double>(milliseconds);
    return status;
}

// ---- gates

pk_status gate_create(pk_device_t device, pk_gate_t *out) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    if (const pk_status status = gpu.prepare_helpers(); status != PK_OK) return status;
    void *word = nullptr;
    Pointer address = 0;
    pk_status status = gpu.check(gpu.api.mem_host_alloc(&word, sizeof(uint32_t), host_alloc_portable | host_alloc_mapped), "cuMemHostAlloc");
    if (status != PK_OK) return status;
    status = gpu.check(gpu.api.mem_host_get_device_pointer(&address, word, 0), "cuMemHostGetDevicePointer");
    auto *gate = status == PK_OK ? new (std::nothrow) Gate{new (word) std::atomic<uint32_t>(0), address, {0}} : nullptr;
    if (gate == nullptr) {
        gpu.api.mem_free_host(word);
        return status != PK_OK ? status : fail(PK_FAILED, "the host has no memory left");
    }
    *out = reinterpret_cast<pk_gate_t>(gate);
    return PK_OK;
}

void gate_destroy(pk_device_t device, pk_gate_t gate) {
    Gpu &gpu = gpu_of(device);
    if (const CurrentContext current(gpu); current) gpu.api.mem_free_host(gate_of(gate)->word);
    delete gate_of(gate);
}

pk_status gate_close(pk_device_t device, pk_stream_t stream, pk_gate_t closed) {
    Gpu &gpu = gpu_of(device);
    Gate *gate = gate_of(closed);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    uint32_t ticket = gate->ticket.fetch_add(1) + 1;
    const Stream handle = stream_of(stream);
    if (gpu.api.stream_wait_value_32 != nullptr) {
        const Result result = gpu.api.stream_wait_value_32(handle, gate->address, ticket, stream_wait_geq);
        if (result != not_supported) return gpu.check(result, "cuStreamWaitValue32");
    }
    void *args[] = {&gate->address, &ticket};
    return launch_helper(gpu, gpu.helpers.gate, 1, 1, handle, args);
}

pk_status gate_open(pk_device_t, pk_gate_t gate) {
    gate_of(gate)->word->store(gate_of(gate)->ticket.load());
    return PK_OK;
}

// ---- between samples

// Reading leaves no line to be written back, and what was dirty before is evicted by what is read.
pk_status flush(pk_device_t device, pk_stream_t stream) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    if (const pk_status status = gpu.prepare_helpers(); status != PK_OK) return status;
    if (gpu.flush_bytes == 0) return fail(PK_UNSUPPORTED, "the driver does not say how large the level-2 cache is");
    uint64_t vectors = gpu.flush_bytes / flush_vector;
    void *args[] = {&gpu.helpers.flush_memory, &vectors};
    return launch_helper(gpu, gpu.helpers.flush, static_cast<unsigned>(gpu.units) * flush_blocks_per_unit, flush_threads, stream_of(stream), args);
}

pk_status reset_persisting(pk_device_t device) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    return gpu.check(gpu.api.ctx_reset_persisting_l2_cache(), "cuCtxResetPersistingL2Cache");
}

pk_status launch_empty(pk_device_t device, pk_stream_t stream) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    if (const pk_status status = gpu.prepare_helpers(); status != PK_OK) return status;
    return launch_helper(gpu, gpu.helpers.empty, 1, 32, stream_of(stream), nullptr);
}

}  // namespace portakern::cuda
