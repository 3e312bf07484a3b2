// Waiting for queues with a deadline, in a thread of its own.
//
// A CPU device computes with the thread that waits for it: on two cores Intel's runtime takes twice as long for a kernel
// whose caller polls or sleeps until it is done as for one whose caller sits in clFinish. So nothing here polls. A
// helper thread calls clFinish, and who waits with a deadline waits for the helper.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "opencl_api.hpp"

namespace portakern::opencl {

class Finisher {
  public:
    explicit Finisher(const Api &api);

    // Ends the helper; one that still waits for a kernel that hangs is left behind.
    ~Finisher();
    Finisher(const Finisher &) = delete;
    Finisher &operator=(const Finisher &) = delete;

    // Has the helper finish these queues and returns as soon as it has begun to.
    void begin(std::vector<Queue> queues);

    // Has the helper finish these queues and waits for it, at most `timeout_ns`.
    // The status of clFinish; `in_time` says whether there is one.
    cl_int wait(std::vector<Queue> queues, std::int64_t timeout_ns, bool *in_time);

  private:
    struct Shared;
    std::uint64_t add(std::vector<Queue> queues);

    std::shared_ptr<Shared> shared_;
};

}  // namespace portakern::opencl
