// Waiting for queues with a deadline, in a thread of its own. Both the OpenCL driver and SYCL's shim use it.
//
// A CPU device computes with the thread that waits for it: on two cores Intel's runtime takes twice as long for a
// kernel whose caller polls or sleeps until it is done as for one whose caller sits in clFinish. So nothing here polls.
// A helper thread calls clFinish, and who waits with a deadline waits for the helper.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#ifdef __GLIBC__
#include <unistd.h>
#endif

namespace portakern {

class Finisher {
  public:
    // Waits for some queues, which it keeps alive, and gives a status.
    using Job = std::function<int()>;

    Finisher() : shared_(std::make_shared<Shared>()) {
        std::thread([shared = shared_] { shared->work(); }).detach();
    }

    // Ends the helper; one that still waits for a kernel that hangs is left behind.
    ~Finisher() {
        const std::lock_guard<std::mutex> lock(shared_->mutex);
        shared_->ending = true;
        shared_->changed.notify_all();
    }
    Finisher(const Finisher &) = delete;
    Finisher &operator=(const Finisher &) = delete;

    // Has the helper do the job and returns as soon as it has begun.
    void begin(Job job) {
        std::unique_lock<std::mutex> lock(shared_->mutex);
        const std::uint64_t number = add(std::move(job));
        // A second is for a helper that hangs in an earlier job: better late than never.
        shared_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return shared_->begun >= number; });
    }

    // Has the helper do the job and waits for it, at most `timeout_ns`. The job's status, if `in_time` says that it
    // ended.
    int wait(Job job, std::int64_t timeout_ns, bool *in_time) {
        std::unique_lock<std::mutex> lock(shared_->mutex);
        const std::uint64_t number = add(std::move(job));
        *in_time = shared_->changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                             [&] { return shared_->done >= number; });
        if (!*in_time) let_the_process_end();
        return *in_time ? shared_->status : 0;
    }

  private:
    // Outlives the Finisher where the helper hangs.
    struct Shared {
        std::mutex mutex;
        std::condition_variable changed;
        std::deque<Job> jobs;
        std::uint64_t added = 0, begun = 0, done = 0;
        int status = 0;
        bool ending = false;

        void work() {
            std::unique_lock<std::mutex> lock(mutex);
            for (;;) {
                changed.wait(lock, [&] { return ending || !jobs.empty(); });
                if (jobs.empty()) return;
                Job job = std::move(jobs.front());
                jobs.pop_front();
                ++begun;
                changed.notify_all();
                lock.unlock();
                const int ended = job();
                job = nullptr;
                lock.lock();
                status = ended;
                ++done;
                changed.notify_all();
            }
        }
    };

    std::uint64_t add(Job job) {
        shared_->jobs.push_back(std::move(job));
        shared_->changed.notify_all();
        return ++shared_->added;
    }

    // The runtime's own exit handlers wait for the device's threads, and so for ever for a kernel that hangs. Handlers
    // run in reverse order of registration: this one comes before them, and ends the process if the work still runs.
    void let_the_process_end() {
#ifdef __GLIBC__
        if (std::exchange(ends_, true)) return;
        on_exit(
            [](int status, void *held) {
                const auto &shared = *static_cast<std::shared_ptr<Shared> *>(held);
                {
                    const std::lock_guard<std::mutex> lock(shared->mutex);
                    if (shared->done == shared->added) return;
                }
                std::fflush(nullptr);
                _exit(status);
            },
            new std::shared_ptr<Shared>(shared_));
#endif
    }

    std::shared_ptr<Shared> shared_;
    bool ends_ = false;  // under the mutex
};

}  // namespace portakern
