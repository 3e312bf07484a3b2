// Streams, and waiting for them with a deadline.
#include <chrono>
#include <condition_variable>
#include <memory>
#include <new>
#include <thread>

#include "device.hpp"

namespace portakern::cuda {

namespace {

using Clock = std::chrono::steady_clock;

// Asks again and again until it is done: without a pause at first, since most waits are short, then with longer ones.
template <typename Ask>
Result poll(Clock::time_point deadline, const Ask &ask) {
    constexpr std::chrono::microseconds busy(200), longest(1000);
    const Clock::time_point begin = Clock::now();
    std::chrono::microseconds pause(20);
    for (;;) {
        const Result result = ask();
        const Clock::time_point now = Clock::now();
        if (result != not_ready || now >= deadline) return result;
        if (now - begin < busy) continue;
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, longest);
    }
}

pk_status too_late() { return fail(PK_TIMEOUT, "the deadline passed and work is still running"); }

pk_status wait_for_stream(Gpu &gpu, Stream stream, Clock::time_point deadline) {
    const Result result = poll(deadline, [&] { return gpu.api.stream_query(stream); });
    return result == not_ready ? too_late() : gpu.check(result, "cuStreamQuery");
}

// An event behind everything queued on any stream of the context.
pk_status wait_for_event(Gpu &gpu, Clock::time_point deadline) {
    Event event = nullptr;
    constexpr unsigned disable_timing = 2;
    if (const Result result = gpu.api.event_create(&event, disable_timing); result != success) return fail(gpu, result, "cuEventCreate");
    pk_status status = gpu.check(gpu.api.ctx_record_event(gpu.context.load(), event), "cuCtxRecordEvent");
    if (status == PK_OK) {
        const Result result = poll(deadline, [&] { return gpu.api.event_query(event); });
        status = result == not_ready ? too_late() : gpu.check(result, "cuEventQuery");
    }
    gpu.api.event_destroy(event);
    return status;
}

// For drivers without such an event: another thread waits without a deadline, and stays behind when it passes.
pk_status wait_in_a_thread(Gpu &gpu, Clock::time_point deadline) {
    struct Shared {
        std::mutex mutex;
        std::condition_variable changed;
        bool done = false;
        Result result = success;
    };
    const auto shared = std::make_shared<Shared>();
    std::thread([shared, &gpu] {
        const CurrentContext current(gpu);
        const Result result = current ? gpu.api.ctx_synchronize() : current.status();
        const std::lock_guard<std::mutex> locked(shared->mutex);
        shared->result = result;
        shared->done = true;
        shared->changed.notify_one();
    }).detach();
    std::unique_lock<std::mutex> locked(shared->mutex);
    if (!shared->changed.wait_until(locked, deadline, [&] { return shared->done; })) return too_late();
    return gpu.check(shared->result, "cuCtxSynchronize");
}

}  // namespace

// An ordinary stream and not a non-blocking one: what a candidate or a framework puts on the default stream while it is
// timed then counts, because this stream waits for it.
pk_status stream_create(pk_device_t device, pk_stream_t *out) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    Stream handle = nullptr;
    if (const Result result = gpu.api.stream_create(&handle, 0); result != success) return fail(gpu, result, "cuStreamCreate");
    *out = reinterpret_cast<pk_stream_t>(new (std::nothrow) StreamHandle{handle, true});
    return *out != nullptr ? PK_OK : fail(PK_FAILED, "the host has no memory left");
}

pk_status stream_wrap(pk_device_t, uint64_t native, pk_stream_t *out) {
    const auto handle = reinterpret_cast<Stream>(static_cast<std::uintptr_t>(native));
    *out = reinterpret_cast<pk_stream_t>(new (std::nothrow) StreamHandle{handle, false});
    return *out != nullptr ? PK_OK : fail(PK_FAILED, "the host has no memory left");
}

void stream_destroy(pk_device_t device, pk_stream_t stream) {
    Gpu &gpu = gpu_of(device);
    if (handle_of(stream)->owned) {
        if (const CurrentContext current(gpu); current) gpu.api.stream_destroy(stream_of(stream));
    }
    delete handle_of(stream);
}

uint64_t stream_native(pk_device_t, pk_stream_t stream) { return reinterpret_cast<std::uintptr_t>(stream_of(stream)); }

pk_status synchronize(pk_device_t device, pk_stream_t stream, int64_t timeout_ns) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    if (timeout_ns < 0) {
        if (stream == nullptr) return gpu.check(gpu.api.ctx_synchronize(), "cuCtxSynchronize");
        return gpu.check(gpu.api.stream_synchronize(stream_of(stream)), "cuStreamSynchronize");
    }
    const Clock::time_point deadline = Clock::now() + std::chrono::nanoseconds(timeout_ns);
    if (stream != nullptr) return wait_for_stream(gpu, stream_of(stream), deadline);
    return gpu.api.ctx_record_event != nullptr ? wait_for_event(gpu, deadline) : wait_in_a_thread(gpu, deadline);
}

}  // namespace portakern::cuda
