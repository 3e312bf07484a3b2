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

// gather<L>(origin, row_stride, col_stride, rows_left, cols_left, pad, along(index, size, stride)...): as load, of elements
// that lie further on by what the indices pick; `pad` also where one picks nothing, which is not read.
template <class L, class T, class P, class... I>
PK_INLINE Tile<T, L> gather(const T* origin, int64_t row_stride, int64_t col_stride, int32_t rows_left, int32_t cols_left,
                            P pad, Along<I>... picks) {
    Tile<T, L> out;
    const int rows = clamp_count(rows_left, L::rows), cols = clamp_count(cols_left, L::cols);
    for (int r = 0; r < rows; ++r) {
        T* to = out.value + r * L::cols;
        const T* line = origin + r * row_stride;
        if constexpr ((picks_rows<L, I>(0) && ...)) {
            const T* from = line + (0 + ... + picks.offset(r, 0));
            const int n = (picks.exists(r, 0) && ...) ? cols : 0;
            if (col_stride == 1) {
                PK_VECTORISE
                for (int c = 0; c < n; ++c) to[c] = from[c];
            } else {
                for (int c = 0; c < n; ++c) to[c] = from[c * col_stride];
            }
            for (int c = n; c < cols; ++c) to[c] = T(pad);
        } else {
            for (int c = 0; c < cols; ++c)
                to[c] = (picks.exists(r, c) && ...) ? line[c * col_stride + (0 + ... + picks.offset(r, c))] : T(pad);
        }
        for (int c = cols; c < L::cols; ++c) to[c] = T(pad);
    }
    for (int i = rows * L::cols; i < L::size; ++i) out.value[i] = T(pad);
    return out;
}
// gather<V>(origin, stride, left, pad, along(...)...) for a vector
template <class L, class T, class P, class... I>
PK_INLINE Tile<T, L> gather(const T* origin, int64_t stride, int32_t left, P pad, Along<I>... picks) {
    static_assert(L::vector, "a tile has two strides");
    return L::cols == 1 ? gather<L>(origin, stride, 0, left, 1, pad, picks...) : gather<L>(origin, 0, stride, 1, left, pad, picks...);
}
// gather(origin, pad, along(...)...) for one element
template <class T, class P, class... I>
PK_INLINE T gather(const T* origin, P pad, Along<I>... picks) {
    if (!(picks.exists(0, 0) && ...)) return T(pad);
    return origin[(0 + ... + picks.offset(0, 0))];
}

}  // namespace pk
