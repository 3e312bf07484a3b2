// A call that was prepared: launches, copies and fills with their arguments packed once, in memory that the call owns.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "device/device.hpp"

namespace portakern {

// An argument's bytes as the kernel takes them, and its PK_ARG_ kind.
struct Argument {
    std::string bytes;
    std::uint32_t kind;
};

struct LaunchSpec {
    std::shared_ptr<Kernel> kernel;
    std::array<std::uint32_t, 3> grid, block, cluster;
    std::uint32_t shared_bytes, attributes;
    std::vector<Argument> args;
};

// Device to device. `to` is a pointer slot, `from` is not.
struct CopySpec {
    std::uint64_t to, from;
    std::size_t bytes;
};

struct FillSpec {
    std::uint64_t to;
    std::uint8_t byte;
    std::size_t bytes;
};

using StepSpec = std::variant<LaunchSpec, CopySpec, FillSpec>;

// One thread at a time uses a call of a device whose launches only queue (Python's lock sees to it). Where launches
// block, callers hold the call's own lock, so that they can let go of Python's.
class Call {
  public:
    // Throws std::invalid_argument for kernels of another device and pointers that are not 8 bytes, DriverError if the
    // driver lacks what a step needs.
    Call(std::shared_ptr<Device> device, std::vector<StepSpec> steps);

    const std::shared_ptr<Device> &device() const { return device_; }
    std::size_t step_count() const { return steps_.size(); }
    std::size_t pointer_count() const { return pointers_.size(); }
    std::uint64_t pointer(std::size_t slot) const { return *pointers_.at(slot); }
    bool blocking() const { return blocking_; }
    std::mutex &mutex() { return mutex_; }

    // Queues every step in order. PK_OK or what the driver answered first; `failed()` names that function.
    pk_status queue(pk_stream_t stream) noexcept;

    // The same for those who call again and again: from the third time on one stream on as a graph, where the driver has
    // that. Timing queues the steps themselves, since a graph's kernels do not begin as launched ones do.
    pk_status repeat(pk_stream_t stream) noexcept;
    const char *failed() const { return failed_; }

    // Reads everything that `queue` reads.
    void touch() const noexcept;

    // Replaces a pointer. Slots count the pointer arguments, and the targets of copies and fills, in order of the steps.
    void rebind(std::size_t slot, std::uint64_t address) {
        stale_ = stale_ || *pointers_[slot] != address;
        *pointers_[slot] = address;
    }

    // The driver's stream with this native handle.
    pk_stream_t stream(std::uint64_t native) {
        if (native != stream_native_ || !stream_known_) {
            stream_ = device_->wrapped(native);
            stream_native_ = native;
            stream_known_ = true;
        }
        return stream_;
    }

  private:
    struct Step {
        enum { launching, copying, filling } kind;
        pk_launch launch;
        const std::uint64_t *to;
        std::uint64_t from;
        std::size_t bytes;
        std::uint8_t byte;
    };

    Step pack(const LaunchSpec &spec, unsigned char *base, std::size_t &at);
    std::uint64_t *place(std::uint64_t address, unsigned char *base, std::size_t &at);
    pk_status run(const Step &step, pk_stream_t stream) noexcept;
    bool may_become_a_graph() const;
    bool make_graph() noexcept;
    bool update_graph() noexcept;

    std::shared_ptr<Device> device_;
    std::vector<StepSpec> specs_;  // keeps the kernels
    std::vector<unsigned char> storage_;
    std::vector<pk_arg> args_;
    std::vector<Step> steps_;
    std::vector<std::uint64_t *> pointers_;
    const char *failed_ = "launch";
    bool blocking_ = false;
    bool stream_known_ = false;
    std::uint64_t stream_native_ = 0;
    pk_stream_t stream_ = nullptr;
    std::mutex mutex_;

    // One graph, used while calls stay on a stream: launches of the same graph wait for each other, which calls on
    // different streams need not do.
    bool graphs_ = false;
    int repeats_ = 0;
    pk_stream_t latest_ = nullptr;
    bool stale_ = false;  // pointers were replaced since the graph had them
    Graph graph_;
};

}  // namespace portakern
