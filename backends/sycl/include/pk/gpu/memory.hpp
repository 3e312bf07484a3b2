// Tiles from and to global memory: vectors where a row is contiguous and wholly inside, single elements elsewhere.
#pragma once
#include "pk/gpu/tile.hpp"

namespace pk {

// Strides and ends of an access. A line has one of each, along its rows or along its columns.
template <class L>
struct Window {
    int64_t row_stride, col_stride;
    int rows_left, cols_left;

    // What a layout counts beyond its tile is never inside.
    PK_INLINE Window(int64_t row_stride, int64_t col_stride, int rows_left = L::rows, int cols_left = L::cols)
        : row_stride(row_stride), col_stride(col_stride),
          rows_left(L::full_rows ? rows_left : smaller(rows_left, L::rows)),
          cols_left(L::full_cols ? cols_left : smaller(cols_left, L::cols)) {}
    static PK_INLINE Window line(int64_t stride, int left) {
        return is_column<L> ? Window(stride, 0, left, 1) : Window(0, stride, 1, left);
    }
    static PK_INLINE Window line(int64_t stride) { return line(stride, is_column<L> ? L::rows : L::cols); }

    // The same answer for every item of the group, so that no sub-group diverges.
    PK_INLINE bool in_vectors() const {
        return L::vector > 1 && col_stride == 1 && (cols_left >= L::cols || cols_left % L::vector == 0);
    }
    PK_INLINE bool holds(int row, int col) const { return row < rows_left && col < cols_left; }
    PK_INLINE int64_t offset(int row, int col) const { return row * row_stride + col * col_stride; }
};

// Neighbouring elements, aligned as one.
template <class T, int N>
struct Run {
    T v[N];
};

template <class L, class T>
PK_INLINE Tile<T, L> load(const T* origin, Window<L> w, T pad = T()) {
    Tile<T, L> y;
    if (w.in_vectors()) {
        constexpr int n = L::vector;
#pragma unroll
        for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
            for (int j = 0; j < L::col_slots; j += n) {
                const int row = L::row(item(), i), col = L::col(item(), j);
                Run<T, n> run;
                if (w.holds(row, col)) run = *reinterpret_cast<const Run<T, n>*>(origin + w.offset(row, col));
                else
                    for (int e = 0; e < n; ++e) run.v[e] = pad;
#pragma unroll
                for (int e = 0; e < n; ++e) y.at(i, j + e) = run.v[e];
            }
        return y;
    }
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int row = L::row(item(), i), col = L::col(item(), j);
            y.at(i, j) = w.holds(row, col) ? origin[w.offset(row, col)] : pad;
        }
    return y;
}

// load<L>(origin, row_stride, col_stride[, rows_left, cols_left[, pad]]); load<V>(origin, stride[, left[, pad]]) of a line.
template <class L, class T>
PK_INLINE Tile<T, L> load(const T* origin, int64_t stride) { return load<L>(origin, Window<L>::line(stride)); }
template <class L, class T>
PK_INLINE Tile<T, L> load(const T* origin, int64_t a, int64_t b) {
    if constexpr (is_line<L>) return load<L>(origin, Window<L>::line(a, static_cast<int>(b)));
    else return load<L>(origin, Window<L>(a, b));
}
template <class L, class T, class P>
PK_INLINE Tile<T, L> load(const T* origin, int64_t stride, int left, P pad) {
    return load<L>(origin, Window<L>::line(stride, left), T(pad));
}
template <class L, class T>
PK_INLINE Tile<T, L> load(const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left) {
    return load<L>(origin, Window<L>(row_stride, col_stride, rows_left, cols_left));
}
template <class L, class T, class P>
PK_INLINE Tile<T, L> load(const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left, P pad) {
    return load<L>(origin, Window<L>(row_stride, col_stride, rows_left, cols_left), T(pad));
}

template <class T, class L>
PK_INLINE void store(const Tile<T, L>& x, T* origin, Window<L> w) {
    if (!owns<L>()) return;
    if (w.in_vectors()) {
        constexpr int n = L::vector;
#pragma unroll
        for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
            for (int j = 0; j < L::col_slots; j += n) {
                const int row = L::row(item(), i), col = L::col(item(), j);
                Run<T, n> run;
#pragma unroll
                for (int e = 0; e < n; ++e) run.v[e] = x.at(i, j + e);
                if (w.holds(row, col)) *reinterpret_cast<Run<T, n>*>(origin + w.offset(row, col)) = run;
            }
        return;
    }
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int row = L::row(item(), i), col = L::col(item(), j);
            if (w.holds(row, col)) origin[w.offset(row, col)] = x.at(i, j);
        }
}

// store(tile, origin, row_stride, col_stride[, rows_left, cols_left]); store(line, origin, stride[, left]): what is inside,
// each element once though several items may hold it.
template <class T, class L>
PK_INLINE void store(const Tile<T, L>& x, T* origin, int64_t stride) { store(x, origin, Window<L>::line(stride)); }
template <class T, class L>
PK_INLINE void store(const Tile<T, L>& x, T* origin, int64_t a, int64_t b) {
    if constexpr (is_line<L>) store(x, origin, Window<L>::line(a, static_cast<int>(b)));
    else store(x, origin, Window<L>(a, b));
}
template <class T, class L>
PK_INLINE void store(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left) {
    store(x, origin, Window<L>(row_stride, col_stride, rows_left, cols_left));
}
// A scalar, which every item holds.
template <class T>
PK_INLINE void store(T x, T* origin) {
    if (item() == 0) *origin = x;
}

}  // namespace pk
