// Numbers in AMD's narrow formats, exactly: every conversion works on bits, so that it does not depend on the host's modes,
// and without branches, so that loops over lanes vectorise.
//
// Formats: IEEE binary16; bfloat16; fp8 (E4M3) and bf8 (E5M2), which are FNUZ on CDNA3 and OCP on CDNA4 and RDNA4 (AMD, "MI300
// ISA", "FP8 and BF8"; OCP "8-bit Floating Point Specification" 1.0, table 1).  FNUZ has one zero, one NaN (0x80), no
// infinity, and a bias one higher.
//
// Everything here is in an unnamed namespace: files that include it are compiled for several instruction sets, and an inline
// function with a name for the linker could be taken from the wrong one.
#pragma once

#include <cstdint>
#include <cstring>


namespace {

template <class To, class From> inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline float as_float(uint32_t bits) { return bits_as<float>(bits); }
inline uint32_t as_bits(float value) { return bits_as<uint32_t>(value); }
inline double as_double(uint64_t bits) { return bits_as<double>(bits); }
inline uint64_t as_bits(double value) { return bits_as<uint64_t>(value); }

// The encoding of MODE.round (RDNA3 ISA, "MODE register"; the same in all generations here).
enum class Round : uint8_t { nearest_even = 0, up = 1, down = 2, to_zero = 3 };

enum class Specials : uint8_t { ieee, ocp_e4m3, fnuz };

struct Format {
  int exponent_bits, mantissa_bits, bias;
  Specials specials;
};

constexpr Format binary16{5, 10, 15, Specials::ieee};
constexpr Format bfloat16{8, 7, 127, Specials::ieee};
constexpr Format fp8_fnuz{4, 3, 8, Specials::fnuz};
constexpr Format bf8_fnuz{5, 2, 16, Specials::fnuz};
constexpr Format fp8_ocp{4, 3, 7, Specials::ocp_e4m3};
constexpr Format bf8_ocp{5, 2, 15, Specials::ieee};

// The largest finite magnitude, as bits.
constexpr uint32_t largest(const Format& f) {
  const uint32_t all = (1u << (f.exponent_bits + f.mantissa_bits)) - 1;
  return f.specials == Specials::ieee ? all - (1u << f.mantissa_bits) : f.specials == Specials::ocp_e4m3 ? all - 1 : all;
}

// Whether a magnitude that was cut by `rest` of 2^shift is raised to the next one.
inline uint32_t rounds_up(uint32_t kept, uint32_t rest, uint32_t half, uint32_t negative, Round mode) {
  switch (mode) {
    case Round::nearest_even: return static_cast<uint32_t>(rest > half) | (static_cast<uint32_t>(rest == half) & kept & 1u);
    case Round::up: return static_cast<uint32_t>(rest != 0) & (negative ^ 1u);
    case Round::down: return static_cast<uint32_t>(rest != 0) & negative;
    default: return 0;
  }
}

// The magnitude of a finite f32 (bits without sign), rounded into a narrower format.  May come out beyond largest(f).
template <int exponent_bits, int mantissa_bits, int bias>
inline uint32_t rounded_magnitude(uint32_t magnitude, uint32_t negative, Round mode) {
  const int exponent = static_cast<int>(magnitude >> 23);
  const uint32_t significand = (magnitude & 0x7fffff) | (static_cast<uint32_t>(exponent != 0) << 23);
  const int biased = (exponent != 0 ? exponent : 1) - 127 + bias;  // >= 1: a normal number of the narrow format
  const int below = biased < 1 ? 1 - biased : 0;
  const int wanted = 23 - mantissa_bits + below;
  // A 24-bit significand cut by 25 bits or more is less than half of the last place.
  const uint32_t shift = static_cast<uint32_t>(wanted > 26 ? 26 : wanted);
  const uint32_t kept = significand >> shift;
  const uint32_t rest = significand & ((1u << shift) - 1);
  // shift is 0 only where nothing is cut (a format as precise as f32), which none here is.
  const uint32_t half = 1u << (shift - 1);
  // The hidden bit of `kept` carries one into the exponent field; a denormal has none, and so the field 0.
  const uint32_t field = below != 0 ? 0 : static_cast<uint32_t>(biased - 1);
  return (field << mantissa_bits) + kept + rounds_up(kept, rest, half, negative, mode);
}

// f32 bits to IEEE binary16 or bfloat16 bits.  Overflow goes to infinity or the largest number, as the mode says.
template <int exponent_bits, int mantissa_bits, int bias> inline uint32_t narrow_ieee(uint32_t x, Round mode) {
  const uint32_t negative = x >> 31, magnitude = x & 0x7fffffff;
  const uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  uint32_t result = rounded_magnitude<exponent_bits, mantissa_bits, bias>(magnitude, negative, mode);
  const uint32_t toward_infinity = mode == Round::nearest_even || mode == (negative ? Round::down : Round::up);
  result = result >= infinity ? infinity - 1 + toward_infinity : result;
  result = magnitude == 0x7f800000 ? infinity : result;
  // A NaN keeps the upper bits of its payload and becomes quiet.
  const uint32_t quiet = infinity | (1u << (mantissa_bits - 1)) | ((magnitude & 0x7fffff) >> (23 - mantissa_bits));
  result = magnitude > 0x7f800000 ? quiet : result;
  return negative << (exponent_bits + mantissa_bits) | result;
}

inline uint32_t f16_from_f32(uint32_t x, Round mode = Round::nearest_even) { return narrow_ieee<5, 10, 15>(x, mode); }

inline uint32_t bf16_from_f32(uint32_t x, Round mode = Round::nearest_even) { return narrow_ieee<8, 7, 127>(x, mode); }

// IEEE binary16 to f32, exact.
inline uint32_t f32_from_f16(uint32_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  const uint32_t normal = (magnitude << 13) + ((127 - 15) << 23);
  const uint32_t denormal = as_bits(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t special = (magnitude << 13) | 0x7f800000u | (static_cast<uint32_t>(magnitude > 0x7c00u) << 22);
  uint32_t result = magnitude < 0x400u ? denormal : normal;
  result = magnitude >= 0x7c00u ? special : result;
  return sign | result;
}

inline uint32_t f32_from_bf16(uint32_t b) { return b << 16; }

// fp8 or bf8 to f32, exact.
inline uint32_t f32_from_small(uint32_t v, const Format& f) {
  const uint32_t sign = (v & 0x80u) << 24, magnitude = v & 0x7fu;
  if (f.specials == Specials::fnuz && v == 0x80u) return 0x7fc00000u;
  if (f.specials == Specials::ocp_e4m3 && magnitude == 0x7fu) return sign | 0x7fc00000u;
  const uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  const uint32_t exponent = magnitude >> f.mantissa_bits;
  if (f.specials == Specials::ieee && exponent == (1u << f.exponent_bits) - 1)
    return sign | 0x7f800000u | (mantissa ? 0x400000u | mantissa << (23 - f.mantissa_bits) : 0);
  if (exponent == 0) {
    const float unit = as_float(static_cast<uint32_t>(127 + 1 - f.bias - f.mantissa_bits) << 23);
    return sign | as_bits(static_cast<float>(mantissa) * unit);
  }
  return sign | (exponent + 127 - static_cast<uint32_t>(f.bias)) << 23 | mantissa << (23 - f.mantissa_bits);
}

// f32 to fp8 or bf8.  `saturate` is MODE.FP16_OVFL, which clamps to the largest number what else would become infinity or,
// in formats without one, NaN (CDNA3 ISA, "MODE register": FP16_OVFL; LLVM's AMDGPU usage guide says the same of gfx950).
template <class F> inline uint32_t small_from_f32(uint32_t x, bool saturate, F format) {
  constexpr Format f = decltype(format)::value;
  const uint32_t negative = x >> 31, magnitude = x & 0x7fffffff;
  const uint32_t most = largest(f), all = (1u << (f.exponent_bits + f.mantissa_bits)) - 1;
  const uint32_t nan = f.specials == Specials::fnuz ? 0x80u : (negative << 7 | all);
  const uint32_t overflow = f.specials == Specials::ieee ? (negative << 7 | (most + 1)) : nan;
  if (magnitude > 0x7f800000u) return nan;
  const uint32_t rounded = magnitude == 0x7f800000u ? most + 1
                           : rounded_magnitude<f.exponent_bits, f.mantissa_bits, f.bias>(magnitude, negative, Round::nearest_even);
  if (rounded > most) return saturate ? (negative << 7 | most) : overflow;
  if (rounded == 0 && f.specials == Specials::fnuz) return 0;
  return negative << 7 | rounded;
}

struct Fp8Fnuz { static constexpr Format value = fp8_fnuz; };
struct Bf8Fnuz { static constexpr Format value = bf8_fnuz; };
struct Fp8Ocp { static constexpr Format value = fp8_ocp; };
struct Bf8Ocp { static constexpr Format value = bf8_ocp; };

}  // namespace

