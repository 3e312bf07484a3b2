// Tiles on a CPU: dense arrays on the stack of the core that works on a block, small enough for its caches.
#pragma once
#include "pk/math.hpp"

namespace pk {

// Rows x Cols values, row after row. A vector has one row or one column.
template <int R, int C>
struct Dense {
    static constexpr int rows = R, cols = C, size = R * C;
    static constexpr bool vector = R == 1 || C == 1;
};
template <class L>
using RowOf = Dense<L::rows, 1>;  // one value per row
template <class L>
using ColOf = Dense<1, L::cols>;  // one value per column

template <class T, class L>
struct alignas(64) Tile {
    using element = T;
    using layout = L;
    T at_index[L::size];

    // The element that stands at (r, c) of a tile this one is broadcast to.
    PK_INLINE T at(int r, int c) const { return at_index[(L::rows == 1 ? 0 : r) * L::cols + (L::cols == 1 ? 0 : c)]; }
};

// Row and column numbers, computed where they are used.
template <class L>
struct RowIndex {
    using layout = RowOf<L>;
    PK_INLINE int32_t at(int r, int) const { return r; }
};
template <class L>
struct ColIndex {
    using layout = ColOf<L>;
    PK_INLINE int32_t at(int, int c) const { return c; }
};
template <class L>
PK_INLINE RowIndex<L> row_index() {
    return {};
}
template <class L>
PK_INLINE ColIndex<L> col_index() {
    return {};
}

// ---- elementwise

// `f` on each element of `tiles`; vectors are broadcast. One loop, which the compiler vectorises.
template <class L, class F, class... Tiles>
PK_INLINE auto map(F f, const Tiles&... tiles) {
    Tile<decltype(f(tiles.at(0, 0)...)), L> out;
    if constexpr (L::cols == 1) {
        PK_VECTORISE
        for (int r = 0; r < L::rows; ++r) out.at_index[r] = f(tiles.at(r, 0)...);
    } else {
        for (int r = 0; r < L::rows; ++r) {
            PK_VECTORISE
            for (int c = 0; c < L::cols; ++c) out.at_index[r * L::cols + c] = f(tiles.at(r, c)...);
        }
    }
    return out;
}

template <class T, class L>
PK_INLINE Tile<T, L> fill(T value) {
    Tile<T, L> out;
    for (int i = 0; i < L::size; ++i) out.at_index[i] = value;
    return out;
}

// The same values under another name of the layout.
template <class L2, class T, class L>
PK_INLINE Tile<T, L2> relayout(const Tile<T, L>& x) {
    static_assert(L::size == L2::size, "layouts of different size");
    Tile<T, L2> out;
    for (int i = 0; i < L::size; ++i) out.at_index[i] = x.at_index[i];
    return out;
}

// In squares, so that both sides stay in the first-level cache.
template <class L2, class T, class L>
PK_INLINE Tile<T, L2> transpose(const Tile<T, L>& x) {
    static_assert(L::rows == L2::cols && L::cols == L2::rows, "not the transposed layout");
    Tile<T, L2> out;
    constexpr int side = 16;
    for (int r0 = 0; r0 < L::rows; r0 += side)
        for (int c0 = 0; c0 < L::cols; c0 += side)
            for (int c = c0; c < c0 + side && c < L::cols; ++c)
                for (int r = r0; r < r0 + side && r < L::rows; ++r)
                    out.at_index[c * L::rows + r] = x.at_index[r * L::cols + c];
    return out;
}

// ---- memory

// `n` elements, `stride` apart in memory.
template <class T>
PK_INLINE void read_line(T* __restrict to, const T* from, int64_t stride, int n) {
    if (stride == 1) {
        PK_VECTORISE
        for (int i = 0; i < n; ++i) to[i] = from[i];
    } else {
        for (int i = 0; i < n; ++i) to[i] = from[i * stride];
    }
}
template <class T>
PK_INLINE void write_line(T* to, const T* __restrict from, int64_t stride, int n) {
    if (stride == 1) {
        PK_VECTORISE
        for (int i = 0; i < n; ++i) to[i] = from[i];
    } else {
        for (int i = 0; i < n; ++i) to[i * stride] = from[i];
    }
}
template <class T>
PK_INLINE void write_constant(T* to, T value, int n) {
    for (int i = 0; i < n; ++i) to[i] = value;
}
PK_INLINE int clamp_count(int32_t left, int size) { return left < size ? left : size; }

template <class L, class T, class P = float>
PK_INLINE Tile<T, L> load_vector(const T* origin, int64_t stride, int32_t left = L::size, P pad = P(0)) {
    Tile<T, L> out;
    if (left >= L::size) {
        read_line(out.at_index, origin, stride, L::size);
    } else {
        read_line(out.at_index, origin, stride, left);
        write_constant(out.at_index + left, T(pad), L::size - left);
    }
    return out;
}
template <class L, class T, class P = float>
PK_INLINE Tile<T, L> load_tile(const T* origin, int64_t row_stride, int64_t col_stride, int32_t rows_left = L::rows,
                               int32_t cols_left = L::cols, P pad = P(0)) {
    Tile<T, L> out;
    if (rows_left >= L::rows && cols_left >= L::cols) {
        for (int r = 0; r < L::rows; ++r)
            read_line(out.at_index + r * L::cols, origin + r * row_stride, col_stride, L::cols);
    } else {
        const int rows = clamp_count(rows_left, L::rows), cols = clamp_count(cols_left, L::cols);
        for (int r = 0; r < rows; ++r) {
            read_line(out.at_index + r * L::cols, origin + r * row_stride, col_stride, cols);
            write_constant(out.at_index + r * L::cols + cols, T(pad), L::cols - cols);
        }
        write_constant(out.at_index + rows * L::cols, T(pad), (L::rows - rows) * L::cols);
    }
    return out;
}
// load<L>(origin, row_stride, col_stride[, rows_left, cols_left[, pad]]), load<V>(origin, stride[, left[, pad]])
template <class L, class T, class... A>
PK_INLINE Tile<T, L> load(const T* origin, A... where) {
    if constexpr (L::vector)
        return load_vector<L>(origin, where...);
    else
        return load_tile<L>(origin, where...);
}

template <class T, class L>
PK_INLINE void store_vector(const Tile<T, L>& x, T* origin, int64_t stride, int32_t left = L::size) {
    if (left >= L::size)
        write_line(origin, x.at_index, stride, L::size);
    else
        write_line(origin, x.at_index, stride, left);
}
template <class T, class L>
PK_INLINE void store_tile(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride,
                          int32_t rows_left = L::rows, int32_t cols_left = L::cols) {
    if (rows_left >= L::rows && cols_left >= L::cols) {
        for (int r = 0; r < L::rows; ++r)
            write_line(origin + r * row_stride, x.at_index + r * L::cols, col_stride, L::cols);
    } else {
        const int rows = clamp_count(rows_left, L::rows), cols = clamp_count(cols_left, L::cols);
        for (int r = 0; r < rows; ++r)
            write_line(origin + r * row_stride, x.at_index + r * L::cols, col_stride, cols);
    }
}
template <class T, class L, class... A>
PK_INLINE void store(const Tile<T, L>& x, T* origin, A... where) {
    if constexpr (L::vector)
        store_vector(x, origin, where...);
    else
        store_tile(x, origin, where...);
}
template <class T>
PK_INLINE void store(T x, T* origin) {
    *origin = x;
}

// ---- stores that add to (or raise) what is there, while other cores do the same

template <class T, class F>
PK_INLINE void update(T* where, F f) {
    T old;
    __atomic_load(where, &old, __ATOMIC_RELAXED);
    T next = f(old);
    while (!__atomic_compare_exchange(where, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) next = f(old);
}
template <class F, class T, class L>
PK_INLINE void update_vector(F f, const Tile<T, L>& x, T* origin, int64_t stride, int32_t left = L::size) {
    for (int i = 0; i < clamp_count(left, L::size); ++i)
        update(origin + i * stride, [&](T old) { return f(old, x.at_index[i]); });
}
template <class F, class T, class L>
PK_INLINE void update_tile(F f, const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride,
                           int32_t rows_left = L::rows, int32_t cols_left = L::cols) {
    for (int r = 0; r < clamp_count(rows_left, L::rows); ++r)
        for (int c = 0; c < clamp_count(cols_left, L::cols); ++c)
            update(origin + r * row_stride + c * col_stride, [&](T old) { return f(old, x.at(r, c)); });
}
#define PK_UPDATING_STORE(name, combine)                                                  \
    template <class T, class L, class... A>                                               \
    PK_INLINE void name(const Tile<T, L>& x, T* origin, A... where) {                     \
        const auto f = [](T a, T b) { return T(combine); };                               \
        if constexpr (L::vector)                                                          \
            update_vector(f, x, origin, where...);                                        \
        else                                                                              \
            update_tile(f, x, origin, where...);                                          \
    }                                                                                     \
    template <class T>                                                                    \
    PK_INLINE void name(T x, T* origin) {                                                 \
        update(origin, [x](T a) { const T b = x; return T(combine); });                   \
    }
PK_UPDATING_STORE(store_add, a + b)
PK_UPDATING_STORE(store_max, max(a, b))
#undef PK_UPDATING_STORE

}  // namespace pk
