// LDS: ds_*, and what moves data between lanes through its network (ds_bpermute, ds_permute, ds_swizzle).
#include <cstring>

#include "../atomics.hpp"
#include "../memory.hpp"
#include "../scalar.hpp"
#include "../shared.hpp"
#include "../waits.hpp"

namespace machine {
namespace {

enum Half { kWhole, kLow, kHigh };

// Up to two places a lane: ds_read2 and ds_write2 take a second at another offset, in units of their element.
struct Places {
    uint64_t lanes;
    uint32_t at[2][kLanes];
    int count;
};

Places places(Wave &w, const Op &op, const Operand &address, uint32_t bytes, int count) {
    Places p;
    p.lanes = exec_mask(w);
    p.count = count;
    check_address(w, op, address, p.lanes);
    for (int k = 0; k < count; ++k)
        for (int i = 0; i < w.lanes; ++i) p.at[k][i] = w.v[address.reg][i] + uint32_t(op.immediate[k]);
    // In unaligned access mode, which drivers set and compilers count on (LLVM AMDGPUUsage, unaligned-access-mode; on gfx942 a
    // ds_read_b96 two bytes off a dword), a single access may begin at any byte. Two in one instruction are aligned.
    const uint32_t unit = count > 1 ? (bytes < 4 ? bytes : 4) : 1;
    for (int k = 0; k < count; ++k)
        for (int i = 0; i < w.lanes; ++i)
            if (p.lanes >> i & 1 && p.at[k][i] % unit)
                fail(w, op, "misaligned access", ("LDS address " + std::to_string(p.at[k][i]) + " is no multiple of " +
                                                  std::to_string(unit)).c_str(), i);
    return p;
}

// Bit n of the result is set where dword n is undefined.
uint32_t read(Wave &w, const Op &op, uint32_t at, uint32_t bytes, int lane, uint32_t *words) {
    uint32_t undefined = 0;
    touch_read(w, op, at, bytes, lane, &undefined, op.m.extra);
    std::memcpy(words, w.group->shared.data() + at, bytes);
    if (undefined && w.group->gap.op < 0) {
        const ByteShadow *const shadow = w.group->shadow.data() + at;
        uint32_t n = 0;
        while (shadow[n].defined) ++n;
        w.group->gap = {&op - w.program->ops, at + n, w.number, lane, shadow[n].written != 0};
    }
    return undefined;
}

void set_defined(Wave &w, unsigned reg, int lane, bool defined) {
    const uint64_t bit = uint64_t(1) << lane;
    w.undefined_v[reg] = defined ? w.undefined_v[reg] & ~bit : w.undefined_v[reg] | bit;
}

void issue_read(Wave &w, const Op &op, const Places &p, uint32_t bytes) {
    Event &e = issue(w, op, 1u << kLgkm, kLocals);
    e.reads_shared = true;
    e.lanes = p.lanes;
    e.bytes = bytes;
    e.stride = p.count > 1 ? p.at[1][0] - p.at[0][0] : 0;
    std::memcpy(e.address, p.at[0], sizeof e.address);
    reserve(w, op, e, op.d[0]);
}

template <uint32_t Bytes, int Count, bool Sign, Half H>
void load(Wave &w, const Op &op) {
    const Places p = places(w, op, op.s[0], Bytes, Count);
    const Operand &to = op.d[0];
    for (int i = 0; i < w.lanes; ++i) {
        if (!(p.lanes >> i & 1)) continue;
        for (int k = 0; k < Count; ++k) {
            uint32_t words[4] = {};
            const uint32_t undefined = read(w, op, p.at[k][i], Bytes, i, words);
            uint32_t x = words[0];
            if (Bytes == 1) x = Sign ? uint32_t(int32_t(int8_t(x))) : x & 0xff;
            if (Bytes == 2) x = Sign ? uint32_t(int32_t(int16_t(x))) : x & 0xffff;
            const unsigned reg = to.reg + unsigned(k) * (Bytes + 3) / 4;
            const uint32_t old = w.v[reg][i];
            if (H == kLow) x = (old & 0xffff0000u) | (x & 0xffff);
            if (H == kHigh) x = (old & 0xffffu) | x << 16;
            words[0] = x;
            for (unsigned n = 0; n < (Bytes + 3) / 4; ++n) {
                w.v[reg + n][i] = words[n];
                set_defined(w, reg + n, i, !(undefined >> n & 1));
            }
        }
    }
    issue_read(w, op, p, Bytes);
}

template <uint32_t Bytes, int Count, Half H>
void store(Wave &w, const Op &op) {
    const Places p = places(w, op, op.s[0], Bytes, Count);
    const uint32_t number = ++w.pending->written;
    for (int i = 0; i < w.lanes; ++i) {
        if (!(p.lanes >> i & 1)) continue;
        for (int k = 0; k < Count; ++k) {
            const Operand &data = op.s[1 + k];
            uint32_t words[4];
            uint32_t undefined = 0;
            for (unsigned n = 0; n < data.dwords; ++n) {
                words[n] = w.v[data.reg + n][i];
                undefined |= uint32_t(w.undefined_v[data.reg + n] >> i & 1) << n;
            }
            if (H == kHigh) words[0] >>= 16;
            touch_write(w, op, p.at[k][i], Bytes, i, number, false, undefined, words);
            std::memcpy(w.group->shared.data() + p.at[k][i], words, Bytes);
        }
    }
    Event &e = issue(w, op, 1u << kLgkm, kLocals);
    e.writes_shared = true;
    e.number = number;
}

// Each group of 16 lanes reads rows of 16 elements, a row spread over neighbouring lanes that read 64 bits each, and gets their
// columns: lane i of the group has element i of every row (CDNA4 ISA, DS_READ_B64_TR_B16 and _B8).
template <int ElementBits>
void load_transposed(Wave &w, const Op &op) {
    const Places p = places(w, op, op.s[0], 8, 1);
    if (p.lanes != (w.lanes == 64 ? ~uint64_t(0) : 0xffffffffu))
        fail(w, op, "not modelled", "a transposing LDS read with inactive lanes");
    constexpr int kGroup = 16, kElements = 64 / ElementBits;
    uint64_t rows[kLanes];
    bool defined[kLanes];
    for (int i = 0; i < w.lanes; ++i) {
        uint32_t words[2];
        defined[i] = !read(w, op, p.at[0][i], 8, i, words);
        rows[i] = words[0] | uint64_t(words[1]) << 32;
    }
    constexpr uint64_t kMask = ElementBits == 64 ? ~uint64_t(0) : (uint64_t(1) << ElementBits) - 1;
    for (int i = 0; i < w.lanes; ++i) {
        const int group = i / kGroup * kGroup, in_group = i % kGroup;
        uint64_t value = 0;
        bool good = true;
        constexpr int kLanesPerRow = kGroup / kElements;
        for (int e = 0; e < kElements; ++e) {
            const int from = group + e * kLanesPerRow + in_group / kElements;
            value |= (rows[from] >> (in_group % kElements * ElementBits) & kMask) << (e * ElementBits);
            good = good && defined[from];
        }
        w.v[op.d[0].reg][i] = uint32_t(value);
        w.v[op.d[0].reg + 1][i] = uint32_t(value >> 32);
        set_defined(w, op.d[0].reg, i, good);
        set_defined(w, op.d[0].reg + 1, i, good);
    }
    issue_read(w, op, p, 8);
}

template <class T>
T data_of(Wave &w, const Op &op, int k, int lane) {
    const Operand &o = op.s[k];
    T x = T(w.v[o.reg][lane]);
    if (sizeof(T) == 8) x |= T(uint64_t(w.v[o.reg + 1][lane]) << 32);
    for (unsigned n = 0; n < o.dwords; ++n)
        if (w.undefined_v[o.reg + n] >> lane & 1) fail(w, op, "undefined value", "updates LDS with what was never written", lane);
    return x;
}

// f(old, lane) -> new. With a destination the old value comes back.
template <class T, class F>
void atomic(Wave &w, const Op &op, F f) {
    const Places p = places(w, op, op.s[0], sizeof(T), 1);
    const uint32_t number = ++w.pending->written;
    for (int i = 0; i < w.lanes; ++i) {
        if (!(p.lanes >> i & 1)) continue;
        if (p.at[0][i] % sizeof(T)) fail(w, op, "misaligned access", "an atomic operation must be aligned to its size", i);
        touch_atomic(w, op, p.at[0][i], sizeof(T), i, number);
        T old;
        std::memcpy(&old, w.group->shared.data() + p.at[0][i], sizeof old);
        const T now = f(old, i);
        std::memcpy(w.group->shared.data() + p.at[0][i], &now, sizeof now);
        for (unsigned n = 0; op.destinations && n < sizeof(T) / 4; ++n) {
            w.v[op.d[0].reg + n][i] = uint32_t(uint64_t(old) >> (32 * n));
            set_defined(w, op.d[0].reg + n, i, true);
        }
    }
    Event &e = issue(w, op, 1u << kLgkm, kLocals);
    e.writes_shared = true;
    e.number = number;
    if (op.destinations) reserve(w, op, e, op.d[0]);
}

// Of the two operands of data the first replaces what equals the second; ds_cmpst has them the other way round (CDNA3 ISA,
// DS_CMPST_B32; RDNA3 ISA, DS_CMPSTORE_B32).
template <class T, int Expected>
void compare_store(Wave &w, const Op &op) {
    atomic<T>(w, op, [&](T old, int lane) {
        return old == data_of<T>(w, op, Expected, lane) ? data_of<T>(w, op, 3 - Expected, lane) : old;
    });
}

// Lane i gets what lane (address / 4) % lanes holds; lanes that are off give 0 (CDNA3 ISA, DS_BPERMUTE_B32).
void bpermute(Wave &w, const Op &op) {
    const uint64_t exec = exec_mask(w);
    check_address(w, op, op.s[0], exec);
    uint32_t got[kLanes];
    uint64_t undefined = 0;
    for (int i = 0; i < w.lanes; ++i) {
        const int from = int((w.v[op.s[0].reg][i] + uint32_t(op.immediate[0])) / 4 % uint32_t(w.lanes));
        const bool on = exec >> from & 1;
        got[i] = on ? w.v[op.s[1].reg][from] : 0;
        undefined |= uint64_t(on && (w.undefined_v[op.s[1].reg] >> from & 1)) << i;
    }
    const unsigned to = op.d[0].reg;
    for (int i = 0; i < w.lanes; ++i)
        if (exec >> i & 1) w.v[to][i] = got[i];
    w.undefined_v[to] = (w.undefined_v[to] & ~exec) | (undefined & exec);
    reserve(w, op, issue(w, op, 1u << kLgkm, kLocals), op.d[0]);
}

// Lane i sends to lane (address / 4) % lanes; of several the highest lane wins, and who gets nothing has 0.
void permute(Wave &w, const Op &op) {
    const uint64_t exec = exec_mask(w);
    check_address(w, op, op.s[0], exec);
    uint32_t got[kLanes] = {};
    uint64_t undefined = 0;
    for (int i = 0; i < w.lanes; ++i) {
        if (!(exec >> i & 1)) continue;
        const int into = int((w.v[op.s[0].reg][i] + uint32_t(op.immediate[0])) / 4 % uint32_t(w.lanes));
        got[into] = w.v[op.s[1].reg][i];
        const uint64_t bit = uint64_t(1) << into;
        undefined = w.undefined_v[op.s[1].reg] >> i & 1 ? undefined | bit : undefined & ~bit;
    }
    const unsigned to = op.d[0].reg;
    for (int i = 0; i < w.lanes; ++i)
        if (exec >> i & 1) w.v[to][i] = got[i];
    w.undefined_v[to] = (w.undefined_v[to] & ~exec) | (undefined & exec);
    reserve(w, op, issue(w, op, 1u << kLgkm, kLocals), op.d[0]);
}

// The offset is a pattern (CDNA3 ISA, DS_SWIZZLE_B32): bit 15 set: each quad by four selectors of 2 bits; else in groups
// of 32 lanes: ((lane & and) | or) ^ xor of 5 bits each. Sources that are off give 0.
void swizzle(Wave &w, const Op &op) {
    const uint64_t exec = exec_mask(w);
    const uint32_t pattern = uint32_t(op.immediate[0]);
    uint32_t got[kLanes];
    uint64_t undefined = 0;
    if ((pattern & 0xe000) == 0xe000 || (pattern & 0xe000) == 0xc000)
        fail(w, op, "not modelled", "ds_swizzle_b32 in its rotate and FFT modes");
    for (int i = 0; i < w.lanes; ++i) {
        int from;
        if (pattern & 0x8000)
            from = (i & ~3) | int(pattern >> (2 * (i & 3)) & 3);
        else
            from = (i & 32) | int((((uint32_t(i) & 31 & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31)));
        const bool on = exec >> from & 1;
        got[i] = on ? w.v[op.s[0].reg][from] : 0;
        undefined |= uint64_t(on && (w.undefined_v[op.s[0].reg] >> from & 1)) << i;
    }
    const unsigned to = op.d[0].reg;
    for (int i = 0; i < w.lanes; ++i)
        if (exec >> i & 1) w.v[to][i] = got[i];
    w.undefined_v[to] = (w.undefined_v[to] & ~exec) | (undefined & exec);
    reserve(w, op, issue(w, op, 1u << kLgkm, kLocals), op.d[0]);
}

}  // namespace

void register_memory_local_once(Adder &add) {
    add("ds_load_u8", load<1, 1, false, kWhole>);
    add("ds_load_i8", load<1, 1, true, kWhole>);
    add("ds_load_u16", load<2, 1, false, kWhole>);
    add("ds_load_i16", load<2, 1, true, kWhole>);
    add("ds_load_b32", load<4, 1, false, kWhole>);
    add("ds_load_b64", load<8, 1, false, kWhole>);
    add("ds_load_b96", load<12, 1, false, kWhole>);
    add("ds_load_b128", load<16, 1, false, kWhole>);
    add("ds_load_u8_d16", load<1, 1, false, kLow>);
    add("ds_load_u8_d16_hi", load<1, 1, false, kHigh>);
    add("ds_load_i8_d16", load<1, 1, true, kLow>);
    add("ds_load_i8_d16_hi", load<1, 1, true, kHigh>);
    add("ds_load_u16_d16", load<2, 1, false, kLow>);
    add("ds_load_u16_d16_hi", load<2, 1, false, kHigh>);
    add("ds_load_2addr_b32", load<4, 2, false, kWhole>);
    add("ds_load_2addr_b64", load<8, 2, false, kWhole>);
    add("ds_store_b8", store<1, 1, kWhole>);
    add("ds_store_b16", store<2, 1, kWhole>);
    add("ds_store_b32", store<4, 1, kWhole>);
    add("ds_store_b64", store<8, 1, kWhole>);
    add("ds_store_b96", store<12, 1, kWhole>);
    add("ds_store_b128", store<16, 1, kWhole>);
    add("ds_store_b8_d16_hi", store<1, 1, kHigh>);
    add("ds_store_b16_d16_hi", store<2, 1, kHigh>);
    add("ds_store_2addr_b32", store<4, 2, kWhole>);
    add("ds_store_2addr_b64", store<8, 2, kWhole>);
    add("ds_read_b64_tr_b16", load_transposed<16>);
    add("ds_read_b64_tr_b8", load_transposed<8>);
#define UPDATE(name, T, f)                                                                                       \
    add("ds_" name, [](Wave &w, const Op &op) {                                                                  \
        atomic<T>(w, op, [&](T old, int lane) { return f(old, data_of<T>(w, op, 1, lane)); });                   \
    });
    PK_UPDATES(UPDATE)
#undef UPDATE
    add("ds_cmpst_b32", compare_store<uint32_t, 1>);
    add("ds_cmpst_b64", compare_store<uint64_t, 1>);
    add("ds_cmpstore_b32", compare_store<uint32_t, 2>);
    add("ds_cmpstore_b64", compare_store<uint64_t, 2>);
    add("ds_bpermute_b32", bpermute);
    add("ds_permute_b32", permute);
    add("ds_swizzle_b32", swizzle);
}

}  // namespace machine
