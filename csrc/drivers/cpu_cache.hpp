// The caches of the machine's own processors.
#pragma once

#include <cstdint>

namespace portakern {

// Bytes of the last level, over all its instances, as the system states it; 0 where it does not.
std::int64_t last_level_cache_bytes();

}  // namespace portakern
