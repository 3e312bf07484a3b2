#include "aside.hpp"

namespace machine {

bool in_copy(const Wave &w) { return w.recording && w.group->aside[w.number]->changed; }

void ended_turn(Wave &w) {
    if (w.state != kAtBarrier) fail(w, w.program->ops[w.pc - 1], "control flow", "ends between pk_aside and pk_join");
    w.group->aside[w.number]->crossed = true;
}

void remember_store(Wave &w, const Region &region, uint64_t address, uint32_t bytes) {
    std::vector<Stored> &stored = w.group->aside[w.number]->stored;
    for (uint64_t at = address; at < address + bytes; ++at) {
        uint8_t *const defined = region.defined ? region.defined + (at - region.begin) : nullptr;
        stored.push_back({at, *reinterpret_cast<const uint8_t *>(at), uint8_t(defined ? *defined : 1), defined});
    }
}

}  // namespace machine
