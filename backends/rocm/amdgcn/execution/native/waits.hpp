// What is in flight: operations that were issued and whose counter nobody has waited for.
//
// Memory operations take effect when they are issued. What the hardware leaves open until a counter says otherwise is kept
// here, and touching it is an error: the registers a load will write, LDS bytes on their way.
#pragma once

#include "group.hpp"
#include "state.hpp"

namespace machine {

enum Counter : uint8_t { kVm, kLgkm, kExp, kVs, kKm, kCounters };  // gfx12: loadcnt, dscnt, expcnt, storecnt, kmcnt

// Operations of one group return in the order of issue; those of kScalarLoads in any order, as do those of
// kFlats before gfx10.
enum Group : uint8_t { kVectorMemoryGroup, kStores, kScratchStores, kLocals, kMessages, kScalarLoads, kFlats, kGroups };

struct Event {
    uint32_t op;          // position in the program
    uint8_t counters;     // a bit for each that has not been waited for; 0: slot is free
    Group group;
    uint8_t file;         // Kind of the registers it will write
    uint16_t reg, dwords;
    bool reads_shared, writes_shared, dma;
    uint32_t number;      // of an LDS write, see ByteShadow
    uint64_t lanes;       // that read LDS
    uint32_t bytes;       // that each reads at its address
    uint32_t stride;      // a second read lies here from the first; 0: none
    uint32_t address[kLanes];
};

// Operations in flight at once.  gfx12 counts loads, stores and LDS apart, up to 63 of each, and stalls for one of them alone.
constexpr int kSlots = 320;

struct Pending {
    int outstanding;
    uint16_t v[kVectors];  // slot + 1 of what will write this register
    uint16_t s[kScalars];
    Event events[kSlots];
    uint16_t queue[kCounters][kSlots];  // slots, oldest first
    int queued[kCounters];
    uint32_t written, written_dma;      // LDS writes so far
    uint32_t done, done_dma;            // of which waited for
    uint32_t arrived, arrived_dma;      // waited for when the wave arrived at its barrier
    uint32_t published, published_dma;  // waited for before a barrier that all waves passed
    bool signalled;                     // arrived (gfx12) and not yet waited
};

void reset(Pending &p);
// Issues an operation counted by `counters` (bits); returns its event, to be completed by the caller.
Event &issue(Wave &w, const Op &op, uint8_t counters, Group group);
// Its result goes to registers: nobody may touch them until it is waited for.
void reserve(Wave &w, const Op &op, Event &event, const Operand &to);
void wait(Wave &w, Counter counter, int count);
// Fails if `op` touches a register that is in flight.
void check_registers(Wave &w, const Op &op);
const char *counter_name(const Wave &w, int counter);

}  // namespace machine
