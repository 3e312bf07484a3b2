// The values of a tile in another layout, through shared memory.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/tile.cuh"

namespace pk {

constexpr int kSlabBytes = 16896;  // of shared memory at a time (64 rows of 64 floats): larger tiles pass in slabs of rows

/// Rows of C elements, `slab` of R at a time, one word longer than the tile's so that columns are read without bank conflicts.
template <class T, int R, int C> struct Exchange {
    static constexpr int pitch = R == 1 || C == 1 ? C : C + max_of(1, 4 / static_cast<int>(sizeof(T)));
    static constexpr int line = pitch * static_cast<int>(sizeof(T));
    PK_DEVICE static constexpr int fitting() {
        int rows = 1;
        while (2 * rows * line <= kSlabBytes) rows *= 2;
        return R * line <= kSlabBytes ? R : min_of(R, rows);
    }
    static constexpr int slab = fitting();
    static constexpr bool whole = slab == R;
};

/// The same memory for all exchanges of this many bytes.
template <int Bytes> PK_DEVICE unsigned char* exchange_space() {
    alignas(16) __shared__ unsigned char bytes[Bytes];
    return bytes;
}

/// Whose threads hold a tile, and wait for each other.
struct WholeBlock {
    static PK_DEVICE void sync() { __syncthreads(); }
};

/// The tile x in the layout To, whose element (row, col) is (col, row) of x where it is `Turned`.
template <class To, bool Turned, class Who, class T, class L> PK_DEVICE Tile<T, To> exchange(const Tile<T, L>& x) {
    using E = Exchange<T, L::rows, L::cols>;
    T* between = reinterpret_cast<T*>(exchange_space<E::slab * E::line>());
    const bool owner = owns<L>(thread());
    Tile<T, To> y;
#pragma unroll 1
    for (int first = 0; first < L::rows; first += E::slab) {
        if (owner)
#pragma unroll
            for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
                for (int j = 0; j < L::col_slots; ++j) {
                    const int row = L::row(thread(), i), col = L::col(thread(), j), at = row - first;
                    if (inside<L>(row, col) && (E::whole || (at >= 0 && at < E::slab))) between[at * E::pitch + col] = x.at(i, j);
                }
        Who::sync();
#pragma unroll
        for (int i = 0; i < To::row_slots; ++i)
#pragma unroll
            for (int j = 0; j < To::col_slots; ++j) {
                const int row = To::row(thread(), i), col = To::col(thread(), j), at = (Turned ? col : row) - first;
                if (inside<To>(row, col) && (E::whole || (at >= 0 && at < E::slab)))
                    y.at(i, j) = between[at * E::pitch + (Turned ? row : col)];
            }
        Who::sync();  // `between` may be written again
    }
    return y;
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
template <class To, class Who = WholeBlock, class T, class L> PK_DEVICE Tile<T, To> relayout(const Tile<T, L>& x) {
    constexpr bool turned = is_vector<To> && is_vector<L> && To::rows != L::rows;
    static_assert(To::rows == (turned ? L::cols : L::rows) && To::cols == (turned ? L::rows : L::cols), "sizes differ");
    if constexpr (SameRows<To, L>::value) {
        return retype<To>(x);
    } else {
        return exchange<To, turned, Who>(x);
    }
}

/// The tile with rows and columns exchanged, in the layout To.
template <class To, class Who = WholeBlock, class T, class L> PK_DEVICE Tile<T, To> transpose(const Tile<T, L>& x) {
    static_assert(To::rows == L::cols && To::cols == L::rows, "sizes differ");
    return exchange<To, true, Who>(x);
}

}  // namespace pk
