// Arithmetic on 16-bit floating-point numbers, by way of wider ones.
//
// A sum, difference or product of two f16 rounded to f32 and then to f16 is what one rounding gives: 24 bits are at least twice
// 11 and 2 more (Figueroa, "When is double rounding innocuous?", 1995). A fused multiply-add needs care: the product is exact
// in f64, and the sum is rounded to odd there, so that the rounding to f16 is right.
#pragma once

#include "modifiers.hpp"

namespace {

// a b + c for f16 operands given as f32, rounded to f32 in a way that rounding to 16 bits then gives the single rounding.
inline float f16_fma(float a, float b, float c) {
    const double product = double(a) * double(b), addend = double(c);
    const double sum = product + addend;
    // The error of the sum (Knuth's two-sum); where there is one, make the last bit odd in the direction of the exact value.
    const double back = sum - product;
    const double error = (product - (sum - back)) + (addend - back);
    uint64_t bits_of_sum = as_bits(sum);
    const bool inexact = error != 0.0 && error == error && sum - sum == 0.0;
    const bool toward_zero = (error > 0.0) != (sum > 0.0);
    const uint64_t truncated = bits_of_sum - uint64_t(toward_zero);  // now |truncated| <= |exact|
    bits_of_sum = inexact ? truncated | 1 : bits_of_sum;
    // To f32, again to odd: cut, and keep a sticky bit.
    const double wide = as_double(bits_of_sum);
    const float cut = float(wide);
    if (double(cut) == wide || cut != cut || cut - cut != 0.0f) return cut;
    const uint32_t c32 = as_bits(cut);
    const bool too_far = (double(cut) > wide) == (wide > 0.0);
    return as_float((c32 - uint32_t(too_far)) | 1u);
}

inline uint32_t f16_flushed(uint32_t h) { return h & 0x7c00 ? h : h & 0x8000; }

// Source `k` as f32, under MODE's denormals for f16.
inline float f16_value(const Wave &w, uint32_t h) {
    h &= 0xffff;
    return as_float(f32_from_f16(w.mode.flush16_64_in ? f16_flushed(h) : h));
}

inline uint32_t f16_rounded(const Wave &w, float x) {
    uint32_t h = f16_from_f32(as_bits(x), Round(w.mode.round16_64));
    if (w.mode.saturate_f16 && (h & 0x7fff) == 0x7c00 && x - x == 0.0f) h = (h & 0x8000) | 0x7bff;  // MODE.FP16_OVFL
    return w.mode.flush16_64_out ? f16_flushed(h) : h;
}

// omod and clamp on one f16 result that is still in f32.
inline float f16_shaped(const Wave &w, const Op &op, float x) {
    if (op.m.omod) x = scaled(x, op.m.omod);
    if (op.m.clamp) x = clamped(x, w.mode.clamp_nan_to_zero);
    return x;
}

}  // namespace
