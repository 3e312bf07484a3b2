#include "drivers/cold_caches.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace portakern {

namespace {

constexpr std::size_t least_part = 4 << 20;  // more than the second-level caches of today hold
constexpr std::chrono::milliseconds to_begin{20}, to_end{1000};  // how long a thread is waited for

std::atomic<std::uint64_t> sink{0};  // so that the reads are not left out

// One byte of every line; what was dirty is written back when it makes room, and what is read is clean.
void read_lines(const char *begin, std::size_t bytes) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i + 64 <= bytes; i += 64) sum += static_cast<unsigned char>(begin[i]);
    sink += sum;
}

void pin_to([[maybe_unused]] int core) {
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof(set), &set);
#endif
}

// Who reads which part, and when all have been read.
class Round {
  public:
    explicit Round(std::size_t parts) : taken_(parts), left_(parts) {}

    bool take(std::size_t part) { return !taken_[part].exchange(true); }

    void done() {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (--left_ == 0) all_.notify_all();
    }

    void wait(std::chrono::milliseconds limit) {
        std::unique_lock<std::mutex> lock(mutex_);
        all_.wait_for(lock, limit, [this] { return left_ == 0; });
    }

  private:
    std::vector<std::atomic<bool>> taken_;
    std::size_t left_;
    std::mutex mutex_;
    std::condition_variable all_;
};

}  // namespace

ColdCaches::ColdCaches(std::size_t bytes, std::vector<int> cores) : bytes_(bytes), cores_(std::move(cores)) {
    for (std::size_t i = 0; i < cores_.size(); ++i) late_.push_back(std::make_shared<std::atomic<bool>>(false));
}

void ColdCaches::empty() {
    // Written once, or every page would be the system's one page of zeros.
    if (memory_ == nullptr) memory_ = std::make_shared<const Memory>(bytes_, 1);
    if (cores_.empty()) return read_lines(memory_->data(), bytes_);

    const std::size_t bytes = std::min(bytes_, std::max(bytes_ / cores_.size() / 64 * 64, least_part));
    const auto round = std::make_shared<Round>(cores_.size());
    const auto read = [memory = memory_, bytes](std::size_t part) {
        read_lines(memory->data() + std::min(part * bytes, memory->size() - bytes), bytes);
    };
    for (std::size_t i = 0; i < cores_.size(); ++i) {
        if (late_[i]->exchange(true)) continue;
        try {
            std::thread([round, read, i, core = cores_[i], late = late_[i]] {
                pin_to(core);
                const bool mine = round->take(i);
                if (mine) read(i);
                *late = false;  // before the next round can begin
                if (mine) round->done();
            }).detach();
        } catch (...) {
            *late_[i] = false;
            throw;
        }
    }
    round->wait(to_begin);
    for (std::size_t i = 0; i < cores_.size(); ++i) {
        if (!round->take(i)) continue;
        read(i);
        round->done();
    }
    round->wait(to_end);
}

}  // namespace portakern
