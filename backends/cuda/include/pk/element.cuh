// Element types that C++ lacks: 16 or 8 bits in storage, arithmetic in float.
#pragma once
#include "pk/base.cuh"
#include "pk/ptx.cuh"

namespace pk {

/// bfloat16: the upper half of a binary32. Converts to nearest, ties to even.
struct bf16 {
    unsigned short bits;
    bf16() = default;
    PK_DEVICE explicit bf16(float x) : bits(ptx::to_bf16(x)) {}
    PK_DEVICE operator float() const { return ptx::from_bf16(bits); }
};

/// IEEE binary16. Converts to nearest, ties to even.
struct f16 {
    unsigned short bits;
    f16() = default;
    PK_DEVICE explicit f16(float x) : bits(ptx::to_f16(x)) {}
    PK_DEVICE operator float() const { return ptx::from_f16(bits); }
};

/// 8 bits, 3 of them mantissa, no infinities: what is beyond 464 is NaN. Converts to nearest, ties to even.
struct f8e4m3 {
    unsigned char bits;
    f8e4m3() = default;
    PK_DEVICE explicit f8e4m3(float x) : bits(x >= -464.0f && x <= 464.0f ? ptx::to_e4m3(x) : 0x7f) {}
    PK_DEVICE operator float() const { return ptx::from_e4m3(bits); }
};

/// 8 bits, 2 of them mantissa: what is 61440 or more is infinite. Converts to nearest, ties to even.
struct f8e5m2 {
    unsigned char bits;
    f8e5m2() = default;
    PK_DEVICE explicit f8e5m2(float x) : bits(x >= 61440.0f ? 0x7c : x <= -61440.0f ? 0xfc : ptx::to_e5m2(x)) {}
    PK_DEVICE operator float() const { return ptx::from_e5m2(bits); }
};

template <class T> constexpr bool half_width = same<T, bf16> || same<T, f16>;
template <class T> constexpr bool byte_wide = same<T, f8e4m3> || same<T, f8e5m2> || same<T, int8_t> || same<T, uint8_t>;
template <class T> constexpr bool multiplied_whole = half_width<T> || byte_wide<T>;  // as they lie in memory, by the matrix unit

/// What products of elements are summed in.
template <class E> struct SumOf { using Type = float; };
template <> struct SumOf<int8_t> { using Type = int32_t; };
template <> struct SumOf<uint8_t> { using Type = int32_t; };

}  // namespace pk
