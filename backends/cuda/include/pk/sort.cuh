// The order of the elements of a row by their keys, which are integers; equal ones stay in theirs.
//
// A bitonic network on pairs of a key and its place, which makes all of them different. Where only the first `Count` are asked for, runs of that length (a power of two) are sorted, and of two neighbouring ones the smaller half is kept
// and sorted again until one is left: so the work grows with the length of the row, times the square of log2(Count).
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/reduce.cuh"
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
    /// What runs that are sorted become: of two, the half with the smaller elements, sorted again, until one is left.
    PK_DEVICE void select() const {
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
    PK_DEVICE void sort_runs() const {
        for (int size = 2; size <= Run; size *= 2) {
            step(Run, size, true);
            for (int part = size / 2; part > 1; part /= 2) step(Run, part, false);
        }
    }
};

constexpr int kHeld = 16;  // elements of a row that a thread holds while it is sorted, at most

/// Sorts runs of `Run` elements. Every thread holds neighbouring ones in registers: those in one thread meet there, those in one
/// warp by shuffles, and only those of different warps in shared memory.
template <int N, int Run, int Threads, class K> struct HeldNetwork {
    static constexpr int each = max_of(1, N / Threads);
    KeyAt<K>* line;
    KeyAt<K> own[each];

    PK_DEVICE static bool takes_part() { return N >= Threads || thread() < N; }
    PK_DEVICE static KeyAt<K>& shared(KeyAt<K>* line, int thread, int e) { return line[e * Threads + thread]; }  // no conflicts

    /// Every element meets the one whose number differs in the bits of `Mask`; the smaller one goes where the highest is 0.
    template <int Mask> PK_DEVICE void meet() {
        constexpr int near = Mask & (each - 1), far = Mask / each, highest = power_of_two_to(Mask);
        if constexpr (far == 0) {
#pragma unroll
            for (int e = 0; e < each; ++e) {
                if (e & highest) continue;
                const KeyAt<K> a = own[e], b = own[e ^ near];
                if (b.before(a)) own[e] = b, own[e ^ near] = a;
            }
        } else {
            KeyAt<K> other[each];
            if constexpr (far < kWarp) {
#pragma unroll
                for (int e = 0; e < each; ++e)
                    other[e] = {shuffle_xor(own[e ^ near].key, far), shuffle_xor(own[e ^ near].at, far)};
            } else {
                if (takes_part()) {
#pragma unroll
                    for (int e = 0; e < each; ++e) shared(line, thread(), e) = own[e];
                }
                __syncthreads();
                if (takes_part()) {
#pragma unroll
                    for (int e = 0; e < each; ++e) other[e] = shared(line, thread() ^ far, e ^ near);
                }
                __syncthreads();
            }
            const bool first = (thread() & highest / each) == 0;
#pragma unroll
            for (int e = 0; e < each; ++e)
                if (other[e].before(own[e]) == first) own[e] = other[e];
        }
    }
    template <int Half> PK_DEVICE void halve() {
        if constexpr (Half > 0) {
            meet<Half>();
            halve<Half / 2>();
        }
    }
    template <int Size> PK_DEVICE void merge() {
        if constexpr (Size <= Run) {
            meet<Size - 1>();  // the second half from its end
            halve<Size / 4>();
            merge<Size * 2>();
        }
    }
    PK_DEVICE void sort_runs() {
        if (takes_part()) {
#pragma unroll
            for (int e = 0; e < each; ++e) own[e] = line[thread() * each + e];
        }
        __syncthreads();
        merge<2>();
        if (takes_part()) {
#pragma unroll
            for (int e = 0; e < each; ++e) line[thread() * each + e] = own[e];
        }
        __syncthreads();
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
    __syncthreads();
    const Network<n, run, L::threads, K> network{line};
    if constexpr (n <= kHeld * L::threads) HeldNetwork<n, run, L::threads, K>{line}.sort_runs();
    else network.sort_runs();
    network.select();
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
