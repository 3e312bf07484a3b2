// What handlers of vector instructions share.
//
// A file in lanes/ is compiled once per instruction set of the host (baseline, x86-64-v3), so everything in it and
// here has internal linkage, and it uses no templates or inline functions of the standard library: the linker keeps one copy
// of those, which might be the wrong one. Such a file ends with HANDLERS(its name without .cpp) { add("v_x", v_x); ... }.
#pragma once

#include <cstring>

#include "state.hpp"
#include "program.hpp"

#define PK_CAT2(a, b) a##b
#define PK_CAT(a, b) PK_CAT2(a, b)
#define HANDLERS(group)                                                                  \
    namespace machine {                                                                  \
    void PK_CAT(register_##group##_, PK_VARIANT)(Adder & add);                           \
    }                                                                                    \
    void machine::PK_CAT(register_##group##_, PK_VARIANT)([[maybe_unused]] Adder & add)

// The iterations are independent: a destination is either the same register as a source (same lane) or another one.
#define PK_LANES(i, w) _Pragma("GCC ivdep") for (int i = 0; i < (w).lanes; ++i)

namespace {

using namespace machine;

template <class To, class From>
inline To bits(From x) {
    static_assert(sizeof(To) == sizeof(From));
    To y;
    __builtin_memcpy(&y, &x, sizeof y);
    return y;
}

inline uint64_t exec_of(const Wave &w) { return w.s[kExec] | (w.lanes == 64 ? uint64_t(w.s[kExec + 1]) << 32 : 0); }
inline uint64_t all_lanes(const Wave &w) { return w.lanes == 64 ? ~uint64_t(0) : 0xffffffffu; }

// 64 lanes of dword `dword` of source `k`, without modifiers. Valid until the next instruction.
inline const uint32_t *source(Wave &w, const Op &op, int k, int dword = 0) {
    const Operand &o = op.s[k];
    if (o.kind == kVector) return w.v[o.reg + dword];
    if (o.kind == kConstant) {
        const Constant &c = w.program->constants[o.reg];
        return dword & 1 ? c.high : c.low;
    }
    uint32_t *to = w.broadcast[k][dword & 1];
    const uint32_t x = w.s[o.reg + dword];
    for (int i = 0; i < kLanes; ++i) to[i] = x;
    return to;
}

inline uint32_t *destination(Wave &w, const Op &op, int k = 0, int dword = 0) { return w.v[op.d[k].reg + dword]; }

// One bit a lane, as compares write them: inactive lanes get 0 (CDNA3 ISA, VOPC).
inline void write_lane_mask(Wave &w, const Operand &o, uint64_t value) {
    if (o.reg == kNull) return;
    w.s[o.reg] = uint32_t(value);
    if (w.lanes == 64) w.s[o.reg + 1] = uint32_t(value >> 32);
}

inline uint64_t read_lane_mask(const Wave &w, const Operand &o) {
    if (o.kind == kConstant) return w.program->constants[o.reg].low[0] | uint64_t(w.program->constants[o.reg].high[0]) << 32;
    return w.s[o.reg] | (w.lanes == 64 ? uint64_t(w.s[o.reg + 1]) << 32 : 0);
}

// 0 or 1 a lane to a bit a lane.
inline uint64_t pack(const Wave &w, const uint32_t *flags) {
    uint64_t packed = 0;
    for (int i = 0; i < w.lanes; ++i) packed |= uint64_t(flags[i] & 1) << i;
    return packed;
}

template <class F>
inline void map1(Wave &w, const Op &op, F f) {
    const uint32_t *a = source(w, op, 0);
    uint32_t *d = destination(w, op);
    const uint32_t *m = w.mask;
    if (w.full)
        PK_LANES(i, w) d[i] = f(a[i]);
    else
        PK_LANES(i, w) d[i] = m[i] ? f(a[i]) : d[i];
}

template <class F>
inline void map2(Wave &w, const Op &op, F f) {
    const uint32_t *a = source(w, op, 0), *b = source(w, op, 1);
    uint32_t *d = destination(w, op);
    const uint32_t *m = w.mask;
    if (w.full)
        PK_LANES(i, w) d[i] = f(a[i], b[i]);
    else
        PK_LANES(i, w) d[i] = m[i] ? f(a[i], b[i]) : d[i];
}

template <class F>
inline void map3(Wave &w, const Op &op, F f) {
    const uint32_t *a = source(w, op, 0), *b = source(w, op, 1), *c = source(w, op, 2);
    uint32_t *d = destination(w, op);
    const uint32_t *m = w.mask;
    if (w.full)
        PK_LANES(i, w) d[i] = f(a[i], b[i], c[i]);
    else
        PK_LANES(i, w) d[i] = m[i] ? f(a[i], b[i], c[i]) : d[i];
}

template <class F>
inline void compare(Wave &w, const Op &op, F f) {
    const uint32_t *a = source(w, op, 0), *b = source(w, op, 1);
    uint32_t *flags = w.result[0];
    PK_LANES(i, w) flags[i] = f(a[i], b[i]) ? 1u : 0u;
    write_lane_mask(w, op.d[0], pack(w, flags) & exec_of(w));
}

}  // namespace
