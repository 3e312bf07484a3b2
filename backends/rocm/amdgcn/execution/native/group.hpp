// What the waves of a workgroup share, and what one launch fixes for all of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "program.hpp"
#include "state.hpp"

namespace machine {

constexpr int kMaxWaves = 32;   // a workgroup of 1024 in waves of 32
constexpr uint64_t kSharedAperture = uint64_t(1) << 48;   // flat addresses of LDS and scratch: any range that memory never has
constexpr uint64_t kPrivateAperture = uint64_t(2) << 48;
constexpr uint32_t kAddLaneNumber = 1u << 23;  // of a buffer resource's last word (CDNA3 ISA, "Buffer resource", ADD_TID_ENABLE)

// A stretch of memory that the kernel may touch. Everything else, guard bands too, is out of bounds.
struct Region {
    uint64_t begin, end;
    uint8_t *defined;   // a byte for each byte, 0 where never written; null where all of it is
    bool writable;
    std::string name;
};

struct Launch {
    const Program *program;
    std::vector<Region> regions;  // by address
    uint64_t arguments;           // address of the kernel's arguments
    uint64_t packet;              // address of the dispatch packet
    uint32_t grid[3], block[3];
    uint32_t dynamic_shared;
    uint64_t budget;              // instructions a wave may execute
    uint64_t seed;                // of the order in which waves take turns
};

// Who touched a byte of LDS last. Writes are numbered by wave, those of LDS-DMA apart from the others.
struct ByteShadow {
    uint32_t write;        // number of the writing operation
    uint32_t read_epoch;   // barriers passed when it was read last
    uint32_t readers;      // a bit a wave, of that epoch
    uint8_t writer;        // wave
    bool dma;              // written by LDS-DMA
    bool defined;          // holds what was written, and that was defined
    bool written;
    bool atomic;           // by an atomic operation: others of that kind may follow without a barrier
};

struct Aside;  // aside.hpp

// The first read of LDS whose bytes nobody had written, or had stored undefined.
struct Gap {
    int64_t op = -1;  // position in the program
    uint32_t address = 0;
    int wave = 0, lane = 0;
    bool stored = false;
};

struct Workgroup {
    const Launch *launch;
    uint32_t id[3];
    std::vector<uint8_t> shared;
    std::vector<ByteShadow> shadow;
    uint32_t epoch;                           // barriers that all waves passed
    Gap gap;
    int count;                                // waves
    Wave *waves[kMaxWaves];
    std::shared_ptr<Aside> aside[kMaxWaves];  // of waves that execute something in two ways
    uint64_t asides;                          // so far
};

enum State : uint8_t { kReady, kAtBarrier, kEnded };

}  // namespace machine
