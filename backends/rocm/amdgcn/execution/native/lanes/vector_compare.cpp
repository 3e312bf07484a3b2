// VOPC: compares, a bit a lane to a scalar destination, zeros for inactive lanes; v_cmpx writes EXEC.
//
// Sources: CDNA3 ISA and RDNA3/RDNA4 ISA (VOPC), "VOPC" there on where results go.
#include "../modifiers.hpp"

namespace {

using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;
using i64 = int64_t;

void write_compare(Wave &w, const Op &op, u32 *flags) {
    if (op.m.dpp_kind) {
        const u32 *enabled = w.result[kEnabledRow];
        PK_LANES(i, w) flags[i] &= enabled[i];
    }
    const u64 value = top_bits(w, flags) & exec_of(w);
    for (int k = 0; k < op.destinations; ++k) write_lane_mask(w, op.d[k], value);
}

inline u32 flag(bool x) { return x ? ~0u : 0u; }

struct AsU32 { using Value = u32; static Value of(u32 x) { return x; } };
struct AsI32 { using Value = i32; static Value of(u32 x) { return i32(x); } };
struct AsU16 { using Value = u32; static Value of(u32 x) { return x & 0xffff; } };
struct AsI16 { using Value = i32; static Value of(u32 x) { return i32(x << 16) >> 16; } };
struct AsF32 { using Value = float; static Value of(u32 x) { return as_float(x); } };
struct AsF16 { using Value = float; static Value of(u32 x) { return as_float(f32_from_f16(x & 0xffff)); } };
struct AsU64 { using Value = u64; static Value of(u64 x) { return x; } };
struct AsI64 { using Value = i64; static Value of(u64 x) { return i64(x); } };
struct AsF64 { using Value = double; static Value of(u64 x) { return as_double(x); } };

struct False { template <class T> static bool of(T, T) { return false; } };
struct True { template <class T> static bool of(T, T) { return true; } };
struct Less { template <class T> static bool of(T a, T b) { return a < b; } };
struct Equal { template <class T> static bool of(T a, T b) { return a == b; } };
struct LessEqual { template <class T> static bool of(T a, T b) { return a <= b; } };
struct Greater { template <class T> static bool of(T a, T b) { return a > b; } };
struct GreaterEqual { template <class T> static bool of(T a, T b) { return a >= b; } };
struct NotEqual { template <class T> static bool of(T a, T b) { return a != b; } };
struct LessGreater { template <class T> static bool of(T a, T b) { return a < b || a > b; } };  // ordered
struct Ordered { template <class T> static bool of(T a, T b) { return a == a && b == b; } };
template <class C> struct Not { template <class T> static bool of(T a, T b) { return !C::of(a, b); } };

template <class As, class C> void compare32(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1);
    u32 *flags = w.result[0];
    PK_LANES(i, w) flags[i] = flag(C::of(As::of(a[i]), As::of(b[i])));
    write_compare(w, op, flags);
}

template <class As, class C> void compare_f32(Wave &w, const Op &op) {
    in_f32_mode(w, [&] { compare32<As, C>(w, op); });
}

// f16 denormals are flushed before the compare where MODE says so.
template <class As, class C> void compare_f16(Wave &w, const Op &op) {
    if (!w.mode.flush16_64_in) return compare32<As, C>(w, op);
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1);
    u32 *flags = w.result[0];
    const auto flushed = [](u32 x) { return x & 0x7c00 ? x : x & 0x8000; };
    PK_LANES(i, w) flags[i] = flag(C::of(As::of(flushed(a[i])), As::of(flushed(b[i]))));
    write_compare(w, op, flags);
}

template <class As, class C> void compare64(Wave &w, const Op &op) {
    const Wide a = wide_operand(w, op, 0), b = wide_operand(w, op, 1);
    u32 *flags = w.result[0];
    in_f64_mode(w, [&] { PK_LANES(i, w) flags[i] = flag(C::of(As::of(a[i]), As::of(b[i]))); });
    write_compare(w, op, flags);
}

// ---- classes: bits 0 signaling NaN, 1 quiet NaN, 2 -inf, 3 -normal, 4 -denormal, 5 -0, 6 +0, 7 +denormal, 8 +normal, 9 +inf --

inline u32 class_of(bool negative, u64 exponent, u64 most, u64 mantissa, u64 quiet) {
    if (exponent == most && mantissa) return mantissa & quiet ? 2 : 1;
    const u32 size = exponent == most ? 0 : exponent ? 1 : mantissa ? 2 : 3;  // inf, normal, denormal, zero
    return negative ? 4u << size : 512u >> size;
}

void v_cmp_class_f32(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *wanted = operand(w, op, 1);
    u32 *flags = w.result[0];
    PK_LANES(i, w) flags[i] = flag(class_of(a[i] >> 31, a[i] >> 23 & 0xff, 0xff, a[i] & 0x7fffff, 0x400000) & wanted[i]);
    write_compare(w, op, flags);
}

void v_cmp_class_f16(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *wanted = operand(w, op, 1);
    u32 *flags = w.result[0];
    PK_LANES(i, w) flags[i] = flag(class_of(a[i] >> 15 & 1, a[i] >> 10 & 0x1f, 0x1f, a[i] & 0x3ff, 0x200) & wanted[i]);
    write_compare(w, op, flags);
}

void v_cmp_class_f64(Wave &w, const Op &op) {
    const Wide a = wide_operand(w, op, 0);
    const u32 *wanted = operand(w, op, 1);
    u32 *flags = w.result[0];
    PK_LANES(i, w) {
        const u64 x = a[i], fraction = x & ((u64(1) << 52) - 1);
        flags[i] = flag(class_of(x >> 63, x >> 52 & 0x7ff, 0x7ff, fraction, u64(1) << 51) & wanted[i]);
    }
    write_compare(w, op, flags);
}

}  // namespace

#define BOTH(relation, type, handler)             \
    add("v_cmp_" relation "_" type, handler);     \
    add("v_cmpx_" relation "_" type, handler);

#define INTEGER(loop, as, type)                  \
    BOTH("f", type, (loop<as, False>))           \
    BOTH("lt", type, (loop<as, Less>))           \
    BOTH("eq", type, (loop<as, Equal>))          \
    BOTH("le", type, (loop<as, LessEqual>))      \
    BOTH("gt", type, (loop<as, Greater>))        \
    BOTH("ne", type, (loop<as, NotEqual>))       \
    BOTH("ge", type, (loop<as, GreaterEqual>))   \
    BOTH("t", type, (loop<as, True>))

// gfx11 and later call the constant ones f and t; CDNA calls the true one tru.
#define FLOATING(loop, as, type)                        \
    BOTH("f", type, (loop<as, False>))                  \
    BOTH("lt", type, (loop<as, Less>))                  \
    BOTH("eq", type, (loop<as, Equal>))                 \
    BOTH("le", type, (loop<as, LessEqual>))             \
    BOTH("gt", type, (loop<as, Greater>))               \
    BOTH("lg", type, (loop<as, LessGreater>))           \
    BOTH("ge", type, (loop<as, GreaterEqual>))          \
    BOTH("o", type, (loop<as, Ordered>))                \
    BOTH("u", type, (loop<as, Not<Ordered>>))           \
    BOTH("nge", type, (loop<as, Not<GreaterEqual>>))    \
    BOTH("nlg", type, (loop<as, Not<LessGreater>>))     \
    BOTH("ngt", type, (loop<as, Not<Greater>>))         \
    BOTH("nle", type, (loop<as, Not<LessEqual>>))       \
    BOTH("neq", type, (loop<as, Not<Equal>>))           \
    BOTH("nlt", type, (loop<as, Not<Less>>))            \
    BOTH("t", type, (loop<as, True>))                   \
    BOTH("tru", type, (loop<as, True>))

HANDLERS(vector_compare) {
    INTEGER(compare32, AsU32, "u32")
    INTEGER(compare32, AsI32, "i32")
    INTEGER(compare32, AsU16, "u16")
    INTEGER(compare32, AsI16, "i16")
    INTEGER(compare64, AsU64, "u64")
    INTEGER(compare64, AsI64, "i64")
    FLOATING(compare_f32, AsF32, "f32")
    FLOATING(compare_f16, AsF16, "f16")
    FLOATING(compare64, AsF64, "f64")
    BOTH("class", "f32", v_cmp_class_f32)
    BOTH("class", "f16", v_cmp_class_f16)
    BOTH("class", "f64", v_cmp_class_f64)
}
