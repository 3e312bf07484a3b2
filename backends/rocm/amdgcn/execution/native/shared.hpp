// LDS: its bytes, and who touched each of them when.
#pragma once

#include "group.hpp"
#include "waits.hpp"

namespace machine {

uint32_t epoch_of(const Wave &w);  // as far as what the wave does now is concerned

// Checks bounds and order, and marks the bytes as touched by this wave. `dma` tells LDS-DMA, whose writes are numbered apart.
// `guess`: the value is one that a compare and store is tried with, which is no race with atomic operations of others.
// Bit n of `undefined` is set where dword n holds what was never written.
void touch_read(Wave &w, const Op &op, uint32_t address, uint32_t bytes, int lane, uint32_t *undefined, bool guess = false);
// Writes of what is there already are no race with the one that put it there: layouts with copies of a value do that. A NaN is
// what is there already whatever its sign.
void touch_write(Wave &w, const Op &op, uint32_t address, uint32_t bytes, int lane, uint32_t number, bool dma,
                 uint32_t undefined, const void *data);

// Atomic operations of several waves on the same bytes are no race; what they find must have been written.
void touch_atomic(Wave &w, const Op &op, uint32_t address, uint32_t bytes, int lane, uint32_t number);

// What the wave had waited for when it arrived becomes visible to the others. Its reads need no wait: LDS executes the operations
// of all waves in one order, that of their issue (LLVM, SIMemoryLegalizer, on waits at workgroup scope; the compiler relies on it).
void publish(Wave &w);

}  // namespace machine
