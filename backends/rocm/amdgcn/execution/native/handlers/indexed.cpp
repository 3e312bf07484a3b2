// Registers numbered at run time: v_movrel*, and v_mov_b32 between s_set_gpr_idx_on and off.
//
// The number is added to that of a source or of the destination (CDNA3 ISA, "VGPR indexing"; RDNA3 ISA, V_MOVRELS_B32).
#include "../scalar.hpp"
#include "../waits.hpp"

namespace machine {
namespace {

enum Indexed : uint8_t { kSource = 1, kDestination = 8 };  // bits of gpr_idx

unsigned moved(const Wave &w, const Op &op, unsigned reg, uint32_t by) {
    if (uint64_t(reg) + by >= w.program->setup.vectors)
        fail(w, op, "out of bounds", "the number of the vector register is beyond those that the kernel has");
    const unsigned to = reg + by;
    if (w.pending->v[to]) fail(w, op, "missing wait", "the vector register it comes to is still being loaded");
    return to;
}

void move(Wave &w, const Op &op, uint32_t by) {
    if (w.undefined_s[kM0]) fail(w, op, "undefined value", "the number of the register (M0) was never written");
    const uint64_t exec = exec_mask(w);
    const unsigned to = op.m.extra & kDestination ? moved(w, op, op.d[0].reg, by) : op.d[0].reg;
    const Operand &from = op.s[0];
    const unsigned reg = from.kind == kVector && op.m.extra & kSource ? moved(w, op, from.reg, by) : from.reg;
    const uint32_t scalar = from.kind == kVector ? 0 : read_scalar(w, from);
    const bool undefined = from.kind == kScalar && w.undefined_s[from.reg];
    for (int i = 0; i < w.lanes; ++i)
        if (exec >> i & 1) w.v[to][i] = from.kind == kVector ? w.v[reg][i] : scalar;
    const uint64_t marks = from.kind == kVector ? w.undefined_v[reg] : undefined ? ~uint64_t(0) : 0;
    w.undefined_v[to] = (w.undefined_v[to] & ~exec) | (marks & exec);
}

void move_indexed(Wave &w, const Op &op) { move(w, op, w.s[kM0] & 0xff); }
void move_relative(Wave &w, const Op &op) { move(w, op, w.s[kM0]); }

void index_on(Wave &w, const Op &op) {
    w.undefined_s[kM0] = op.s[0].kind == kScalar ? w.undefined_s[op.s[0].reg] : 0;
    w.s[kM0] = (w.s[kM0] & ~0xf0ffu) | (read_scalar(w, op.s[0]) & 0xff) | uint32_t(op.m.extra) << 12;
}

}  // namespace

void register_indexed_once(Adder &add) {
    add("v_mov_indexed", move_indexed);
    add("v_movrel", move_relative);
    add("s_set_gpr_idx_on", index_on);
}

}  // namespace machine
