// Walks along a row that every thread does alone, over its own columns, and that are joined once at the end: no barrier and
// no exchange of lanes in the loop, so that loads of the next step are under way while this one is computed.
#pragma once

#include "pk/reduce.h"

namespace pk {

// The elements of a tile of one row that this thread holds, reduced.
template <class Op, class T, class L> PK_FN T reduce_own(const Tile<T, L>& tile) {
  static_assert(same<typename L::Row, One>, "a thread's part of one row");
  T total = tile.v[0][0];
#pragma unroll
  for (int j = 1; j < L::col_slots; ++j) total = Op::apply(total, tile.v[0][j]);
  return total;
}

namespace detail {

// The value of the lane whose number differs in the bit `Bit`, for any struct of 32-bit words.
template <int Bit, class T> PK_FN T words_from_lane_xor(T value) {
  static_assert(sizeof(T) % 4 == 0, "made of whole words");
  struct Words { int at[sizeof(T) / 4]; };
  Words words = __builtin_bit_cast(Words, value);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / 4); ++i) words.at[i] = shuffle_xor<Bit>(words.at[i]);
  return __builtin_bit_cast(T, words);
}

template <int Mask, int Bit = 1, class T, class F> PK_FN T combine_lanes(T mine, F join) {
  if constexpr (Bit >= wave) {
    return mine;
  } else if constexpr ((Mask & Bit) == 0) {
    return combine_lanes<Mask, Bit * 2>(mine, join);
  } else {
    const T other = words_from_lane_xor<Bit>(mine);
    return combine_lanes<Mask, Bit * 2>((lane() & Bit) != 0 ? join(other, mine) : join(mine, other), join);
  }
}

}  // namespace detail

// What the threads of a row of L found, joined in the order of the threads: the same in every thread.
template <class L, class T, class F> PK_FN T combine(T mine, F join) {
  constexpr int mask = L::Col::threads_mask, between = mask & ~(wave - 1);
  mine = detail::combine_lanes<mask & (wave - 1)>(mine, join);
  if constexpr (between != 0) {
    T* shared = reinterpret_cast<T*>(scratch<L::threads / wave * static_cast<int>(sizeof(T))>());
    const int number = thread() / wave, first = number & ~(between / wave);
    sync();
    if (lane() == 0) shared[number] = mine;
    sync();
    mine = shared[first];
#pragma unroll
    for (int w = 1; w < L::threads / wave; ++w) {
      if (((w * wave) & ~between) == 0) mine = join(mine, shared[first | w]);
    }
  }
  return mine;
}

}  // namespace pk
