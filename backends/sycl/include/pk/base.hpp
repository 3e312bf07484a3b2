// Element types, vectors of them and conversions: what every other header needs.
#pragma once
#include <cstdint>
#include <sycl/ext/oneapi/free_function_kernel_properties.hpp>
#include <sycl/ext/oneapi/free_function_queries.hpp>
#include <sycl/khr/split_headers/index_space.hpp>

// Nothing is fused but what is written as fma: a maximum of products and the same products less that maximum must be rounded
// alike.
#pragma clang fp contract(off)

#define PK_INLINE inline __attribute__((always_inline))

#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#endif

namespace pk {

template <class T, int N>
using vec = T __attribute__((ext_vector_type(N)));
// A vector in memory, aligned as one element is. (An alias of the vector type with a smaller alignment loses it where a
// template names it, and the compiler takes addresses for multiples of the whole vector's size.)
template <class T, int N>
struct __attribute__((packed, aligned(sizeof(T)))) loose {
    vec<T, N> v;
};

#define PK_VECTORS(name, T)    \
    using name##2 = vec<T, 2>; \
    using name##4 = vec<T, 4>; \
    using name##8 = vec<T, 8>; \
    using name##16 = vec<T, 16>;
PK_VECTORS(float, float)
PK_VECTORS(double, double)
PK_VECTORS(int, int32_t)
PK_VECTORS(long, int64_t)
PK_VECTORS(uint, uint32_t)
PK_VECTORS(ulong, uint64_t)
#undef PK_VECTORS


// ---- shapes and conversions of values

template <class V>
struct Shape {
    using element = V;
    static constexpr int lanes = 1;
};
template <class T, int N>
struct Shape<T __attribute__((ext_vector_type(N)))> {
    using element = T;
    static constexpr int lanes = N;
};
template <class T>
constexpr bool is_float = T(0.5f) != T(0);
template <class V>
constexpr bool is_vector = Shape<V>::lanes > 1;

template <class To, class From>
PK_INLINE To bits(From x) {
    return __builtin_bit_cast(To, x);
}
template <class To, class From>
PK_INLINE To convert(From x) {
    if constexpr (is_vector<To>) return __builtin_convertvector(x, To);
    else return static_cast<To>(x);
}

// `yes` in the lanes where the mask is -1.
template <class M, class V>
PK_INLINE V select(M mask, V yes, V no) {
    if constexpr (sizeof(typename Shape<V>::element) == 8) {
        return convert<vec<int64_t, Shape<V>::lanes>>(mask) ? yes : no;
    } else {
        return mask ? yes : no;
    }
}


// The bits of `v` as bf16: halves are rounded to even, a NaN stays one.
template <class V>
PK_INLINE auto bf16_bits(V v) {
    constexpr int n = Shape<V>::lanes;
    if constexpr (n == 1) {
        const uint32_t u = bits<uint32_t>(v), rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
        return static_cast<uint16_t>(v != v ? 0x7fc0 : rounded);
    } else {
        using U = vec<uint32_t, n>;
        const U u = bits<U>(v), rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
        return convert<vec<uint16_t, n>>(select(v != v, U(0x7fc0), rounded));
    }
}

// ---- 16-bit floats

using f16 = _Float16;

struct bf16 {  // the upper half of a float
    uint16_t bits;

    bf16() = default;
    PK_INLINE explicit bf16(float x) : bits(bf16_bits(x)) {}  // halves are rounded to even
    PK_INLINE explicit bf16(double x) : bf16(float(x)) {}
    PK_INLINE explicit bf16(int32_t x) : bf16(float(x)) {}
    PK_INLINE explicit bf16(int64_t x) : bf16(float(x)) {}
    PK_INLINE explicit bf16(bool x) : bf16(float(x)) {}
    PK_INLINE explicit operator float() const { return pk::bits<float>(uint32_t(bits) << 16); }
    PK_INLINE explicit operator double() const { return double(float(*this)); }
};

// ---- local memory

#ifdef __SYCL_DEVICE_ONLY__
#define PK_LOCAL [[__sycl_detail__::wg_scope]]
#else
#define PK_LOCAL
#endif
// N elements of local memory, which the work-items of a group share; declared `static` in a kernel. This is
// sycl_ext_oneapi_work_group_static without the headers it brings, which take longer to read than a kernel.
template <class T, int N = 1>
class PK_LOCAL local {
public:
    local() = default;
    local(const local&) = delete;
    PK_INLINE T& operator[](int i) { return data[i]; }

private:
    T data[N];
};

// min(max(extent - start, 0), 2^31 - 1): how many coordinates remain.
PK_INLINE int32_t left(int64_t extent, int64_t start) {
    const int64_t n = extent - start;
    return int32_t(n < 0 ? 0 : n > 0x7fffffff ? 0x7fffffff : n);
}

}  // namespace pk
