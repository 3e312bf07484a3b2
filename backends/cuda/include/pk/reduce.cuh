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

/// Shared memory through which warps exchange partial results, the same for all reductions of a kernel.
constexpr int kPartialBytes = 4096;
PK_DEVICE void* partial_results() {
    alignas(16) __shared__ unsigned char bytes[kPartialBytes];
    return bytes;
}

/// Joins `x` with the values of the threads whose index differs in the bits of `Bits` only.
template <class Op, int Bits, int Threads, int Slots, class T> PK_DEVICE void join_threads(T (&x)[Slots]) {
#pragma unroll
    for (int bit = 1; bit < kWarp; bit *= 2)
        if (Bits & bit)
#pragma unroll
            for (int s = 0; s < Slots; ++s) x[s] = Op::join(x[s], shuffle_xor(x[s], bit));

    if constexpr (Bits >= kWarp) {
        // The lanes that hold different results leave them, every warp its own; then each thread joins those of the
        // warps it shares rows with, all in one order, so that the result is the same in every thread.
        constexpr int warps = Threads / kWarp, warp_bits = Bits / kWarp, writers = ~Bits & (kWarp - 1);
        constexpr int round = min_of(Slots, kPartialBytes / static_cast<int>(sizeof(T)) / Threads);  // slots at a time
        static_assert(round > 0, "too many threads");
        T* partial = static_cast<T*>(partial_results());
#pragma unroll
        for (int first = 0; first < Slots; first += round) {
            __syncthreads();  // what was there has been read
            if ((lane() & ~writers) == 0) {
#pragma unroll
                for (int s = first; s < first + round && s < Slots; ++s) partial[(s - first) * Threads + thread()] = x[s];
            }
            __syncthreads();
#pragma unroll
            for (int s = first; s < first + round && s < Slots; ++s) {
                T total = Op::template identity<T>();
#pragma unroll
                for (int w = 0; w < warps; ++w)
                    if ((w & ~warp_bits) == 0)
                        total = Op::join(total, partial[(s - first) * Threads + ((warp() & ~warp_bits) | w) * kWarp +
                                                        (lane() & writers)]);
                x[s] = total;
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
