// The order of the elements of a row by their keys, which are integers; equal ones stay in theirs.
//
// A bitonic network on pairs of a key and its place, which makes all of them different, in local memory. Where only the first
// `Count` are asked for, runs of that length (a power of two) are sorted, and of two neighbouring ones the smaller half is kept
// and sorted again until one is left: so the work grows with the length of the row, times the square of log2(Count).
#pragma once
#include "pk/gpu/relayout.hpp"

namespace pk {

template <class K> struct KeyAt {
    K key;
    int at;
    PK_INLINE bool before(KeyAt x) const { return key < x.key || (key == x.key && at < x.at); }
};

template <int N, int Run, int Threads, class K> struct Network {
    KeyAt<K>* line;

    // The smaller one of the elements i and j to i.
    PK_INLINE void exchange(int i, int j) const {
        const KeyAt<K> a = line[i], b = line[j];
        if (b.before(a)) line[i] = b, line[j] = a;
    }
    // One step in runs of `Run` elements that begin `apart` apart: each element of the first half of a part of `size` meets one
    // of the second, which lies mirrored in the first step of a merge.
    PK_INLINE void step(int apart, int size, bool mirrored) const {
        const int half = size / 2;
        for (int p = item(); p < N / 2 / (apart / Run); p += Threads) {
            const int number = 2 * p - p % half, at = number / Run * apart + number % Run;
            exchange(at, mirrored ? at + size - 1 - 2 * (p % half) : at + half);
        }
        sync();
    }
    PK_INLINE void sort() const {
        sync();
        for (int size = 2; size <= Run; size *= 2) {
            step(Run, size, true);
            for (int part = size / 2; part > 1; part /= 2) step(Run, part, false);
        }
        for (int apart = Run; apart < N; apart *= 2) {
            // Of two sorted runs, one of them read from its end, the smaller ones of each pair are the smallest of both.
            for (int p = item(); p < N / 2 / (apart / Run); p += Threads) {
                const int at = p / Run * 2 * apart + p % Run;
                exchange(at, p / Run * 2 * apart + apart + Run - 1 - p % Run);
            }
            sync();
            for (int part = Run; part > 1; part /= 2) step(2 * apart, part, false);
        }
    }
};

// Which element of the row `keys` comes to each of the places in To; with `Count` only the first so many are asked for.
template <class To, int Count = 0, class K, class L>
PK_INLINE Tile<int32_t, To> sorted_order(const Tile<K, L>& keys) {
    static_assert(L::rows == 1, "one row is sorted at a time");
    constexpr int n = L::cols, run = Count ? smaller(n, power_of_two_from(Count < 2 ? 2 : Count)) : n;
    static local<KeyAt<K>, n> line;
    if (owns<L>()) {
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int col = L::col(item(), j);
            if (inside<L>(0, col)) line[col] = {keys.at(0, j), col};
        }
    }
    Network<n, run, L::items, K>{&line[0]}.sort();
    Tile<int32_t, To> y;
#pragma unroll
    for (int j = 0; j < To::col_slots; ++j) {
        const int col = To::col(item(), j);
        y.at(0, j) = inside<To>(0, col) && col < n ? line[col].at : 0;
    }
    sync();  // the space may be written again
    return y;
}

// The elements of the row x that `order` names, in its layout.
template <class T, class L, class To>
PK_INLINE Tile<T, To> in_order(const Tile<T, L>& x, const Tile<int32_t, To>& order) {
    static local<T, L::cols> line;
    write_out<L::cols>(&line[0], x);
    sync();
    Tile<T, To> y;
#pragma unroll
    for (int j = 0; j < To::col_slots; ++j) y.at(0, j) = line[order.at(0, j)];
    sync();
    return y;
}

}  // namespace pk
