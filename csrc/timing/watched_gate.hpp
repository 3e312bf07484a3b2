// A gate that does not stay closed for longer than a limit, whatever the thread that closed it is doing.
//
// A call that waits for the device, or allocates in a way that does, would wait for ever behind a closed gate. A thread
// of ours then opens it, and the sample is known to be spoilt.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "device/device.hpp"

namespace portakern {

class WatchedGate {
  public:
    WatchedGate(const std::shared_ptr<Device> &device, std::int64_t limit_ns);
    ~WatchedGate();
    WatchedGate(const WatchedGate &) = delete;
    WatchedGate &operator=(const WatchedGate &) = delete;

    void close(pk_stream_t stream);

    // Opens it, if it has not been opened. False if it was opened before this, because the limit was reached.
    bool open();

  private:
    void watch();

    static constexpr std::int64_t idle = 0, opening = -1, opened = -2;

    std::shared_ptr<Device> device_;
    Gate gate_;
    std::int64_t limit_ns_;
    // idle; the time at which it was closed; or what the watching thread does with it.
    std::atomic<std::int64_t> state_{idle};
    std::mutex mutex_;
    std::condition_variable ended_;
    bool ending_ = false;
    std::thread watcher_;
};

// Closed from construction until `open` or the end of the scope, also when something throws in between.
class ClosedGate {
  public:
    ClosedGate(WatchedGate *gate, pk_stream_t stream) : gate_(gate) {
        if (gate_ != nullptr) gate_->close(stream);
    }
    ~ClosedGate() {
        try {
            open();
        } catch (const DriverError &) {  // another failure is under way
        }
    }
    ClosedGate(const ClosedGate &) = delete;
    ClosedGate &operator=(const ClosedGate &) = delete;

    // False if the gate was opened too early.
    bool open() {
        WatchedGate *gate = std::exchange(gate_, nullptr);
        return gate == nullptr || gate->open();
    }

  private:
    WatchedGate *gate_;
};

}  // namespace portakern
