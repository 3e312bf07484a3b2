#include "run.hpp"

#include <algorithm>
#include <cstring>

#include "aside.hpp"
#include "fault.hpp"
#include "scalar.hpp"
#include "shared.hpp"
#include "undefined.hpp"

namespace machine {

void fail(const Wave &w, const Op &op, const char *kind, const char *message, int lane) {
    Fault fault;
    fault.kind = kind;
    fault.message = message;
    fault.op = uint32_t(&op - w.program->ops);
    std::copy(w.group->id, w.group->id + 3, fault.group);
    fault.wave = w.number;
    fault.lane = lane;
    const Gap &gap = w.group->gap;
    if (gap.op >= 0 && fault.kind == "undefined value") {
        fault.cause = gap.op;
        fault.because = "read byte " + std::to_string(gap.address) + " of LDS, which " +
                        (gap.stored ? "holds what was never written" : "nobody had written") + " [wave " + std::to_string(gap.wave) +
                        ", lane " + std::to_string(gap.lane) + "]";
    }
    throw fault;
}

Machine::Machine(const Launch &launch) : launch_(launch), group_() {
    const Setup &setup = launch.program->setup;
    const uint64_t items = uint64_t(launch.block[0]) * launch.block[1] * launch.block[2];
    group_.launch = &launch;
    group_.count = int((items + setup.lanes - 1) / setup.lanes);
    const size_t shared = size_t(setup.shared_bytes) + launch.dynamic_shared;
    group_.shared.resize(shared);
    group_.shadow.resize(shared);
    for (int n = 0; n < group_.count; ++n) {
        waves_.push_back(std::make_unique<Wave>());
        pending_.push_back(std::make_unique<Pending>());
        scratch_.emplace_back(size_t(setup.scratch_bytes) * kLanes * 2);
        group_.waves[n] = waves_.back().get();
        waves_.back()->pending = pending_.back().get();
    }
}

Machine::~Machine() = default;

void Machine::start(uint64_t index) {
    group_.id[0] = uint32_t(index % launch_.grid[0]);
    group_.id[1] = uint32_t(index / launch_.grid[0] % launch_.grid[1]);
    group_.id[2] = uint32_t(index / launch_.grid[0] / launch_.grid[1]);
    group_.epoch = 1;
    group_.gap = Gap();
    std::fill(group_.shared.begin(), group_.shared.end(), uint8_t(0xff));
    if (!group_.shadow.empty()) std::memset(static_cast<void *>(group_.shadow.data()), 0, group_.shadow.size() * sizeof(ByteShadow));
    for (int n = 0; n < group_.count; ++n) start(*group_.waves[n], n);
}

namespace {

void set(Wave &w, uint32_t &next, uint32_t value) {
    w.s[next] = value;
    w.undefined_s[next++] = 0;
}

void set_pointer(Wave &w, uint32_t &next, uint64_t value) {
    set(w, next, uint32_t(value));
    set(w, next, uint32_t(value >> 32));
}

// LLVM AMDGPUUsage, "SGPR Register Set Up Order" and "Initial Kernel Execution State".
void set_scalars(Wave &w, const Launch &launch, const Workgroup &group) {
    const Setup &setup = launch.program->setup;
    uint32_t next = 0;
    if (setup.private_buffer) {
        // Base 0, swizzled, and the largest range: accesses through it are recognised by kAddLaneNumber.
        set_pointer(w, next, uint64_t(1) << 63);
        set_pointer(w, next, uint64_t(0x00e00000u) << 32 | 0xffffffffu);
    }
    if (setup.dispatch_pointer) set_pointer(w, next, launch.packet);
    if (setup.queue_pointer) next += 2;
    if (setup.argument_pointer) set_pointer(w, next, launch.arguments);
    if (setup.dispatch_id) next += 2;
    if (setup.flat_scratch) set_pointer(w, next, 0);
    for (uint32_t n = 0; n < setup.preload_length; ++n) {
        uint32_t value;
        std::memcpy(&value, reinterpret_cast<const uint8_t *>(launch.arguments) + (setup.preload_offset + n) * 4, 4);
        set(w, next, value);
    }
    next = setup.user_scalars;
    if (setup.architected_groups) {
        uint32_t ttmp9 = kTrapTemps + 9, ttmp7 = kTrapTemps + 7;
        set(w, ttmp9, group.id[0]);
        set(w, ttmp7, group.id[1] | group.id[2] << 16);
        w.s[kTrapTemps + 8] = uint32_t(w.number) << 25;  // bits 29:25: the wave's number in its workgroup; the others are not known
        w.undefined_s[kTrapTemps + 8] = ~(0x1fu << 25);
    } else {
        if (setup.group_x) set(w, next, group.id[0]);
        if (setup.group_y) set(w, next, group.id[1]);
        if (setup.group_z) set(w, next, group.id[2]);
        if (setup.group_info) next += 1;
        if (setup.scratch_wave_offset) set(w, next, 0);
    }
}

// Work-item numbers arrive packed in v0, 10 bits a dimension, on all generations this machine knows (AMDGPUUsage, "VGPR
// Register Set Up Order", gfx90a and later, gfx11 and later).
void set_items(Wave &w, const Launch &launch, int number, uint64_t items) {
    const Setup &setup = launch.program->setup;
    const uint32_t x = launch.block[0], y = launch.block[1];
    uint64_t active = 0;
    for (uint32_t lane = 0; lane < setup.lanes; ++lane) {
        const uint64_t item = uint64_t(number) * setup.lanes + lane;
        if (item < items) active |= uint64_t(1) << lane;
        const uint32_t ix = uint32_t(item % x), iy = uint32_t(item / x % y), iz = uint32_t(item / x / y);
        w.v[0][lane] = ix | iy << 10 | iz << 20;
    }
    w.undefined_v[0] = 0;
    w.s[kExec] = uint32_t(active);
    w.s[kExec + 1] = uint32_t(active >> 32);
}

Mode mode_of(const Setup &setup) {
    Mode mode{};
    mode.round32 = setup.float_mode & 3;
    mode.round16_64 = setup.float_mode >> 2 & 3;
    const uint32_t d32 = setup.float_mode >> 4 & 3, d64 = setup.float_mode >> 6 & 3;
    mode.flush32_in = !(d32 & 1);    // bit 0 allows denormal inputs, bit 1 outputs (CDNA3 ISA, FP_DENORM)
    mode.flush32_out = !(d32 & 2);
    mode.flush16_64_in = !(d64 & 1);
    mode.flush16_64_out = !(d64 & 2);
    mode.ieee = setup.ieee;
    mode.clamp_nan_to_zero = setup.clamp_nan_to_zero;
    mode.saturate_f16 = setup.saturate_f16;
    return mode;
}

}  // namespace

void Machine::start(Wave &w, int number) {
    const Setup &setup = launch_.program->setup;
    const uint64_t items = uint64_t(launch_.block[0]) * launch_.block[1] * launch_.block[2];
    w.lanes = int(setup.lanes);
    w.number = number;
    w.program = launch_.program;
    w.group = &group_;
    w.pc = 0;
    w.executed = 0;
    w.barriers = 0;
    w.state = kReady;
    w.recording = false;
    group_.aside[number].reset();
    for (Marks &x : w.undefined_v) x = ~uint64_t(0);
    std::memset(w.undefined_s, 0xff, sizeof w.undefined_s);
    std::memset(w.s, 0xff, sizeof w.s);
    std::memset(w.v, 0xff, setup.vectors * sizeof w.v[0]);
    std::memset(w.v[256], 0xff, setup.vectors * sizeof w.v[0] > sizeof w.v[0] * 256 ? sizeof w.v[0] * 256 : setup.vectors * sizeof w.v[0]);
    std::vector<uint8_t> &scratch = scratch_[size_t(number)];
    std::fill(scratch.begin(), scratch.end(), uint8_t(0));
    w.scratch = scratch.data();
    w.scratch_defined = scratch.data() + scratch.size() / 2;
    w.scc = false;
    w.undefined_scc = true;
    w.undefined_s[kExec] = w.undefined_s[kExec + 1] = 0;
    w.s[kNull] = 0;
    w.undefined_s[kNull] = 0;
    for (const auto &[reg, value] : {std::pair<int, uint64_t>{kSharedBase, kSharedAperture}, {kPrivateBase, kPrivateAperture}}) {
        uint32_t at = uint32_t(reg);
        set_pointer(w, at, value);
    }
    w.mode = mode_of(setup);
    reset(*w.pending);
    set_scalars(w, launch_, group_);
    set_items(w, launch_, number, items);
    refresh_mask(w);
}

namespace {

// Two instructions that read before either writes: the first one's result is put aside while the second runs.
void run_pair(Wave &w, const Op &first) {
    const Op &second = *(&first + 1);
    const unsigned to = first.d[0].reg;
    uint32_t old[kLanes], result[kLanes];
    const uint64_t undefined_before = w.undefined_v[to];
    std::memcpy(old, w.v[to], sizeof old);
    if (!(first.flags & kOwnTaint)) propagate_undefined(w, first);
    first.run(w, first);
    std::memcpy(result, w.v[to], sizeof result);
    const uint64_t undefined = w.undefined_v[to];
    std::memcpy(w.v[to], old, sizeof old);
    w.undefined_v[to] = undefined_before;
    if (w.pending->outstanding) check_registers(w, second);
    if (!(second.flags & kOwnTaint)) propagate_undefined(w, second);
    second.run(w, second);
    std::memcpy(w.v[to], result, sizeof result);
    w.undefined_v[to] = undefined;
    w.pc += 2;
}

}  // namespace

void Machine::turn(Wave &w) {
    const Op *const ops = w.program->ops;
    const uint32_t count = w.program->count;
    uint64_t left = launch_.budget - w.executed;
    const uint64_t had = left;
    while (w.state == kReady) {
        if (w.pc >= count) fail(w, ops[count - 1], "control flow", "the program runs past its last instruction");
        const Op &op = ops[w.pc];
        if (left-- == 0) fail(w, op, "endless loop", "the wave has executed as many instructions as it may");
        if (w.pending->outstanding) check_registers(w, op);
        if (op.flags & kPaired) {
            run_pair(w, op);
            continue;
        }
        if (!(op.flags & kOwnTaint)) propagate_undefined(w, op);
        ++w.pc;
        op.run(w, op);
        if (op.flags & kWritesExec) {
            check_exec(w, op);
            refresh_mask(w);
        }
    }
    if (w.recording) ended_turn(w);
    w.executed += had - left;
    executed_ += had - left;
}

// Lets all waves through once every one that runs has arrived.
bool Machine::pass_barrier() {
    int waiting = 0;
    for (int n = 0; n < group_.count; ++n) waiting += group_.waves[n]->state == kAtBarrier;
    if (!waiting) return false;
    const Wave *first = nullptr;
    for (int n = 0; n < group_.count; ++n)
        if (group_.waves[n]->state == kAtBarrier) first = first ? first : group_.waves[n];
    for (int n = 0; n < group_.count; ++n) {
        const Wave &w = *group_.waves[n];
        // Hardware lets the others pass once a wave has ended, so this is no deadlock there; but the barrier does not do what
        // it was written for.
        if (w.state == kEnded && w.barriers < first->barriers) {
            const std::string text = "wave " + std::to_string(n) + " ended after " + std::to_string(w.barriers) +
                                     " barriers, and this wave waits at its " + std::to_string(first->barriers) + ".";
            fail(*first, first->program->ops[first->pc - 1], "barrier divergence", text.c_str());
        }
    }
    ++group_.epoch;
    for (int n = 0; n < group_.count; ++n) {
        Wave &w = *group_.waves[n];
        publish(w);
        if (w.state == kAtBarrier) w.state = kReady;
    }
    return true;
}

void Machine::run(uint64_t index) {
    start(index);
    // The order of the waves is part of the seed; what they may see of each other between barriers is checked by the shadow of
    // LDS, whatever the order.
    uint64_t random = (launch_.seed + index) * 0x9e3779b97f4a7c15u + 1;
    std::vector<int> order(size_t(group_.count));
    for (int n = 0; n < group_.count; ++n) order[size_t(n)] = n;
    do {
        for (size_t n = order.size(); n > 1; --n) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            std::swap(order[n - 1], order[(random >> 33) % n]);
        }
        for (int n : order) turn(*group_.waves[n]);
    } while (pass_barrier());
}

}  // namespace machine
