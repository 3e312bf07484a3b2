// What in a contender's times does not fit together.
#pragma once

#include "timing/lane.hpp"

namespace portakern {

// Medians of host times in nanoseconds: of queueing a call, until its stream is done, and from then until all is.
struct Latency {
    double launch = 0, end_to_end = 0, rest = 0;
};

// Adds to the timing's suspicions, each a short text, and says whether it is incomplete. `idle` is the latency of nothing,
// `busy` that of the contender.
void find_suspicions(Timing &timing, const Bench &bench, const Latency &idle, const Latency &busy);

}  // namespace portakern
