// Elements that indices pick, row by row where an index picks whole rows.
#pragma once
#include "pk/tile.hpp"

namespace pk {

// The number at (r, c) of what is read element by element, or the same one everywhere.
template <class X, class L = typename X::layout>
PK_INLINE auto number_at(const X& x, int r, int c, int) {
    return x.at(r, c);
}
template <class X>
PK_INLINE X number_at(X x, int, int, long) {
    return x;
}

// Whether all elements of a row of L are picked by the same numbers.
template <class L, class X, class Of = typename X::layout>
constexpr bool picks_rows(int) {
    return Of::cols == 1 && L::cols > 1;
}
template <class L, class X>
constexpr bool picks_rows(long) {
    return true;
}

// Coordinates along a dim of `size` elements that lie `stride` apart: a tile of them, one for each of its rows or columns, or
// a scalar. One outside of [0, size) picks nothing.
template <class I>
struct Along {
    const I& index;
    int64_t size, stride;

    // A negative number is a large one without its sign, so that one comparison does for both ends.
    PK_INLINE bool exists(int r, int c) const {
        return static_cast<uint64_t>(static_cast<int64_t>(number_at(index, r, c, 0))) < static_cast<uint64_t>(size);
    }
    PK_INLINE int64_t offset(int r, int c) const {
        return exists(r, c) ? static_cast<int64_t>(number_at(index, r, c, 0)) * stride : 0;
    }
};
template <class I>
PK_INLINE Along<I> along(const I& index, int64_t size, int64_t stride) {
    return {index, size, stride};
}

// Rows of memory that are read where they lie; those that are not whole there are copies.
template <class T, class L>
struct Lines {
    using element = T;
    using layout = L;
    const T* line[L::rows];
    alignas(64) T value[L::size];

    template <class P, class... I>
    PK_INLINE Lines(const T* origin, int64_t row_stride, int64_t col_stride, int rows, int cols, P pad, Along<I>... picks) {
        for (int r = 0; r < L::rows; ++r) {
            const bool exists = r < rows && (picks.exists(r, 0) && ...);
            const T* from = exists ? origin + r * row_stride + (0 + ... + picks.offset(r, 0)) : origin;
            T* to = value + r * L::cols;
            const bool whole = exists && col_stride == 1 && cols == L::cols;
            line[r] = whole ? from : to;
            if (whole) continue;
            const int n = exists ? cols : 0;
            for (int c = 0; c < n; ++c) to[c] = from[c * col_stride];
            for (int c = n; c < L::cols; ++c) to[c] = T(pad);
        }
    }
    Lines(const Lines&) = delete;  // its lines are its own

    PK_INLINE T at(int r, int c) const { return line[L::rows == 1 ? 0 : r][L::cols == 1 ? 0 : c]; }
};
template <class T, class L>
PK_INLINE Reference<Lines<T, L>> kept(const Lines<T, L>& x) {
    return {&x};
}

// gather<L>(origin, row_stride, col_stride, rows_left, cols_left, pad, along(index, size, stride)...): as load, of elements
// that lie further on by what the indices pick; `pad` also where one picks nothing, which is not read.
template <class L, class T, class P, class... I>
PK_INLINE auto gather(const T* origin, int64_t row_stride, int64_t col_stride, int32_t rows_left, int32_t cols_left, P pad,
                      Along<I>... picks) {
    const int rows = clamp_count(rows_left, L::rows), cols = clamp_count(cols_left, L::cols);
    if constexpr (L::cols > 1 && (picks_rows<L, I>(0) && ...)) {
        return Lines<T, L>(origin, row_stride, col_stride, rows, cols, pad, picks...);
    } else {
        Tile<T, L> out;
        for (int r = 0; r < rows; ++r) {
            T* to = out.value + r * L::cols;
            const T* line = origin + r * row_stride;
            for (int c = 0; c < cols; ++c)
                to[c] = (picks.exists(r, c) && ...) ? line[c * col_stride + (0 + ... + picks.offset(r, c))] : T(pad);
            for (int c = cols; c < L::cols; ++c) to[c] = T(pad);
        }
        for (int i = rows * L::cols; i < L::size; ++i) out.value[i] = T(pad);
        return out;
    }
}
// gather<V>(origin, stride, left, pad, along(...)...) for a vector
template <class L, class T, class P, class... I>
PK_INLINE auto gather(const T* origin, int64_t stride, int32_t left, P pad, Along<I>... picks) {
    static_assert(L::vector, "a tile has two strides");
    if constexpr (L::cols == 1)
        return gather<L>(origin, stride, 0, left, 1, pad, picks...);
    else
        return gather<L>(origin, 0, stride, 1, left, pad, picks...);
}
// gather(origin, pad, along(...)...) for one element
template <class T, class P, class... I>
PK_INLINE T gather(const T* origin, P pad, Along<I>... picks) {
    if (!(picks.exists(0, 0) && ...)) return T(pad);
    return origin[(0 + ... + picks.offset(0, 0))];
}

}  // namespace pk
