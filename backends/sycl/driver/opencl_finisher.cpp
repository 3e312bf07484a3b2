#include "opencl_finisher.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace portakern::opencl {

// Outlives the Finisher where the helper hangs.
struct Finisher::Shared {
    explicit Shared(const Api &of)
        : finish(of.Finish), retain(of.RetainCommandQueue), release(of.ReleaseCommandQueue) {}

    decltype(Api::Finish) finish;
    decltype(Api::RetainCommandQueue) retain;
    decltype(Api::ReleaseCommandQueue) release;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::vector<Queue>> jobs;
    std::uint64_t added = 0, begun = 0, done = 0;
    cl_int status = complete;
    bool ending = false;

    void work() {
        std::unique_lock lock(mutex);
        for (;;) {
            changed.wait(lock, [&] { return ending || !jobs.empty(); });
            if (jobs.empty()) return;
            const std::vector<Queue> queues = std::move(jobs.front());
            jobs.pop_front();
            ++begun;
            changed.notify_all();
            lock.unlock();
            cl_int worst = complete;
            for (Queue queue : queues) {
                if (const cl_int status_of = finish(queue); status_of != complete) worst = status_of;
                release(queue);
            }
            lock.lock();
            status = worst;
            ++done;
            changed.notify_all();
        }
    }
};

Finisher::Finisher(const Api &api) : shared_(std::make_shared<Shared>(api)) {
    std::thread([shared = shared_] { shared->work(); }).detach();
}

Finisher::~Finisher() {
    const std::lock_guard lock(shared_->mutex);
    shared_->ending = true;
    shared_->changed.notify_all();
}

std::uint64_t Finisher::add(std::vector<Queue> queues) {
    for (Queue queue : queues) shared_->retain(queue);
    shared_->jobs.push_back(std::move(queues));
    shared_->changed.notify_all();
    return ++shared_->added;
}

void Finisher::begin(std::vector<Queue> queues) {
    std::unique_lock lock(shared_->mutex);
    const std::uint64_t job = add(std::move(queues));
    // A second is for a helper that hangs in an earlier job: better late than never.
    shared_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return shared_->begun >= job; });
}

cl_int Finisher::wait(std::vector<Queue> queues, std::int64_t timeout_ns, bool *in_time) {
    std::unique_lock lock(shared_->mutex);
    const std::uint64_t job = add(std::move(queues));
    auto ended = [&] { return shared_->done >= job; };
    *in_time = shared_->changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), ended);
    return *in_time ? shared_->status : complete;
}

}  // namespace portakern::opencl
