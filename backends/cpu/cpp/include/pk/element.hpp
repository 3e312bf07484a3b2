// Element types: 16-bit floats and their conversions, written without branches so that loops over them vectorise.
#pragma once
#include <stdint.h>

#define PK_INLINE inline __attribute__((always_inline))

#if defined(__clang__)
#define PK_VECTORISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define PK_VECTORISE _Pragma("GCC ivdep")
#endif

#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#endif

namespace pk {

template <class To, class From>
PK_INLINE To bitcast(From x) {
    return __builtin_bit_cast(To, x);
}

// The upper half of a float.
struct bf16 {
    uint16_t bits;

    bf16() = default;
    PK_INLINE explicit bf16(float x) {
        const uint32_t u = bitcast<uint32_t>(x);
        const uint32_t nearest_even = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
        bits = uint16_t(x != x ? 0x7fc0 : nearest_even);
    }
    PK_INLINE explicit bf16(double x) : bf16(float(x)) {}
    PK_INLINE explicit bf16(int32_t x) : bf16(float(x)) {}
    PK_INLINE explicit bf16(int64_t x) : bf16(float(x)) {}
    PK_INLINE explicit bf16(bool x) : bf16(float(x)) {}
    PK_INLINE explicit operator float() const { return bitcast<float>(uint32_t(bits) << 16); }
    PK_INLINE explicit operator double() const { return double(float(*this)); }
};

// IEEE 754 binary16.
struct f16 {
    uint16_t bits;

    f16() = default;
    PK_INLINE explicit f16(float x) {
        const uint32_t u = bitcast<uint32_t>(x), sign = (u >> 16) & 0x8000;
        const uint32_t a = u & 0x7fffffff;
        // Normal: rebias the exponent by -112 and round to nearest even at bit 13.
        const uint32_t normal = (a - (112u << 23) + 0xfff + ((a >> 13) & 1)) >> 13;
        // Subnormal: adding 0.5 aligns the last bit of the result with the last bit of the sum.
        const uint32_t subnormal = bitcast<uint32_t>(bitcast<float>(a) + 0.5f) - 0x3f000000;
        uint32_t h = a < (113u << 23) ? subnormal : normal;
        h = a >= 0x477ff000 ? 0x7c00 : h;  // 65520 and above round to infinity
        h = a > 0x7f800000 ? 0x7e00 : h;
        bits = uint16_t(sign | h);
    }
    PK_INLINE explicit f16(double x) : f16(float(x)) {}
    PK_INLINE explicit f16(int32_t x) : f16(float(x)) {}
    PK_INLINE explicit f16(int64_t x) : f16(float(x)) {}
    PK_INLINE explicit f16(bool x) : f16(float(x)) {}
    PK_INLINE explicit operator float() const {
        const uint32_t a = uint32_t(bits & 0x7fff) << 13, sign = uint32_t(bits & 0x8000) << 16;
        // 2^112 rebiases the exponent, of subnormals too.
        const uint32_t finite = bitcast<uint32_t>(bitcast<float>(a) * 0x1p112f);
        return bitcast<float>((a >= (0x7c00u << 13) ? a | 0x7f800000 : finite) | sign);
    }
    PK_INLINE explicit operator double() const { return double(float(*this)); }
};

// min(max(extent - start, 0), 2^31 - 1): how many coordinates remain.
PK_INLINE int32_t left(int64_t extent, int64_t start) {
    const int64_t n = extent - start;
    return int32_t(n < 0 ? 0 : n > 0x7fffffff ? 0x7fffffff : n);
}

}  // namespace pk
