// Tiles in registers, and what is done to them element by element.
#pragma once
#include "pk/gpu/layout.hpp"

namespace pk {

// The bits of x read as a To of the same size.
template <class To, class From>
PK_INLINE To bitcast(From x) { return bits<To>(x); }

// The elements of a tile that this item holds. A tile without dims is a plain scalar.
template <class T, class L>
struct Tile {
    T v[L::slots];
    PK_INLINE T& at(int i, int j) { return v[i * L::col_slots + j]; }
    PK_INLINE T at(int i, int j) const { return v[i * L::col_slots + j]; }
};

// Slot (i, j) of the layout L in a tile of L, or in one value per row or column of L.
template <class L, class T>
PK_INLINE T slot_of(const Tile<T, L>& x, int i, int j) { return x.at(i, j); }
template <class L, class T>
PK_INLINE T slot_of(const Tile<T, RowOf<L>>& x, int i, int) { return x.v[i]; }
template <class L, class T>
PK_INLINE T slot_of(const Tile<T, ColOf<L>>& x, int, int j) { return x.v[j]; }

// `f` on each element of `tiles`.
template <class L, class F, class... Tiles>
PK_INLINE auto map(F f, const Tiles&... tiles) {
    Tile<decltype(f(slot_of<L>(tiles, 0, 0)...)), L> y;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) y.at(i, j) = f(slot_of<L>(tiles, i, j)...);
    return y;
}

template <class T, class L>
PK_INLINE Tile<T, L> fill(T value) {
    Tile<T, L> y;
#pragma unroll
    for (int i = 0; i < L::slots; ++i) y.v[i] = value;
    return y;
}

// The number, from 0, of the row (column) that each value belongs to.
template <class L>
PK_INLINE Tile<int32_t, RowOf<L>> row_index() {
    Tile<int32_t, RowOf<L>> y;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) y.v[i] = L::row(item(), i);
    return y;
}
template <class L>
PK_INLINE Tile<int32_t, ColOf<L>> col_index() {
    Tile<int32_t, ColOf<L>> y;
#pragma unroll
    for (int j = 0; j < L::col_slots; ++j) y.v[j] = L::col(item(), j);
    return y;
}

}  // namespace pk
