// Numbers of 8 bits: floats of the OCP specification (CDNA 4, RDNA 4) and of the FNUZ formats (CDNA 3), and integers.
//
// FNUZ formats have one zero and one NaN (the bits of minus zero), no infinities, and a bias that is one larger: the same
// bits mean half as much.
#pragma once

#include "pk/device.h"

namespace pk {

template <int Exponent, int Mantissa, bool Fnuz> struct Float8 {
  static constexpr int bias = (1 << (Exponent - 1)) - (Fnuz ? 0 : 1);
  static constexpr uint32_t infinity = !Fnuz && Mantissa == 2 ? 0x7c : 0;  // of the others, none
  static constexpr uint32_t nan = Fnuz ? 0x80 : Mantissa == 2 ? 0x7e : 0x7f;
  static constexpr uint32_t largest = Fnuz ? 0x7f : Mantissa == 2 ? 0x7b : 0x7e;
  uint8_t bits;

  Float8() = default;

  // Rounded to nearest even; what is too large becomes the format's infinity, or NaN where it has none.
  PK_FN explicit Float8(float x) {
    const uint32_t all = __builtin_bit_cast(uint32_t, x), sign = all >> 24 & 0x80;
    uint32_t u = all & 0x7fffffff;
    const float size = __builtin_bit_cast(float, u);
    if (u > 0x7f800000) { bits = static_cast<uint8_t>(nan | (Fnuz ? 0 : sign)); return; }
    constexpr int drop = 23 - Mantissa;
    if (size < power(1 - bias)) {
      u = static_cast<uint32_t>(__builtin_rintf(size * power(bias - 1 + Mantissa)));  // in units of the smallest number
    } else {
      u = (u + (1u << (drop - 1)) - 1 + (u >> drop & 1)) >> drop;
      u -= static_cast<uint32_t>(127 - bias) << Mantissa;
      if (u > largest) u = infinity ? infinity : nan;
    }
    bits = static_cast<uint8_t>(Fnuz && (u == 0 || u == nan) ? u : u | sign);
  }

  PK_FN operator float() const {
    const uint32_t u = bits & 0x7fu, sign = static_cast<uint32_t>(bits & 0x80) << 24;
    const bool none = Fnuz ? bits == 0x80 : infinity ? u > infinity : u == nan;
    if (none) return NAN;
    if (infinity && u == infinity) return __builtin_bit_cast(float, sign | 0x7f800000u);
    const float small = static_cast<float>(u) * power(1 - bias - Mantissa);  // no exponent: u counts the smallest number
    const uint32_t large = (u << (23 - Mantissa)) + (static_cast<uint32_t>(127 - bias) << 23);
    const uint32_t size = u >> Mantissa ? large : __builtin_bit_cast(uint32_t, small);
    return __builtin_bit_cast(float, size | sign);
  }

 private:
  PK_FN static float power(int n) { return __builtin_bit_cast(float, static_cast<uint32_t>(n + 127) << 23); }
};

using f8e4m3 = Float8<4, 3, false>;
using f8e5m2 = Float8<5, 2, false>;
using f8e4m3fnuz = Float8<4, 3, true>;
using f8e5m2fnuz = Float8<5, 2, true>;

// The formats that this GPU's matrix cores multiply.
#if defined(__gfx942__)
using matrix_f8e4m3 = f8e4m3fnuz;
using matrix_f8e5m2 = f8e5m2fnuz;
#else
using matrix_f8e4m3 = f8e4m3;
using matrix_f8e5m2 = f8e5m2;
#endif

struct xf32 {};  // names products of floats of which 10 bits of the mantissa are multiplied (CDNA 3)

// What a lane hands to a matrix instruction of elements T that have no vector type.
template <class T, class Words> struct Packed { Words words; };

// Names steps that are twice as deep as others of the same elements, and whether there are instructions for them: CDNA 4
// multiplies 8-bit floats 128 deep at twice the rate of 32 deep.
template <class T> struct Twice {};
template <class T> constexpr bool goes_twice_as_deep = false;

// ---- matrix instructions ------------------------------------------------------------------------------------------
//
// As in device.h; a CDNA lane holds 16 consecutive depths (8 and 8 where an instruction is 32 deep, 4 where it is 16).

#if defined(__GFX9__)

using Bytes = i32x4;

PK_FN int64_t low(i32x4 x) { const i32x2 half = x.lo; return __builtin_bit_cast(int64_t, half); }
PK_FN int64_t high(i32x4 x) { const i32x2 half = x.hi; return __builtin_bit_cast(int64_t, half); }

PK_FN i32x4 matrix_step(i32x4 d, Packed<int8_t, Bytes> x, Packed<int8_t, Bytes> y) {
#if defined(__gfx950__)
  return __builtin_amdgcn_mfma_i32_16x16x64_i8(x.words, y.words, d, 0, 0, 0);
#elif defined(__gfx942__)
  d = __builtin_amdgcn_mfma_i32_16x16x32_i8(low(x.words), low(y.words), d, 0, 0, 0);
  return __builtin_amdgcn_mfma_i32_16x16x32_i8(high(x.words), high(y.words), d, 0, 0, 0);
#else
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int xs = x.words[i], ys = y.words[i];
    d = __builtin_amdgcn_mfma_i32_16x16x16i8(xs, ys, d, 0, 0, 0);
  }
  return d;
#endif
}

#if defined(__gfx942__) || defined(__gfx950__)
PK_FN f32x4 matrix_step(f32x4 d, Packed<matrix_f8e4m3, Bytes> x, Packed<matrix_f8e4m3, Bytes> y) {
  d = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(low(x.words), low(y.words), d, 0, 0, 0);
  return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(high(x.words), high(y.words), d, 0, 0, 0);
}

PK_FN f32x4 matrix_step(f32x4 d, Packed<matrix_f8e5m2, Bytes> x, Packed<matrix_f8e5m2, Bytes> y) {
  d = __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(low(x.words), low(y.words), d, 0, 0, 0);
  return __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(high(x.words), high(y.words), d, 0, 0, 0);
}
#endif

#if defined(__gfx950__)
template <> constexpr bool goes_twice_as_deep<f8e4m3> = true;
template <> constexpr bool goes_twice_as_deep<f8e5m2> = true;

// One instruction of depth 128.  Its blocks may have scales; without scales LLVM takes the instruction that has none.
template <int Format> PK_FN f32x4 matrix_step_128(f32x4 d, i32x8 x, i32x8 y) {
  return __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(x, y, d, Format, Format, 0, 0, 0, 0);
}

PK_FN f32x4 matrix_step(f32x4 d, Packed<f8e4m3, i32x8> x, Packed<f8e4m3, i32x8> y) {
  return matrix_step_128<0>(d, x.words, y.words);
}

PK_FN f32x4 matrix_step(f32x4 d, Packed<f8e5m2, i32x8> x, Packed<f8e5m2, i32x8> y) {
  return matrix_step_128<1>(d, x.words, y.words);
}
#endif

#if defined(__gfx942__)
PK_FN f32x4 matrix_step(f32x4 d, Packed<xf32, f32x4> x, Packed<xf32, f32x4> y) {  // two instructions of depth 8
  const f32x2 x0 = x.words.lo, y0 = y.words.lo, x1 = x.words.hi, y1 = y.words.hi;
  d = __builtin_amdgcn_mfma_f32_16x16x8_xf32(x0, y0, d, 0, 0, 0);
  return __builtin_amdgcn_mfma_f32_16x16x8_xf32(x1, y1, d, 0, 0, 0);
}
#endif

#elif defined(__GFX12__)

using Bytes = i32x2;

PK_FN i32x8 matrix_step(i32x8 d, Packed<int8_t, Bytes> x, Packed<int8_t, Bytes> y) {
  return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, x.words, true, y.words, d, false);
}

PK_FN f32x8 matrix_step(f32x8 d, Packed<f8e4m3, Bytes> x, Packed<f8e4m3, Bytes> y) {
  return __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(x.words, y.words, d);
}

PK_FN f32x8 matrix_step(f32x8 d, Packed<f8e5m2, Bytes> x, Packed<f8e5m2, Bytes> y) {
  return __builtin_amdgcn_wmma_f32_16x16x16_bf8_bf8_w32_gfx12(x.words, y.words, d);
}

#else

using Bytes = i32x4;

PK_FN i32x8 matrix_step(i32x8 d, Packed<int8_t, Bytes> x, Packed<int8_t, Bytes> y) {
  return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, x.words, true, y.words, d, false);
}

#endif

}  // namespace pk
