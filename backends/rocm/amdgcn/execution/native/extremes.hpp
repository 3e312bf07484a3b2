// Minimum and maximum of floating-point numbers as AMD's generations define them, on f32 bits.
//
// v_min/v_max (to gfx11): the number where one operand is NaN; a signaling NaN, made quiet, where MODE.IEEE is set (CDNA3 ISA
// V_MAX_F32). v_min_num/v_max_num (gfx12): the number (RDNA4 ISA). v_minimum/v_maximum (gfx950, gfx12): NaN where
// one operand is (RDNA4 ISA). All order -0 below +0.
#pragma once

#include "floats.hpp"

namespace {

constexpr uint32_t kQuietBit = 0x400000;

inline bool is_nan(uint32_t x) { return (x & 0x7fffffff) > 0x7f800000; }
inline bool is_signaling(uint32_t x) { return is_nan(x) && !(x & kQuietBit); }

// Numbers in the order of their values, -0 below +0.
inline int32_t rank(uint32_t x) { return int32_t(x) < 0 ? int32_t(x ^ 0x7fffffff) : int32_t(x); }

inline uint32_t greater(uint32_t a, uint32_t b) { return rank(a) > rank(b) ? a : b; }
inline uint32_t lesser(uint32_t a, uint32_t b) { return rank(a) < rank(b) ? a : b; }

struct Max { static uint32_t of(uint32_t a, uint32_t b) { return greater(a, b); } };
struct Min { static uint32_t of(uint32_t a, uint32_t b) { return lesser(a, b); } };

template <class Extreme> inline uint32_t number_extreme(uint32_t a, uint32_t b) {
    uint32_t r = Extreme::of(a, b);
    r = is_nan(b) ? a : r;
    r = is_nan(a) ? (is_nan(b) ? a | kQuietBit : b) : r;
    return r;
}

template <class Extreme> inline uint32_t ieee_extreme(uint32_t a, uint32_t b) {
    uint32_t r = number_extreme<Extreme>(a, b);
    r = is_signaling(b) ? b | kQuietBit : r;
    r = is_signaling(a) ? a | kQuietBit : r;
    return r;
}

template <class Extreme> inline uint32_t nan_extreme(uint32_t a, uint32_t b) {
    uint32_t r = Extreme::of(a, b);
    r = is_nan(b) ? b | kQuietBit : r;
    r = is_nan(a) && !is_signaling(b) ? a | kQuietBit : r;
    r = is_signaling(a) ? a | kQuietBit : r;
    return r;
}

inline uint32_t median(uint32_t a, uint32_t b, uint32_t c) {
    const bool any_nan = is_nan(a) || is_nan(b) || is_nan(c);
    const uint32_t low = number_extreme<Min>(number_extreme<Min>(a, b), c);
    const uint32_t high = number_extreme<Max>(number_extreme<Max>(a, b), c);
    if (any_nan) return low;
    if (as_float(high) == as_float(a)) return greater(b, c);
    if (as_float(high) == as_float(b)) return greater(a, c);
    return greater(a, b);
}

}  // namespace
