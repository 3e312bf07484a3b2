// Reductions of tiles: over the registers of a thread, then a butterfly over the bits of the lane that tell threads of
// one row (column) apart, then, where a row (column) spans warps, through shared memory. All threads get the result.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/math.cuh"
#include "pk/tile.cuh"

namespace pk {

template <class T> PK_DEVICE T shuffle_xor(T x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
template <> PK_DEVICE bool shuffle_xor<bool>(bool x, int mask) {
    return __shfl_xor_sync(0xffffffffu, static_cast<int>(x), mask) != 0;
}

/// Joins `x` with the values of the threads whose index differs in the bits of `Bits` only.
template <class Op, int Bits, int Threads, int Slots, class T> PK_DEVICE void join_threads(T (&x)[Slots]) {
#pragma unroll
    for (int bit = 1; bit < kWarp; bit *= 2)
        if (Bits & bit)
#pragma unroll
            for (int s = 0; s < Slots; ++s) x[s] = Op::join(x[s], shuffle_xor(x[s], bit));

    if constexpr (Bits >= kWarp) {
        // Every warp leaves its values; then each joins those of the warps it shares rows with, all in one order, so
        // that the result is the same in every thread.
        constexpr int kRound = min_of(Slots, max_of(1, 2048 / Threads));  // slots at a time
        __shared__ T partial[kRound][Threads];
        constexpr int warp_bits = Bits / kWarp;
#pragma unroll
        for (int first = 0; first < Slots; first += kRound) {
            __syncthreads();  // the values of the round before have been read
#pragma unroll
            for (int s = 0; s < kRound; ++s)
                if (first + s < Slots) partial[s][thread()] = x[first + s];
            __syncthreads();
#pragma unroll
            for (int s = 0; s < kRound; ++s) {
                if (first + s >= Slots) break;
                T total = Op::template identity<T>();
#pragma unroll
                for (int w = 0; w < Threads / kWarp; ++w)
                    if ((w & ~warp_bits) == 0)
                        total = Op::join(total, partial[s][((warp() & ~warp_bits) | w) * kWarp + lane()]);
                x[first + s] = total;
            }
        }
    }
}

/// A tile of one row (column) as the scalar or the value per row (column) that a reduction gives.
template <class Op, class T, class L> PK_DEVICE auto reduce_cols(const Tile<T, L>& x) {
    Tile<T, RowOf<L>> y;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) {
        T total = Op::template identity<T>();
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j)
            if (inside<L>(0, L::col(thread(), j))) total = Op::join(total, x.at(i, j));
        y.v[i] = total;
    }
    join_threads<Op, L::col_bits, L::threads>(y.v);
    if constexpr (L::rows == 1) return y.v[0];
    else return y;
}

template <class Op, class T, class L> PK_DEVICE auto reduce_rows(const Tile<T, L>& x) {
    Tile<T, ColOf<L>> y;
#pragma unroll
    for (int j = 0; j < L::col_slots; ++j) {
        T total = Op::template identity<T>();
#pragma unroll
        for (int i = 0; i < L::row_slots; ++i)
            if (inside<L>(L::row(thread(), i), 0)) total = Op::join(total, x.at(i, j));
        y.v[j] = total;
    }
    join_threads<Op, L::row_bits, L::threads>(y.v);
    if constexpr (L::cols == 1) return y.v[0];
    else return y;
}

}  // namespace pk
