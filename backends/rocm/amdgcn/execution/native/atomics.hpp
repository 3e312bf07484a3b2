// What atomic operations do to a word: shared by those on memory and on LDS.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace machine {
namespace {

template <class To, class From>
To cast_bits(From x) {
    static_assert(sizeof(To) == sizeof(From));
    To y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}

inline float f32_of_f16(uint16_t h) {
    const uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 31) return cast_bits<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent) return cast_bits<float>(sign | (exponent + 112) << 23 | fraction << 13);
    return std::copysign(float(fraction) * 0x1p-24f, cast_bits<float>(sign | 0x3f800000u));
}

// Round to nearest even.
inline uint16_t f16_of_f32(float x) {
    const uint32_t u = cast_bits<uint32_t>(x), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00);
    if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);
    if (magnitude < 0x38800000) {  // denormal: a multiple of 2^-24
        const float scaled = std::nearbyint(cast_bits<float>(magnitude) * 0x1p24f);
        return uint16_t(sign | uint32_t(scaled));
    }
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return uint16_t(sign | ((rounded - 0x38000000) >> 13));
}

inline uint16_t bf16_of_f32(float x) {
    const uint32_t u = cast_bits<uint32_t>(x);
    if ((u & 0x7fffffff) > 0x7f800000) return uint16_t(u >> 16 | 0x40);
    return uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

inline float f32_of_bf16(uint16_t h) { return cast_bits<float>(uint32_t(h) << 16); }

inline uint32_t pk_add_f16(uint32_t a, uint32_t b) {
    const auto add = [](uint32_t x, uint32_t y) { return f16_of_f32(f32_of_f16(uint16_t(x)) + f32_of_f16(uint16_t(y))); };
    return add(a, b) | uint32_t(add(a >> 16, b >> 16)) << 16;
}

inline uint32_t pk_add_bf16(uint32_t a, uint32_t b) {
    const auto add = [](uint32_t x, uint32_t y) { return bf16_of_f32(f32_of_bf16(uint16_t(x)) + f32_of_bf16(uint16_t(y))); };
    return add(a, b) | uint32_t(add(a >> 16, b >> 16)) << 16;
}

inline uint32_t add_f32(uint32_t a, uint32_t b) { return cast_bits<uint32_t>(cast_bits<float>(a) + cast_bits<float>(b)); }
inline uint64_t add_f64(uint64_t a, uint64_t b) { return cast_bits<uint64_t>(cast_bits<double>(a) + cast_bits<double>(b)); }

// Numbers win over NaN (CDNA3 ISA, GLOBAL_ATOMIC_MIN_F64 and MAX_F64).
template <class Float, class Word, bool Max>
Word extreme(Word a, Word b) {
    const Float x = cast_bits<Float>(a), y = cast_bits<Float>(b);
    if (x != x) return b;
    if (y != y) return a;
    return (Max ? y > x : y < x) ? b : a;
}

inline uint32_t max_i32(uint32_t a, uint32_t b) { return int32_t(b) > int32_t(a) ? b : a; }
inline uint32_t min_i32(uint32_t a, uint32_t b) { return int32_t(b) < int32_t(a) ? b : a; }
inline uint64_t max_i64(uint64_t a, uint64_t b) { return int64_t(b) > int64_t(a) ? b : a; }
inline uint64_t min_i64(uint64_t a, uint64_t b) { return int64_t(b) < int64_t(a) ? b : a; }
template <class T> T larger(T a, T b) { return b > a ? b : a; }
template <class T> T smaller(T a, T b) { return b < a ? b : a; }
template <class T> T add_to(T a, T b) { return a + b; }
template <class T> T subtract(T a, T b) { return a - b; }
template <class T> T subtract_from(T a, T b) { return b - a; }
template <class T> T all_of(T a, T b) { return a & b; }
template <class T> T any_of(T a, T b) { return a | b; }
template <class T> T flipped(T a, T b) { return a ^ b; }
template <class T> T replaced(T, T b) { return b; }
template <class T> T increment(T a, T b) { return a >= b ? T(0) : a + 1; }
template <class T> T decrement(T a, T b) { return a == 0 || a > b ? b : a - 1; }
inline uint32_t subtract_to_zero(uint32_t a, uint32_t b) { return a > b ? a - b : 0; }
inline uint32_t subtract_if(uint32_t a, uint32_t b) { return a >= b ? a - b : a; }

}  // namespace
}  // namespace machine

// (name of the operation, type of the word, f(old, data) -> new), for memory and for LDS: named as gfx12 does.
#define PK_UPDATES(X)                                                                                                      \
    X("add_u32", uint32_t, add_to<uint32_t>) X("sub_u32", uint32_t, subtract<uint32_t>)                                    \
    X("rsub_u32", uint32_t, subtract_from<uint32_t>) X("inc_u32", uint32_t, increment<uint32_t>)                           \
    X("dec_u32", uint32_t, decrement<uint32_t>) X("min_i32", uint32_t, min_i32) X("max_i32", uint32_t, max_i32)            \
    X("min_u32", uint32_t, smaller<uint32_t>) X("max_u32", uint32_t, larger<uint32_t>) X("and_b32", uint32_t, all_of<uint32_t>) \
    X("or_b32", uint32_t, any_of<uint32_t>) X("xor_b32", uint32_t, flipped<uint32_t>)                                      \
    X("swap_b32", uint32_t, replaced<uint32_t>) X("sub_clamp_u32", uint32_t, subtract_to_zero)                             \
    X("cond_sub_u32", uint32_t, subtract_if)                                                                               \
    X("add_u64", uint64_t, add_to<uint64_t>) X("sub_u64", uint64_t, subtract<uint64_t>)                                    \
    X("rsub_u64", uint64_t, subtract_from<uint64_t>) X("inc_u64", uint64_t, increment<uint64_t>)                           \
    X("dec_u64", uint64_t, decrement<uint64_t>) X("min_i64", uint64_t, min_i64) X("max_i64", uint64_t, max_i64)            \
    X("min_u64", uint64_t, smaller<uint64_t>) X("max_u64", uint64_t, larger<uint64_t>) X("and_b64", uint64_t, all_of<uint64_t>) \
    X("or_b64", uint64_t, any_of<uint64_t>) X("xor_b64", uint64_t, flipped<uint64_t>)                                      \
    X("swap_b64", uint64_t, replaced<uint64_t>) X("add_f32", uint32_t, add_f32) X("add_f64", uint64_t, add_f64)            \
    X("pk_add_f16", uint32_t, pk_add_f16) X("pk_add_bf16", uint32_t, pk_add_bf16)                                          \
    X("min_f64", uint64_t, (extreme<double, uint64_t, false>)) X("max_f64", uint64_t, (extreme<double, uint64_t, true>))   \
    X("min_num_f32", uint32_t, (extreme<float, uint32_t, false>)) X("max_num_f32", uint32_t, (extreme<float, uint32_t, true>))
