// The protocol: warm up, calibrate, choose how many calls a sample takes, sample in random blocks, and describe.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>

#include "clock/clock.hpp"
#include "timing/health.hpp"
#include "timing/lane.hpp"
#include "timing/random.hpp"
#include "timing/suspicions.hpp"

namespace portakern {

namespace {

constexpr double graph_below_ns = 10'000;        // warm calls shorter than this are timed several at a time
constexpr double sample_ns = 200'000;            // which then last this long together
constexpr double blocking_sample_ns = 20'000;    // on the host reading the clock costs less
constexpr int most_graph_calls = 128, most_batch_calls = 256, most_blocking_calls = 4096;
constexpr int calibration_samples = 21;
constexpr int latency_samples = 20, fewest_latency_samples = 3;
constexpr double latency_budget_ns = 2e8;

class EmptyWork final : public Work {
  public:
    explicit EmptyWork(Device &device) : device_(device) {}
    void queue(std::int64_t, pk_stream_t stream) override { device_.call<&pk_driver::launch_empty>("launch_empty", stream); }

  private:
    Device &device_;
};

class NoWork final : public Work {
    void queue(std::int64_t, pk_stream_t) override {}
};

struct Entry {
    Entry(Bench &bench, Contender &contender) : contender(contender), lane(bench, *contender.work, contender.stream) {}

    Contender &contender;
    Lane lane;
    Timing timing;
    Latency latency;
    double wall = 0, inside = 0;  // host time of its samples, and what they measured
};

class Protocol {
  public:
    Protocol(const std::shared_ptr<Device> &device, std::vector<Contender> &contenders, const Options &options,
             std::string &failed);

    Measurement run();

  private:
    template <typename Action>
    void each(Action action) {
        for (Entry *entry : by_position_) {
            failed_ = entry->contender.name;
            action(*entry);
        }
        failed_.clear();
    }

    void warm_up(Entry &entry);
    void calibrate(Entry &entry);
    void choose_shapes();
    bool all_as_graphs(const std::vector<double> &estimates);
    Latency latency(Lane &lane);
    void sample_blocks();
    std::vector<double> last_samples() const;
    void sample_block(int block);
    pk_health look_at_health();
    bool settled();
    void describe(Entry &entry);
    void poll();

    std::shared_ptr<Device> device_;
    const Options &options_;
    std::string &failed_;
    std::unique_ptr<WatchedGate> gate_;
    Bench bench_;
    std::vector<std::unique_ptr<Entry>> entries_;
    std::vector<Entry *> by_position_;
    HealthWatch health_;
    Random random_;
    int blocks_ = 0, health_seen_ = 0;
    const char *stopped_ = "samples";
    std::int64_t polled_ = 0;
};

// Whether a driver that has a function can do it on this device: some find out only when they are asked.
template <typename Ask>
bool supported(bool has, Ask ask) {
    if (!has) return false;
    try {
        ask();
    } catch (const DriverError &error) {
        if (error.status() == PK_UNSUPPORTED) return false;
        throw;
    }
    return true;
}

Protocol::Protocol(const std::shared_ptr<Device> &device, std::vector<Contender> &contenders, const Options &options,
                   std::string &failed)
    : device_(device), options_(options), failed_(failed), health_(device), random_(options.seed) {
    const bool gates = device->has<&pk_driver::gate_create>() && device->has<&pk_driver::gate_close>() &&
                       device->has<&pk_driver::gate_open>();
    bench_.device = device;
    bench_.options = &options_;
    supported(gates, [&] { gate_ = std::make_unique<WatchedGate>(device, options.gate_limit_ns); });
    bench_.gate = gate_.get();
    const pk_stream_t stream = device->wrapped(contenders.empty() ? 0 : contenders.front().stream);
    bench_.can_flush = supported(options.cold && device->has<&pk_driver::flush>(),
                                 [&] { device->call<&pk_driver::flush>("flush", stream); });
    bench_.can_launch_empty = supported(device->has<&pk_driver::launch_empty>(),
                                        [&] { device->call<&pk_driver::launch_empty>("launch_empty", stream); });
    if (device->has<&pk_driver::event_create>()) {
        bench_.begin = make_event(device);
        bench_.end = make_event(device);
    }
    for (Contender &contender : contenders) {
        entries_.push_back(std::make_unique<Entry>(bench_, contender));
        by_position_.push_back(entries_.back().get());
    }
}

Measurement Protocol::run() {
    Measurement result;
    each([this](Entry &entry) { warm_up(entry); });
    choose_shapes();
    each([this](Entry &entry) { calibrate(entry); });
    each([this](Entry &entry) { entry.latency = latency(entry.lane); });
    result.before = health_.read();
    sample_blocks();
    result.after = look_at_health();
    result.has_health = health_.known();
    each([this](Entry &entry) { describe(entry); });
    for (const auto &entry : entries_) result.timings.push_back(std::move(entry->timing));
    result.blocks = blocks_;
    result.stopped = stopped_;
    return result;
}

// ---- before sampling

// Until the time is over and the last two windows agree within 2%, for at most five times the time: loading at the first
// launch, caches of allocators, and clocks that are still rising must not be seen in the samples.
void Protocol::warm_up(Entry &entry) {
    const std::int64_t begun = clock_now_ns();
    const auto passed = [begun] { return static_cast<double>(clock_now_ns() - begun); };
    for (int i = 0; i < 3 && (i == 0 || passed() < options_.warm_up_ns * 5); ++i) entry.lane.plain(i);
    double previous = 0, window = 0;
    int in_window = 0;
    std::int64_t i = 0, window_begun = clock_now_ns();
    while (passed() < 5 * options_.warm_up_ns) {
        window += entry.lane.sample(i++).elapsed;
        ++in_window;
        poll();
        if (static_cast<double>(clock_now_ns() - window_begun) < options_.warm_up_ns / 8) continue;
        const double mean = window / in_window;
        if (passed() >= options_.warm_up_ns && std::abs(mean - previous) <= 0.02 * mean) break;
        previous = mean;
        window = 0;
        in_window = 0;
        window_begun = clock_now_ns();
    }
}

double median_of_samples(Lane &lane, int count) {
    std::vector<double> found;
    for (int i = 0; i < count; ++i) found.push_back(lane.sample(i).elapsed);
    return median(std::move(found));
}

void Protocol::calibrate(Entry &entry) {
    if (bench_.flushes() && bench_.flush_ns < 0) {
        // The flush itself: between events on a stream, by the clock around it.
        Device &device = *device_;
        std::vector<double> times;
        for (int i = 0; i < 3; ++i) {
            device.synchronize(entry.lane.stream(), options_.deadline_ns);
            const std::int64_t begun = clock_now_ns();
            device.call<&pk_driver::flush>("flush", entry.lane.stream());
            device.synchronize(entry.lane.stream(), options_.deadline_ns);
            times.push_back(static_cast<double>(clock_now_ns() - begun));
        }
        bench_.flush_ns = median(std::move(times));
    }
    if (!bench_.can_launch_empty) return;
    for (const auto &other : entries_) {  // one that was calibrated on the same stream
        if (other.get() == &entry) break;
        if (other->contender.stream != entry.contender.stream) continue;
        entry.timing.empty = other->timing.empty;
        entry.timing.correction = other->timing.correction;
        return;
    }
    EmptyWork work(*device_);
    Lane lane(bench_, work, entry.contender.stream);
    lane.sample(0);
    entry.timing.empty = median_of_samples(lane, calibration_samples);
    const double kernel = device_->facts().empty_kernel_ns;
    if (kernel > 0 && bench_.begin) entry.timing.correction = std::max(0.0, entry.timing.empty - kernel);
}

// How long a call keeps the caller, how long it is until its work is done, and how much longer the device is then busy.
Latency Protocol::latency(Lane &lane) {
    std::vector<double> launch, end_to_end, rest;
    const std::int64_t first = clock_now_ns();
    for (int i = 0; i < latency_samples; ++i) {
        if (i >= fewest_latency_samples && static_cast<double>(clock_now_ns() - first) > latency_budget_ns) break;
        device_->synchronize(nullptr, options_.deadline_ns);
        std::int64_t begun = 0, queued = 0;
        {
            const Entered entered(lane.work());
            begun = clock_now_ns();
            lane.work().queue_as_called(i, lane.stream());
            queued = clock_now_ns();
        }
        device_->synchronize(lane.stream(), options_.deadline_ns);
        const std::int64_t done = clock_now_ns();
        device_->synchronize(nullptr, options_.deadline_ns);
        launch.push_back(static_cast<double>(queued - begun));
        end_to_end.push_back(static_cast<double>(done - begun));
        rest.push_back(static_cast<double>(clock_now_ns() - done));
        poll();
    }
    return {median(launch), median(end_to_end), median(rest)};
}

// At least `wanted`, within the limits, in whole rounds of inputs.
int calls_for(double wanted, int fewest, int most, const Work &work) {
    const int calls = static_cast<int>(std::clamp(std::ceil(wanted), double(fewest), double(most)));
    const int round = work.round();
    return (calls + round - 1) / round * round;
}

void Protocol::choose_shapes() {
    const bool single = options_.cold || options_.mode == Mode::single;
    if (single) return;
    std::vector<double> estimates;
    each([&](Entry &entry) { estimates.push_back(std::max(median_of_samples(entry.lane, 5), 1.0)); });
    const bool blocking = bench_.blocking();
    const double enough = blocking ? blocking_sample_ns : graph_below_ns;
    const bool is_short = *std::min_element(estimates.begin(), estimates.end()) < enough;
    if (options_.mode == Mode::automatic && !is_short) return;
    if (options_.mode != Mode::batch && !blocking && all_as_graphs(estimates)) return;
    if (options_.mode == Mode::graph) {
        throw DriverError("unsupported", device_->driver() + ": these calls cannot be recorded as graphs", PK_UNSUPPORTED);
    }
    const double wanted = blocking ? blocking_sample_ns : sample_ns;
    const int most = blocking ? most_blocking_calls : most_batch_calls;
    std::size_t at = 0;
    each([&](Entry &entry) {
        entry.lane.shape(Shape::batch, calls_for(wanted / estimates[at++], 1, most, *entry.contender.work));
    });
}

// All or none: a call in a graph is not to be compared with one that pays for its launch.
bool Protocol::all_as_graphs(const std::vector<double> &estimates) {
    if (!device_->has<&pk_driver::capture_begin>() || !device_->has<&pk_driver::capture_end>() ||
        !device_->has<&pk_driver::graph_launch>() || !device_->has<&pk_driver::stream_create>()) {
        return false;
    }
    const auto recordable = [](const Entry *entry) { return entry->contender.work->can_be_recorded(); };
    if (!std::all_of(by_position_.begin(), by_position_.end(), recordable)) return false;
    std::size_t at = 0;
    try {
        each([&](Entry &entry) {
            entry.lane.shape(Shape::graph, calls_for(sample_ns / estimates[at++], 4, most_graph_calls, *entry.contender.work));
            entry.lane.sample(0);
        });
    } catch (const DriverError &error) {
        if (error.lost() || error.status() == PK_TIMEOUT) throw;
        failed_.clear();
        // Lanes that were recorded start anew.
        for (std::size_t i = 0; i < entries_.size(); ++i) {
            Contender &contender = entries_[i]->contender;
            entries_[i] = std::make_unique<Entry>(bench_, contender);
            by_position_[i] = entries_[i].get();
        }
        return false;
    }
    return true;
}

// ---- sampling

void Protocol::sample_blocks() {
    const std::int64_t begun = clock_now_ns();
    const double budget = options_.budget_ns * static_cast<double>(entries_.size());
    double next_look = options_.min_samples;
    while (blocks_ < options_.max_samples) {
        if (options_.refresh && !options_.refresh(blocks_, last_samples())) {
            stopped_ = "asked";
            return;
        }
        sample_block(blocks_);
        ++blocks_;
        if (health_.is_due()) look_at_health();
        poll();
        if (blocks_ >= std::min(fewest_samples, options_.min_samples) && static_cast<double>(clock_now_ns() - begun) > budget) {
            stopped_ = "budget";
            return;
        }
        if (blocks_ < next_look) continue;
        if (settled()) {
            stopped_ = "width";
            return;
        }
        next_look = std::max(next_look + 1, next_look * 1.3);
    }
}

// Marks what was sampled since the last look if the device is found throttled.
pk_health Protocol::look_at_health() {
    const pk_health health = health_.read();
    for (; health_seen_ < blocks_; ++health_seen_) {
        if (health.throttled != 1) continue;
        for (const auto &entry : entries_) entry->timing.flags[static_cast<std::size_t>(health_seen_)] |= flag_throttled;
    }
    return health;
}

std::vector<double> Protocol::last_samples() const {
    std::vector<double> found;
    for (const auto &entry : entries_) {
        if (!entry->timing.samples.empty()) found.push_back(entry->timing.samples.back());
    }
    return found;
}

// Every contender once, in random order: what slows the machine down for a while does not fall on one of them.
void Protocol::sample_block(int block) {
    std::vector<Entry *> order = by_position_;
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(static_cast<std::uint32_t>(i))]);
    for (Entry *entry : order) {
        failed_ = entry->contender.name;
        const std::int64_t begun = clock_now_ns();
        Sample sample = entry->lane.sample(block);
        // A spoilt sample is not kept; the one in its place is taken without a gate.
        if (sample.spoilt) sample = entry->lane.sample(block);
        entry->wall += static_cast<double>(clock_now_ns() - begun);
        entry->inside += sample.elapsed;
        entry->timing.samples.push_back(sample.elapsed / entry->lane.calls());
        entry->timing.flags.push_back(gate_ != nullptr && !entry->lane.gated() ? flag_ungated : 0);
    }
    failed_.clear();
}

std::vector<double> corrected(const Entry &entry) {
    std::vector<double> values = entry.timing.samples;
    const double correction = entry.timing.correction / entry.lane.calls();
    for (double &value : values) value -= correction;
    return values;
}

bool Protocol::settled() {
    if (options_.width <= 0) return false;
    std::vector<std::vector<double>> values;
    std::vector<bool> resolved;
    for (const auto &entry : entries_) {
        values.push_back(corrected(*entry));
        const Interval found = bootstrap_median(values.back(), options_.confidence, options_.seed);
        // A blocking device's clock has no steps to speak of; few different values are chance there.
        resolved.push_back(!bench_.blocking() && at_the_timers_step(values.back(), found));
        if (!resolved.back() && !(found.high - found.low <= options_.width * median(values.back()))) return false;
    }
    for (std::size_t i = 1; i < values.size(); ++i) {
        const Ratio ratio = bootstrap_ratio(values[0], values[i], options_.confidence, options_.seed);
        const Interval interval{ratio.low, ratio.high};
        const bool narrow = interval.high - interval.low <= options_.margin / 2;
        if (resolved[0] && resolved[i]) continue;
        if (!narrow && verdict(interval, options_.margin) == Verdict::undecided) return false;
    }
    return true;
}

void Protocol::describe(Entry &entry) {
    Timing &timing = entry.timing;
    timing.name = entry.contender.name;
    timing.mode = entry.lane.mode_text();
    timing.calls_per_sample = entry.lane.calls();
    timing.correction /= entry.lane.calls();
    std::vector<double> values = timing.samples;
    for (double &value : values) value -= timing.correction;
    timing.median = median(values);
    timing.interval = bootstrap_median(values, options_.confidence, options_.seed);
    const double shares[] = {0.10, 0.25, 0.75, 0.90};
    for (int i = 0; i < 4; ++i) timing.quantiles[i] = quantile(values, shares[i]);
    if (!bench_.blocking()) timing.launch = entry.latency.launch;
    timing.end_to_end = entry.latency.end_to_end;
    timing.overhead = (entry.wall - entry.inside) / static_cast<double>(values.size());
    // What the device answers when nothing at all was queued.
    NoWork nothing;
    Lane idle(bench_, nothing, entry.contender.stream);
    find_suspicions(timing, bench_, bench_.blocking() ? Latency{} : latency(idle), entry.latency);
}

void Protocol::poll() {
    const std::int64_t now = clock_now_ns();
    if (!options_.poll || now - polled_ < 50'000'000) return;
    polled_ = now;
    options_.poll();
}

}  // namespace

Measurement measure(const std::shared_ptr<Device> &device, std::vector<Contender> &contenders, const Options &options,
                    std::string &failed) {
    if (contenders.empty()) throw std::invalid_argument("there is nothing to measure");
    if (options.cold && (options.mode == Mode::graph || options.mode == Mode::batch)) {
        throw std::invalid_argument("only the first of several calls would find cold caches: time graphs and batches warm");
    }
    return Protocol(device, contenders, options, failed).run();
}

}  // namespace portakern
