#include "waits.hpp"

#include <cstdio>
#include <cstring>

namespace machine {

namespace {

// The most that a counter counts; an issue beyond it stalls until one has returned (CDNA3 ISA; RDNA3 ISA; RDNA4 ISA).
int capacity(const Wave &w, Counter c) {
    const uint32_t generation = w.program->setup.generation;
    if (generation >= 120) return c == kKm ? 31 : c == kExp ? 7 : 63;
    if (c == kExp) return 7;
    if (c == kLgkm) return generation >= 110 ? 63 : 15;
    return 63;
}

bool ordered(Group g) { return g != kScalarLoads && g != kFlats; }

// The group that an operation returns with in one counter. From gfx10 on a flat access, which counts as vector memory and as
// LDS, keeps the order of both (LLVM, GCNSubtarget::hasFlatLgkmVMemCountInOrder); before, it may return early.
Group group_in(const Wave &w, Group g, Counter c) {
    if (g != kFlats || w.program->setup.generation < 100) return g;
    return c == kLgkm ? kLocals : c == kVs ? kStores : kVectorMemoryGroup;
}

void retire(Pending &p, int slot) {
    Event &e = p.events[slot];
    if (e.dwords) {
        uint16_t *const owner = e.file == kVector ? p.v : p.s;
        for (int r = e.reg; r < e.reg + e.dwords; ++r)
            if (owner[r] == slot + 1) owner[r] = 0;
    }
    uint32_t &done = e.dma ? p.done_dma : p.done;
    if (e.writes_shared && done < e.number) done = e.number;
    --p.outstanding;
}

// A load may overwrite the register of another one when both return in order.
bool replaces(const Op &op, const Event &earlier) {
    const bool loads = op.unit == kVectorMemory && earlier.group == kVectorMemoryGroup;
    return loads || (op.unit == kLocalMemory && earlier.group == kLocals);
}

[[noreturn]] void blame(const Wave &w, const Op &op, const Event &e, const char *verb, const Operand &o, int reg) {
    char text[300];
    const char *file = o.kind == kVector ? (reg >= 256 ? "a" : "v") : "s";
    int counter = 0;
    while (!(e.counters >> counter & 1)) ++counter;
    std::snprintf(text, sizeof text, "%s %s%d while the operation of line %u that will write it is in flight (%s)", verb, file,
                  reg >= 256 ? reg - 256 : reg, w.program->ops[e.op].line, counter_name(w, counter));
    fail(w, op, "missing wait", text);
}

void check(const Wave &w, const Op &op, const Operand &o, bool write) {
    const Pending &p = *w.pending;
    const uint16_t *owner = o.kind == kVector ? p.v : o.kind == kScalar ? p.s : nullptr;
    if (!owner) return;
    for (unsigned r = o.reg; r < o.reg + o.dwords; ++r) {
        if (!owner[r]) continue;
        const Event &e = p.events[owner[r] - 1];
        if (write && replaces(op, e)) continue;
        blame(w, op, e, write ? "overwrites" : "reads", o, int(r));
    }
}

}  // namespace

const char *counter_name(const Wave &w, int counter) {
    static const char *const old[] = {"vmcnt", "lgkmcnt", "expcnt", "vscnt", "kmcnt"};
    static const char *const gfx12[] = {"loadcnt", "dscnt", "expcnt", "storecnt", "kmcnt"};
    return (w.program->setup.generation >= 120 ? gfx12 : old)[counter];
}

void reset(Pending &p) { std::memset(static_cast<void *>(&p), 0, sizeof p); }

void wait(Wave &w, Counter c, int count) {
    Pending &p = *w.pending;
    uint16_t *queue = p.queue[c];
    const int size = p.queued[c];
    int later[kGroups] = {};
    bool done[kSlots];
    // The count says how many are outstanding, and not which: an operation is known to be done when as many later ones of its
    // own ordered group could account for all that may be outstanding, or when none is.
    for (int n = size - 1; n >= 0; --n) {
        const Group g = group_in(w, p.events[queue[n]].group, c);
        done[n] = count == 0 || (ordered(g) && later[g] >= count);
        ++later[g];
    }
    int kept = 0;
    for (int n = 0; n < size; ++n) {
        const int slot = queue[n];
        if (!done[n]) {
            queue[kept++] = uint16_t(slot);
            continue;
        }
        p.events[slot].counters &= uint8_t(~(1u << c));
        if (!p.events[slot].counters) retire(p, slot);
    }
    p.queued[c] = kept;
}

Event &issue(Wave &w, const Op &op, uint8_t counters, Group group) {
    Pending &p = *w.pending;
    for (int c = 0; c < kCounters; ++c)
        if (counters >> c & 1 && p.queued[c] >= capacity(w, Counter(c))) wait(w, Counter(c), capacity(w, Counter(c)) - 1);
    int slot = 0;
    while (slot < kSlots && p.events[slot].counters) ++slot;
    for (int c = 0; c < kCounters; ++c)
        if (slot == kSlots || (counters >> c & 1 && p.queued[c] == kSlots))
            fail(w, op, "too much in flight", "more operations without an order are outstanding than the counter can count");
    Event &e = p.events[slot];
    e.op = uint32_t(&op - w.program->ops);
    e.counters = counters;
    e.group = group;
    e.dwords = 0;
    e.reads_shared = e.writes_shared = e.dma = false;
    e.lanes = 0;
    e.stride = 0;
    for (int c = 0; c < kCounters; ++c)
        if (counters >> c & 1) p.queue[c][p.queued[c]++] = uint16_t(slot);
    ++p.outstanding;
    return e;
}

void reserve(Wave &w, const Op &, Event &e, const Operand &to) {
    Pending &p = *w.pending;
    if (to.kind == kScalar && to.reg == kNull) return;
    e.file = to.kind;
    e.reg = uint16_t(to.reg);
    e.dwords = to.dwords;
    uint16_t *const owner = to.kind == kVector ? p.v : p.s;
    for (unsigned r = to.reg; r < to.reg + to.dwords; ++r) owner[r] = uint16_t(&e - p.events + 1);
}

void check_registers(Wave &w, const Op &op) {
    for (int k = 0; k < op.sources; ++k) check(w, op, op.s[k], false);
    for (int k = 0; k < op.destinations; ++k) check(w, op, op.d[k], true);
}

}  // namespace machine
