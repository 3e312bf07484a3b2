// A program as it was loaded: its instructions and constants, and what a launch fixes.
#pragma once

#include "state.hpp"

namespace machine {

// Where a wave finds its arguments when it starts (LLVM AMDGPUUsage, "Initial Kernel Execution State").
struct Setup {
    uint32_t lanes;               // 64 or 32
    uint32_t vectors, scalars;    // registers allocated; a use beyond them is an error when decoding
    uint32_t shared_bytes, scratch_bytes, argument_bytes;
    uint32_t user_scalars;        // how many, in the order below
    uint32_t private_buffer, dispatch_pointer, queue_pointer, argument_pointer, dispatch_id, flat_scratch, private_size;
    uint32_t preload_length, preload_offset;  // dwords of kernel arguments that arrive in scalar registers
    uint32_t group_x, group_y, group_z, group_info;  // system scalars that follow
    uint32_t scratch_wave_offset;
    uint32_t item_dims;           // 0: x only, 1: x and y, 2: all
    uint32_t architected_groups;  // group numbers arrive in ttmp9 and ttmp7 (gfx12)
    uint32_t generation;          // 90 (gfx90a), 94, 95, 110, 120
    uint32_t float_mode;          // round32 | round16_64 << 2 | denorm32 << 4 | denorm16_64 << 6
    uint32_t ieee, clamp_nan_to_zero, saturate_f16;
};

// Where code lies as far as registers that hold its addresses go: instruction n of the file is at kCode + 8 n. `s_getpc` answers
// kHere instead, which is nowhere: its only use is to be added to what the decoder made of `symbol@rel32`.
constexpr uint64_t kCode = uint64_t(1) << 40, kHere = uint64_t(1) << 39;

struct Program {
    const Op *ops;
    uint32_t count;
    const Constant *constants;
    Setup setup;
    const uint32_t *positions;  // of each instruction in the file
    const int32_t *found;       // of each position its instruction, or -1
    uint32_t found_count;
};

}  // namespace machine
