// Pseudo-instructions that lead a wave through a changed copy of some instructions first: see aside.hpp.
#include "../aside.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "../fault.hpp"
#include "../scalar.hpp"

namespace machine {
namespace {

size_t scratch_size(const Wave &w) { return size_t(w.program->setup.scratch_bytes) * kLanes * 2; }

// pk_aside LABEL: to the copy at LABEL. On a way that has left the copy behind already it does nothing.
void leave(Wave &w, const Op &op) {
    std::shared_ptr<Aside> &aside = w.group->aside[w.number];
    if (aside) return;
    aside = std::make_shared<Aside>();
    aside->changed = true;
    aside->crossed = false;
    aside->before = w;
    aside->pending = *w.pending;
    aside->shared = w.group->shared;
    aside->shadow = w.group->shadow;
    aside->scratch.assign(w.scratch, w.scratch + scratch_size(w));
    w.recording = true;
    w.pc = uint32_t(op.immediate[0]);
}

// What was stored is taken back; `old` is then what had been stored, at the first store to a byte alone.
std::vector<Stored> taken_back(std::vector<Stored> stored) {
    std::map<uint64_t, uint8_t> now;
    for (const Stored &s : stored) now[s.at] = *reinterpret_cast<const uint8_t *>(s.at);
    for (size_t n = stored.size(); n-- > 0;) {
        *reinterpret_cast<uint8_t *>(stored[n].at) = stored[n].old;
        if (stored[n].defined) *stored[n].defined = stored[n].old_defined;
    }
    std::vector<Stored> found;
    for (const auto &[at, value] : now) found.push_back({at, value, 1, nullptr});
    return found;
}

// pk_back: the copy is done, and the wave goes the kernel's own way.
void back(Wave &w, const Op &op) {
    std::shared_ptr<Aside> &aside = w.group->aside[w.number];
    if (!aside || !aside->changed) fail(w, op, "control flow", "a changed copy ends that was not begun");
    Aside &a = *aside;
    a.changed = false;
    a.after = w;
    a.stored_after = taken_back(std::move(a.stored));
    a.stored.clear();
    a.shared_after = w.group->shared;
    for (const ByteShadow &b : w.group->shadow) a.defined_after.push_back(b.defined);
    w = a.before;
    *w.pending = a.pending;
    w.group->shared = a.shared;
    w.group->shadow = a.shadow;
    std::copy(a.scratch.begin(), a.scratch.end(), w.scratch);
    w.recording = true;
    // `before` was kept with the position behind pk_aside.
}

uint64_t mixed(uint64_t x) {
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
}

// Other values in place of the halves of a dword in which two values differ: NaN, infinities, zero or any bits, in the formats
// that registers hold.
uint32_t another(uint32_t own, uint32_t changed, uint64_t random) {
    static const uint32_t whole[] = {0x7fc00000, 0x7f800000, 0xff800000, 0, 0x42f00000, 0xc2f00000};
    static const uint32_t half[] = {0x7fc0, 0x7f80, 0xff80, 0x7e00, 0x7c00, 0xfc00, 0, 0x42f0};
    const uint32_t differ = own ^ changed;
    const bool low = differ & 0xffff, high = differ >> 16;
    const uint32_t pick = uint32_t(random >> 8);
    uint32_t value = uint32_t(random >> 32);
    if (low && high && random & 1) {
        if (pick % 8 < 6) value = whole[pick % 8];
    } else if (pick & 1) {
        value = half[pick >> 1 & 7] | half[pick >> 4 & 7] << 16;
    }
    const uint32_t mask = (low ? 0xffffu : 0) | (high ? 0xffff0000u : 0);
    return (own & ~mask) | (value & mask);
}

class Joined {
  public:
    Joined(Wave &w, const Op &op, const Aside &a) : w_(w), op_(op), a_(a), random_(mixed(++w.group->asides + 977 * uint64_t(op.immediate[0]))) {}

    void run() {
        const Wave &b = a_.after;
        for (int k = 0; k < 2; ++k)
            if (w_.s[kExec + k] != b.s[kExec + k]) fail(w_, op_, "differs", "other lanes are active");
        if (std::memcmp(&w_.mode, &b.mode, sizeof w_.mode)) fail(w_, op_, "differs", "MODE is another one");
        stores();
        for (unsigned r = 0; r < kVectors; ++r) vector(r);
        for (unsigned r = 0; r < kScalars; ++r)
            if (r != kExec && r != kExec + 1) scalar(r);
        if (w_.scc != b.scc || w_.undefined_scc != b.undefined_scc) {
            if (undefined()) w_.undefined_scc = true;
            else w_.scc = !w_.scc;
        }
        if (!a_.crossed) shared();
    }

  private:
    bool undefined() const { return op_.immediate[0] == 0; }
    uint64_t next() { return random_ = mixed(random_ + 0x632be59bd9b4e019u); }

    void stores() {
        std::map<uint64_t, uint8_t> own, changed;
        for (const Stored &s : a_.stored) own[s.at] = *reinterpret_cast<const uint8_t *>(s.at);
        for (const Stored &s : a_.stored_after) changed[s.at] = s.old;
        if (own != changed) fail(w_, op_, "differs", "other bytes are stored");
    }

    void vector(unsigned r) {
        const Wave &b = a_.after;
        const uint64_t others = b.undefined_v[r] & ~w_.undefined_v[r];
        for (int i = 0; i < w_.lanes; ++i) {
            const uint64_t bit = uint64_t(1) << i;
            if (w_.undefined_v[r] & bit || (w_.v[r][i] == b.v[r][i] && !(others & bit))) continue;
            if (undefined()) w_.undefined_v[r] |= bit;
            else w_.v[r][i] = another(w_.v[r][i], others & bit ? ~w_.v[r][i] : b.v[r][i], next());
        }
    }

    void scalar(unsigned r) {
        const uint32_t differ = (w_.s[r] ^ a_.after.s[r]) | a_.after.undefined_s[r];
        if (undefined()) w_.undefined_s[r] |= differ;
        else w_.s[r] ^= differ & ~w_.undefined_s[r] & (op_.immediate[0] == 1 ? ~0u : uint32_t(next() >> 20));
    }

    void shared() {
        std::vector<uint8_t> &own = w_.group->shared;
        for (size_t n = 0; n + 4 <= own.size(); n += 4) {
            uint32_t x, y;
            std::memcpy(&x, own.data() + n, 4);
            std::memcpy(&y, a_.shared_after.data() + n, 4);
            for (size_t k = 0; k < 4; ++k)
                if (w_.group->shadow[n + k].defined && !a_.defined_after[n + k]) y = (y & ~(0xffu << 8 * k)) | (~x & 0xffu << 8 * k);
            if (x == y) continue;
            if (undefined()) {
                for (size_t k = 0; k < 4; ++k)
                    if ((x ^ y) >> 8 * k & 0xff) w_.group->shadow[n + k].defined = false;
            } else {
                const uint32_t z = another(x, y, next());
                std::memcpy(own.data() + n, &z, 4);
            }
        }
    }

    Wave &w_;
    const Op &op_;
    const Aside &a_;
    uint64_t random_;
};

// pk_join N: where both ways meet. With N = 0 what differs is undefined from here on, with others it has other values, by N; bits
// of scalar registers have the copy's with N = 1.
void join(Wave &w, const Op &op) {
    std::shared_ptr<Aside> &aside = w.group->aside[w.number];
    if (!aside) return;
    if (aside->changed) fail(w, op, "control flow", "the changed copy runs into the kernel's own instructions");
    if (!aside->scratch.empty()) fail(w, op, "not modelled", "two ways through private memory");
    Joined(w, op, *aside).run();
    aside.reset();
    w.recording = false;
}

}  // namespace

void register_aside_once(Adder &add) {
    add("pk_aside", leave);
    add("pk_back", back);
    add("pk_join", join);
}

}  // namespace machine
