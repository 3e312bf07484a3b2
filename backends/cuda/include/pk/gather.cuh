// Elements that indices pick: where an index picks whole rows, 16 bytes of a row at a time as in pk/memory.cuh.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/memory.cuh"
#include "pk/tile.cuh"

namespace pk {

/// Coordinates along a dim of `size` elements that lie `stride` apart: a tile of them, one value for each of its rows or
/// columns, or a scalar. One outside of [0, size) picks nothing.
template <class I> struct Along {
    I index;
    int64_t size, stride;
};
template <class I> PK_DEVICE Along<I> along(const I& index, int64_t size, int64_t stride) { return {index, size, stride}; }

constexpr int64_t kInside = 0x7fffffffffffffff;  // the size of a dim outside of which no coordinate lies: no check remains

// A negative number is a large one without its sign, so that one comparison does for both ends.
template <class T> PK_DEVICE bool exists(T coordinate, int64_t size) {
    return static_cast<uint64_t>(static_cast<int64_t>(coordinate)) < static_cast<uint64_t>(size);
}
template <class T> PK_DEVICE int64_t offset_of(T coordinate, int64_t size, int64_t stride) {
    return exists(coordinate, size) ? static_cast<int64_t>(coordinate) * stride : 0;
}

// Whether all elements of a row are picked by the same indices.
template <class L, class I> struct PicksRows { static constexpr bool value = true; };
template <class L, class T, class Other> struct PicksRows<L, Tile<T, Other>> { static constexpr bool value = false; };
template <class L, class T> struct PicksRows<L, Tile<T, RowOf<L>>> { static constexpr bool value = true; };

template <class L, class Fact, class T, class... I>
PK_DEVICE Tile<T, L> gather_each(Window<L> w, const T* origin, T pad, const Along<I>&... picks) {
    using A = Access<T, L>;
    Tile<T, L> y;
    const int64_t strides = (static_cast<int64_t>(0) | ... | picks.stride) | w.row_stride;
    if ((PicksRows<L, I>::value && ...) && (Fact::aligned || A::whole(origin, strides, w.col_stride, w.cols_left))) {
        T pads[A::width];
#pragma unroll
        for (int e = 0; e < A::width; ++e) pads[e] = pad;
#pragma unroll
        for (int i = 0; i < L::row_slots; ++i) {
            const int row = L::row(thread(), i);
            const bool there = within(row, w.rows_left) && (exists(Element<L, I>::get(picks.index, i, 0), picks.size) && ...);
            const T* line = origin + row * w.row_stride
                            + (0 + ... + offset_of(Element<L, I>::get(picks.index, i, 0), picks.size, picks.stride));
#pragma unroll
            for (int j = 0; j < L::col_slots; j += A::width) {
                const int col = L::col(thread(), j);
                A::template read<Fact>(&y.v[i * L::col_slots + j], line + col, there && within(col, w.cols_left), pads);
            }
        }
        return y;
    }
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int row = L::row(thread(), i), col = L::col(thread(), j);
            const bool there = within(row, w.rows_left) && within(col, w.cols_left)
                               && (exists(Element<L, I>::get(picks.index, i, j), picks.size) && ...);
            const int64_t offset = row * w.row_stride + col * w.col_stride
                                   + (0 + ... + offset_of(Element<L, I>::get(picks.index, i, j), picks.size, picks.stride));
            y.at(i, j) = there ? origin[offset] : pad;
        }
    return y;
}

// Another way for indices of which more is known stands in pk/pixels.cuh.
template <class L, class Fact, class T, class... I>
PK_DEVICE Tile<T, L> gather_in(Window<L> w, const T* origin, T pad, const Along<I>&... picks) {
    return gather_each<L, Fact>(w, origin, pad, picks...);
}

/// gather<L>(origin, row_stride, col_stride, rows_left, cols_left, pad, along(index, size, stride)...): as load, of elements
/// that lie further on by what the indices pick; `pad` also where one picks nothing, which is not read.
/// gather<V>(origin, stride, left, pad, along(...)...) for a vector, gather(origin, pad, along(...)...) for one element.
template <class L, class Fact = Unknown, class T, class Pad, class... I>
PK_DEVICE Tile<T, L> gather(const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left, Pad pad,
                            const Along<I>&... picks) {
    return gather_in<L, Fact>(Window<L>(row_stride, col_stride, rows_left, cols_left), origin, T(pad), picks...);
}
template <class L, class Fact = Unknown, class T, class Pad, class... I>
PK_DEVICE Tile<T, L> gather(const T* origin, int64_t stride, int left, Pad pad, const Along<I>&... picks) {
    return gather_in<L, Fact>(Window<L>::vector(stride, left), origin, T(pad), picks...);
}
template <class T, class Pad, class... I> PK_DEVICE T gather(const T* origin, Pad pad, const Along<I>&... picks) {
    if ((exists(picks.index, picks.size) && ...)) return origin[(0 + ... + offset_of(picks.index, picks.size, picks.stride))];
    return T(pad);
}

}  // namespace pk
