#include "timing/watched_gate.hpp"

#include <algorithm>
#include <chrono>

#include "clock/clock.hpp"

namespace portakern {

WatchedGate::WatchedGate(const std::shared_ptr<Device> &device, std::int64_t limit_ns)
    : device_(device), gate_(make_gate(device)), limit_ns_(limit_ns), watcher_(&WatchedGate::watch, this) {}

WatchedGate::~WatchedGate() {
    {
        const std::lock_guard<std::mutex> locked(mutex_);
        ending_ = true;
    }
    ended_.notify_all();
    watcher_.join();
}

void WatchedGate::close(pk_stream_t stream) {
    // The time first: a driver may hang in the very call that closes the gate.
    state_.store(std::max<std::int64_t>(clock_now_ns(), 1));
    try {
        device_->call<&pk_driver::gate_close>("gate_close", stream, gate_.get());
    } catch (...) {
        state_.store(idle);
        throw;
    }
}

bool WatchedGate::open() {
    std::int64_t closed = state_.load();
    if (closed > 0 && state_.compare_exchange_strong(closed, idle)) {
        device_->call<&pk_driver::gate_open>("gate_open", gate_.get());
        return true;
    }
    while (state_.load() == opening) std::this_thread::yield();
    state_.store(idle);
    // Once more, should closing itself have taken so long that it came after the opening. Opening twice may be refused.
    device_->table().gate_open(device_->handle(), gate_.get());
    return false;
}

void WatchedGate::watch() {
    const auto pause = std::chrono::nanoseconds(std::max<std::int64_t>(limit_ns_ / 8, 100'000));
    std::unique_lock<std::mutex> lock(mutex_);
    while (!ended_.wait_for(lock, pause, [this] { return ending_; })) {
        std::int64_t closed = state_.load();
        if (closed <= 0 || clock_now_ns() - closed < limit_ns_) continue;
        if (!state_.compare_exchange_strong(closed, opening)) continue;
        const pk_driver &table = device_->table();
        table.gate_open(device_->handle(), gate_.get());  // a failure shows in the stream, which then does not go on
        state_.store(opened);
    }
}

}  // namespace portakern
