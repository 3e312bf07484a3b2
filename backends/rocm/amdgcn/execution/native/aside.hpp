// Two ways from one place of a kernel to another, executed one after the other by each wave that comes by: first a changed copy
// of the instructions in between, then the kernel's own. What the two leave different is then made undefined or given other
// values, so that a run tells whether anything depends on it. The mutants of benchmarks/amd_mutation (beside.py) hold these
// pseudo-instructions; no assembler knows them.
#pragma once

#include <cstdint>
#include <vector>

#include "group.hpp"
#include "waits.hpp"

namespace machine {

struct Stored {
    uint64_t at;
    uint8_t old, old_defined;
    uint8_t *defined;  // null where the region has no shadow
};

struct Aside {
    bool changed;      // the changed copy is being executed, else the kernel's own instructions
    bool crossed;      // the kernel's own instructions passed a barrier, behind which LDS is others' too
    Wave before, after;
    Pending pending;
    std::vector<uint8_t> shared, scratch;  // as they were
    std::vector<ByteShadow> shadow;
    std::vector<uint8_t> shared_after;     // as the copy left them
    std::vector<bool> defined_after;
    std::vector<Stored> stored, stored_after;  // by the way that is executed, and by the copy: there `old` is what it stored
};

// In the copy a barrier is passed at once: nothing may be read from LDS between pk_aside and pk_join then.
bool in_copy(const Wave &w);
void ended_turn(Wave &w);  // a wave between pk_aside and pk_join waits at a barrier

// Before a store to global memory: what was there, should the store have to be taken back.
void remember_store(Wave &w, const Region &region, uint64_t address, uint32_t bytes);

}  // namespace machine
