// Stores that join what is in memory: relaxed, without result.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/math.cuh"
#include "pk/memory.cuh"
#include "pk/tile.cuh"

namespace pk {

PK_DEVICE void join_atomic(float* to, float x, Sum) { atomicAdd(to, x); }
PK_DEVICE void join_atomic(double* to, double x, Sum) { atomicAdd(to, x); }
PK_DEVICE void join_atomic(int32_t* to, int32_t x, Sum) { atomicAdd(to, x); }
PK_DEVICE void join_atomic(int64_t* to, int64_t x, Sum) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(x));
}
PK_DEVICE void join_atomic(int32_t* to, int32_t x, Max) { atomicMax(to, x); }
PK_DEVICE void join_atomic(int64_t* to, int64_t x, Max) {
    atomicMax(reinterpret_cast<long long*>(to), static_cast<long long>(x));
}
/// There is no atomic maximum of floats that hands on NaN: exchange until nobody came between.
PK_DEVICE void join_atomic(float* to, float x, Max) {
    auto* word = reinterpret_cast<unsigned*>(to);
    for (unsigned seen = *word, had;; seen = had) {
        const unsigned next = bitcast<unsigned>(pk::max(bitcast<float>(seen), x));
        if (next == seen || (had = atomicCAS(word, seen, next)) == seen) return;
    }
}

template <class Op, class T, class L> PK_DEVICE void store_joined(const Tile<T, L>& x, T* origin, Window<L> w) {
    if (!owns<L>(thread())) return;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int row = L::row(thread(), i), col = L::col(thread(), j);
            if (row < w.rows_left && col < w.cols_left)
                join_atomic(origin + row * w.row_stride + col * w.col_stride, x.at(i, j), Op());
        }
}

#define PK_STORE_JOINED(name, Op)                                                                                      \
    template <class T> PK_DEVICE void name(T x, T* origin) {                                                           \
        if (thread() == 0) join_atomic(origin, x, Op());                                                               \
    }                                                                                                                  \
    template <class T, class L> PK_DEVICE void name(const Tile<T, L>& x, T* origin, int64_t stride) {                  \
        store_joined<Op>(x, origin, Window<L>::vector(stride, is_column<L> ? L::rows : L::cols));                      \
    }                                                                                                                  \
    template <class T, class L>                                                                                        \
    PK_DEVICE void name(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride) {                      \
        if constexpr (is_vector<L>)                                                                                    \
            store_joined<Op>(x, origin, Window<L>::vector(row_stride, static_cast<int>(col_stride)));                  \
        else                                                                                                           \
            store_joined<Op>(x, origin, Window<L>(row_stride, col_stride, L::rows, L::cols));                          \
    }                                                                                                                  \
    template <class T, class L>                                                                                        \
    PK_DEVICE void name(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride, int rows_left,         \
                        int cols_left) {                                                                               \
        store_joined<Op>(x, origin, Window<L>(row_stride, col_stride, rows_left, cols_left));                          \
    }
PK_STORE_JOINED(store_add, Sum)
PK_STORE_JOINED(store_max, Max)
#undef PK_STORE_JOINED

}  // namespace pk
