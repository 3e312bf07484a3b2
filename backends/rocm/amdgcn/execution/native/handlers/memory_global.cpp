// Vector memory: global_*, flat_*, scratch_*, buffer_*, and the copies of the last and of global_* to LDS.
//
// Flat addresses from the apertures on are in LDS or in the lane's private memory. A buffer whose resource adds the lane's number
// (ADD_TID_ENABLE) is private memory too: the resource that the driver gives a kernel for its stack (LLVM AMDGPUUsage, "Private
// Segment Buffer").
#include <algorithm>
#include <cstring>

#include "../aside.hpp"
#include "../atomics.hpp"
#include "../memory.hpp"
#include "../scalar.hpp"
#include "../shared.hpp"
#include "../waits.hpp"

namespace machine {
namespace {

enum Space { kGlobal, kFlat, kScratch, kBuffer };

enum Where { kMemory, kPrivate, kLocal };  // what an address of one lane is in

bool separate_stores(const Wave &w) { return w.program->setup.generation >= 110; }

uint64_t vector_offset(const Wave &w, const Operand &o, int lane) {
    if (o.kind == kNone) return 0;
    const uint64_t low = w.v[o.reg][lane];
    return o.dwords == 2 ? low | uint64_t(w.v[o.reg + 1][lane]) << 32 : low;
}

uint64_t scalar_offset(const Wave &w, const Operand &o) {
    if (o.kind == kNone) return 0;
    return o.dwords == 2 ? read_scalar64(w, o) : read_scalar(w, o);
}

// The offset of the scalar is in bytes of all lanes together, which lie side by side dword by dword.
void private_addresses(Wave &w, const Op &op, const Operand &vaddr, const Operand &offset, Addresses &a) {
    if (op.m.idxen) fail(w, op, "not modelled", "private memory by an index");
    const uint64_t fixed = uint32_t(op.immediate[0]) + scalar_offset(w, offset) / uint32_t(w.lanes);
    for (int i = 0; i < w.lanes; ++i)
        if (a.lanes >> i & 1) a.at[i] = fixed + (op.m.offen ? w.v[vaddr.reg][i] : 0), a.limit[i] = ~uint64_t(0);
}

// Range checks of buffers: CDNA3 ISA, RDNA3 ISA. A raw buffer (stride 0) is checked a dword at a time.
void buffer_addresses(Wave &w, const Op &op, const Operand &vaddr, const Operand &resource, const Operand &offset, Addresses &a) {
    const uint32_t *r = w.s + resource.reg;
    a.is_private = r[3] & kAddLaneNumber;
    if (a.is_private) return private_addresses(w, op, vaddr, offset, a);
    const uint64_t base = r[0] | uint64_t(r[1] & 0xffff) << 32;
    const uint32_t stride = r[1] >> 16 & 0x3fff, records = r[2];
    if (stride || op.m.idxen)
        fail(w, op, "not modelled", "buffer access with an index or a stride: this machine knows raw buffers only");
    const uint32_t fixed = uint32_t(op.immediate[0]);
    const uint32_t scalar = uint32_t(scalar_offset(w, offset));
    for (int i = 0; i < w.lanes; ++i) {
        if (!(a.lanes >> i & 1)) continue;
        // A lane may have a negative offset that the instruction's own makes positive: from GFX9 on the sum is what is checked
        // (piglit's negative_mubuf_vaddr, and Mesa's ACO folds such sums); Triton's loads of flipped rows are of that kind.
        const uint64_t within = uint32_t((op.m.offen ? w.v[vaddr.reg][i] : 0) + fixed);
        // The scalar offset is added to the address and shortens the range by as much.
        const uint64_t range = records > scalar ? records - scalar : 0;
        a.at[i] = base + scalar + within;
        a.limit[i] = within < range ? range - within : 0;
    }
}

template <Space S>
void addresses(Wave &w, const Op &op, const Operand &vaddr, const Operand &saddr, const Operand &soffset, Addresses &a) {
    a.lanes = exec_mask(w);
    a.is_private = S == kScratch;
    check_address(w, op, vaddr, a.lanes);
    check_address(w, op, saddr, a.lanes ? 1 : 0);
    check_address(w, op, soffset, a.lanes ? 1 : 0);
    if (S == kBuffer) return buffer_addresses(w, op, vaddr, saddr, soffset, a);
    // Both parts of an offset into private memory are signed from GFX12 on (LLVM: FeatureSignedScratchOffsets); before, the
    // compiler adds what may be negative itself.
    const bool is_signed = S == kScratch && w.program->setup.generation >= 120;
    const auto part = [&](uint64_t x) { return is_signed ? uint64_t(int64_t(int32_t(x))) : x; };
    const uint64_t base = part(scalar_offset(w, saddr)) + uint64_t(int64_t(op.immediate[0]));
    for (int i = 0; i < w.lanes; ++i) a.at[i] = base + part(vector_offset(w, vaddr, i)), a.limit[i] = ~uint64_t(0);
}

// Private memory: an offset into the lane's own bytes.
uint8_t *scratch_at(Wave &w, const Op &op, uint64_t offset, uint32_t bytes, int lane, bool write) {
    const uint64_t size = w.program->setup.scratch_bytes;
    if (offset + bytes > size) {
        const std::string text = std::string(write ? "writes " : "reads ") + std::to_string(bytes) + " bytes at " +
                                 std::to_string(int64_t(offset)) + " of scratch, where a lane has " + std::to_string(size);
        fail(w, op, "out of bounds", text.c_str(), lane);
    }
    return w.scratch + size * uint64_t(lane) + offset;
}

uint8_t *scratch_shadow(Wave &w, const uint8_t *p) { return w.scratch_defined + (p - w.scratch); }

template <Space S>
Where where(const Addresses &a, int lane) {
    if (S == kScratch || (S == kBuffer && a.is_private)) return kPrivate;
    if (S != kFlat || a.at[lane] < kSharedAperture) return kMemory;
    return a.at[lane] < kPrivateAperture ? kLocal : kPrivate;
}

uint64_t in_aperture(uint64_t at) { return at & 0xffffffff; }

// Reads `bytes` at an address into `words`.  Bit n of the result is set where dword n is undefined.
template <Space S>
uint32_t read(Wave &w, const Op &op, const Addresses &a, int lane, uint32_t bytes, uint32_t *words) {
    const uint64_t at = a.at[lane];
    const Where in = where<S>(a, lane);
    if (in == kLocal) {
        uint32_t undefined = 0;
        touch_read(w, op, uint32_t(at), bytes, lane, &undefined);
        std::memcpy(words, w.group->shared.data() + uint32_t(at), bytes);
        return undefined;
    }
    if (in == kPrivate) {
        const uint64_t offset = S == kFlat ? in_aperture(at) : at;
        const uint8_t *p = scratch_at(w, op, offset, bytes, lane, false), *d = scratch_shadow(w, p);
        std::memcpy(words, p, bytes);
        uint32_t undefined = 0;
        for (uint32_t n = 0; n < bytes; ++n) undefined |= uint32_t(!d[n]) << n / 4;
        return undefined;
    }
    uint32_t in_range = bytes;
    if (S == kBuffer && a.limit[lane] < bytes) {
        std::memset(words, 0, (bytes + 3) / 4 * 4);
        in_range = uint32_t(a.limit[lane]) / 4 * 4;
        if (!in_range) return 0;
    }
    const Region &region = region_of(w, op, at, in_range, false, lane);
    std::memcpy(words, reinterpret_cast<const void *>(at), in_range);
    uint32_t undefined = 0;
    for (uint32_t n = 0; n < in_range; n += 4) undefined |= uint32_t(!is_defined(region, at + n, std::min(4u, in_range - n))) << n / 4;
    return undefined;
}

// `number` is that of the LDS write, should it be one.
template <Space S>
void write(Wave &w, const Op &op, const Addresses &a, int lane, uint32_t bytes, const uint32_t *words, uint32_t undefined,
           uint32_t number) {
    const uint64_t at = a.at[lane];
    const Where in = where<S>(a, lane);
    if (in == kLocal) {
        touch_write(w, op, uint32_t(at), bytes, lane, number, false, undefined, words);
        std::memcpy(w.group->shared.data() + uint32_t(at), words, bytes);
        return;
    }
    if (in == kPrivate) {
        uint8_t *p = scratch_at(w, op, S == kFlat ? in_aperture(at) : at, bytes, lane, true);
        std::memcpy(p, words, bytes);
        uint8_t *const shadow = scratch_shadow(w, p);
        for (uint32_t n = 0; n < bytes; ++n) shadow[n] = !(undefined >> n / 4 & 1);
        return;
    }
    uint32_t in_range = bytes;
    if (S == kBuffer && a.limit[lane] < bytes) in_range = uint32_t(a.limit[lane]) / 4 * 4;
    if (!in_range) return;
    const Region &region = region_of(w, op, at, in_range, true, lane);
    if (undefined) fail(w, op, "undefined value", ("stores to " + region.name + " what was never written").c_str(), lane);
    if (w.recording) remember_store(w, region, at, in_range);
    std::memcpy(reinterpret_cast<void *>(at), words, in_range);
    mark_defined(region, at, in_range);
}

enum Half { kWhole, kLow, kHigh };  // which half of the register takes part (d16)

void put(Wave &w, const Operand &to, int lane, const uint32_t *words, uint32_t bytes, bool sign, Half half,
         uint32_t undefined) {
    uint32_t x = words[0];
    if (bytes == 1) x = sign ? uint32_t(int32_t(int8_t(x))) : x & 0xff;
    if (bytes == 2) x = sign ? uint32_t(int32_t(int16_t(x))) : x & 0xffff;
    const uint32_t old = w.v[to.reg][lane];
    if (half == kLow) x = (old & 0xffff0000u) | (x & 0xffff);
    if (half == kHigh) x = (old & 0xffffu) | x << 16;
    w.v[to.reg][lane] = x;
    for (unsigned n = 1; n < to.dwords; ++n) w.v[to.reg + n][lane] = words[n];
    const uint64_t bit = uint64_t(1) << lane;
    for (unsigned n = 0; n < to.dwords; ++n)
        w.undefined_v[to.reg + n] = undefined >> n & 1 ? w.undefined_v[to.reg + n] | bit : w.undefined_v[to.reg + n] & ~bit;
}

template <Space S>
uint8_t load_counters() {
    return S == kFlat ? 1u << kVm | 1u << kLgkm : 1u << kVm;
}

template <Space S>
uint8_t store_counters(const Wave &w) {
    const uint8_t own = separate_stores(w) ? 1u << kVs : 1u << kVm;
    return S == kFlat ? own | 1u << kLgkm : own;
}

template <Space S>
Group store_group(const Wave &w) {
    if (S == kFlat) return kFlats;
    if (!separate_stores(w)) return kVectorMemoryGroup;
    return S == kScratch ? kScratchStores : kStores;
}

template <Space S, uint32_t Bytes, bool Sign, Half H>
void load(Wave &w, const Op &op) {
    Addresses a;
    addresses<S>(w, op, op.s[0], op.s[1], op.s[2], a);
    const Operand &to = op.d[0];
    for (int i = 0; i < w.lanes; ++i) {
        if (!(a.lanes >> i & 1)) continue;
        uint32_t words[4] = {};
        const uint32_t undefined = read<S>(w, op, a, i, Bytes, words);
        put(w, to, i, words, Bytes, Sign, H, undefined);
    }
    reserve(w, op, issue(w, op, load_counters<S>(), S == kFlat ? kFlats : kVectorMemoryGroup), to);
}

template <Space S, uint32_t Bytes, Half H>
void store(Wave &w, const Op &op) {
    const bool data_first = S == kBuffer;
    const Operand &vaddr = op.s[data_first ? 1 : 0], &data = op.s[data_first ? 0 : 1];
    Addresses a;
    addresses<S>(w, op, vaddr, op.s[2], op.s[3], a);
    const uint32_t number = S == kFlat ? ++w.pending->written : 0;
    for (int i = 0; i < w.lanes; ++i) {
        if (!(a.lanes >> i & 1)) continue;
        uint32_t words[4] = {};
        uint32_t undefined = 0;
        for (unsigned n = 0; n < data.dwords; ++n) {
            words[n] = w.v[data.reg + n][i];
            undefined |= uint32_t(w.undefined_v[data.reg + n] >> i & 1) << n;
        }
        if (H == kHigh) words[0] >>= 16;
        write<S>(w, op, a, i, Bytes, words, undefined, number);
    }
    Event &e = issue(w, op, store_counters<S>(w), store_group<S>(w));
    e.writes_shared = S == kFlat;
    e.number = number;
}

// Copies from memory to LDS without passing a register: lane i writes at LDS base + M0 + offset + i * bytes
// (CDNA3 ISA, CDNA4 ISA for 96 and 128 bits).
template <Space S, uint32_t Bytes>
void load_lds(Wave &w, const Op &op) {
    Addresses a;
    if (w.undefined_s[kM0]) fail(w, op, "undefined value", "M0, where in LDS the copy goes, was never written");
    addresses<S>(w, op, op.s[0], op.s[1], op.s[2], a);
    Pending &p = *w.pending;
    const uint32_t number = ++p.written_dma;
    const uint32_t base = w.s[kM0] + uint32_t(op.immediate[0]);
    for (int i = 0; i < w.lanes; ++i) {
        if (!(a.lanes >> i & 1)) continue;
        uint32_t words[4] = {};
        const uint32_t undefined = read<S>(w, op, a, i, Bytes, words);
        const uint32_t at = base + uint32_t(i) * (Bytes < 4 ? 4 : Bytes);
        touch_write(w, op, at, Bytes < 4 ? 4 : Bytes, i, number, true, undefined, words);
        std::memcpy(w.group->shared.data() + at, words, Bytes < 4 ? 4 : Bytes);
    }
    Event &e = issue(w, op, load_counters<S>(), kVectorMemoryGroup);
    e.writes_shared = e.dma = true;
    e.number = number;
}

// Memory as a kernel of many workgroups sees it: the update is atomic among the host's threads too.
template <class T, class F>
T update(uint64_t address, F f) {
    T *const p = reinterpret_cast<T *>(address);
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    T now = f(old);
    while (!__atomic_compare_exchange_n(p, &old, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) now = f(old);
    return old;
}

template <class T>
T word(const Wave &w, const Operand &o, int lane, unsigned first = 0) {
    T x = T(w.v[o.reg + first][lane]);
    if (sizeof(T) == 8) x |= T(uint64_t(w.v[o.reg + first + 1][lane]) << 32);
    return x;
}

// The old value, where memory of the workgroup's own is updated.
template <class T, class F>
T update_own(uint8_t *p, F f) {
    T old;
    std::memcpy(&old, p, sizeof old);
    const T now = f(old);
    std::memcpy(p, &now, sizeof now);
    return old;
}

template <Space S, class T, class F>
T update_at(Wave &w, const Op &op, const Addresses &a, int lane, uint32_t number, F f) {
    const uint64_t at = a.at[lane];
    switch (where<S>(a, lane)) {
        case kLocal:
            touch_atomic(w, op, uint32_t(at), sizeof(T), lane, number);
            return update_own<T>(w.group->shared.data() + uint32_t(at), f);
        case kPrivate:
            return update_own<T>(scratch_at(w, op, S == kFlat ? in_aperture(at) : at, sizeof(T), lane, true), f);
        default:
            break;
    }
    const Region &region = region_of(w, op, at, sizeof(T), true, lane);
    if (!is_defined(region, at, sizeof(T)))
        fail(w, op, "undefined value", ("updates " + region.name + ", which was never written there").c_str(), lane);
    return update<T>(at, f);
}

// f(old, data) -> new. `Compare`: the data's second half is what the first replaces only where memory holds it. A buffer's data
// stands first where nothing comes back, and else is read again behind the other sources.
template <Space S, class T, bool Compare, class F>
void atomic(Wave &w, const Op &op, F f) {
    if (w.recording) fail(w, op, "not modelled", "an atomic operation between pk_aside and pk_join");
    const bool returns = op.destinations != 0, data_first = S == kBuffer && !returns;
    const Operand &vaddr = op.s[data_first ? 1 : 0], &data = op.s[S != kBuffer ? 1 : returns ? 3 : 0];
    Addresses a;
    addresses<S>(w, op, vaddr, op.s[S == kBuffer && returns ? 1 : 2], op.s[S == kBuffer && returns ? 2 : 3], a);
    const uint32_t number = S == kFlat ? ++w.pending->written : 0;
    for (int i = 0; i < w.lanes; ++i) {
        if (!(a.lanes >> i & 1)) continue;
        T old = 0;
        if (S != kBuffer || a.limit[i] >= sizeof(T)) {
            if (a.at[i] % sizeof(T)) fail(w, op, "misaligned access", "an atomic operation must be aligned to its size", i);
            for (unsigned n = 0; n < data.dwords; ++n)
                if (w.undefined_v[data.reg + n] >> i & 1)
                    fail(w, op, "undefined value", "updates memory with what was never written", i);
            const T x = word<T>(w, data, i);
            const T expected = Compare ? word<T>(w, data, i, sizeof(T) / 4) : T(0);
            old = update_at<S, T>(w, op, a, i, number, [&](T now) { return Compare ? (now == expected ? x : now) : f(now, x); });
        }
        if (!returns) continue;
        for (unsigned n = 0; n < sizeof(T) / 4; ++n) {
            w.v[op.d[0].reg + n][i] = uint32_t(uint64_t(old) >> (32 * n));
            w.undefined_v[op.d[0].reg + n] &= ~(uint64_t(1) << i);
        }
    }
    Event &e = issue(w, op, returns ? load_counters<S>() : store_counters<S>(w),
                     !returns || S == kFlat ? store_group<S>(w) : kVectorMemoryGroup);
    e.writes_shared = S == kFlat;
    e.number = number;
    if (!returns) return;
    Operand to = op.d[0];
    to.dwords = sizeof(T) / 4;
    reserve(w, op, e, to);
}

template <Space S>
void add_atomics(Adder &add, const std::string &prefix) {
    const auto name = [&](const std::string &rest, Handler run) { add((prefix + "_atomic_" + rest).c_str(), run); };
#define UPDATE(rest, T, f) name(rest, [](Wave &w, const Op &op) { atomic<S, T, false>(w, op, f); });
    PK_UPDATES(UPDATE)
#undef UPDATE
    name("cmpswap_b32", [](Wave &w, const Op &op) { atomic<S, uint32_t, true>(w, op, [](uint32_t a, uint32_t) { return a; }); });
    name("cmpswap_b64", [](Wave &w, const Op &op) { atomic<S, uint64_t, true>(w, op, [](uint64_t a, uint64_t) { return a; }); });
}

template <Space S>
void add_space(Adder &add, const char *prefix) {
    const std::string p = prefix;
    const auto name = [&](const char *rest, Handler run) { add((p + rest).c_str(), run); };
    name("_load_u8", load<S, 1, false, kWhole>);
    name("_load_i8", load<S, 1, true, kWhole>);
    name("_load_u16", load<S, 2, false, kWhole>);
    name("_load_i16", load<S, 2, true, kWhole>);
    name("_load_b32", load<S, 4, false, kWhole>);
    name("_load_b64", load<S, 8, false, kWhole>);
    name("_load_b96", load<S, 12, false, kWhole>);
    name("_load_b128", load<S, 16, false, kWhole>);
    name("_load_d16_u8", load<S, 1, false, kLow>);
    name("_load_d16_i8", load<S, 1, true, kLow>);
    name("_load_d16_b16", load<S, 2, false, kLow>);
    name("_load_d16_hi_u8", load<S, 1, false, kHigh>);
    name("_load_d16_hi_i8", load<S, 1, true, kHigh>);
    name("_load_d16_hi_b16", load<S, 2, false, kHigh>);
    name("_store_b8", store<S, 1, kWhole>);
    name("_store_b16", store<S, 2, kWhole>);
    name("_store_b32", store<S, 4, kWhole>);
    name("_store_b64", store<S, 8, kWhole>);
    name("_store_b96", store<S, 12, kWhole>);
    name("_store_b128", store<S, 16, kWhole>);
    name("_store_d16_hi_b8", store<S, 1, kHigh>);
    name("_store_d16_hi_b16", store<S, 2, kHigh>);
}

}  // namespace

void register_memory_global_once(Adder &add) {
    add_space<kGlobal>(add, "global");
    add_space<kFlat>(add, "flat");
    add_atomics<kGlobal>(add, "global");
    add_atomics<kFlat>(add, "flat");
    add_atomics<kBuffer>(add, "buffer");
    add_space<kScratch>(add, "scratch");
    add_space<kBuffer>(add, "buffer");
    add("global_load_lds_b32", load_lds<kGlobal, 4>);
    add("global_load_lds_b96", load_lds<kGlobal, 12>);
    add("global_load_lds_b128", load_lds<kGlobal, 16>);
    add("buffer_load_lds_b32", load_lds<kBuffer, 4>);
    add("buffer_load_lds_b96", load_lds<kBuffer, 12>);
    add("buffer_load_lds_b128", load_lds<kBuffer, 16>);
}

}  // namespace machine
