// portakern tile library for NVIDIA GPUs: element types and what every other header needs.
// Includes nothing from the toolkit, so that NVRTC and nvcc compile it alike and quickly.
#pragma once

#ifdef __CUDACC_RTC__
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#else
#include <cmath>
#include <cstdint>
#include <cstring>
#endif

#define PK_DEVICE __device__ __forceinline__
#define PK_CONSTEXPR __host__ __device__ constexpr  // index arithmetic; the tests run it on the host

namespace pk {

constexpr int kWarp = 32;  // lanes of a warp

/// Tag of float operands that the matrix unit may round to TF32 (10 bits of mantissa).
struct tf32 {};

/// Tag of float operands that the matrix unit multiplies as sums of three bf16 (see pk/thirds.cuh).
struct bf16x6 {};

template <class A, class B> struct Same { static constexpr bool value = false; };
template <class A> struct Same<A, A> { static constexpr bool value = true; };
template <class A, class B> constexpr bool same = Same<A, B>::value;

PK_CONSTEXPR int min_of(int a, int b) { return a < b ? a : b; }
PK_CONSTEXPR int max_of(int a, int b) { return a > b ? a : b; }
PK_CONSTEXPR int ceil_div(int a, int b) { return (a + b - 1) / b; }
PK_CONSTEXPR bool is_power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }
PK_CONSTEXPR int power_of_two_from(int n) { return n <= 1 ? 1 : 2 * power_of_two_from((n + 1) / 2); }
PK_CONSTEXPR int power_of_two_to(int n) { return n <= 1 ? 1 : 2 * power_of_two_to(n / 2); }
PK_CONSTEXPR int power_of_two_in(int n) { return n % 2 ? 1 : 2 * power_of_two_in(n / 2); }  // largest that divides n

/// Index of this thread in its block (blocks have one dimension).
PK_DEVICE int thread() { return static_cast<int>(threadIdx.x); }
PK_DEVICE int lane() { return static_cast<int>(threadIdx.x) & (kWarp - 1); }
PK_DEVICE int warp() { return static_cast<int>(threadIdx.x) / kWarp; }

/// How many coordinates remain from `start` on, in the 32 bits that offsets inside a tile have.
PK_DEVICE int32_t left(int64_t extent, int64_t start) {
    const int64_t n = extent - start;
    return n <= 0 ? 0 : n > 0x7fffffff ? 0x7fffffff : static_cast<int32_t>(n);
}

/// The bits of `x` read as a `To` of the same size.
template <class To, class From> PK_DEVICE To bitcast(const From& x) {
    static_assert(sizeof(To) == sizeof(From), "widths differ");
    To y;
    memcpy(&y, &x, sizeof(To));
    return y;
}

}  // namespace pk
