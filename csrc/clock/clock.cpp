#include "clock/clock.hpp"

#include <limits>

#if defined(__unix__) || defined(__APPLE__)
#include <time.h>
#else
#include <chrono>
#endif

namespace portakern {

#if defined(__unix__) || defined(__APPLE__)

namespace {

#ifdef CLOCK_MONOTONIC_RAW
constexpr clockid_t host_clock = CLOCK_MONOTONIC_RAW;
constexpr const char *host_clock_name = "CLOCK_MONOTONIC_RAW";
#else
constexpr clockid_t host_clock = CLOCK_MONOTONIC;
constexpr const char *host_clock_name = "CLOCK_MONOTONIC";
#endif

std::int64_t to_ns(const timespec &t) { return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec; }

}  // namespace

std::int64_t clock_now_ns() noexcept {
    timespec t{};
    clock_gettime(host_clock, &t);
    return to_ns(t);
}

std::int64_t clock_resolution_ns() noexcept {
    timespec t{};
    clock_getres(host_clock, &t);
    return to_ns(t);
}

const char *clock_name() noexcept { return host_clock_name; }

#else

std::int64_t clock_now_ns() noexcept {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

std::int64_t clock_resolution_ns() noexcept {
    using period = std::chrono::steady_clock::period;
    return period::num * 1'000'000'000 / period::den;
}

const char *clock_name() noexcept { return "std::chrono::steady_clock"; }

#endif

std::int64_t clock_tick_ns(int reads) noexcept {
    std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
    std::int64_t previous = clock_now_ns();
    for (int i = 0; i < reads; ++i) {
        const std::int64_t now = clock_now_ns();
        if (now > previous && now - previous < smallest) smallest = now - previous;
        previous = now;
    }
    return smallest;
}

}  // namespace portakern
