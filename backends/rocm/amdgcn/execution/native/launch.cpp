// Workgroups over threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "fault.hpp"
#include "run.hpp"

namespace machine {

namespace {

// The fault of the earliest workgroup, so that a report does not depend on the threads' order.
class First {
  public:
    void offer(const Fault &fault) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!found_ || fault.order < kept_.order) kept_ = fault;
        found_ = true;
        limit_.store(std::min(limit_.load(), fault.order));
    }
    bool stops(uint64_t index) const { return index >= limit_.load(); }
    void raise() const {
        if (found_) throw kept_;
    }

  private:
    std::mutex mutex_;
    std::atomic<uint64_t> limit_{~uint64_t(0)};
    Fault kept_;
    bool found_ = false;
};

}  // namespace

Ran run_grid(const Launch &launch, const Some *some, unsigned threads) {
    using Clock = std::chrono::steady_clock;
    const uint64_t groups = some ? some->places.size() : uint64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2];
    const auto begun = Clock::now();
    const auto late = [&] { return some && std::chrono::duration<double>(Clock::now() - begun).count() > some->seconds; };
    std::atomic<uint64_t> next{0}, ran{0}, executed{0};
    First first;
    const auto work = [&] {
        Machine machine(launch);
        while (!late()) {
            const uint64_t n = next++;
            if (n >= groups || first.stops(n)) break;
            try {
                machine.run(some ? some->places[n] : n);
            } catch (Fault &fault) {
                fault.order = n;
                first.offer(fault);
            }
            ++ran;
        }
        executed += machine.executed();
    };
    std::vector<std::thread> others;
    for (unsigned n = 1; n < threads && n < groups; ++n) others.emplace_back(work);
    work();
    for (std::thread &t : others) t.join();
    first.raise();
    return {ran, executed};
}

}  // namespace machine
