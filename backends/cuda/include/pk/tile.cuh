// Tiles in registers and what is done to them element by element.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"

namespace pk {

/// The elements of a tile that this thread holds. A tile without dims is a plain scalar.
template <class T, class L> struct Tile {
    using Element = T;
    using Layout = L;
    T v[L::slots];

    PK_DEVICE T& at(int i, int j) { return v[i * L::col_slots + j]; }
    PK_DEVICE T at(int i, int j) const { return v[i * L::col_slots + j]; }
};

// Element (i, j) of the layout L in a tile of L, in one value per row or column of L, or in a scalar.
template <class L, class T> struct Element {
    static PK_DEVICE T get(const T& x, int, int) { return x; }
};
template <class L, class T> struct Element<L, Tile<T, L>> {
    static PK_DEVICE T get(const Tile<T, L>& x, int i, int j) { return x.v[i * L::col_slots + j]; }
};
template <class L, class T> struct Element<L, Tile<T, RowOf<L>>> {
    static PK_DEVICE T get(const Tile<T, RowOf<L>>& x, int i, int) { return x.v[i]; }
};
template <class L, class T> struct Element<L, Tile<T, ColOf<L>>> {
    static PK_DEVICE T get(const Tile<T, ColOf<L>>& x, int, int j) { return x.v[j]; }
};
template <class L, class T, class Other> struct Element<L, Tile<T, Other>> {
    static_assert(same<L, Other>, "a tile of another layout: relayout it first");
};

/// `f` of the elements of `tiles`, which are tiles of L, one value per row or column of L, or scalars.
template <class L, class F, class... Tiles> PK_DEVICE auto map(F f, const Tiles&... tiles) {
    using T = decltype(f(Element<L, Tiles>::get(tiles, 0, 0)...));
    Tile<T, L> y;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) y.at(i, j) = f(Element<L, Tiles>::get(tiles, i, j)...);
    return y;
}

template <class T, class L> PK_DEVICE Tile<T, L> fill(T value) {
    Tile<T, L> y;
#pragma unroll
    for (int i = 0; i < L::slots; ++i) y.v[i] = value;
    return y;
}

/// The row of the tile that each value of RowOf<L> belongs to, from 0.
template <class L> PK_DEVICE Tile<int32_t, RowOf<L>> row_index() {
    Tile<int32_t, RowOf<L>> y;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) y.v[i] = L::row(thread(), i);
    return y;
}

template <class L> PK_DEVICE Tile<int32_t, ColOf<L>> col_index() {
    Tile<int32_t, ColOf<L>> y;
#pragma unroll
    for (int j = 0; j < L::col_slots; ++j) y.v[j] = L::col(thread(), j);
    return y;
}

/// The values of a tile under a layout that holds the same elements in the same threads.
template <class To, class T, class L> PK_DEVICE Tile<T, To> retype(const Tile<T, L>& x) {
    static_assert(To::slots == L::slots, "the layouts differ");
    Tile<T, To> y;
#pragma unroll
    for (int i = 0; i < L::slots; ++i) y.v[i] = x.v[i];
    return y;
}

}  // namespace pk
