// Element types by name, and the short vectors that registers are loaded in.
#pragma once

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = __INT64_TYPE__;
using uint64_t = __UINT64_TYPE__;
using uintptr_t = __UINTPTR_TYPE__;

#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#endif

namespace pk {

using f16 = _Float16;
using bf16 = __bf16;  // arithmetic is never done in it: it is converted to float and back (to nearest even)

typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x8 __attribute__((ext_vector_type(8)));
typedef float f32x16 __attribute__((ext_vector_type(16)));
typedef double f64x4 __attribute__((ext_vector_type(4)));
typedef f16 f16x8 __attribute__((ext_vector_type(8)));
typedef f16 f16x16 __attribute__((ext_vector_type(16)));
typedef bf16 bf16x8 __attribute__((ext_vector_type(8)));
typedef bf16 bf16x16 __attribute__((ext_vector_type(16)));
typedef int32_t i32x2 __attribute__((ext_vector_type(2)));
typedef int32_t i32x4 __attribute__((ext_vector_type(4)));
typedef int32_t i32x8 __attribute__((ext_vector_type(8)));
typedef uint16_t u16x2 __attribute__((ext_vector_type(2)));
typedef int16_t i16x2 __attribute__((ext_vector_type(2)));
typedef int16_t i16x4 __attribute__((ext_vector_type(4)));
typedef int16_t i16x8 __attribute__((ext_vector_type(8)));
typedef int16_t i16x16 __attribute__((ext_vector_type(16)));

template <bool Which, class A, class B> struct Choose { using type = A; };
template <class A, class B> struct Choose<false, A, B> { using type = B; };
template <bool Which, class A, class B> using choose = typename Choose<Which, A, B>::type;

template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;

template <class T> constexpr bool is_short_integer =  // of 32 bits or fewer
    same<T, int8_t> || same<T, uint8_t> || same<T, int16_t> || same<T, uint16_t> || same<T, int32_t> || same<T, uint32_t>;

constexpr int smaller(int a, int b) { return a < b ? a : b; }
constexpr int larger(int a, int b) { return a > b ? a : b; }

// The largest power of two that divides n and is at most `limit`.
constexpr int power_in(int n, int limit) {
  int p = 1;
  while (n % (2 * p) == 0 && 2 * p <= limit) p *= 2;
  return p;
}

}  // namespace pk
