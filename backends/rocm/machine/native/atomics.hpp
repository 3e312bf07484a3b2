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

}  // namespace
}  // namespace machine
