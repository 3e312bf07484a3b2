// What is asked of a measurement, and what comes of it. Times are in nanoseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "timing/statistics.hpp"

namespace portakern {

// Something to time. `queue` does or queues the i-th call; i picks its inputs.
class Work {
  public:
    virtual ~Work() = default;
    virtual void queue(std::int64_t i, pk_stream_t stream) = 0;

    // Queues it as a caller does who calls again and again, which may be a cheaper way.
    virtual void queue_as_called(std::int64_t i, pk_stream_t stream) { queue(i, stream); }

    // Around a sample's calls: what must be held to call, and does not count as their time.
    virtual void enter() {}
    virtual void leave() {}

    // After how many calls the inputs come round: a sample of several calls has a whole number of rounds.
    virtual int round() const { return 1; }

    // Brings what a call reads before it begins back into the caches, without doing anything of it.
    virtual void touch(std::int64_t) {}

    // Whether queueing has no effect but on the stream, so that what is queued can be recorded and run again.
    virtual bool can_be_recorded() const { return false; }
};

class Entered {
  public:
    explicit Entered(Work &work) : work_(work) { work_.enter(); }
    ~Entered() { work_.leave(); }
    Entered(const Entered &) = delete;
    Entered &operator=(const Entered &) = delete;

  private:
    Work &work_;
};

struct Contender {
    std::string name;
    std::unique_ptr<Work> work;
    std::uint64_t stream;
};

enum class Mode { automatic, single, graph, batch };

struct Options {
    double budget_ns = 2e9;  // per contender, warming up not counted
    int min_samples = 20, max_samples = 2000;  // the budget may end it before the fewest, but not below `fewest_samples`
    double width = 0.01;   // relative width of the median's interval at which sampling stops
    double margin = 0.01;  // of verdicts
    bool cold = true;
    Mode mode = Mode::automatic;
    std::int64_t deadline_ns = 10'000'000'000;  // for one sample
    std::uint64_t seed = 0;
    double confidence = 0.95;
    double warm_up_ns = 1e8;                    // per contender, at least
    std::int64_t gate_limit_ns = 50'000'000;    // longest that a gate stays closed
    std::function<void()> poll;                 // called between samples now and then; throws to stop
    // Called before each block with its number and the last one's samples (ns a call, by contender), outside of every sample;
    // false ends the sampling.
    std::function<bool(std::int64_t, const std::vector<double> &)> refresh;
};

constexpr int fewest_samples = 5;

enum Flag : std::uint8_t { flag_throttled = 1, flag_ungated = 2 };

struct Timing {
    std::string name, mode;
    std::vector<double> samples;  // per call, as measured
    std::vector<std::uint8_t> flags;
    double correction = 0;  // per call: the event pair's own cost
    double empty = -1;      // an empty launch between the same events; negative if not known
    double median = 0;      // corrected, as are the following
    Interval interval{};
    double quantiles[4] = {};  // 10, 25, 75, 90 %
    double launch = -1, end_to_end = -1;
    double overhead = 0;  // host time of a sample beyond the calls themselves
    int calls_per_sample = 1;
    std::vector<std::string> suspicions;
    bool incomplete = false;  // the samples cannot be all of the work
};

struct Measurement {
    std::vector<Timing> timings;
    int blocks = 0;
    const char *stopped = "";
    bool has_health = false;
    pk_health before{}, after{};
};

// Times the contenders in turns. Throws what a contender's work throws, and DriverError; `failed` then names it.
Measurement measure(const std::shared_ptr<Device> &device, std::vector<Contender> &contenders, const Options &options,
                    std::string &failed);

}  // namespace portakern
