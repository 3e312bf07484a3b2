#include "undefined.hpp"

#include <algorithm>
#include <cstring>

#include "scalar.hpp"

namespace machine {

namespace {

uint64_t of_source(const Wave &w, const Op &op, const Operand &o) {
    uint64_t any = 0;
    if (o.kind == kVector) {
        for (unsigned r = o.reg; r < o.reg + o.dwords; ++r) any |= w.undefined_v[r];
        return any;
    }
    if (o.kind != kScalar) return 0;
    if (o.type == kLaneMask && op.unit != kSalu) return w.undefined_s[o.reg] | (w.lanes == 64 ? uint64_t(w.undefined_s[o.reg + 1]) << 32 : 0);
    if (o.reg == uint32_t(kScc)) return w.undefined_scc ? ~uint64_t(0) : 0;
    for (unsigned r = o.reg; r < o.reg + o.dwords; ++r) any |= w.undefined_s[r];
    return any ? ~uint64_t(0) : 0;
}

// One dword of a source.
uint64_t of_half(const Wave &w, const Operand &o, int half) {
    if (o.kind == kVector) return w.undefined_v[o.reg + unsigned(half)];
    return o.kind == kScalar && w.undefined_s[o.reg + unsigned(half)] ? ~uint64_t(0) : 0;
}

void propagate_halves(Wave &w, const Op &op) {
    uint64_t found[2] = {0, 0};
    for (int half = 0; half < 2; ++half)
        for (int k = 0; k < op.sources; ++k) {
            if (op.flags & kCrossed && k != half) continue;
            const int select = op.flags & kCrossed || !half ? op.m.op_sel : op.m.op_sel_hi;
            found[half] |= of_half(w, op.s[k], select >> k & 1);
        }
    const uint64_t exec = exec_mask(w);
    for (unsigned half = 0; half < 2; ++half) {
        Marks &mark = w.undefined_v[op.d[0].reg + half];
        mark = (mark & ~exec) | (found[half] & exec);
    }
}

// The undefined bits of a register, lane by lane.
void vague_bits(const Wave &w, unsigned reg, uint32_t *out) {
    const Marks &m = w.undefined_v[reg];
    for (int i = 0; i < kLanes; ++i) out[i] = !(m.lanes >> i & 1) ? 0 : m.partly >> i & 1 ? w.vague[reg][i] : ~0u;
}

// What moves bits moves undefined ones in the same way: it is run on them. False where a source is no vector register, or the
// count is undefined.
bool move_bits(Wave &w, const Op &op) {
    constexpr unsigned kMost = 4;  // registers of sources
    const int count = op.flags & kMovesBits ? 0 : op.sources - 1;
    unsigned registers[kMost], found = 0;
    if (of_source(w, op, op.s[count])) return false;
    for (int k = 0; k < op.sources; ++k) {
        if (k == count) continue;
        if (op.s[k].kind != kVector || found + op.s[k].dwords > kMost) return false;
        for (unsigned r = op.s[k].reg; r < op.s[k].reg + op.s[k].dwords; ++r)
            if (std::find(registers, registers + found, r) == registers + found) registers[found++] = r;
    }
    const bool counted = op.s[count].kind == kVector;
    if (counted && std::find(registers, registers + found, op.s[count].reg) != registers + found) return false;

    const Operand &to = op.d[0];
    uint32_t values[kMost][kLanes], before[2][kLanes], made[2][kLanes];
    for (unsigned n = 0; n < to.dwords; ++n) std::memcpy(before[n], w.v[to.reg + n], sizeof before[n]);
    for (unsigned n = 0; n < found; ++n) {
        std::memcpy(values[n], w.v[registers[n]], sizeof values[n]);
        vague_bits(w, registers[n], w.v[registers[n]]);
    }
    op.run(w, op);
    for (unsigned n = 0; n < to.dwords; ++n) {
        std::memcpy(made[n], w.v[to.reg + n], sizeof made[n]);
        std::memcpy(w.v[to.reg + n], before[n], sizeof before[n]);
    }
    for (unsigned n = 0; n < found; ++n) std::memcpy(w.v[registers[n]], values[n], sizeof values[n]);

    const uint64_t exec = exec_mask(w);
    for (unsigned n = 0; n < to.dwords; ++n) {
        Marks &m = w.undefined_v[to.reg + n];
        m.lanes &= ~exec, m.partly &= ~exec;
        for (int i = 0; i < kLanes; ++i) {
            const uint64_t lane = uint64_t(1) << i;
            if (!(exec & lane) || !made[n][i]) continue;
            w.vague[to.reg + n][i] = made[n][i];
            m.lanes |= lane, m.partly |= lane;
        }
    }
    return true;
}

}  // namespace

void propagate_undefined(Wave &w, const Op &op) {
    if (op.flags & (kHalves | kCrossed)) return propagate_halves(w, op);
    uint64_t any = 0;
    for (int k = 0; k < op.sources; ++k) any |= of_source(w, op, op.s[k]);
    if (any && op.flags & (kMovesBits | kMovesBitsBy) && move_bits(w, op)) return;
    const uint64_t exec = exec_mask(w);
    uint64_t low = 0;
    if (op.flags & kLowFirst)
        for (int k = 0; k < op.sources; ++k) low |= op.s[k].dwords == 2 ? of_half(w, op.s[k], 0) : of_source(w, op, op.s[k]);
    for (int k = 0; k < op.destinations; ++k) {
        const Operand &o = op.d[k];
        if (o.kind == kVector && op.flags & kLowFirst && o.dwords == 2) {
            w.undefined_v[o.reg] = (w.undefined_v[o.reg] & ~exec) | (low & exec);
            w.undefined_v[o.reg + 1] = (w.undefined_v[o.reg + 1] & ~exec) | (any & exec);
        } else if (o.kind == kVector) {
            for (unsigned r = o.reg; r < o.reg + o.dwords; ++r) w.undefined_v[r] = (w.undefined_v[r] & ~exec) | (any & exec);
        } else if (o.kind == kScalar && o.reg != uint32_t(kNull)) {
            const uint64_t bits = o.type == kLaneMask ? any & exec : any ? ~uint64_t(0) : 0;
            w.undefined_s[o.reg] = uint32_t(bits);
            if (o.dwords > 1) w.undefined_s[o.reg + 1] = uint32_t(bits >> 32);
            for (unsigned r = o.reg + 2; r < o.reg + o.dwords; ++r) w.undefined_s[r] = any ? ~0u : 0;
        }
    }
}

void check_exec(Wave &w, const Op &op) {
    const uint32_t high = w.lanes == 64 ? w.undefined_s[kExec + 1] : 0;
    if (!(w.undefined_s[kExec] | high)) return;
    const uint64_t lanes = w.undefined_s[kExec] | uint64_t(high) << 32;
    fail(w, op, "undefined value", "which lanes are active depends on what was never written", __builtin_ctzll(lanes));
}

void refresh_mask(Wave &w) {
    if (w.lanes == 32) w.s[kExec + 1] = 0;
    const uint64_t exec = exec_mask(w);
    w.full = exec == (w.lanes == 64 ? ~uint64_t(0) : 0xffffffffu);
    for (int i = 0; i < kLanes; ++i) w.mask[i] = uint32_t(0) - uint32_t(exec >> i & 1);
}

}  // namespace machine
