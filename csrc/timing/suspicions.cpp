#include "timing/suspicions.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace portakern {

namespace {

template <typename... Args>
std::string text(const char *format, Args... args) {
    char buffer[300];
    std::snprintf(buffer, sizeof(buffer), format, args...);
    return buffer;
}

std::size_t count(const Timing &timing, Flag flag) {
    return static_cast<std::size_t>(
        std::count_if(timing.flags.begin(), timing.flags.end(), [flag](std::uint8_t flags) { return (flags & flag) != 0; }));
}

// The median of the last quarter against that of the first.
double drift(const std::vector<double> &samples) {
    const auto quarter = static_cast<std::ptrdiff_t>(samples.size() / 4);
    const double first = median({samples.begin(), samples.begin() + quarter});
    return median({samples.end() - quarter, samples.end()}) / first - 1;
}

void look_elsewhere(Timing &timing, const Latency &idle, const Latency &busy) {
    std::vector<std::string> &found = timing.suspicions;
    // More than asking costs, and more than a busy host explains.
    if (busy.rest > 2 * idle.rest + 20'000 && busy.rest - idle.rest > 0.05 * timing.median) {
        found.push_back(text("the device works on for %.0f us after the stream is done: work on other streams is not timed",
                             (busy.rest - idle.rest) / 1e3));
        timing.incomplete = true;
    }
    const double explained = busy.launch + timing.median;
    if (busy.end_to_end > 1.5 * explained + 50'000) {
        found.push_back(text("a call takes %.0f us from end to end, but %.0f us to launch and %.0f us on the device",
                             busy.end_to_end / 1e3, busy.launch / 1e3, timing.median / 1e3));
    }
    if (timing.empty > 0 && timing.calls_per_sample == 1 && timing.median + timing.correction < 0.9 * timing.empty) {
        found.push_back("less time than an empty launch: nothing was queued on the stream that was timed");
        timing.incomplete = true;
    }
}

}  // namespace

void find_suspicions(Timing &timing, const Bench &bench, const Latency &idle, const Latency &busy) {
    if (!bench.blocking()) look_elsewhere(timing, idle, busy);
    std::vector<std::string> &found = timing.suspicions;
    const std::size_t n = timing.samples.size();
    if (n >= 40) {
        const double change = drift(timing.samples);
        if (std::abs(change) > 0.05) {
            found.push_back(text("drift: the last quarter of the samples is %.0f%% %s than the first", std::abs(change) * 100,
                                 change > 0 ? "slower" : "faster"));
        }
    }
    if (const std::size_t ungated = count(timing, flag_ungated); ungated > 0) {
        found.push_back(text("%zu of %zu samples were taken without the gate: queueing waited for the device or took too long",
                             ungated, n));
    }
    if (const std::size_t throttled = count(timing, flag_throttled); throttled > 0) {
        found.push_back(text("the device was throttled during %zu of %zu samples", throttled, n));
    }
}

}  // namespace portakern
