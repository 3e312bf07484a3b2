// The values of a tile in another layout, through shared memory.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/tile.cuh"

namespace pk {

/// Rows of R x C elements, one word longer than the tile's so that columns are read without bank conflicts.
template <class T, int R, int C> struct Exchange {
    static constexpr int pitch = R == 1 || C == 1 ? C : C + max_of(1, 4 / static_cast<int>(sizeof(T)));
    T v[R * pitch];
    PK_DEVICE T& at(int row, int col) { return v[row * pitch + col]; }
};

template <class L, class T, int R, int C> PK_DEVICE void write_out(Exchange<T, R, C>& to, const Tile<T, L>& x) {
    if (!owns<L>(thread())) return;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int row = L::row(thread(), i), col = L::col(thread(), j);
            if (inside<L>(row, col)) to.at(row, col) = x.at(i, j);
        }
}

/// Whether two layouts give the same rows of the same tile to the same threads.
template <class A, class B> struct SameRows {
    static constexpr bool value = same<A, B>;
};
template <int R, int C, int D, int Warps, class E, int X, int Y>
struct SameRows<Accumulator<R, C, Warps, E, X>, Accumulator<R, D, Warps, E, Y>> {
    static constexpr bool value = Accumulator<R, C, Warps, E, X>::down == Accumulator<R, D, Warps, E, Y>::down;
};

template <class A, class B> struct SameRows<RowOf<A>, RowOf<B>> : SameRows<A, B> {};

/// The same values in the layout To; free where the threads that need them hold them already.  A vector may go from one value
/// per column of a tile to one per row of another, and back.
template <class To, class T, class L> PK_DEVICE Tile<T, To> relayout(const Tile<T, L>& x) {
    constexpr bool turned = is_vector<To> && is_vector<L> && To::rows != L::rows;
    static_assert(To::rows == (turned ? L::cols : L::rows) && To::cols == (turned ? L::rows : L::cols), "sizes differ");
    if constexpr (SameRows<To, L>::value) {
        return retype<To>(x);
    } else {
        __shared__ Exchange<T, L::rows, L::cols> between;
        write_out(between, x);
        __syncthreads();
        Tile<T, To> y;
#pragma unroll
        for (int i = 0; i < To::row_slots; ++i)
#pragma unroll
            for (int j = 0; j < To::col_slots; ++j) {
                const int row = To::row(thread(), i), col = To::col(thread(), j);
                if (inside<To>(row, col)) y.at(i, j) = turned ? between.at(col, row) : between.at(row, col);
            }
        __syncthreads();  // `between` may be written again
        return y;
    }
}

/// The tile with rows and columns exchanged, in the layout To.
template <class To, class T, class L> PK_DEVICE Tile<T, To> transpose(const Tile<T, L>& x) {
    static_assert(To::rows == L::cols && To::cols == L::rows, "sizes differ");
    __shared__ Exchange<T, L::rows, L::cols> between;
    write_out(between, x);
    __syncthreads();
    Tile<T, To> y;
#pragma unroll
    for (int i = 0; i < To::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < To::col_slots; ++j) {
            const int row = To::row(thread(), i), col = To::col(thread(), j);
            if (inside<To>(row, col)) y.at(i, j) = between.at(col, row);
        }
    __syncthreads();
    return y;
}

}  // namespace pk
