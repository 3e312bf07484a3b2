// Workgroups over threads.
#include <algorithm>
#include <atomic>
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

uint64_t run_grid(const Launch &launch, unsigned threads) {
    const uint64_t groups = uint64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2];
    std::atomic<uint64_t> next{0}, executed{0};
    First first;
    const auto work = [&] {
        Machine machine(launch);
        for (uint64_t index = next++; index < groups && !first.stops(index); index = next++) {
            try {
                machine.run(index);
            } catch (Fault &fault) {
                fault.order = index;
                first.offer(fault);
            }
        }
        executed += machine.executed();
    };
    std::vector<std::thread> others;
    for (unsigned n = 1; n < threads && n < groups; ++n) others.emplace_back(work);
    work();
    for (std::thread &t : others) t.join();
    first.raise();
    return executed;
}

}  // namespace machine
