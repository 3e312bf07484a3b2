// Branches, barriers, waits, and what does nothing here.
#include "../aside.hpp"
#include "../fault.hpp"
#include "../scalar.hpp"
#include "../waits.hpp"

namespace machine {
namespace {

void jump(Wave &w, const Op &op) { w.pc = uint32_t(op.immediate[0]); }

void check(Wave &w, const Op &op, bool undefined, const char *what) {
    if (!undefined) return;
    fail(w, op, "undefined value", what);
}

bool vcc_undefined(const Wave &w) { return w.undefined_s[kVcc] | (w.lanes == 64 ? w.undefined_s[kVcc + 1] : 0); }

template <bool Value>
void branch_scc(Wave &w, const Op &op) {
    check(w, op, w.undefined_scc, "the branch depends on what was never written (scc)");
    if (w.scc == Value) jump(w, op);
}

template <bool Zero>
void branch_vcc(Wave &w, const Op &op) {
    const uint64_t undefined = w.undefined_s[kVcc] | (w.lanes == 64 ? uint64_t(w.undefined_s[kVcc + 1]) << 32 : 0);
    // A defined lane that is set decides.
    check(w, op, vcc_undefined(w) && !(vcc_mask(w) & ~undefined), "the branch depends on what was never written (vcc)");
    if ((vcc_mask(w) == 0) == Zero) jump(w, op);
}

template <bool Zero>
void branch_exec(Wave &w, const Op &op) {
    if ((exec_mask(w) == 0) == Zero) jump(w, op);
}

void endpgm(Wave &w, const Op &) { w.state = kEnded; }

void arrive(Wave &w) {
    Pending &p = *w.pending;
    p.arrived = p.done;
    p.arrived_dma = p.done_dma;
    ++w.barriers;
}

void barrier(Wave &w, const Op &) {
    if (in_copy(w)) return;
    arrive(w);
    w.state = kAtBarrier;
}

void barrier_signal(Wave &w, const Op &op) {
    if (in_copy(w)) return;
    if (w.pending->signalled) fail(w, op, "barrier divergence", "the wave signals again without having waited");
    arrive(w);
    w.pending->signalled = true;
}

void barrier_wait(Wave &w, const Op &op) {
    if (in_copy(w)) return;
    if (!w.pending->signalled) fail(w, op, "barrier divergence", "the wave waits at a barrier it has not signalled");
    w.state = kAtBarrier;
}

// immediate[c]: how many may be outstanding on counter c; -1 where it is not waited for.
void waits(Wave &w, const Op &op) {
    for (int c = 0; c < kCounters; ++c)
        if (op.immediate[c] >= 0) wait(w, Counter(c), op.immediate[c]);
}

void nothing(Wave &, const Op &) {}

void trap(Wave &w, const Op &op) { fail(w, op, "trap", "the kernel stops here by itself"); }

// ---- calls ---------------------------------------------------------------------------------------------------------------------

void put_address(Wave &w, const Operand &to, uint64_t value) {
    write_scalar64(w, to, value);
    if (to.reg == uint32_t(kNull)) return;
    w.undefined_s[to.reg] = w.undefined_s[to.reg + 1] = 0;
}

void go_to(Wave &w, const Op &op, const Operand &where) {
    check(w, op, w.undefined_s[where.reg] | w.undefined_s[where.reg + 1], "the address it goes to was never written");
    const uint64_t address = read_scalar64(w, where), position = (address - kCode) / 8;
    const Program &p = *w.program;
    if (address < kCode || address % 8 || position >= p.found_count || p.found[position] < 0)
        fail(w, op, "control flow", "goes to an address where the kernel and the functions it names have no instruction");
    w.pc = uint32_t(p.found[position]);
}

uint64_t behind(const Wave &w, const Op &op) { return kCode + 8 * (uint64_t(w.program->positions[&op - w.program->ops]) + 1); }

void getpc(Wave &w, const Op &op) { put_address(w, op.d[0], kHere); }

void setpc(Wave &w, const Op &op) { go_to(w, op, op.s[0]); }

void swappc(Wave &w, const Op &op) {
    go_to(w, op, op.s[0]);
    put_address(w, op.d[0], behind(w, op));
}

// ---- the MODE register (CDNA3 ISA, "Mode register"; RDNA3 ISA the same for what is here) -------------------------------------

uint32_t mode_bits(const Mode &m) {
    const uint32_t denormals32 = uint32_t(!m.flush32_in) | uint32_t(!m.flush32_out) << 1;
    const uint32_t denormals64 = uint32_t(!m.flush16_64_in) | uint32_t(!m.flush16_64_out) << 1;
    return m.round32 | uint32_t(m.round16_64) << 2 | denormals32 << 4 | denormals64 << 6 | uint32_t(m.clamp_nan_to_zero) << 8 |
           uint32_t(m.ieee) << 9 | uint32_t(m.saturate_f16) << 23;
}

void set_mode(Mode &m, uint32_t bits) {
    m.round32 = bits & 3;
    m.round16_64 = bits >> 2 & 3;
    m.flush32_in = !(bits >> 4 & 1);
    m.flush32_out = !(bits >> 5 & 1);
    m.flush16_64_in = !(bits >> 6 & 1);
    m.flush16_64_out = !(bits >> 7 & 1);
    m.clamp_nan_to_zero = bits >> 8 & 1;
    m.ieee = bits >> 9 & 1;
    m.saturate_f16 = bits >> 23 & 1;
}

uint32_t field(const Op &op) { return uint32_t((uint64_t(1) << op.immediate[2]) - 1); }

// immediate: which register (0 MODE, 1 and 2 the halves of a clock), first bit, number of bits.
void getreg(Wave &w, const Op &op) {
    const uint32_t value = op.immediate[0] ? uint32_t(w.executed >> 32 * (op.immediate[0] - 1)) : mode_bits(w.mode);
    write_scalar(w, op.d[0], value >> op.immediate[1] & field(op));
    w.undefined_s[op.d[0].reg] = 0;
}

void change_mode(Wave &w, const Op &op, uint32_t value) {
    const uint32_t bits = field(op) << op.immediate[1];
    set_mode(w.mode, (mode_bits(w.mode) & ~bits) | (value << op.immediate[1] & bits));
}

void setreg(Wave &w, const Op &op) {
    if (op.immediate[0]) fail(w, op, "control flow", "writes a clock");
    if (op.s[0].kind == kScalar) check(w, op, w.undefined_s[op.s[0].reg], "MODE is set to what was never written");
    change_mode(w, op, read_scalar(w, op.s[0]));
}

}  // namespace

void register_control_once(Adder &add) {
    add("s_branch", jump);
    add("s_cbranch_scc0", branch_scc<false>);
    add("s_cbranch_scc1", branch_scc<true>);
    add("s_cbranch_vccz", branch_vcc<true>);
    add("s_cbranch_vccnz", branch_vcc<false>);
    add("s_cbranch_execz", branch_exec<true>);
    add("s_cbranch_execnz", branch_exec<false>);
    add("s_endpgm", endpgm);
    add("s_barrier", barrier);
    add("s_barrier_signal", barrier_signal);
    add("s_barrier_wait", barrier_wait);
    add("s_getpc_b64", getpc);
    add("s_setpc_b64", setpc);
    add("s_swappc_b64", swappc);
    add("s_getreg_b32", getreg);
    add("s_setreg_b32", setreg);
    add("trap", trap);
    add("waits", waits);
    add("nothing", nothing);
}

}  // namespace machine
