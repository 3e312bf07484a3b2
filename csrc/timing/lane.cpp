#include "timing/lane.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "clock/clock.hpp"

namespace portakern {

namespace {

// Between two samples there is a pause, in which a processor's threads fall asleep and data leaves the caches that it shares
// with others. So untimed calls lead into what is timed warm, for about so long; very long calls do without.
constexpr double lead_ns = 1e6, lead_below_ns = 1e8;
constexpr double most_lead_calls = 64;

}  // namespace

Lane::Lane(Bench &bench, Work &work, std::uint64_t stream)
    : bench_(bench), work_(work), stream_(bench.device->wrapped(stream)), gate_(bench.begin ? bench.gate : nullptr) {}

void Lane::plain(std::int64_t i) {
    const std::int64_t begun = clock_now_ns();
    {
        const Entered entered(work_);
        work_.queue(i, stream_);
    }
    bench_.device->synchronize(stream_, bench_.options->deadline_ns);
    const double taken = static_cast<double>(std::max<std::int64_t>(clock_now_ns() - begun, 1));
    const bool leads = !bench_.options->cold && taken < lead_below_ns;
    leads_ = leads ? static_cast<int>(std::clamp(std::ceil(lead_ns / taken), 1.0, most_lead_calls)) : 0;
}

Sample Lane::sample(std::int64_t i) {
    Device &device = *bench_.device;
    const bool events = static_cast<bool>(bench_.begin);
    std::int64_t begun = 0;
    bool in_time = true;
    {
        const Entered entered(work_);
        if (bench_.resets()) device.call<&pk_driver::reset_persisting>("reset_persisting");
        ClosedGate gate(gate_, stream_);
        if (bench_.flushes()) {
            device.call<&pk_driver::flush>("flush", stream_);
            if (bench_.blocking()) warm_the_way(i);
        }
        if (!graph_) lead_in(i * calls_);
        if (!events) {
            // Nothing marks the end of what came before on the stream, so that it has to be waited for.
            device.synchronize(stream_, bench_.options->deadline_ns);
            begun = clock_now_ns();
        }
        record(bench_.begin);
        queue(i);
        record(bench_.end);
        in_time = gate.open();
    }
    device.synchronize(stream_, bench_.options->deadline_ns);
    double elapsed = static_cast<double>(clock_now_ns() - begun);
    if (events) device.call<&pk_driver::event_elapsed>("event_elapsed", bench_.begin.get(), bench_.end.get(), &elapsed);
    if (!in_time) {
        was_spoilt_ = true;
        gate_ = nullptr;
    }
    return {elapsed, !in_time};
}

// The calls before the `first` one, with the inputs that are theirs.
void Lane::lead_in(std::int64_t first) {
    const std::int64_t round = work_.round();
    for (std::int64_t i = first - leads_; i < first; ++i) work_.queue(i >= 0 ? i : (i % round + round) % round, stream_);
}

// Where the calling thread does the work, the flush also emptied the caches of what comes before the work.
void Lane::warm_the_way(std::int64_t i) {
    record(bench_.begin);
    if (bench_.can_launch_empty) bench_.device->call<&pk_driver::launch_empty>("launch_empty", stream_);
    record(bench_.end);
    work_.touch(i);
}

void Lane::record(const Event &event) {
    if (event) bench_.device->call<&pk_driver::event_record>("event_record", stream_, event.get());
}

void Lane::queue(std::int64_t i) {
    if (graph_) {
        bench_.device->call<&pk_driver::graph_launch>("graph_launch", stream_, graph_.get());
        return;
    }
    for (int k = 0; k < calls_; ++k) work_.queue(i * calls_ + k, stream_);
}

void Lane::shape(Shape shape, int calls) {
    if (shape == Shape::graph) {
        Device &device = *bench_.device;
        // A default stream cannot be recorded; a stream of our own always can.
        auto own = std::make_shared<Stream>(bench_.device);
        device.call<&pk_driver::capture_begin>("capture_begin", own->get());
        pk_graph_t graph = nullptr;
        try {
            for (int k = 0; k < calls; ++k) work_.queue(k, own->get());
        } catch (...) {
            if (device.table().capture_end(device.handle(), own->get(), &graph) == PK_OK) Graph(bench_.device, graph);
            throw;
        }
        device.call<&pk_driver::capture_end>("capture_end", own->get(), &graph);
        graph_ = {bench_.device, graph};
        own_stream_ = own;
        stream_ = own->get();
    }
    shape_ = shape;
    calls_ = calls;
}

std::string Lane::mode_text() const {
    return cache_text() + "; " + shape_text() + "; " + gate_text();
}

std::string Lane::cache_text() const {
    if (!bench_.options->cold) {
        if (leads_ == 0 || graph_) return "warm: caches as the calls leave them";
        return "warm: right behind " + std::to_string(leads_) + " untimed calls";
    }
    if (!bench_.flushes()) return "caches as the calls leave them, since this driver cannot flush them";
    char text[160];
    const pk_facts &facts = bench_.device->facts();
    std::snprintf(text, sizeof(text), "cold: caches flushed before each sample (%.0f MB in %.0f us)%s",
                  static_cast<double>(facts.flush_bytes) / 1e6, bench_.flush_ns / 1e3,
                  bench_.resets() ? ", persisting lines reset" : "");
    return text;
}

std::string Lane::shape_text() const {
    const std::string count = std::to_string(calls_);
    if (shape_ == Shape::graph) return "a graph of " + count + " calls, their period reported";
    if (calls_ > 1) return count + " calls one after the other, their period reported";
    return "one call per sample";
}

std::string Lane::gate_text() const {
    std::string clock = bench_.begin ? "between events" : "by the host's clock until the stream is done";
    if (bench_.blocking()) return "around the call, by " + std::string(clock_name());
    if (was_spoilt_) return clock + ", not gated: while it queues, the call waits for the device or takes too long";
    return clock + (gate_ != nullptr ? ", queued behind a closed gate" : ", not gated, since this driver has no gate");
}

}  // namespace portakern
