// Reductions of tiles: inside a thread, then between the lanes of a wave, then between waves through LDS.
//
// Every thread that holds part of a row ends with the same bits: partners combine the same two values in the same order.
#pragma once

#include "pk/tile.h"

namespace pk {

struct Sum { template <class T> PK_FN static T apply(T a, T b) { return a + b; } };
struct Prod {
  template <class T> PK_FN static T apply(T a, T b) {
    if constexpr (is_short_integer<T>) return static_cast<T>(times(a, b));
    else return a * b;
  }
};
struct Max { template <class T> PK_FN static T apply(T a, T b) { return max(a, b); } };
struct Min { template <class T> PK_FN static T apply(T a, T b) { return min(a, b); } };
struct Any { PK_FN static bool apply(bool a, bool b) { return a || b; } };
struct All { PK_FN static bool apply(bool a, bool b) { return a && b; } };

namespace detail {

template <int Mask, class T> PK_FN T from_lane_xor(T value) {
  if constexpr (sizeof(T) == 8) {
    struct Halves { int lo, hi; };
    Halves h = __builtin_bit_cast(Halves, value);
    return __builtin_bit_cast(T, Halves{shuffle_xor<Mask>(h.lo), shuffle_xor<Mask>(h.hi)});
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(T, shuffle_xor<Mask>(__builtin_bit_cast(int, value)));
  } else {
    return static_cast<T>(shuffle_xor<Mask>(static_cast<int>(value)));
  }
}

// Combines the values of threads that differ in the bits of Mask, all inside a wave.
template <class Op, int Mask, int Bit = 1, class T> PK_FN T over_lanes(T value) {
  if constexpr (Bit >= wave) {
    return value;
  } else if constexpr ((Mask & Bit) == 0) {
    return over_lanes<Op, Mask, Bit * 2>(value);
  } else {
    return over_lanes<Op, Mask, Bit * 2>(Op::apply(value, from_lane_xor<Bit>(value)));
  }
}

constexpr int partial_bytes = 8192;  // of LDS for one round of an exchange between waves

// Combines `Count` values per thread over the threads that differ in the bits of Mask.
template <class Op, int Mask, int Threads, int Count, class T> PK_FN void over_threads(T (&values)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) values[i] = over_lanes<Op, Mask & (wave - 1)>(values[i]);
  constexpr int between = Mask & ~(wave - 1);
  if constexpr (between != 0) {
    constexpr int line = Threads * static_cast<int>(sizeof(T));
    constexpr int round = smaller(Count, larger(1, partial_bytes / line));  // values of a thread at a time
    T* shared = reinterpret_cast<T*>(scratch<round * line>());
    const int mine = thread();
#pragma unroll
    for (int first = 0; first < Count; first += round) {
      sync();
#pragma unroll
      for (int i = first; i < first + round && i < Count; ++i) shared[(i - first) * Threads + mine] = values[i];
      sync();
#pragma unroll
      for (int i = first; i < first + round && i < Count; ++i) {
        const int base = (i - first) * Threads + (mine & ~between);
        values[i] = shared[base];
#pragma unroll
        for (int w = 1; w < Threads / wave; ++w) {
          if (((w * wave) & ~between) == 0) values[i] = Op::apply(values[i], shared[base + w * wave]);
        }
      }
    }
  }
}

}  // namespace detail

// Along each row: a value for each row, or a scalar where there is one row.
template <class Op, class T, class L> PK_FN auto reduce_cols(const Tile<T, L>& tile) {
  T values[L::row_slots];
#pragma unroll
  for (int i = 0; i < L::row_slots; ++i) {
    values[i] = tile.v[i][0];
#pragma unroll
    for (int j = 1; j < L::col_slots; ++j) values[i] = Op::apply(values[i], tile.v[i][j]);
  }
  detail::over_threads<Op, L::Col::threads_mask, L::threads>(values);
  if constexpr (same<typename L::Row, One>) {
    return values[0];
  } else {
    Tile<T, RowOf<L>> out;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) out.v[i][0] = values[i];
    return out;
  }
}

// Along each column.
template <class Op, class T, class L> PK_FN auto reduce_rows(const Tile<T, L>& tile) {
  T values[L::col_slots];
#pragma unroll
  for (int j = 0; j < L::col_slots; ++j) {
    values[j] = tile.v[0][j];
#pragma unroll
    for (int i = 1; i < L::row_slots; ++i) values[j] = Op::apply(values[j], tile.v[i][j]);
  }
  detail::over_threads<Op, L::Row::threads_mask, L::threads>(values);
  if constexpr (same<typename L::Col, One>) {
    return values[0];
  } else {
    Tile<T, ColOf<L>> out;
#pragma unroll
    for (int j = 0; j < L::col_slots; ++j) out.v[0][j] = values[j];
    return out;
  }
}

}  // namespace pk
