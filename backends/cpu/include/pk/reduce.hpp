// Reductions. Along a row, partial results are kept in the lanes of several vectors, which hides the latency of the
// operation and bounds the rounding error of sums by the shorter chains.
#pragma once
#include "pk/tile.hpp"

namespace pk {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

template <class T>
struct Vector {
    static constexpr int lanes = vector_bytes / int(sizeof(T));
    typedef T type __attribute__((vector_size(vector_bytes)));
    typedef T unaligned __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
};

// `of` works on elements and on vectors.
struct Sum {
    template <class T>
    static PK_INLINE T identity() { return T(0); }
    template <class V>
    static PK_INLINE V of(V a, V b) { return a + b; }
};
struct Prod {
    template <class T>
    static PK_INLINE T identity() { return T(1); }
    template <class V>
    static PK_INLINE V of(V a, V b) { return a * b; }
};
struct Max {  // hands on NaN
    template <class T>
    static T identity();
    template <class V>
    static PK_INLINE V of(V a, V b) { return ((a > b) | (a != a)) ? a : b; }
};
struct Min {
    template <class T>
    static T identity();
    template <class V>
    static PK_INLINE V of(V a, V b) { return ((a < b) | (a != a)) ? a : b; }
};
template <>
PK_INLINE float Max::identity<float>() { return -__builtin_inff(); }
template <>
PK_INLINE double Max::identity<double>() { return -__builtin_inf(); }
template <>
PK_INLINE int32_t Max::identity<int32_t>() { return INT32_MIN; }
template <>
PK_INLINE int64_t Max::identity<int64_t>() { return INT64_MIN; }
template <>
PK_INLINE float Min::identity<float>() { return __builtin_inff(); }
template <>
PK_INLINE double Min::identity<double>() { return __builtin_inf(); }
template <>
PK_INLINE int32_t Min::identity<int32_t>() { return INT32_MAX; }
template <>
PK_INLINE int64_t Min::identity<int64_t>() { return INT64_MAX; }
struct Any {
    template <class T>
    static PK_INLINE T identity() { return false; }
    static PK_INLINE bool of(bool a, bool b) { return a | b; }
};
struct All {
    template <class T>
    static PK_INLINE T identity() { return true; }
    static PK_INLINE bool of(bool a, bool b) { return a & b; }
};

template <class Op, class T>
PK_INLINE T reduce_line(const T* x, int n) {
    T result = Op::template identity<T>();
    for (int i = 0; i < n; ++i) result = Op::of(result, x[i]);
    return result;
}

template <class Op, class T>
PK_INLINE T reduce_in_lanes(const T* x, int n) {
    using V = typename Vector<T>::type;
    using U = typename Vector<T>::unaligned;
    constexpr int lanes = Vector<T>::lanes, ways = 4;
    const T identity = Op::template identity<T>();
    V part[ways];
    for (int w = 0; w < ways; ++w) part[w] = V{} + identity;
    int i = 0;
    for (; i + ways * lanes <= n; i += ways * lanes)
        for (int w = 0; w < ways; ++w) part[w] = Op::of(part[w], V(*(const U*)(x + i + w * lanes)));
    for (; i + lanes <= n; i += lanes) part[0] = Op::of(part[0], V(*(const U*)(x + i)));
    const V all = Op::of(Op::of(part[0], part[1]), Op::of(part[2], part[3]));
    T lane[lanes];
    __builtin_memcpy(lane, &all, sizeof lane);
    for (int half = lanes / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) lane[k] = Op::of(lane[k], lane[k + half]);
    return Op::of(lane[0], reduce_line<Op>(x + i, n - i));
}
template <class Op>
PK_INLINE bool reduce_in_lanes(const bool* x, int n) {
    return reduce_line<Op>(x, n);
}

// Along each row: one value per row, or a scalar where there is one row.
template <class Op, class T, class L>
PK_INLINE auto reduce_cols(const Tile<T, L>& x) {
    if constexpr (L::rows == 1) {
        return reduce_in_lanes<Op>(x.at_index, L::cols);
    } else {
        Tile<T, RowOf<L>> out;
        for (int r = 0; r < L::rows; ++r) out.at_index[r] = reduce_in_lanes<Op>(x.at_index + r * L::cols, L::cols);
        return out;
    }
}

// Along each column: one value per column.
template <class Op, class T, class L>
PK_INLINE Tile<T, ColOf<L>> reduce_rows(const Tile<T, L>& x) {
    Tile<T, ColOf<L>> out;
    for (int c = 0; c < L::cols; ++c) out.at_index[c] = x.at_index[c];
    for (int r = 1; r < L::rows; ++r) {
        PK_VECTORISE
        for (int c = 0; c < L::cols; ++c) out.at_index[c] = Op::of(out.at_index[c], x.at_index[r * L::cols + c]);
    }
    return out;
}

}  // namespace pk
