// Vectors for kernels of one work-item: a CPU runs each work-group as a loop body, so the vector registers are filled by
// hand. A value is a plain element or a vec of N of them; in registers 16-bit floats are float, bool is int (0 and 1 for
// one value, 0 and -1 in lanes, as comparisons of vectors give).
#pragma once
#include "pk/math.hpp"

#define PK_KERNEL \
    extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((sycl::ext::oneapi::experimental::nd_range_kernel<3>)) void

namespace pk {

// Index of the work-group along a dimension, 0 being the fastest.
PK_INLINE int64_t group(int dim) { return sycl::ext::oneapi::this_work_item::get_nd_item<3>().get_group(2 - dim); }

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

PK_INLINE float read(bf16 x) { return float(x); }
template <class T>
PK_INLINE held<T> read(T x) { return static_cast<held<T>>(x); }

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

PK_INLINE void write(bf16& to, float x) { to = bf16(x); }
PK_INLINE void write(bool& to, int32_t x) { to = x != 0; }
template <class T>
PK_INLINE void write(T& to, held<T> x) { to = static_cast<T>(x); }

// ---- vectors in memory. A `_part` touches the first `left` elements only, the other lanes are 0; in a `_step` elements
// ---- lie `step` apart.

template <int N, class T>
PK_INLINE vec<held<T>, N> load(const T* p) {
    return convert<vec<held<T>, N>>(reinterpret_cast<const loose<T, N>*>(p)->v);
}
template <int N>
PK_INLINE vec<float, N> load(const bf16* p) {
    return bits<vec<float, N>>(convert<vec<uint32_t, N>>(reinterpret_cast<const loose<uint16_t, N>*>(p)->v) << 16);
}
template <int N>
PK_INLINE vec<int32_t, N> load(const bool* p) {
    return convert<vec<int32_t, N>>(reinterpret_cast<const loose<uint8_t, N>*>(p)->v) != 0;
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
    reinterpret_cast<loose<T, n>*>(p)->v = convert<vec<T, n>>(v);
}
template <class V>
PK_INLINE void store(V v, bf16* p) {
    reinterpret_cast<loose<uint16_t, Shape<V>::lanes>*>(p)->v = bf16_bits(v);
}
template <class V>
PK_INLINE void store(V v, bool* p) {
    reinterpret_cast<loose<uint8_t, Shape<V>::lanes>*>(p)->v = convert<vec<uint8_t, Shape<V>::lanes>>(-v);
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

// ---- sorting

// Where the first `count` of keys lie in ascending order, equal ones in theirs: runs are merged, twice as long each time.
template <class K>
PK_INLINE void sort_order(const K* keys, int32_t* order, int32_t* other, int count) {
    for (int i = 0; i < count; ++i) order[i] = i;
    for (int run = 1; run < count; run *= 2) {
        for (int begin = 0; begin < count; begin += 2 * run) {
            const int middle = min(begin + run, count), end = min(begin + 2 * run, count);
            for (int a = begin, b = middle, to = begin; to < end; ++to)
                other[to] = a < middle && (b == end || keys[order[a]] <= keys[order[b]]) ? order[a++] : order[b++];
        }
        for (int i = 0; i < count; ++i) order[i] = other[i];
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
