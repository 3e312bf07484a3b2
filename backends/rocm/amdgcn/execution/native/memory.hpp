// Global memory: where a wave's lanes point, and whether they may.
#pragma once

#include "group.hpp"
#include "state.hpp"

namespace machine {

struct Addresses {
    uint64_t lanes;          // that take part
    uint64_t at[kLanes];
    uint64_t limit[kLanes];  // buffers: bytes from `at` on that are in range; reads beyond give 0, writes are dropped
    bool is_private;         // offsets into each lane's private memory
};

// The region of `bytes` bytes at `address`; fails where there is none.
const Region &region_of(const Wave &w, const Op &op, uint64_t address, uint32_t bytes, bool write, int lane);
// Whether all of them were written.
bool is_defined(const Region &region, uint64_t address, uint32_t bytes);
void mark_defined(const Region &region, uint64_t address, uint32_t bytes);
// Fails where an operand of an address was never written.
void check_address(const Wave &w, const Op &op, const Operand &o, uint64_t lanes);

}  // namespace machine
