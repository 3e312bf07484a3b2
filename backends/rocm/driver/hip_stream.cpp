// Streams, events, gates and graphs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <new>
#include <thread>

#include "hip_device.hpp"

namespace portakern::hip {

namespace {

template <typename Made>
pk_status given(Made *made, Made **out) {
    *out = made;
    return made != nullptr ? PK_OK : refused(PK_FAILED, "out of memory");
}

// Asks until the stream is empty. Without a pause for the first 20 ms and with short ones then: a pause is an error of
// what the caller measures by the clock.
int query_until(DeviceState *device, Stream stream, std::chrono::steady_clock::time_point deadline) {
    using namespace std::chrono_literals;
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
        const int status = device->api.StreamQuery(stream);
        const auto now = std::chrono::steady_clock::now();
        if (status != not_ready || now >= deadline) return status;
        if (now - begin < 20ms) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>((now - begin) / 50, 1ms));
        }
    }
}

// hipDeviceSynchronize takes no deadline and knows streams that this driver does not: a thread waits in it, which is
// left behind if it takes too long.
int device_until(DeviceState *device, std::chrono::steady_clock::time_point deadline) {
    struct Shared {
        std::mutex mutex;
        std::condition_variable ended;
        int status = not_ready;
    };
    auto shared = std::make_shared<Shared>();
    std::thread([shared, wait = device->api.DeviceSynchronize, use = device->api.SetDevice, ordinal = device->ordinal] {
        int status = use(ordinal);
        if (status == success) status = wait();
        const std::lock_guard lock(shared->mutex);
        shared->status = status;
        shared->ended.notify_all();
    }).detach();
    std::unique_lock lock(shared->mutex);
    shared->ended.wait_until(lock, deadline, [&] { return shared->status != not_ready; });
    return shared->status;
}

}  // namespace

// ---- streams

pk_status stream_create(DeviceState *device, StreamState **out) {
    const CurrentDevice current(device);
    Stream stream = nullptr;
    // Not held up by the default stream, nor holding it up.
    if (const pk_status status = PK_HIP(device, StreamCreateWithFlags, &stream, non_blocking); status != PK_OK)
        return status;
    return given(new (std::nothrow) StreamState{stream, true}, out);
}

pk_status stream_wrap(DeviceState *, std::uint64_t native, StreamState **out) {
    return given(new (std::nothrow) StreamState{reinterpret_cast<Stream>(native), false}, out);
}

std::uint64_t stream_native(DeviceState *, StreamState *stream) {
    return reinterpret_cast<std::uint64_t>(stream->stream);
}

void stream_destroy(DeviceState *device, StreamState *stream) {
    const CurrentDevice current(device);
    if (stream->owned) device->api.StreamDestroy(stream->stream);
    delete stream;
}

pk_status synchronize(DeviceState *device, StreamState *stream, std::int64_t timeout_ns) {
    const CurrentDevice current(device);
    if (timeout_ns < 0) {
        return stream != nullptr ? PK_HIP(device, StreamSynchronize, stream->stream)
                                 : PK_HIP(device, DeviceSynchronize);
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
    const int status =
        stream != nullptr ? query_until(device, stream->stream, deadline) : device_until(device, deadline);
    if (status == not_ready) return refused(PK_TIMEOUT, "the work was not done by its deadline");
    return answer(device, stream != nullptr ? "hipStreamQuery" : "hipDeviceSynchronize", status);
}

// ---- events

pk_status event_create(DeviceState *device, EventState **out) {
    const CurrentDevice current(device);
    Event event = nullptr;
    if (const pk_status status = PK_HIP(device, EventCreateWithFlags, &event, 0); status != PK_OK) return status;
    return given(new (std::nothrow) EventState{event}, out);
}

void event_destroy(DeviceState *device, EventState *event) {
    device->api.EventDestroy(event->event);
    delete event;
}

pk_status event_record(DeviceState *device, StreamState *stream, EventState *event) {
    const CurrentDevice current(device);
    return PK_HIP(device, EventRecord, event->event, stream->stream);
}

pk_status event_elapsed(DeviceState *device, EventState *begin, EventState *end, double *nanoseconds) {
    float milliseconds = 0;
    const pk_status status = PK_HIP(device, EventElapsedTime, &milliseconds, begin->event, end->event);
    *nanoseconds = 1e6 * static_cast<double>(milliseconds);
    return status;
}

// ---- gates

pk_status gate_create(DeviceState *device, GateState **out) {
    const Api &api = device->api;
    if (api.StreamWaitValue32 == nullptr || api.attribute(can_use_stream_wait_value, device->ordinal) == 0) {
        return refused(PK_UNSUPPORTED, "this GPU's streams cannot wait for a value in memory (hipStreamWaitValue32)");
    }
    // Now rather than behind the gate, where waiting would be for ever. Without them there is a gate all the same.
    prepare_own(device);
    const CurrentDevice current(device);
    auto gate = std::make_unique<GateState>();
    // A signal is what the reference asks for; some runtimes have none and take host memory that both sides see.
    gate->is_signal = api.ExtMallocWithFlags != nullptr &&
                      api.ExtMallocWithFlags(&gate->host, sizeof(std::uint64_t), signal_memory) == success;
    gate->device = gate->host;
    if (!gate->is_signal) {
        if (api.HostMalloc == nullptr || api.HostGetDevicePointer == nullptr || api.HostFree == nullptr) {
            return refused(PK_UNSUPPORTED, "this HIP runtime has no memory for a signal");
        }
        pk_status status = PK_HIP(device, HostMalloc, &gate->host, sizeof(std::uint64_t), mapped | coherent);
        if (status != PK_OK) return status;
        status = PK_HIP(device, HostGetDevicePointer, &gate->device, gate->host, 0);
        if (status != PK_OK) {
            api.HostFree(gate->host);
            return status;
        }
    }
    *static_cast<volatile std::uint64_t *>(gate->host) = 0;
    *out = gate.release();
    return PK_OK;
}

void gate_destroy(DeviceState *device, GateState *gate) {
    gate_open(device, gate);
    const CurrentDevice current(device);
    gate->is_signal ? device->api.Free(gate->host) : device->api.HostFree(gate->host);
    delete gate;
}

pk_status gate_close(DeviceState *device, StreamState *stream, GateState *gate) {
    const CurrentDevice current(device);
    return PK_HIP(device, StreamWaitValue32, stream->stream, gate->device, ++gate->closings, wait_until_at_least,
                  0xFFFFFFFF);
}

pk_status gate_open(DeviceState *, GateState *gate) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    *static_cast<volatile std::uint32_t *>(gate->host) = gate->closings;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return PK_OK;
}

// ---- graphs

pk_status capture_begin(DeviceState *device, StreamState *stream) {
    const Api &api = device->api;
    if (!api.StreamBeginCapture || !api.StreamEndCapture || !api.GraphInstantiate || !api.GraphLaunch ||
        !api.GraphExecDestroy || !api.GraphDestroy) {
        return refused(PK_UNSUPPORTED, "this HIP runtime has no graphs");
    }
    prepare_own(device);  // allocates and waits, which a stream that captures must not
    const CurrentDevice current(device);
    return PK_HIP(device, StreamBeginCapture, stream->stream, capture_thread_local);
}

pk_status capture_end(DeviceState *device, StreamState *stream, GraphState **out) {
    const CurrentDevice current(device);
    Graph graph = nullptr;
    if (const pk_status status = PK_HIP(device, StreamEndCapture, stream->stream, &graph); status != PK_OK)
        return status;
    GraphExec exec = nullptr;
    const pk_status status = PK_HIP(device, GraphInstantiate, &exec, graph, nullptr, nullptr, 0);
    device->api.GraphDestroy(graph);
    return status == PK_OK ? given(new (std::nothrow) GraphState{exec}, out) : status;
}

pk_status graph_launch(DeviceState *device, StreamState *stream, GraphState *graph) {
    const CurrentDevice current(device);
    return PK_HIP(device, GraphLaunch, graph->exec, stream->stream);
}

void graph_destroy(DeviceState *device, GraphState *graph) {
    const CurrentDevice current(device);
    device->api.GraphExecDestroy(graph->exec);
    delete graph;
}

}  // namespace portakern::hip
