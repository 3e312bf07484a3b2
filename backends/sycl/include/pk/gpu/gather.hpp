// Elements that indices pick: vectors of a row where an index picks whole rows, single elements elsewhere.
#pragma once
#include "pk/gpu/memory.hpp"

namespace pk {

// Coordinates along a dim of `size` elements that lie `stride` apart: a tile of them, one for each of its rows or columns, or
// a scalar. One outside of [0, size) picks nothing.
template <class I>
struct Along {
    I index;
    int64_t size, stride;
};
template <class I>
PK_INLINE Along<I> along(const I& index, int64_t size, int64_t stride) { return {index, size, stride}; }

// Row i of a tile lies at Scale * ((first + i) / Div % Mod) + begin; no Mod: the quotient itself.
template <class Whole, int Div, int Mod, int Scale>
struct Part {
    Whole first, begin;
    PK_INLINE int64_t at(int i) const {
        const Whole quotient = (first + i) / Div;
        return static_cast<int64_t>((Mod > 0 ? quotient % (Mod > 0 ? Mod : 1) : quotient) * Scale + begin);
    }
};
template <int Div, int Mod = 0, int Scale = 1>
PK_INLINE Part<int, Div, Mod, Scale> part(int64_t first, int64_t begin = 0) {
    return {static_cast<int>(first), static_cast<int>(begin)};
}
// Where the axis has more than 2^31 coordinates.
template <int Div, int Mod = 0, int Scale = 1>
PK_INLINE Part<int64_t, Div, Mod, Scale> wide_part(int64_t first, int64_t begin = 0) { return {first, begin}; }

// The same of columns: of column j what `P` is of row j.
template <class P>
struct Columns {
    P part;
};
template <class P>
PK_INLINE Columns<P> columns(const P& part) { return {part}; }

template <class L, class T>
PK_INLINE T slot_of(T scalar, int, int) { return scalar; }
template <class L, class Whole, int Div, int Mod, int Scale>
PK_INLINE int64_t slot_of(const Part<Whole, Div, Mod, Scale>& x, int i, int) { return x.at(L::row(item(), i)); }
template <class L, class P>
PK_INLINE int64_t slot_of(const Columns<P>& x, int, int j) { return x.part.at(L::col(item(), j)); }

// A negative number is a large one without its sign, so that one comparison does for both ends.
template <class T>
PK_INLINE bool exists(T coordinate, int64_t size) {
    return static_cast<uint64_t>(static_cast<int64_t>(coordinate)) < static_cast<uint64_t>(size);
}
template <class T>
PK_INLINE int64_t offset_of(T coordinate, int64_t size, int64_t stride) {
    return exists(coordinate, size) ? static_cast<int64_t>(coordinate) * stride : 0;
}

// Whether all elements of a row are picked by the same indices.
template <class L, class I>
constexpr bool picks_rows = true;
template <class L, class T, class M>
constexpr bool picks_rows<L, Tile<T, M>> = false;
template <class L, class T>
constexpr bool picks_rows<L, Tile<T, RowOf<L>>> = true;
template <class L, class P>
constexpr bool picks_rows<L, Columns<P>> = false;

template <class L, class T, class... I>
PK_INLINE Tile<T, L> gather(Window<L> w, const T* origin, T pad, const Along<I>&... picks) {
    Tile<T, L> y;
    const bool in_vectors = (picks_rows<L, I> && ...) && w.in_vectors();
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) {
        if (in_vectors) {
            constexpr int n = L::vector;
#pragma unroll
            for (int j = 0; j < L::col_slots; j += n) {
                const int row = L::row(item(), i), col = L::col(item(), j);
                Run<T, n> run;
                if (w.holds(row, col) && (exists(slot_of<L>(picks.index, i, j), picks.size) && ...))
                    run = *reinterpret_cast<const Run<T, n>*>(
                        origin + w.offset(row, col) + (0 + ... + offset_of(slot_of<L>(picks.index, i, j), picks.size, picks.stride)));
                else
                    for (int e = 0; e < n; ++e) run.v[e] = pad;
#pragma unroll
                for (int e = 0; e < n; ++e) y.at(i, j + e) = run.v[e];
            }
            continue;
        }
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int row = L::row(item(), i), col = L::col(item(), j);
            const int64_t offset =
                w.offset(row, col) + (0 + ... + offset_of(slot_of<L>(picks.index, i, j), picks.size, picks.stride));
            const bool there = w.holds(row, col) && (exists(slot_of<L>(picks.index, i, j), picks.size) && ...);
            y.at(i, j) = there ? origin[offset] : pad;
        }
    }
    return y;
}

// gather<L>(origin, row_stride, col_stride, rows_left, cols_left, pad, along(index, size, stride)...): as load, of elements
// that lie further on by what the indices pick; `pad` also where one picks nothing, which is not read.
// gather<V>(origin, stride, left, pad, along(...)...) of a line, gather(origin, pad, along(...)...) of one element.
template <class L, class T, class P, class... I>
PK_INLINE Tile<T, L> gather(const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left, P pad,
                            const Along<I>&... picks) {
    return gather<L>(Window<L>(row_stride, col_stride, rows_left, cols_left), origin, T(pad), picks...);
}
template <class L, class T, class P, class... I>
PK_INLINE Tile<T, L> gather(const T* origin, int64_t stride, int left, P pad, const Along<I>&... picks) {
    return gather<L>(Window<L>::line(stride, left), origin, T(pad), picks...);
}
template <class T, class P, class... I>
PK_INLINE T gather(const T* origin, P pad, const Along<I>&... picks) {
    if (!(exists(picks.index, picks.size) && ...)) return T(pad);
    return origin[(0 + ... + offset_of(picks.index, picks.size, picks.stride))];
}

}  // namespace pk
