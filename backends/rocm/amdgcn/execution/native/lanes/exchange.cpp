// Between lanes, and between lanes and scalars. (What goes through LDS's network is in handlers/memory_local.cpp, DPP in
// modifiers.hpp.)
//
// Sources: CDNA3 ISA (V_READLANE, V_READFIRSTLANE, V_WRITELANE), CDNA4 ISA (V_PERMLANE16_SWAP,
// V_PERMLANE32_SWAP), RDNA3/RDNA4 ISA (V_PERMLANE16, V_PERMLANEX16, V_PERMLANE64, their _VAR forms).
#include "../modifiers.hpp"

namespace {

using u32 = uint32_t;
using u64 = uint64_t;

inline void to_scalar(Wave &w, const Op &op, int lane) {
    const Operand &from = op.s[0];
    if (op.d[0].reg == u32(kNull)) return;
    w.s[op.d[0].reg] = source(w, op, 0)[lane];
    w.undefined_s[op.d[0].reg] = from.kind == kVector && w.undefined_v[from.reg] >> lane & 1 ? ~0u : 0u;
}

// The number of a lane, from a scalar source, which must be defined.
inline u32 lane_from(Wave &w, const Op &op, int k) {
    const Operand &o = op.s[k];
    if (o.kind == kScalar && w.undefined_s[o.reg]) fail(w, op, "undefined value", "the lane it names was never written");
    return source(w, op, k)[0] & u32(w.lanes - 1);
}

// With no lane active it is lane 0.
void v_readfirstlane_b32(Wave &w, const Op &op) {
    const u64 exec = exec_of(w);
    to_scalar(w, op, exec ? __builtin_ctzll(exec) : 0);
}

void v_readlane_b32(Wave &w, const Op &op) { to_scalar(w, op, int(lane_from(w, op, 1))); }

// EXEC plays no part; the other lanes stay.
void v_writelane_b32(Wave &w, const Op &op) {
    const u32 lane = lane_from(w, op, 1);
    const Operand &from = op.s[0];
    const u32 reg = op.d[0].reg;
    w.v[reg][lane] = source(w, op, 0)[0];
    const bool undefined = from.kind == kScalar && w.undefined_s[from.reg];
    w.undefined_v[reg] = (w.undefined_v[reg] & ~(u64(1) << lane)) | u64(undefined) << lane;
}

// ---- permutes: each active lane takes the value of another --------------------------------------------------------------------

// `from(lane)` is the lane taken. An inactive one gives its value only under fetch_inactive; without it the lane gets 0 under
// bound_ctrl and keeps its own otherwise, as with DPP.
template <class F> inline void permute(Wave &w, const Op &op, bool fetch_inactive, bool bound_ctrl, F from) {
    const Operand &o = op.s[0];
    u32 was[kLanes];
    __builtin_memcpy(was, source(w, op, 0), sizeof was);
    const u64 undefined = o.kind == kVector ? w.undefined_v[o.reg] : 0;
    u32 *d = destination(w, op);
    Marks &mark = w.undefined_v[op.d[0].reg];
    for (int lane = 0; lane < w.lanes; ++lane) {
        if (!w.mask[lane]) continue;
        const int s = from(lane);
        const bool readable = w.mask[s] || fetch_inactive;
        if (!readable && !bound_ctrl) continue;
        d[lane] = readable ? was[s] : 0;
        mark = (mark & ~(u64(1) << lane)) | (readable ? undefined >> s & 1 : 0) << lane;
    }
}

// Which of 16 lanes each takes: eight selectors of 4 bits in each of two scalars. op_sel: fetch inactive lanes; bound_ctrl.
template <int other_row> void permlane16(Wave &w, const Op &op) {
    const u64 selectors = source(w, op, 1)[0] | u64(source(w, op, 2)[0]) << 32;
    permute(w, op, op.m.op_sel & 1, op.m.op_sel & 2, [selectors](int lane) {
        return ((lane & ~15) ^ other_row) | int(selectors >> 4 * (lane & 15) & 15);
    });
}

// The selector comes from the lane itself.
template <int other_row> void permlane16_var(Wave &w, const Op &op) {
    u32 selectors[kLanes];
    __builtin_memcpy(selectors, source(w, op, 1), sizeof selectors);
    permute(w, op, op.m.op_sel & 1, op.m.op_sel & 2,
            [&selectors](int lane) { return ((lane & ~15) ^ other_row) | int(selectors[lane] & 15); });
}

// Nothing happens in wave32.
void v_permlane64_b32(Wave &w, const Op &op) {
    if (w.lanes == 64) permute(w, op, true, true, [](int lane) { return lane ^ 32; });
}

// ---- swaps ---------------------------------------------------------------------------------------------------------------------

void v_swap_b32(Wave &w, const Op &op) {
    u32 *a = destination(w, op, 0), *b = destination(w, op, 1);
    const u64 exec = exec_of(w);
    Marks &ma = w.undefined_v[op.d[0].reg], &mb = w.undefined_v[op.d[1].reg];
    const u64 changed = (ma ^ mb) & exec;
    ma ^= changed;
    mb ^= changed;
    for (int i = 0; i < w.lanes; ++i) {
        if (!w.mask[i]) continue;
        const u32 x = a[i];
        a[i] = b[i];
        b[i] = x;
    }
}

// Odd rows of the first register with even rows of the second. The guide's text of it knows no EXEC; what happens with lanes
// inactive is not documented, and not modelled.
template <int row> void swap_rows(Wave &w, const Op &op) {
    if (!w.full) fail(w, op, "not modelled", "this swap while lanes are inactive, which AMD does not document");
    u32 *a = destination(w, op, 0), *b = destination(w, op, 1);
    Marks &ma = w.undefined_v[op.d[0].reg], &mb = w.undefined_v[op.d[1].reg];
    for (int lane = 0; lane < w.lanes; ++lane) {
        if (lane & row) continue;
        const u32 x = b[lane];
        b[lane] = a[lane + row];
        a[lane + row] = x;
        const u64 low = mb >> lane & 1, high = ma >> (lane + row) & 1;
        mb = (mb & ~(u64(1) << lane)) | high << lane;
        ma = (ma & ~(u64(1) << (lane + row))) | low << (lane + row);
    }
}

}  // namespace

#define ADD(name) add(#name, name);

HANDLERS(exchange) {
    ADD(v_readfirstlane_b32) ADD(v_readlane_b32) ADD(v_writelane_b32)
    add("v_permlane16_b32", permlane16<0>);
    add("v_permlanex16_b32", permlane16<16>);
    add("v_permlane16_var_b32", permlane16_var<0>);
    add("v_permlanex16_var_b32", permlane16_var<16>);
    ADD(v_permlane64_b32) ADD(v_swap_b32)
    add("v_permlane16_swap_b32", swap_rows<16>);
    add("v_permlane32_swap_b32", swap_rows<32>);
}
