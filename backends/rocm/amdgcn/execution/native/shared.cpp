#include "shared.hpp"

#include <cstdio>
#include <cstring>

namespace machine {

namespace {

void bounds(const Wave &w, const Op &op, uint32_t address, uint32_t bytes, int lane, const char *verb) {
    const size_t size = w.group->shared.size();
    if (uint64_t(address) + bytes <= size) return;
    char text[200];
    std::snprintf(text, sizeof text, "%s %u bytes at %u of LDS, where the workgroup has %zu", verb, bytes, address, size);
    fail(w, op, "out of bounds", text, lane);
}

[[noreturn]] void race(const Wave &w, const Op &op, int lane, const char *verb, uint32_t address, const char *what, int other,
                       const char *why) {
    char text[300];
    std::snprintf(text, sizeof text, "%s byte %u of LDS, which wave %d %s: %s", verb, address, other, what, why);
    fail(w, op, "LDS race", text, lane);
}

// The last write of a byte must be visible to whom touches it now.
void after_write(const Wave &w, const Op &op, int lane, const ByteShadow &b, uint32_t address, const char *verb, bool by_dma) {
    if (!b.written) return;
    const Wave &other = *w.group->waves[b.writer];
    const Pending &p = *other.pending;
    if (&other == &w) {
        // LDS operations of a wave are done in order; copies to LDS only when their counter says so, and they may overtake.
        if (b.dma == by_dma) return;
        if (b.write <= (b.dma ? p.done_dma : p.done)) return;
        char text[240];
        std::snprintf(text, sizeof text, "%s byte %u of LDS while %s is in flight (%s)", verb, address,
                      b.dma ? "the copy from memory that writes it" : "the LDS write to it",
                      counter_name(w, b.dma ? kVm : kLgkm));
        fail(w, op, "missing wait", text, lane);
    }
    if (b.write <= (b.dma ? p.published_dma : p.published)) return;
    const bool waited = b.write <= (b.dma ? p.done_dma : p.done);
    race(w, op, lane, verb, address, b.dma ? "copied there" : "wrote", b.writer,
         waited ? "no barrier in between" : "that had not been waited for at the last barrier");
}

// Whether byte `n` of two stored values belongs to one NaN with two signs. Copies of a reduction may meet its operands in other
// orders, and then differ in whose NaN they give (RDNA4 ISA, V_MAXIMUM_F32: the first operand's).
bool same_nan(const uint8_t *old, const uint8_t *now, uint32_t n, uint32_t bytes) {
    if (bytes >= 4) {
        uint32_t a, b;
        std::memcpy(&a, old + n / 4 * 4, 4);
        std::memcpy(&b, now + n / 4 * 4, 4);
        if ((a & 0x7fffffff) == 0x7fc00000 && (b & 0x7fffffff) == 0x7fc00000) return true;
    }
    if (bytes < 2) return false;
    uint16_t a, b;
    std::memcpy(&a, old + n / 2 * 2, 2);
    std::memcpy(&b, now + n / 2 * 2, 2);
    return (a & 0x7fff) == (b & 0x7fff) && ((a & 0x7fff) == 0x7e00 || (a & 0x7fff) == 0x7fc0);
}

}  // namespace

uint32_t epoch_of(const Wave &w) { return w.group->epoch + (w.pending->signalled ? 1 : 0); }

void touch_read(Wave &w, const Op &op, uint32_t address, uint32_t bytes, int lane, uint32_t *undefined, bool guess) {
    bounds(w, op, address, bytes, lane, "reads");
    const uint32_t epoch = epoch_of(w), me = 1u << w.number;
    ByteShadow *const shadow = w.group->shadow.data() + address;
    for (uint32_t n = 0; n < bytes; ++n) {
        ByteShadow &b = shadow[n];
        if (!b.defined) *undefined |= 1u << n / 4;
        if (!(guess && b.atomic) && (b.writer != w.number || b.dma)) after_write(w, op, lane, b, address + n, "reads", false);
        if (guess) continue;
        if (b.read_epoch != epoch) {
            b.read_epoch = epoch;
            b.readers = 0;
        }
        b.readers |= me;
    }
}

void touch_write(Wave &w, const Op &op, uint32_t address, uint32_t bytes, int lane, uint32_t number, bool dma,
                 uint32_t undefined, const void *data) {
    bounds(w, op, address, bytes, lane, "writes");
    const uint32_t epoch = epoch_of(w), me = 1u << w.number;
    ByteShadow *const shadow = w.group->shadow.data() + address;
    const uint8_t *const old = w.group->shared.data() + address, *const now = static_cast<const uint8_t *>(data);
    for (uint32_t n = 0; n < bytes; ++n) {
        ByteShadow &b = shadow[n];
        const bool defined = !(undefined >> n / 4 & 1);
        const bool equal = old[n] == now[n] || (b.writer != w.number && same_nan(old, now, n, bytes));
        const bool same = equal && b.defined == defined && !dma && !b.dma;
        if ((b.writer != w.number && !same) || b.dma != dma) after_write(w, op, lane, b, address + n, "overwrites", dma);
        if (b.read_epoch >= epoch && (b.readers & ~me))
            race(w, op, lane, "overwrites", address + n, "reads", __builtin_ctz(b.readers & ~me), "no barrier in between");
        b.write = number;
        b.writer = uint8_t(w.number);
        b.dma = dma;
        b.defined = defined;
        b.written = true;
        b.atomic = false;
    }
    if (!dma) return;
    for (const Event &e : w.pending->events) {  // the wave's own reads that the copy might overtake
        if (!e.counters || !e.reads_shared) continue;
        for (int i = 0; i < kLanes; ++i)
            for (const uint32_t from : {e.address[i], e.address[i] + e.stride})
                if (e.lanes >> i & 1 && from < address + bytes && address < from + e.bytes)
                    fail(w, op, "missing wait", "copies to LDS over bytes that the wave is still reading", lane);
    }
}

void touch_atomic(Wave &w, const Op &op, uint32_t address, uint32_t bytes, int lane, uint32_t number) {
    bounds(w, op, address, bytes, lane, "updates");
    const uint32_t epoch = epoch_of(w), me = 1u << w.number;
    ByteShadow *const shadow = w.group->shadow.data() + address;
    for (uint32_t n = 0; n < bytes; ++n) {
        ByteShadow &b = shadow[n];
        if (!b.defined) fail(w, op, "undefined value", "updates LDS that was never written", lane);
        if (!b.atomic && (b.writer != w.number || b.dma)) after_write(w, op, lane, b, address + n, "updates", false);
        if (b.read_epoch >= epoch && (b.readers & ~me))
            race(w, op, lane, "updates", address + n, "reads", __builtin_ctz(b.readers & ~me), "no barrier in between");
        b.write = number;
        b.writer = uint8_t(w.number);
        b.dma = false;
        b.atomic = true;
    }
}

void publish(Wave &w) {
    Pending &p = *w.pending;
    p.published = p.arrived;
    p.published_dma = p.arrived_dma;
    p.signalled = false;
}

}  // namespace machine
