// What the form of an instruction does around its arithmetic: negation, absolute value, halves (op_sel), SDWA and DPP on the
// way in; output modifiers, clamp and SDWA on the way out; and which lanes are written at all.
//
// Sources: CDNA3 ISA, "Input and output modifiers", "SDWA", "DPP"; RDNA3 ISA, "Input modifiers",
// "Output modifiers", "DPP16", "DPP8".
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "floats.hpp"
#include "lanes.hpp"

namespace {

inline bool is_gfx9(const Wave &w) { return w.program->setup.generation < 100; }

inline bool is_half(Type t) { return t == kB16 || t == kF16 || t == kBF16; }

// ---- DPP -----------------------------------------------------------------------------------------------------------------

// The lane that `lane` reads, or -1 where the pattern leads outside the row or wave.
inline int dpp16_source(int lane, uint32_t control, int lanes, bool gfx9) {
    const int row = lane & ~15, in = lane & 15, n = control & 15;
    if (control < 0x100) return (lane & ~3) | (control >> 2 * (lane & 3) & 3);  // quad_perm
    if (control > 0x100 && control < 0x110) return in + n < 16 ? lane + n : -1;  // row_shl
    if (control > 0x110 && control < 0x120) return in >= n ? lane - n : -1;      // row_shr
    if (control > 0x120 && control < 0x130) return row | ((in - n) & 15);        // row_ror
    if (control == 0x140) return row | (15 - in);                                // row_mirror
    if (control == 0x141) return (lane & ~7) | (7 - (lane & 7));                 // row_half_mirror
    if (control >= 0x150 && control < 0x160) return row | n;                     // row_share; row_newbcast on gfx90a and later
    if (!gfx9) return control >= 0x160 && control < 0x170 ? row | (in ^ n) : -2;  // row_xmask
    switch (control) {
        case 0x130: return lane + 1 < lanes ? lane + 1 : -1;           // wave_shl:1
        case 0x134: return (lane + 1) % lanes;                          // wave_rol:1
        case 0x138: return lane - 1;                                    // wave_shr:1
        case 0x13c: return (lane + lanes - 1) % lanes;                  // wave_ror:1
        case 0x142: return row > 0 ? row - 1 : -1;                      // row_bcast:15
        case 0x143: return lane >= 32 ? 31 : -1;                        // row_bcast:31
        default: return -2;
    }
}

// The row of Wave::result that holds which lanes DPP lets be written.
constexpr int kEnabledRow = 3;

// ---- undefinedness of handlers that propagate it themselves ------------------------------------------------------------------

// By lane: whether source `k` is undefined.
inline uint64_t undefined_source(const Wave &w, const Op &op, int k) {
    const Operand &o = op.s[k];
    uint64_t any = 0;
    if (o.kind == kVector) {
        for (unsigned r = o.reg; r < o.reg + o.dwords; ++r) any |= w.undefined_v[r];
    } else if (o.kind == kScalar && o.type == kLaneMask) {
        any = w.undefined_s[o.reg] | (w.lanes == 64 ? uint64_t(w.undefined_s[o.reg + 1]) << 32 : 0);
    } else if (o.kind == kScalar) {
        for (unsigned r = o.reg; r < o.reg + o.dwords; ++r) any |= w.undefined_s[r] ? ~uint64_t(0) : 0;
    }
    return any;
}

inline void set_undefined_lanes(Wave &w, const Op &op, uint64_t undefined, uint64_t written) {
    for (int k = 0; k < op.destinations; ++k) {
        const Operand &o = op.d[k];
        if (o.kind == kVector) {
            for (unsigned r = o.reg; r < o.reg + o.dwords; ++r)
                w.undefined_v[r] = (w.undefined_v[r] & ~written) | (undefined & written);
        } else if (o.kind == kScalar && o.reg != uint32_t(kNull)) {
            w.undefined_s[o.reg] = uint32_t(undefined & written);
            if (o.dwords > 1) w.undefined_s[o.reg + 1] = uint32_t((undefined & written) >> 32);
        }
    }
}

// With DPP the first source's undefinedness moves with its values. Decoding marks such instructions kOwnTaint.
inline void move_undefined(Wave &w, const Op &op, const int *from, const uint32_t *enabled) {
    const uint64_t first = undefined_source(w, op, 0);
    uint64_t undefined = 0, written = 0;
    for (int lane = 0; lane < w.lanes; ++lane) {
        if (from[lane] >= 0) undefined |= (first >> from[lane] & 1) << lane;
        written |= uint64_t(enabled[lane] & 1) << lane;
    }
    for (int k = 1; k < op.sources; ++k) undefined |= undefined_source(w, op, k);
    set_undefined_lanes(w, op, undefined, written);
}

// What DPP makes of a source: its values moved, and in `enabled` the lanes that may be written. A lane outside the pattern, or an
// inactive one without fetch_inactive, gives 0 under bound_ctrl; without it the lane that wanted it is not written. (For
// DPP8 it gives 0.)
inline void dpp(Wave &w, const Op &op, const uint32_t *from, uint32_t *to, uint32_t *enabled, bool first) {
    const Modifiers &m = op.m;
    const bool gfx9 = is_gfx9(w), eights = m.dpp_kind == kDpp8;
    int taken[kLanes];
    for (int lane = 0; lane < w.lanes; ++lane) {
        const int s = eights ? (lane & ~7) | int(m.dpp8 >> 3 * (lane & 7) & 7) : dpp16_source(lane, m.dpp, w.lanes, gfx9);
        if (s == -2) fail(w, op, "unknown instruction", "a DPP pattern that this generation does not have");
        const bool masked = !eights && (m.row_mask >> (lane >> 4) & m.bank_mask >> (lane >> 2 & 3) & 1) == 0;
        const bool readable = s >= 0 && (w.mask[s] || m.fetch_inactive);
        taken[lane] = readable ? s : -1;
        to[lane] = readable ? from[s] : 0;
        enabled[lane] = w.mask[lane] && !masked && (readable || m.bound_ctrl || eights) ? ~0u : 0u;
    }
    if (first) move_undefined(w, op, taken, enabled);
}

// Lanes to write, as all ones or zeros; `w.full` holds only without DPP.
inline const uint32_t *write_mask(const Wave &w, const Op &op) { return op.m.dpp_kind ? w.result[kEnabledRow] : w.mask; }
inline bool writes_all(const Wave &w, const Op &op) { return w.full && !op.m.dpp_kind; }

// ---- sources -------------------------------------------------------------------------------------------------------------

inline void select_bytes(const Wave &w, uint32_t *to, uint32_t select, bool sign_extend) {
    if (select == 6) return;
    const uint32_t shift = select < 4 ? 8 * select : 16 * (select - 4), width = select < 4 ? 8 : 16;
    PK_LANES(i, w) {
        const uint32_t up = to[i] >> shift << (32 - width);
        to[i] = sign_extend ? uint32_t(int32_t(up) >> (32 - width)) : up >> (32 - width);
    }
}

inline uint32_t sign_bit(Type t) { return is_half(t) ? 0x8000u : 0x80000000u; }

// Source `k` with everything the form does to it. 16-bit types come in the lower half, the upper half undefined.
inline const uint32_t *modified_operand(Wave &w, const Op &op, int k, int dword) {
    const uint32_t *from = source(w, op, k, dword);
    const Operand &o = op.s[k];
    uint32_t *to = w.modified[k][dword & 1];
    if (op.m.dpp_kind && k == 0)
        dpp(w, op, from, to, w.result[kEnabledRow], dword == 0);
    else
        __builtin_memcpy(to, from, sizeof w.modified[0][0]);
    if (op.m.sdwa && k < 2) select_bytes(w, to, k == 0 ? op.m.src0_sel : op.m.src1_sel, o.modifiers & kSignExtend);
    if (is_half(o.type) && op.m.op_sel >> k & 1)
        PK_LANES(i, w) to[i] >>= 16;
    const bool has_sign = o.type != kF64 || dword == 1;
    if (has_sign && o.modifiers & kAbsolute)
        PK_LANES(i, w) to[i] &= ~sign_bit(o.type);
    if (has_sign && o.modifiers & kNegate)
        PK_LANES(i, w) to[i] ^= sign_bit(o.type);
    return to;
}

inline const uint32_t *operand(Wave &w, const Op &op, int k, int dword = 0) {
    const bool plain = !(op.s[k].modifiers | op.m.sdwa | op.m.dpp_kind | (op.m.op_sel >> k & 1));
    return plain ? source(w, op, k, dword) : modified_operand(w, op, k, dword);
}

// ---- results -------------------------------------------------------------------------------------------------------------

inline void store(Wave &w, const Op &op, const uint32_t *r, int dword = 0, int k = 0) {
    uint32_t *d = destination(w, op, k, dword);
    const uint32_t *m = write_mask(w, op);
    PK_LANES(i, w) d[i] = m[i] ? r[i] : d[i];
}

// SDWA: the result goes into part of the destination (CDNA3 ISA, DST_SEL, DST_U).
inline void place_bytes(const Wave &w, const Op &op, uint32_t *r) {
    const uint32_t select = op.m.dst_sel;
    if (select == 6) return;
    const uint32_t shift = select < 4 ? 8 * select : 16 * (select - 4), width = select < 4 ? 8 : 16;
    const uint32_t field = (width == 8 ? 0xffu : 0xffffu) << shift;
    const uint32_t *old = w.v[op.d[0].reg];
    PK_LANES(i, w) {
        const uint32_t put = r[i] << shift & field;
        const uint32_t signs = uint32_t(int32_t(r[i] << (32 - width)) >> 31) & ~(field | (field - 1));
        r[i] = op.m.dst_unused == 2 ? (old[i] & ~field) | put : op.m.dst_unused == 1 ? put | signs : put;
    }
}

// A 32-bit result that is no floating-point number: `r` is overwritten.
inline void finish_bits(Wave &w, const Op &op, uint32_t *r) {
    if (op.m.sdwa) place_bytes(w, op, r);
    store(w, op, r);
}

inline float scaled(float x, int omod) { return omod == 0 ? x : omod == 1 ? x * 2.0f : omod == 2 ? x * 4.0f : x * 0.5f; }

// Clamping to [0, 1]; NaN becomes 0 where MODE.DX10_CLAMP says so, and always from gfx12 on, which has no such bit
// (RDNA4 ISA, "Output modifiers").
inline float clamped(float x, bool nan_to_zero) {
    return x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x != x && nan_to_zero ? 0.0f : x == 0.0f ? 0.0f : x;
}

inline void shape_f32(const Wave &w, const Op &op, uint32_t *r) {
    if (op.m.omod)
        PK_LANES(i, w) r[i] = as_bits(scaled(as_float(r[i]), op.m.omod));
    if (op.m.clamp)
        PK_LANES(i, w) r[i] = as_bits(clamped(as_float(r[i]), w.mode.clamp_nan_to_zero));
}

inline void finish_f32(Wave &w, const Op &op, uint32_t *r) {
    shape_f32(w, op, r);
    finish_bits(w, op, r);
}

// Which instructions with a 16-bit result leave the upper half of the register alone: all from gfx10 on; on gfx9 those that
// came with it, while older ones write zeros there (LLVM, GCNSubtarget::zeroesHigh16BitsOfDest).
enum class Upper { zero_on_gfx9, keep };

// 16-bit results in the lower halves of `r`, whose upper halves are zero.
inline void finish_half(Wave &w, const Op &op, uint32_t *r, Upper upper = Upper::zero_on_gfx9) {
    if (op.m.sdwa) {
        place_bytes(w, op, r);
    } else {
        const uint32_t *old = w.v[op.d[0].reg];
        if (op.m.op_sel & 8)
            PK_LANES(i, w) r[i] = r[i] << 16 | (old[i] & 0xffff);
        else if (upper == Upper::keep || !is_gfx9(w))
            PK_LANES(i, w) r[i] |= old[i] & 0xffff0000;
    }
    store(w, op, r);
}

inline bool has_result_modifiers(const Op &op) { return op.m.clamp | op.m.omod | op.m.sdwa | op.m.dpp_kind; }

// The top bit of each lane, packed. All of `flags` must be set for 64 lanes or, in wave32, for the lower 32.
inline uint64_t top_bits(const Wave &w, const uint32_t *flags) {
    uint64_t packed = 0;
#if defined(__AVX2__)
    for (int i = 0; i < w.lanes; i += 8)
        packed |= uint64_t(uint32_t(_mm256_movemask_ps(_mm256_castsi256_ps(
                      _mm256_load_si256(reinterpret_cast<const __m256i *>(flags + i)))))) << i;
#else
    for (int i = 0; i < w.lanes; ++i) packed |= uint64_t(flags[i] >> 31) << i;
#endif
    return packed;
}

// ---- MODE ----------------------------------------------------------------------------------------------------------------

// While it lives, the host rounds and flushes f32 as MODE says. Denormals are flushed to a zero of their sign. A result is a
// denormal before or after rounding to the format's exponent range: AMD's guides do not say which counts; the host's rule
// (after rounding, without a bound on the exponent) is used, which differs for results within half a unit of 2^-126.
class HostMode {
  public:
    HostMode(uint32_t round, bool flush_in, bool flush_out) : saved_(__builtin_ia32_stmxcsr()) {
        static constexpr uint32_t rounding[4] = {0, 2, 1, 3};
        uint32_t wanted = 0x1f80 | rounding[round] << 13 | uint32_t(flush_in) << 6 | uint32_t(flush_out) << 15;
        asm volatile("ldmxcsr %0" : : "m"(wanted) : "memory");
    }
    ~HostMode() { asm volatile("ldmxcsr %0" : : "m"(saved_) : "memory"); }
    HostMode(const HostMode &) = delete;
    HostMode &operator=(const HostMode &) = delete;

  private:
    uint32_t saved_;
};

inline bool plain_f32(const Mode &m) { return !(m.flush32_in | m.flush32_out | m.round32); }
inline bool plain_f64(const Mode &m) { return !(m.flush16_64_in | m.flush16_64_out | m.round16_64); }

// Runs `f` under the wave's mode for f32 (f64).
template <class F> inline void in_f32_mode(const Wave &w, F f) {
    if (__builtin_expect(plain_f32(w.mode), 1)) return f();
    HostMode mode(w.mode.round32, w.mode.flush32_in, w.mode.flush32_out);
    f();
}
template <class F> inline void in_f64_mode(const Wave &w, F f) {
    if (__builtin_expect(plain_f64(w.mode), 1)) return f();
    HostMode mode(w.mode.round16_64, w.mode.flush16_64_in, w.mode.flush16_64_out);
    f();
}

// ---- loops ---------------------------------------------------------------------------------------------------------------

// d = f(sources) on f32.
template <class F> inline void f32_1(Wave &w, const Op &op, F f) {
    const uint32_t *a = operand(w, op, 0);
    const bool direct = !has_result_modifiers(op);
    in_f32_mode(w, [&] {
        if (direct && w.full) {
            uint32_t *d = destination(w, op);
            PK_LANES(i, w) d[i] = as_bits(f(as_float(a[i])));
        } else {
            uint32_t *r = w.result[0];
            PK_LANES(i, w) r[i] = as_bits(f(as_float(a[i])));
            direct ? store(w, op, r) : finish_f32(w, op, r);
        }
    });
}

template <class F> inline void f32_2(Wave &w, const Op &op, F f) {
    const uint32_t *a = operand(w, op, 0), *b = operand(w, op, 1);
    const bool direct = !has_result_modifiers(op);
    in_f32_mode(w, [&] {
        if (direct && w.full) {
            uint32_t *d = destination(w, op);
            PK_LANES(i, w) d[i] = as_bits(f(as_float(a[i]), as_float(b[i])));
        } else {
            uint32_t *r = w.result[0];
            PK_LANES(i, w) r[i] = as_bits(f(as_float(a[i]), as_float(b[i])));
            direct ? store(w, op, r) : finish_f32(w, op, r);
        }
    });
}

template <class F> inline void f32_3(Wave &w, const Op &op, F f) {
    const uint32_t *a = operand(w, op, 0), *b = operand(w, op, 1), *c = operand(w, op, 2);
    const bool direct = !has_result_modifiers(op);
    in_f32_mode(w, [&] {
        if (direct && w.full) {
            uint32_t *d = destination(w, op);
            PK_LANES(i, w) d[i] = as_bits(f(as_float(a[i]), as_float(b[i]), as_float(c[i])));
        } else {
            uint32_t *r = w.result[0];
            PK_LANES(i, w) r[i] = as_bits(f(as_float(a[i]), as_float(b[i]), as_float(c[i])));
            direct ? store(w, op, r) : finish_f32(w, op, r);
        }
    });
}

// The same on 32 bits that are no floating-point numbers.
template <class F> inline void bits_1(Wave &w, const Op &op, F f) {
    const uint32_t *a = operand(w, op, 0);
    uint32_t *d = destination(w, op), *r = w.result[0];
    if (w.full && !has_result_modifiers(op)) {
        PK_LANES(i, w) d[i] = f(a[i]);
    } else {
        PK_LANES(i, w) r[i] = f(a[i]);
        finish_bits(w, op, r);
    }
}

template <class F> inline void bits_2(Wave &w, const Op &op, F f) {
    const uint32_t *a = operand(w, op, 0), *b = operand(w, op, 1);
    uint32_t *d = destination(w, op), *r = w.result[0];
    if (w.full && !has_result_modifiers(op)) {
        PK_LANES(i, w) d[i] = f(a[i], b[i]);
    } else {
        PK_LANES(i, w) r[i] = f(a[i], b[i]);
        finish_bits(w, op, r);
    }
}

template <class F> inline void bits_3(Wave &w, const Op &op, F f) {
    const uint32_t *a = operand(w, op, 0), *b = operand(w, op, 1), *c = operand(w, op, 2);
    uint32_t *d = destination(w, op), *r = w.result[0];
    if (w.full && !has_result_modifiers(op)) {
        PK_LANES(i, w) d[i] = f(a[i], b[i], c[i]);
    } else {
        PK_LANES(i, w) r[i] = f(a[i], b[i], c[i]);
        finish_bits(w, op, r);
    }
}

// ---- 64-bit lanes --------------------------------------------------------------------------------------------------------

struct Wide {
    const uint32_t *low, *high;
    uint64_t operator[](int i) const { return low[i] | uint64_t(high[i]) << 32; }
};

inline Wide wide_operand(Wave &w, const Op &op, int k) {
    const uint32_t *low = operand(w, op, k, 0);  // in this order: DPP and copies go by dword
    return {low, operand(w, op, k, 1)};
}

// Stores result[0] and result[1], which a handler fills before any register is written: pairs may overlap shifted by one.
inline void finish_wide(Wave &w, const Op &op) {
    store(w, op, w.result[0], 0);
    store(w, op, w.result[1], 1);
}

inline void set_wide(Wave &w, int i, uint64_t x) {
    w.result[0][i] = uint32_t(x);
    w.result[1][i] = uint32_t(x >> 32);
}

}  // namespace
