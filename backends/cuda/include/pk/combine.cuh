// Walks along a row that every thread does alone, over its own columns, and that are joined once at the end: no barrier and
// no exchange of lanes in the loop, so that loads of the next step are under way while this one is computed.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/math.cuh"
#include "pk/reduce.cuh"
#include "pk/tile.cuh"

namespace pk {

/// The elements of each row that this thread holds, reduced; a scalar where the tile has one row.
template <class Op, class T, class L> PK_DEVICE auto reduce_own(const Tile<T, L>& x) {
    Tile<T, RowOf<L>> y;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) {
        T total = Op::template identity<T>();
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j)
            if (inside<L>(0, L::col(thread(), j))) total = Op::join(total, x.at(i, j));
        y.v[i] = total;
    }
    if constexpr (L::rows == 1) return y.v[0];
    else return y;
}

/// `x` of the lane whose number differs in the bits of `mask`, for any struct of 32-bit words.
template <class T> PK_DEVICE T shuffle_words(const T& x, int mask) {
    static_assert(sizeof(T) % 4 == 0, "made of whole words");
    int words[sizeof(T) / 4];
    memcpy(words, &x, sizeof(T));
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / 4); ++i) words[i] = shuffle_xor(words[i], mask);
    T y;
    memcpy(&y, words, sizeof(T));
    return y;
}

/// What the threads of a row of L found, joined in the order of the threads: the same in every thread.
template <class L, class T, class F> PK_DEVICE T combine(T mine, F join) {
    constexpr int lanes = L::col_bits & (kWarp - 1), warp_bits = L::col_bits / kWarp, warps = L::threads / kWarp;
#pragma unroll
    for (int bit = 1; bit < kWarp; bit *= 2)
        if (lanes & bit) {
            const T other = shuffle_words(mine, bit);
            mine = lane() & bit ? join(other, mine) : join(mine, other);
        }
    if constexpr (warp_bits != 0) {
        static_assert(sizeof(T) * warps <= kPartialBytes, "too many threads");
        T* partial = static_cast<T*>(partial_results());
        __syncthreads();  // what was there has been read
        if (lane() == 0) partial[warp()] = mine;
        __syncthreads();
        const int first = warp() & ~warp_bits;
        mine = partial[first];
#pragma unroll
        for (int w = 1; w < warps; ++w)
            if ((w & ~warp_bits) == 0) mine = join(mine, partial[first | w]);
    }
    return mine;
}

}  // namespace pk
