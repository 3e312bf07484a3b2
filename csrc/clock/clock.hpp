// The monotonic clock that all host times come from.
#pragma once

#include <cstdint>

namespace portakern {

// Nanoseconds since an arbitrary start; never goes back, and is not slewed by time synchronisation where the system
// offers such a clock.
std::int64_t clock_now_ns() noexcept;

// The step that the system states for that clock, in nanoseconds.
std::int64_t clock_resolution_ns() noexcept;

// The smallest difference seen between two reads that differ: what one read costs, or the real step if that is larger.
std::int64_t clock_tick_ns(int reads) noexcept;

// The clock's name in the system's terms.
const char *clock_name() noexcept;

}  // namespace portakern
