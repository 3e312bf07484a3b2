// Element types that C++ lacks: 16 bits in storage, arithmetic in float.
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

template <class T> constexpr bool half_width = same<T, bf16> || same<T, f16>;

}  // namespace pk
