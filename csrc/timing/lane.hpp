// One contender's way through the device: its stream, its events, and how one sample is taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "timing/types.hpp"
#include "timing/watched_gate.hpp"

namespace portakern {

// What samples of all contenders share.
struct Bench {
    std::shared_ptr<Device> device;
    const Options *options;
    WatchedGate *gate = nullptr;  // null where the driver has none
    Event begin, end;             // empty where the driver has none
    bool can_flush = false, can_launch_empty = false;
    double flush_ns = -1;  // what one flush takes; negative if not known

    bool blocking() const { return device->facts().blocking != 0; }
    bool flushes() const { return options->cold && can_flush; }
    bool resets() const { return options->cold && device->has<&pk_driver::reset_persisting>(); }
};

enum class Shape { single, batch, graph };

struct Sample {
    double elapsed;  // of all its calls together
    bool spoilt;     // the gate was opened while it was still being queued
};

class Lane {
  public:
    Lane(Bench &bench, Work &work, std::uint64_t stream);

    // A call outside any protocol, waited for.
    void plain(std::int64_t i);

    // The sample with calls i * n .. i * n + n - 1. From a spoilt one on the lane goes without a gate.
    Sample sample(std::int64_t i);

    // Several calls per sample from now on; one graph of all of them if asked for, which throws if it cannot be had.
    void shape(Shape shape, int calls);

    Shape shape() const { return shape_; }
    int calls() const { return calls_; }
    bool gated() const { return gate_ != nullptr; }
    pk_stream_t stream() const { return stream_; }
    Work &work() { return work_; }

    std::string mode_text() const;

  private:
    void lead_in(std::int64_t first);
    void warm_the_way(std::int64_t i);
    void record(const Event &event);
    void queue(std::int64_t i);
    std::string shape_text() const;
    std::string cache_text() const;
    std::string gate_text() const;

    Bench &bench_;
    Work &work_;
    pk_stream_t stream_;
    WatchedGate *gate_;
    bool was_spoilt_ = false;
    int leads_ = 0;  // untimed calls that come right before what is timed
    Shape shape_ = Shape::single;
    int calls_ = 1;
    Graph graph_;
    std::shared_ptr<Stream> own_stream_;
};

}  // namespace portakern
