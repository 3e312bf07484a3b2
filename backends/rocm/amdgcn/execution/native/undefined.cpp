#include "undefined.hpp"

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
        uint64_t &mark = w.undefined_v[op.d[0].reg + half];
        mark = (mark & ~exec) | (found[half] & exec);
    }
}

}  // namespace

void propagate_undefined(Wave &w, const Op &op) {
    if (op.flags & (kHalves | kCrossed)) return propagate_halves(w, op);
    uint64_t any = 0;
    for (int k = 0; k < op.sources; ++k) any |= of_source(w, op, op.s[k]);
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
