#include "aside.hpp"

namespace machine {

void remember_store(Wave &w, const Region &region, uint64_t address, uint32_t bytes) {
    std::vector<Stored> &stored = w.group->aside[w.number]->stored;
    for (uint64_t at = address; at < address + bytes; ++at) {
        uint8_t *const defined = region.defined ? region.defined + (at - region.begin) : nullptr;
        stored.push_back({at, *reinterpret_cast<const uint8_t *>(at), uint8_t(defined ? *defined : 1), defined});
    }
}

}  // namespace machine
