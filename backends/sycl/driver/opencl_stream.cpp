// Queues, the times of what ran on them, and gates.
#include <algorithm>
#include <new>

#include "opencl_device.hpp"

namespace portakern::opencl {

namespace {

void let_go(const Api &api, Event *event) {
    if (*event != nullptr) api.ReleaseEvent(*event);
    *event = nullptr;
}

Event kept(const Api &api, Event event) {
    if (event != nullptr) api.RetainEvent(event);
    return event;
}

void forget(DeviceState *device, EventState *event) {
    for (StreamState &stream : device->streams) {  // the event's own may be gone
        auto &waiting = stream.waiting;
        waiting.erase(std::remove(waiting.begin(), waiting.end(), event), waiting.end());
    }
    event->stream = nullptr;
    let_go(device->api, &event->before);
    let_go(device->api, &event->after);
}

void add_stream(DeviceState *device, Queue queue, bool foreign, StreamState **out) {
    const std::lock_guard lock(device->mutex);
    device->streams.emplace_back();
    device->streams.back().queue = queue;
    device->streams.back().foreign = foreign;
    *out = &device->streams.back();
}

// Of a command: 0 is done, below it failed.
cl_int status_of(const Api &api, Event command) {
    cl_int status = 1;
    const cl_int asked = api.GetEventInfo(command, event_execution_status, sizeof(status), &status, nullptr);
    return asked == complete ? status : asked;
}

// PK_OK once the command has ended well.
pk_status ended(const Api &api, Event command) {
    const cl_int status = status_of(api, command);
    if (status < 0) return failed("the command", status);
    return status == complete ? PK_OK : refused(PK_INVALID, "the event has not happened yet");
}

pk_status profiled(const Api &api, Event command, cl_uint what, std::uint64_t *out) {
    if (const pk_status status = ended(api, command); status != PK_OK) return status;
    const cl_int asked = api.GetEventProfilingInfo(command, what, sizeof(*out), out, nullptr);
    return asked == complete ? PK_OK : failed("clGetEventProfilingInfo", asked);
}

// Finishes queues, which stay alive until it has: it may be left behind.
Finisher::Job finishing(const Api &api, std::vector<Queue> queues) {
    for (Queue queue : queues) api.RetainCommandQueue(queue);
    return [finish = api.Finish, release = api.ReleaseCommandQueue, queues = std::move(queues)] {
        cl_int worst = complete;
        for (Queue queue : queues) {
            if (const cl_int status = finish(queue); status != complete) worst = status;
            release(queue);
        }
        return worst;
    };
}

}  // namespace

// ---- streams

pk_status stream_create(DeviceState *device, StreamState **out) {
    const cl_ulong properties[] = {queue_properties, queue_profiling, 0};
    cl_int status = complete;
    Queue queue = device->api.CreateCommandQueueWithProperties(device->context, device->id, properties, &status);
    if (status != complete) return failed("clCreateCommandQueueWithProperties", status);
    add_stream(device, queue, false, out);
    return PK_OK;
}

pk_status stream_wrap(DeviceState *device, std::uint64_t native, StreamState **out) {
    if (native == 0 || native == stream_native(device, device->first)) {
        *out = device->first;
        return PK_OK;
    }
    const Queue queue = reinterpret_cast<Queue>(native);
    Context context = nullptr;
    cl_ulong properties = 0;
    const cl_int status = device->api.GetCommandQueueInfo(queue, queue_context, sizeof(context), &context, nullptr);
    if (status != complete) return failed("clGetCommandQueueInfo", status);
    device->api.GetCommandQueueInfo(queue, queue_properties, sizeof(properties), &properties, nullptr);
    if (context != device->context) {
        return refused(PK_INVALID,
                       "the queue belongs to another context, where this device's kernels and memory are unknown");
    }
    if ((properties & queue_profiling) == 0 || (properties & queue_out_of_order) != 0) {
        return refused(PK_UNSUPPORTED, "the queue must be in order, with CL_QUEUE_PROFILING_ENABLE");
    }
    device->api.RetainCommandQueue(queue);
    add_stream(device, queue, true, out);
    return PK_OK;
}

std::uint64_t stream_native(DeviceState *, StreamState *stream) {
    return reinterpret_cast<std::uint64_t>(stream->queue);
}

void stream_destroy(DeviceState *device, StreamState *stream) {
    const std::lock_guard lock(device->mutex);
    if (stream == device->first) return;
    if (stream->gate != nullptr) gate_open(device, stream->gate);
    let_go(device->api, &stream->last);
    let_go(device->api, &stream->wait_for);
    device->api.ReleaseCommandQueue(stream->queue);
    device->streams.remove_if([&](const StreamState &each) { return &each == stream; });
}

pk_status synchronize(DeviceState *device, StreamState *stream, std::int64_t timeout_ns) {
    std::vector<Queue> queues;
    bool idle = true;
    {
        const std::lock_guard lock(device->mutex);
        for (StreamState &each : device->streams) {
            if (stream != nullptr && stream != &each) continue;
            queues.push_back(each.queue);
            idle = idle && !each.foreign && (each.last == nullptr || status_of(device->api, each.last) <= complete);
        }
    }
    bool in_time = true;
    cl_int status = complete;
    if (timeout_ns >= 0 && !idle) {
        status = device->finisher->wait(finishing(device->api, std::move(queues)), timeout_ns, &in_time);
    } else {
        // Nothing to wait for needs the call all the same: asking an event for its status makes no result visible.
        for (Queue queue : queues) {
            if (const cl_int each = device->api.Finish(queue); each != complete) status = each;
        }
    }
    if (!in_time) return refused(PK_TIMEOUT, "the work was not done by its deadline");
    if (status != complete) return failed("clFinish", status);
    // clFinish is content with commands that failed.
    const std::lock_guard lock(device->mutex);
    for (const StreamState &each : device->streams) {
        if ((stream != nullptr && stream != &each) || each.last == nullptr) continue;
        if (const cl_int last = status_of(device->api, each.last); last < 0) return failed("the last command", last);
    }
    return PK_OK;
}

void after_command(DeviceState *device, StreamState *stream, Event made) {
    const Api &api = device->api;
    ++stream->commands;
    let_go(api, &stream->last);
    stream->last = made;
    for (EventState *event : stream->waiting) event->after = kept(api, made);
    stream->waiting.clear();
    let_go(api, &stream->wait_for);
    // Behind a closed gate there is nothing to begin with yet.
    if (stream->gate == nullptr) api.Flush(stream->queue);
}

// ---- events

pk_status event_create(DeviceState *, EventState **out) {
    *out = new (std::nothrow) EventState;
    return *out != nullptr ? PK_OK : refused(PK_FAILED, "out of memory");
}

void event_destroy(DeviceState *device, EventState *event) {
    const std::lock_guard lock(device->mutex);
    forget(device, event);
    delete event;
}

pk_status event_record(DeviceState *device, StreamState *stream, EventState *event) {
    const std::lock_guard lock(device->mutex);
    forget(device, event);
    event->stream = stream;
    event->place = stream->commands;
    event->before = kept(device->api, stream->last);
    stream->waiting.push_back(event);
    return PK_OK;
}

pk_status event_elapsed(DeviceState *device, EventState *begin, EventState *end, double *nanoseconds) {
    const std::lock_guard lock(device->mutex);
    if (begin->stream == nullptr || begin->stream != end->stream || begin->place > end->place) {
        return refused(PK_INVALID, "the events were not recorded one after the other on one stream");
    }
    *nanoseconds = 0;
    if (begin->place == end->place) return PK_OK;  // nothing ran between them
    std::uint64_t from = 0, to = 0;
    if (const pk_status status = profiled(device->api, end->before, profiling_end, &to); status != PK_OK) return status;
    if (const pk_status status = profiled(device->api, begin->after, profiling_start, &from); status != PK_OK)
        return status;
    *nanoseconds = static_cast<double>(static_cast<std::int64_t>(to - from));
    return PK_OK;
}

// ---- gates

pk_status gate_create(DeviceState *device, GateState **out) {
    prepare_flush(device);  // now rather than behind a closed gate; without it there is a gate all the same
    *out = new (std::nothrow) GateState;
    return *out != nullptr ? PK_OK : refused(PK_FAILED, "out of memory");
}

void gate_destroy(DeviceState *device, GateState *gate) {
    gate_open(device, gate);
    delete gate;
}

pk_status gate_close(DeviceState *device, StreamState *stream, GateState *gate) {
    const std::lock_guard lock(device->mutex);
    if (gate->event != nullptr || stream->gate != nullptr)
        return refused(PK_INVALID, "the gate or the stream is closed already");
    cl_int status = complete;
    gate->event = device->api.CreateUserEvent(device->context, &status);
    if (status != complete) {
        gate->event = nullptr;
        return failed("clCreateUserEvent", status);
    }
    gate->stream = stream;
    stream->gate = gate;
    let_go(device->api, &stream->wait_for);
    stream->wait_for = kept(device->api, gate->event);
    return device->is_cpu ? launch_wake(device, stream) : PK_OK;
}

pk_status gate_open(DeviceState *device, GateState *gate) {
    const std::lock_guard lock(device->mutex);
    if (gate->event == nullptr) return PK_OK;
    StreamState *stream = gate->stream;
    device->api.Flush(stream->queue);
    // The helper waits for the queue from before its first command can run: it is one of a CPU device's workers.
    device->finisher->begin(finishing(device->api, {stream->queue}));
    const cl_int status = device->api.SetUserEventStatus(gate->event, complete);
    let_go(device->api, &gate->event);
    stream->gate = nullptr;
    gate->stream = nullptr;
    return status == complete ? PK_OK : failed("clSetUserEventStatus", status);
}

}  // namespace portakern::opencl
