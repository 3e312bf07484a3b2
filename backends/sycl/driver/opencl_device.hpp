// What the handles of the OpenCL table point at.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../shim/finisher.hpp"
#include "opencl_api.hpp"

namespace portakern::opencl {

struct StreamState;

// The closed gate is a user event, which the next command of the stream waits for; a stream is in order, so everything
// after that command waits, too.
struct GateState {
    using Handle = pk_gate_t;
    Event event = nullptr;  // while closed
    StreamState *stream = nullptr;
};

struct KernelState {
    using Handle = pk_kernel_t;
    Kernel kernel = nullptr;
    std::mutex setting;  // arguments belong to the kernel object until it is enqueued
};

struct ModuleState {
    using Handle = pk_module_t;
    Program program = nullptr;
    std::list<KernelState> kernels;
};

// OpenCL's markers may be reported as ended before what they follow, so no marker is ever enqueued: an event is a place
// between two commands, and its time is taken from their own profiles. As the beginning of a span it is the START of
// the next command after the record, as the end of one it is the END of the last command before it.
struct EventState {
    using Handle = pk_event_t;
    StreamState *stream = nullptr;
    std::uint64_t place = 0;  // how many commands the stream had seen
    Event before = nullptr, after = nullptr;
};

struct StreamState {
    using Handle = pk_stream_t;
    Queue queue = nullptr;
    bool foreign = false;  // others may enqueue on it, too
    std::uint64_t commands = 0;
    Event last = nullptr;
    std::vector<EventState *> waiting;  // events whose next command has not come yet
    Event wait_for = nullptr;           // a gate's, for the next command
    GateState *gate = nullptr;          // closed on this stream
};

struct DeviceState {
    using Handle = pk_device_t;
    explicit DeviceState(const char *path) : api(path) {}

    Api api;
    Platform platform = nullptr;
    DeviceId id = nullptr;
    Context context = nullptr;
    std::int32_t ordinal = 0;
    std::string description;  // of the device and its driver, as binaries for it begin
    bool is_cpu = false;
    std::int64_t cache_bytes = 0;

    std::recursive_mutex mutex;  // of the streams, events and gates
    std::list<StreamState> streams;
    StreamState *first = nullptr;  // the default stream
    std::unique_ptr<Finisher> finisher;

    // For `flush` and `launch_empty`, made at the first use of either.
    Program own = nullptr;
    Kernel read = nullptr, empty = nullptr, wake = nullptr;
    void *swept = nullptr;
    std::int64_t swept_bytes = 0;
};

// opencl_device.cpp
void probe(const char *path, pk_probe *out);
pk_status open(const char *path, std::int32_t ordinal, DeviceState **out);
void close(DeviceState *device);
pk_status facts(DeviceState *device, pk_facts *out);

// opencl_stream.cpp
pk_status stream_create(DeviceState *device, StreamState **out);
pk_status stream_wrap(DeviceState *device, std::uint64_t native, StreamState **out);
std::uint64_t stream_native(DeviceState *device, StreamState *stream);
void stream_destroy(DeviceState *device, StreamState *stream);
pk_status synchronize(DeviceState *device, StreamState *stream, std::int64_t timeout_ns);
pk_status event_create(DeviceState *device, EventState **out);
void event_destroy(DeviceState *device, EventState *event);
pk_status event_record(DeviceState *device, StreamState *stream, EventState *event);
pk_status event_elapsed(DeviceState *device, EventState *begin, EventState *end, double *nanoseconds);
pk_status gate_create(DeviceState *device, GateState **out);
void gate_destroy(DeviceState *device, GateState *gate);
pk_status gate_close(DeviceState *device, StreamState *stream, GateState *gate);
pk_status gate_open(DeviceState *device, GateState *gate);

// What is remembered of a command that was just enqueued; takes over its event.
void after_command(DeviceState *device, StreamState *stream, Event made);

// Enqueues one command: `call(count, wait_list, event)` hands its arguments to clEnqueue... Every command goes through
// here, so that events know their neighbours and gates hold.
template <typename Enqueue>
pk_status enqueue(DeviceState *device, StreamState *stream, const char *function, Enqueue call) {
    const std::lock_guard lock(device->mutex);
    Event made = nullptr;
    const cl_int status = call(stream->wait_for != nullptr ? cl_uint{1} : cl_uint{0},
                               stream->wait_for != nullptr ? &stream->wait_for : nullptr, &made);
    if (status != complete) return failed(function, status);
    after_command(device, stream, made);
    return PK_OK;
}

// opencl_memory.cpp
pk_status allocate(DeviceState *device, std::size_t bytes, pk_pointer *out);
pk_status free(DeviceState *device, pk_pointer pointer);
pk_status copy_in(DeviceState *device, pk_pointer to, const void *from, std::size_t bytes);
pk_status copy_out(DeviceState *device, void *to, pk_pointer from, std::size_t bytes);
pk_status copy(DeviceState *device, StreamState *stream, pk_pointer to, pk_pointer from, std::size_t bytes);
pk_status fill(DeviceState *device, StreamState *stream, pk_pointer to, std::uint8_t value, std::size_t bytes);

// opencl_kernel.cpp
pk_status load(DeviceState *device, const void *binary, std::size_t bytes, ModuleState **out);
void unload(DeviceState *device, ModuleState *module);
pk_status kernel(DeviceState *device, ModuleState *module, const char *name, std::uint32_t shared_bytes,
                 KernelState **out);
pk_status launch(DeviceState *device, StreamState *stream, const pk_launch *what);
pk_status prepare_flush(DeviceState *device);  // compiles and allocates; flush does it otherwise
pk_status flush(DeviceState *device, StreamState *stream);
pk_status launch_empty(DeviceState *device, StreamState *stream);
pk_status launch_wake(DeviceState *device, StreamState *stream);
void release_own(DeviceState *device);

}  // namespace portakern::opencl
