// Branches, barriers, waits, and what does nothing here.
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
    arrive(w);
    w.state = kAtBarrier;
}

void barrier_signal(Wave &w, const Op &op) {
    if (w.pending->signalled) fail(w, op, "barrier divergence", "the wave signals again without having waited");
    arrive(w);
    w.pending->signalled = true;
}

void barrier_wait(Wave &w, const Op &op) {
    if (!w.pending->signalled) fail(w, op, "barrier divergence", "the wave waits at a barrier it has not signalled");
    w.state = kAtBarrier;
}

// immediate[c]: how many may be outstanding on counter c; -1 where it is not waited for.
void waits(Wave &w, const Op &op) {
    for (int c = 0; c < kCounters; ++c)
        if (op.immediate[c] >= 0) wait(w, Counter(c), op.immediate[c]);
}

void nothing(Wave &, const Op &) {}

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
    add("waits", waits);
    add("nothing", nothing);
}

}  // namespace machine
