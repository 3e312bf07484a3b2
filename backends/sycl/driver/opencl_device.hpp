// What the handles of the OpenCL table point at.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "opencl_api.hpp"
#include "opencl_finisher.hpp"

// The closed gate is a user event, which the next command of the stream waits for; a stream is in order, so everything
// after that command waits, too.
struct pk_gate {
    portakern::opencl::Event event = nullptr;  // while closed
    pk_stream *stream = nullptr;
};

struct pk_module {
    portakern::opencl::Program program = nullptr;
    std::list<pk_kernel> kernels;
};

struct pk_kernel {
    portakern::opencl::Kernel kernel = nullptr;
    std::mutex setting;  // arguments belong to the kernel object until it is enqueued
};

// OpenCL's markers may be reported as ended before what they follow, so no marker is ever enqueued: an event is a place
// between two commands, and its time is taken from their own profiles. As the beginning of a span it is the START of the
// next command after the record, as the end of one it is the END of the last command before it.
struct pk_event {
    pk_stream *stream = nullptr;
    std::uint64_t place = 0;  // how many commands the stream had seen
    portakern::opencl::Event before = nullptr, after = nullptr;
};

struct pk_stream {
    portakern::opencl::Queue queue = nullptr;
    std::uint64_t commands = 0;
    portakern::opencl::Event last = nullptr;
    std::vector<pk_event *> waiting;  // events whose next command has not come yet
    portakern::opencl::Event wait_for = nullptr;  // a gate's, for the next command
    pk_gate *gate = nullptr;                      // closed on this stream
};

struct pk_device {
    explicit pk_device(const char *path) : api(path) {}

    portakern::opencl::Api api;
    portakern::opencl::Platform platform = nullptr;
    portakern::opencl::DeviceId id = nullptr;
    portakern::opencl::Context context = nullptr;
    std::int32_t ordinal = 0;
    std::string description;  // of the device and its driver, as binaries for it begin
    std::int64_t cache_bytes = 0;

    std::recursive_mutex mutex;  // of the streams, events and gates
    std::list<pk_stream> streams;
    pk_stream *first = nullptr;  // the default stream
    std::unique_ptr<portakern::opencl::Finisher> finisher;

    // For `flush` and `launch_empty`, made at the first use of either.
    portakern::opencl::Program own = nullptr;
    portakern::opencl::Kernel read = nullptr, empty = nullptr;
    void *swept = nullptr;
    std::int64_t swept_bytes = 0;
};

namespace portakern::opencl {

// opencl_device.cpp
void probe(const char *path, pk_probe *out);
pk_status open(const char *path, std::int32_t ordinal, pk_device_t *out);
void close(pk_device_t device);
pk_status facts(pk_device_t device, pk_facts *out);

// opencl_stream.cpp
pk_status stream_create(pk_device_t device, pk_stream_t *out);
pk_status stream_wrap(pk_device_t device, std::uint64_t native, pk_stream_t *out);
std::uint64_t stream_native(pk_device_t device, pk_stream_t stream);
void stream_destroy(pk_device_t device, pk_stream_t stream);
pk_status synchronize(pk_device_t device, pk_stream_t stream, std::int64_t timeout_ns);
pk_status event_create(pk_device_t device, pk_event_t *out);
void event_destroy(pk_device_t device, pk_event_t event);
pk_status event_record(pk_device_t device, pk_stream_t stream, pk_event_t event);
pk_status event_elapsed(pk_device_t device, pk_event_t begin, pk_event_t end, double *nanoseconds);
pk_status gate_create(pk_device_t device, pk_gate_t *out);
void gate_destroy(pk_device_t device, pk_gate_t gate);
pk_status gate_close(pk_device_t device, pk_stream_t stream, pk_gate_t gate);
pk_status gate_open(pk_device_t device, pk_gate_t gate);

// What is remembered of a command that was just enqueued; takes over its event.
void after_command(pk_device_t device, pk_stream_t stream, Event made);

// Enqueues one command: `call(count, wait_list, event)` hands its arguments to clEnqueue... Every command goes through
// here, so that events know their neighbours and gates hold.
template <typename Enqueue>
pk_status enqueue(pk_device_t device, pk_stream_t stream, const char *function, Enqueue call) {
    const std::lock_guard lock(device->mutex);
    Event made = nullptr;
    const cl_int status = call(stream->wait_for != nullptr ? cl_uint{1} : cl_uint{0},
                               stream->wait_for != nullptr ? &stream->wait_for : nullptr, &made);
    if (status != complete) return failed(function, status);
    after_command(device, stream, made);
    return PK_OK;
}

// opencl_memory.cpp
pk_status allocate(pk_device_t device, std::size_t bytes, pk_pointer *out);
pk_status free(pk_device_t device, pk_pointer pointer);
pk_status copy_in(pk_device_t device, pk_pointer to, const void *from, std::size_t bytes);
pk_status copy_out(pk_device_t device, void *to, pk_pointer from, std::size_t bytes);
pk_status copy(pk_device_t device, pk_stream_t stream, pk_pointer to, pk_pointer from, std::size_t bytes);
pk_status fill(pk_device_t device, pk_stream_t stream, pk_pointer to, std::uint8_t value, std::size_t bytes);

// opencl_kernel.cpp
pk_status load(pk_device_t device, const void *binary, std::size_t bytes, pk_module_t *out);
void unload(pk_device_t device, pk_module_t module);
pk_status kernel(pk_device_t device, pk_module_t module, const char *name, std::uint32_t shared_bytes, pk_kernel_t *out);
pk_status launch(pk_device_t device, pk_stream_t stream, const pk_launch *what);
pk_status flush(pk_device_t device, pk_stream_t stream);
pk_status launch_empty(pk_device_t device, pk_stream_t stream);
void release_own(pk_device_t device);

}  // namespace portakern::opencl
