// Vectors for kernels of one work-item: a CPU runs each work-group as a loop body, so the vector registers are filled by
// hand. A value is a plain element or a vec of N of them; in registers 16-bit floats are float, bool is int (0 and 1 for
// one value, 0 and -1 in lanes, as comparisons of vectors give).
#pragma once
#include <cstdint>
#include <sycl/atomic_ref.hpp>
#include <sycl/ext/oneapi/free_function_kernel_properties.hpp>
#include <sycl/ext/oneapi/free_function_queries.hpp>
#include <sycl/ext/oneapi/work_group_static.hpp>
#include <sycl/khr/split_headers/index_space.hpp>

#define PK_INLINE inline __attribute__((always_inline))

#define PK_KERNEL                      \
    extern "C" SYCL_EXTERNAL           \
    SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((sycl::ext::oneapi::experimental::nd_range_kernel<3>)) void

#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#endif

namespace pk {

// Memory that a work-group shares, and that here holds what one work-item keeps.
template <class T, int N>
using local = sycl::ext::oneapi::experimental::work_group_static<T[N]>;

template <class T, int N>
using vec = T __attribute__((ext_vector_type(N)));
template <class T, int N>
using loose = T __attribute__((ext_vector_type(N), aligned(sizeof(T))));  // aligned as one element

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

using f16 = _Float16;
struct bf16 {  // the upper half of a float
    uint16_t bits;
};

// Index of the work-group along a dimension, 0 being the fastest.
PK_INLINE int64_t group(int dim) { return sycl::ext::oneapi::this_work_item::get_nd_item<3>().get_group(2 - dim); }

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

template <int N>
PK_INLINE vec<int32_t, N> lanes() {  // 0, 1, 2, ...
    vec<int32_t, N> v;
    for (int i = 0; i < N; ++i) v[i] = i;
    return v;
}

// `v` in the first `left` lanes, `other` in those after.
template <class V>
PK_INLINE V keep(V v, int64_t left, typename Shape<V>::element other) {
    constexpr int n = Shape<V>::lanes;
    const int32_t there = static_cast<int32_t>(left < n ? left : n);
    return select(lanes<n>() < there, v, V(other));
}

// ---- elements in memory and in registers

template <class T>
struct Held {  // integers narrower than int, and bool
    using type = int32_t;
};
template <> struct Held<float> { using type = float; };
template <> struct Held<double> { using type = double; };
template <> struct Held<f16> { using type = float; };
template <> struct Held<bf16> { using type = float; };
template <> struct Held<int64_t> { using type = int64_t; };
template <> struct Held<uint32_t> { using type = uint32_t; };
template <> struct Held<uint64_t> { using type = uint64_t; };
template <class T>
using held = typename Held<T>::type;

PK_INLINE float read(bf16 x) { return bits<float>(uint32_t(x.bits) << 16); }
template <class T>
PK_INLINE held<T> read(T x) { return static_cast<held<T>>(x); }

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
// `v` rounded to what the type can hold.
template <class V>
PK_INLINE V round_bf16(V v) {
    if constexpr (is_vector<V>) return bits<V>(convert<vec<uint32_t, Shape<V>::lanes>>(bf16_bits(v)) << 16);
    else return bits<float>(uint32_t(bf16_bits(v)) << 16);
}
template <class V>
PK_INLINE V round_f16(V v) {
    if constexpr (is_vector<V>) return convert<V>(convert<vec<f16, Shape<V>::lanes>>(v));
    else return static_cast<float>(static_cast<f16>(v));
}

PK_INLINE void write(bf16& to, float x) { to.bits = bf16_bits(x); }
PK_INLINE void write(bool& to, int32_t x) { to = x != 0; }
template <class T>
PK_INLINE void write(T& to, held<T> x) { to = static_cast<T>(x); }

// ---- vectors in memory. A `_part` touches the first `left` elements only, the other lanes are 0; in a `_step` elements
// ---- lie `step` apart.

template <int N, class T>
PK_INLINE vec<held<T>, N> load(const T* p) {
    return convert<vec<held<T>, N>>(*reinterpret_cast<const loose<T, N>*>(p));
}
template <int N>
PK_INLINE vec<float, N> load(const bf16* p) {
    return bits<vec<float, N>>(convert<vec<uint32_t, N>>(*reinterpret_cast<const loose<uint16_t, N>*>(p)) << 16);
}
template <int N>
PK_INLINE vec<int32_t, N> load(const bool* p) {
    return convert<vec<int32_t, N>>(*reinterpret_cast<const loose<uint8_t, N>*>(p)) != 0;
}

template <int N, class T>
PK_INLINE vec<held<T>, N> load_step_part(const T* p, int64_t step, int64_t left) {
    vec<held<T>, N> v = 0;
    for (int i = 0; i < N; ++i)
        if (i < left) v[i] = read(p[i * step]);
    if constexpr (__is_same(T, bool)) return -v;
    return v;
}
template <int N, class T>
PK_INLINE vec<held<T>, N> load_step(const T* p, int64_t step) {
    return load_step_part<N>(p, step, N);
}
template <int N, class T>
PK_INLINE vec<held<T>, N> load_part(const T* p, int64_t left) {
    return left >= N ? load<N>(p) : load_step_part<N>(p, 1, left);
}

template <class V, class T>
PK_INLINE void store(V v, T* p) {
    constexpr int n = Shape<V>::lanes;
    *reinterpret_cast<loose<T, n>*>(p) = convert<vec<T, n>>(v);
}
template <class V>
PK_INLINE void store(V v, bf16* p) {
    *reinterpret_cast<loose<uint16_t, Shape<V>::lanes>*>(p) = bf16_bits(v);
}
template <class V>
PK_INLINE void store(V v, bool* p) {
    *reinterpret_cast<loose<uint8_t, Shape<V>::lanes>*>(p) = convert<vec<uint8_t, Shape<V>::lanes>>(-v);
}
template <class V, class T>
PK_INLINE void store_step_part(V v, T* p, int64_t step, int64_t left) {
    for (int i = 0; i < Shape<V>::lanes; ++i)
        if (i < left) write(p[i * step], v[i]);
}
template <class V, class T>
PK_INLINE void store_step(V v, T* p, int64_t step) {
    store_step_part(v, p, step, Shape<V>::lanes);
}
template <class V, class T>
PK_INLINE void store_part(V v, T* p, int64_t left) {
    if (left >= Shape<V>::lanes) store(v, p);
    else store_step_part(v, p, 1, left);
}

// ---- arithmetic

// Both hand on NaN, which fmax and fmin do not.
template <class V>
PK_INLINE V max(V a, V b) {
    if constexpr (is_vector<V>) return select(convert<vec<int32_t, Shape<V>::lanes>>((a > b) | (a != a)), a, b);
    else return a > b || a != a ? a : b;
}
template <class V>
PK_INLINE V min(V a, V b) {
    if constexpr (is_vector<V>) return select(convert<vec<int32_t, Shape<V>::lanes>>((a < b) | (a != a)), a, b);
    else return a < b || a != a ? a : b;
}
template <class V>
PK_INLINE V clamp(V x, V low, V high) { return pk::min(pk::max(x, low), high); }

// The functions of OpenCL's extended instruction set, on float and double and vectors of them.
#define PK_FUNCTION(name, instruction) \
    template <class V>                 \
    PK_INLINE V name(V x) { return __spirv_ocl_##instruction(x); }
PK_FUNCTION(exp, exp)
PK_FUNCTION(exp2, exp2)
PK_FUNCTION(expm1, expm1)
PK_FUNCTION(log, log)
PK_FUNCTION(log2, log2)
PK_FUNCTION(log1p, log1p)
PK_FUNCTION(sqrt, sqrt)
PK_FUNCTION(rsqrt, rsqrt)
PK_FUNCTION(tanh, tanh)
PK_FUNCTION(erf, erf)
PK_FUNCTION(sin, sin)
PK_FUNCTION(cos, cos)
PK_FUNCTION(floor, floor)
PK_FUNCTION(ceil, ceil)
PK_FUNCTION(rint, rint)
PK_FUNCTION(fabs, fabs)
PK_FUNCTION(sign, sign)
#undef PK_FUNCTION
template <class V>
PK_INLINE V pow(V a, V b) { return __spirv_ocl_pow(a, b); }
template <class V>
PK_INLINE V fma(V a, V b, V c) { return __spirv_ocl_fma(a, b, c); }

// Integer division rounded down, and what it leaves: the remainder has the sign of the divisor.
template <class V>
PK_INLINE V floordiv(V a, V b) {
    const V q = a / b, r = a - q * b;
    if constexpr (is_vector<V>) return q + ((r != 0) & ((r ^ b) < 0));  // a comparison of vectors gives -1
    else return q - (r != 0 && (r ^ b) < 0);
}
template <class V>
PK_INLINE V rem(V a, V b) { return a - floordiv(a, b) * b; }

// ---- the lanes of one vector joined, halving it

template <class V>
PK_INLINE auto halves(V v) {
    constexpr int n = Shape<V>::lanes / 2;
    struct Pair {
        vec<typename Shape<V>::element, n> low, high;
    };
    return bits<Pair>(v);
}
#define PK_ACROSS(name, join)                                 \
    template <class V>                                        \
    PK_INLINE auto name(V v) {                                \
        if constexpr (Shape<V>::lanes == 2) {                 \
            const auto a = v[0], b = v[1];                    \
            return join;                                      \
        } else {                                              \
            const auto pair = halves(v);                      \
            const auto a = pair.low, b = pair.high;           \
            return name(join);                                \
        }                                                     \
    }
PK_ACROSS(sum_of, a + b)
PK_ACROSS(product_of, a * b)
PK_ACROSS(largest_of, pk::max(a, b))
PK_ACROSS(smallest_of, pk::min(a, b))
PK_ACROSS(bits_of_any, a | b)
PK_ACROSS(bits_of_all, a & b)
#undef PK_ACROSS
template <class V>
PK_INLINE int32_t any(V mask) { return bits_of_any(mask) != 0; }
template <class V>
PK_INLINE int32_t all(V mask) { return bits_of_all(mask) != 0; }

// ---- stores that join what is in memory, one step among work-groups

template <class T>
using shared_element =
    sycl::atomic_ref<T, sycl::memory_order::relaxed, sycl::memory_scope::device, sycl::access::address_space::global_space>;

template <class T>
PK_INLINE void atomic_add(T* p, T v) { shared_element<T>(*p).fetch_add(v); }
template <class T>
PK_INLINE void atomic_max(T* p, T v) {
    shared_element<T> x(*p);
    T old = x.load();
    while (!x.compare_exchange_strong(old, pk::max(old, v))) {
    }
}

// ---- the matrix product

// c += a b for packed tiles of rows x depth and depth x columns; pitches are elements between rows. M x (N * W) sums stay
// in registers while k runs, so that an element of b is read once for M rows and one of a once for N * W columns.
template <int M, int N, int W, class S>
PK_INLINE void product_block(S* c, int c_pitch, const S* a, int a_pitch, const S* b, int b_pitch, int depth) {
    using V = vec<S, N>;
    V sum[M][W];
#pragma unroll
    for (int r = 0; r < M; ++r)
#pragma unroll
        for (int w = 0; w < W; ++w) sum[r][w] = load<N>(c + r * c_pitch + w * N);
    for (int k = 0; k < depth; ++k) {
        V right[W];
#pragma unroll
        for (int w = 0; w < W; ++w) right[w] = load<N>(b + k * b_pitch + w * N);
#pragma unroll
        for (int r = 0; r < M; ++r) {
            const V left = a[r * a_pitch + k];
#pragma unroll
            for (int w = 0; w < W; ++w) {
                if constexpr (is_float<S>) sum[r][w] = pk::fma(left, right[w], sum[r][w]);
                else sum[r][w] += left * right[w];
            }
        }
    }
#pragma unroll
    for (int r = 0; r < M; ++r)
#pragma unroll
        for (int w = 0; w < W; ++w) store(sum[r][w], c + r * c_pitch + w * N);
}
template <int M, int N, int W, class S>
PK_INLINE void product(S* c, int c_pitch, const S* a, int a_pitch, const S* b, int b_pitch, int rows, int columns, int depth) {
    for (int j = 0; j < columns; j += N * W) {
        int i = 0;
        for (; i + M <= rows; i += M)
            product_block<M, N, W>(c + i * c_pitch + j, c_pitch, a + i * a_pitch, a_pitch, b + j, b_pitch, depth);
        for (; i < rows; ++i)
            product_block<1, N, W>(c + i * c_pitch + j, c_pitch, a + i * a_pitch, a_pitch, b + j, b_pitch, depth);
    }
}

}  // namespace pk
