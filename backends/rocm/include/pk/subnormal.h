// f16 below the normal range (2^-14) in matrix products on CDNA 2.
//
// Its 16-bit MFMA take subnormal operands as zero ("MI200 MFMA behavior specifics" in the documentation of MIOpen; "Numerical
// accuracy" in that of PyTorch).  For bf16 that is below 2^-126 and lost in any sum of floats; an f16 loses up to 6e-5 of its
// value.  So a wave looks at its operands, which costs two to three vector instructions per register beside the products, and
// multiplies those that hold such a number as floats: a quarter of the rate, where there are any.
#pragma once

#include "pk/layout.h"
#include "pk/math.h"

namespace pk {

// Whether products of fragments V lose subnormal operands, and then what finds them.
template <class V> constexpr bool flushes = false;
template <class V> struct Subnormals;

#if defined(__gfx90a__)

template <> constexpr bool flushes<f16x8> = true;

template <> struct Subnormals<f16x8> {
  u16x2 least = {0xffff, 0xffff};
  u16x2 two = bitcast<u16x2>(opaque(0x20002));  // a number that is not known is multiplied by in the instruction that adds

  // 2 x - 1 drops the sign and takes zero past all others: what is subnormal is left below 2^11 - 1.
  PK_FN void look(f16x8 x) {
    u16x2 pairs[4];
    __builtin_memcpy(pairs, &x, sizeof x);
#pragma unroll
    for (u16x2 p : pairs) least = __builtin_elementwise_min(least, p * two - static_cast<uint16_t>(1));
  }

  // The lanes that have seen one.
  PK_FN uint64_t lanes() const { return ballot(least.x < 0x7ff || least.y < 0x7ff); }
};

// A matrix step by floats, one depth of every lane at a time.
template <class Acc> PK_FN Acc matrix_step_as_floats(Acc d, f16x8 x, f16x8 y) {
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float a = static_cast<float>(x[k]), b = static_cast<float>(y[k]);
    if constexpr (same<Acc, f32x16>) d = __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, d, 0, 0, 0);
    else d = __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, d, 0, 0, 0);
    __builtin_amdgcn_sched_barrier(0);  // else all are converted first, for which there are no registers
  }
  return d;
}

// Multiplies in one way or the other.  What is left to test in an if is not known to follow from the one before: as its else, the
// sums would be held twice.
template <class Floats, class Plain> PK_FN void by_floats_if_any(uint64_t small, Floats by_floats, Plain plain) {
  if (__builtin_expect(small != 0, false)) by_floats();
  asm volatile("" : "+s"(small));
  if (__builtin_expect(small == 0, true)) plain();
}

#endif

}  // namespace pk
