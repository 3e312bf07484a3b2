// Reading and writing scalar operands.
#pragma once

#include "program.hpp"
#include "state.hpp"

namespace machine {

inline uint64_t exec_mask(const Wave &w) { return w.s[kExec] | (w.lanes == 64 ? uint64_t(w.s[kExec + 1]) << 32 : 0); }
inline uint64_t vcc_mask(const Wave &w) { return w.s[kVcc] | (w.lanes == 64 ? uint64_t(w.s[kVcc + 1]) << 32 : 0); }

inline uint32_t read_scalar(const Wave &w, const Operand &o, unsigned dword = 0) {
    if (o.kind == kConstant) {
        const Constant &c = w.program->constants[o.reg];
        return dword & 1 ? c.high[0] : c.low[0];
    }
    switch (o.reg) {
        case kNull: return 0;
        case kScc: return w.scc;
        case kVccz: return vcc_mask(w) == 0;
        case kExecz: return exec_mask(w) == 0;
        default: return w.s[o.reg + dword];
    }
}

inline uint64_t read_scalar64(const Wave &w, const Operand &o) {
    return read_scalar(w, o) | (o.kind == kScalar && o.reg == uint32_t(kNull) ? 0 : uint64_t(read_scalar(w, o, 1)) << 32);
}

inline void write_scalar(Wave &w, const Operand &o, uint32_t value) {
    if (o.reg != uint32_t(kNull)) w.s[o.reg] = value;
}

inline void write_scalar64(Wave &w, const Operand &o, uint64_t value) {
    if (o.reg == uint32_t(kNull)) return;
    w.s[o.reg] = uint32_t(value);
    w.s[o.reg + 1] = uint32_t(value >> 32);
}

}  // namespace machine
