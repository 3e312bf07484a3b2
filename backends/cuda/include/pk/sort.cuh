// The order of the elements of a row by their keys, which are integers; equal ones stay in theirs.
//
// A bitonic network on pairs of a key and its place, which makes all of them different, in shared memory. Where only the first
// `Count` are asked for, runs of that length (a power of two) are sorted, and of two neighbouring ones the smaller half is kept
// and sorted again until one is left: so the work grows with the length of the row, times the square of log2(Count).
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/tile.cuh"

namespace pk {

template <class K> struct KeyAt {
    K key;
    int at;
    PK_DEVICE bool before(KeyAt x) const { return key < x.key || (key == x.key && at < x.at); }
};

/// Shared memory for the elements of a row of N.
template <int N> PK_DEVICE unsigned char* row_space() {
    alignas(16) __shared__ unsigned char bytes[16 * N];
    return bytes;
}

template <int N, int Run, int Threads, class K> struct Network {
    KeyAt<K>* line;

    /// The smaller one of the elements i and j to i.
    PK_DEVICE void exchange(int i, int j) const {
        const KeyAt<K> a = line[i], b = line[j];
        if (b.before(a)) line[i] = b, line[j] = a;
    }
    /// One step in runs of `Run` elements that begin `apart` apart: each element of the first half of a part of `size` meets one
    /// of the second, which lies mirrored in the first step of a merge.
    PK_DEVICE void step(int apart, int size, bool mirrored) const {
        const int half = size / 2;
        for (int p = thread(); p < N / 2 / (apart / Run); p += Threads) {
            const int number = 2 * p - p % half, at = number / Run * apart + number % Run;
            exchange(at, mirrored ? at + size - 1 - 2 * (p % half) : at + half);
        }
        __syncthreads();
    }
    PK_DEVICE void sort() const {
        __syncthreads();
        for (int size = 2; size <= Run; size *= 2) {
            step(Run, size, true);
            for (int part = size / 2; part > 1; part /= 2) step(Run, part, false);
        }
        for (int apart = Run; apart < N; apart *= 2) {
            // Of two sorted runs, one of them read from its end, the smaller ones of each pair are the smallest of both.
            for (int p = thread(); p < N / 2 / (apart / Run); p += Threads) {
                const int at = p / Run * 2 * apart + p % Run;
                exchange(at, p / Run * 2 * apart + apart + Run - 1 - p % Run);
            }
            __syncthreads();
            for (int part = Run; part > 1; part /= 2) step(2 * apart, part, false);
        }
    }
};

/// Which element of the row `keys` comes to each of the places in To; with `Count` only the first so many are asked for.
template <class To, int Count = 0, class K, class L> PK_DEVICE Tile<int32_t, To> sorted_order(const Tile<K, L>& keys) {
    static_assert(L::rows == 1 && is_power_of_two(L::cols), "one row is sorted at a time");
    constexpr int n = L::cols, run = Count ? min_of(n, max_of(2, power_of_two_from(Count))) : n;
    KeyAt<K>* line = reinterpret_cast<KeyAt<K>*>(row_space<n>());
    if (owns<L>(thread())) {
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int col = L::col(thread(), j);
            if (inside<L>(0, col)) line[col] = {keys.at(0, j), col};
        }
    }
    Network<n, run, L::threads, K>{line}.sort();
    Tile<int32_t, To> y;
#pragma unroll
    for (int j = 0; j < To::col_slots; ++j) {
        const int col = To::col(thread(), j);
        y.at(0, j) = inside<To>(0, col) && col < n ? line[col].at : 0;
    }
    __syncthreads();  // the space may be written again
    return y;
}

/// The elements of the row x that `order` names, in its layout.
template <class T, class L, class To> PK_DEVICE Tile<T, To> in_order(const Tile<T, L>& x, const Tile<int32_t, To>& order) {
    T* line = reinterpret_cast<T*>(row_space<L::cols>());
    if (owns<L>(thread())) {
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int col = L::col(thread(), j);
            if (inside<L>(0, col)) line[col] = x.at(0, j);
        }
    }
    __syncthreads();
    Tile<T, To> y;
#pragma unroll
    for (int j = 0; j < To::col_slots; ++j) y.at(0, j) = line[order.at(0, j)];
    __syncthreads();  // the space may be written again
    return y;
}

}  // namespace pk
