// The order of the elements of a row by their keys, which are integers; equal ones stay in theirs.
//
// A bitonic network on pairs of a key and its place, which makes all of them different, in LDS. Where only the first
// `Count` are asked for, runs of that length (a power of two) are sorted, and of two neighbouring ones the smaller half is kept
// and sorted again until one is left: so the work grows with the length of the row, times the square of log2(Count).
#pragma once

#include "pk/tile.h"

namespace pk {

namespace detail {

constexpr int power_from(int n) { return n <= 1 ? 1 : 2 * power_from((n + 1) / 2); }  // the smallest that is at least n

template <class K> struct KeyAt {
  K key;
  int at;
  PK_FN bool before(KeyAt x) const { return key < x.key || (key == x.key && at < x.at); }
};

template <int N, int Run, int Threads, class K> struct Network {
  KeyAt<K>* line;

  // The smaller one of the elements i and j to i. The compiler must not know where the last pair lies: it would let every wave
  // read it, beside the one that exchanges it.
  PK_FN void exchange(int i, int j) const {
    i = opaque(i);
    const KeyAt<K> a = line[i], b = line[j];
    if (b.before(a)) line[i] = b, line[j] = a;
  }
  // One step in runs of `Run` elements that begin `apart` apart: each element of the first half of a part of `size` meets one
  // of the second, which lies mirrored in the first step of a merge.
  PK_FN void step(int apart, int size, bool mirrored) const {
    const int half = size / 2;
    for (int p = thread(); p < N / 2 / (apart / Run); p += Threads) {
      const int number = 2 * p - p % half, at = number / Run * apart + number % Run;
      exchange(at, mirrored ? at + size - 1 - 2 * (p % half) : at + half);
    }
    sync();
  }
  PK_FN void sort() const {
    sync();
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
      sync();
      for (int part = Run; part > 1; part /= 2) step(2 * apart, part, false);
    }
  }
};

}  // namespace detail

// Which element of the row `keys` comes to each of the places in To; with `Count` only the first so many are asked for.
template <class To, int Count = 0, class K, class L> PK_FN Tile<int32_t, To> sorted_order(const Tile<K, L>& keys) {
  static_assert(L::rows == 1, "one row is sorted at a time");
  constexpr int n = L::cols, run = Count ? smaller(n, larger(2, detail::power_from(Count))) : n;
  auto* line = reinterpret_cast<detail::KeyAt<K>*>(scratch<n * static_cast<int>(sizeof(detail::KeyAt<K>))>());
  sync();  // what was there has been read
  if (L::owner()) {
#pragma unroll
    for (int j = 0; j < L::col_slots; ++j) line[L::Col::index(j)] = {keys.v[0][j], L::Col::index(j)};
  }
  detail::Network<n, run, L::threads, K>{line}.sort();
  Tile<int32_t, To> out;
#pragma unroll
  for (int j = 0; j < To::col_slots; ++j) out.v[0][j] = To::Col::index(j) < n ? line[To::Col::index(j)].at : 0;
  return out;
}

// The elements of the row that `order` names, in its layout.
template <class T, class L, class To> PK_FN Tile<T, To> in_order(const Tile<T, L>& tile, const Tile<int32_t, To>& order) {
  T* line = reinterpret_cast<T*>(scratch<L::cols * static_cast<int>(sizeof(T))>());
  sync();  // what was there has been read
  if (L::owner()) {
#pragma unroll
    for (int j = 0; j < L::col_slots; ++j) line[L::Col::index(j)] = tile.v[0][j];
  }
  sync();
  Tile<T, To> out;
#pragma unroll
  for (int j = 0; j < To::col_slots; ++j) out.v[0][j] = line[order.v[0][j]];
  return out;
}

}  // namespace pk
