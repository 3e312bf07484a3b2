// Tensor memory and the products that tcgen05 makes in it, after the PTX ISA ("TensorCore 5th Generation Family Instructions").
//
// Products read operands and change sums some time between their start and the arrival of their commit: at the latest moment,
// or, in a backwards run, at once. What one thread does in tensor memory is known to another only if both have put their fence
// around the barrier between them (tcgen05.fence::before_thread_sync, ::after_thread_sync; a commit has the first one in it),
// and a load or a store only once it was waited for. Products of one thread follow each other where they are of one size and sum
// in one place; one that changes what another reads must wait for it. All other orders are faults, whether they go wrong or not.
#pragma once
#include <cstdint>

#include "races.hpp"

namespace host {

struct Fiber;

/// How many arrivals of commits at barriers have not happened.
extern long arrivals_to_come;

/// Before a block, or a cluster of them; and what it has left undone, or nullptr.
void begin_tensor_memory();
const char* left_in_tensor_memory();

// ---- by whole warps: what each lane says

struct TensorLane {
    Fiber* fiber;
    uint32_t address;
    void *d0, *d8;
};

/// Writes the address of the columns to `to`.
void tensor_alloc(void* const* lanes, uint32_t* to, int columns);
void tensor_relinquish(void* const* lanes);
void tensor_dealloc(void* const* lanes, int columns);

/// 16 lanes of 32 columns from `address` on, into d0 and d8 of each lane once the warp waits.
void tensor_load(void* const* lanes);
void tensor_wait_load(void* const* lanes);

/// The same the other way around, there once the warp waits: each lane has pairs of neighbours (32 bits each), or single words.
void tensor_store(void* const* lanes);
void tensor_store_words(void* const* lanes);
void tensor_wait_store(void* const* lanes);

// ---- by single threads

void tensor_fence_before();
void tensor_fence_after();

/// Of 16-bit floats, 8-bit floats, 8-bit integers.
enum class Kind { kF16, kF8, kI8 };
void tensor_product(Kind kind, uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, bool keep);
/// Of 16-bit floats, the left ones of which are in tensor memory, two in each place along k.
void tensor_product_of_weights(uint32_t d, uint32_t a, uint64_t b, uint32_t instruction, bool keep);

/// What a thread has started.
struct Committed {
    int thread;
    long products;
};
Committed tensor_commit();
/// All of it happens; whoever hears of the clock knows of it.
Clock tensor_complete(const Committed& all);

}  // namespace host
