// Where in a stretch of memory an access failed, told to who outlives the process that is ended by it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace portakern {

// From now on the first access to `memory` that the system refuses leaves its place, counted from 1, in `report`; the process
// ends by it as it would have.
void watch_faults(std::uintptr_t memory, std::size_t bytes, std::uint64_t *report);

}  // namespace portakern
