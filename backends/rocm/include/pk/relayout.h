// The same values in another layout, through LDS.
#pragma once

#include "pk/tile.h"

namespace pk {

namespace detail {

constexpr int slab_bytes = 8192;  // of LDS at a time: large tiles pass in slabs of rows

// Through an image of To::rows x To::cols in LDS; a padding of 16 bytes keeps the rows of a column in different banks.
template <class To, bool Swap, class T, class L> PK_FN Tile<T, To> exchange(const Tile<T, L>& tile) {
  constexpr int pitch = To::cols == 1 ? 1 : To::cols + 16 / static_cast<int>(sizeof(T));
  constexpr int line = pitch * static_cast<int>(sizeof(T));
  constexpr int slab = larger(1, power_in(To::rows, slab_bytes / line));
  T* image = reinterpret_cast<T*>(scratch<slab * line>());
  constexpr int V = Swap ? 1 : L::Col::vector, W = To::Col::vector;
  const bool owner = L::owner();
  Tile<T, To> out;
#pragma unroll 1
  for (int first = 0; first < To::rows; first += slab) {
    sync();
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) {
#pragma unroll
      for (int j = 0; j < L::col_slots; j += V) {
        const int row = (Swap ? L::Col::index(j) : L::Row::index(i)) - first;
        const int col = Swap ? L::Row::index(i) : L::Col::index(j);
        if (owner && (slab == To::rows || (row >= 0 && row < slab))) write<V>(image + row * pitch + col, &tile.v[i][j]);
      }
    }
    sync();
#pragma unroll
    for (int i = 0; i < To::row_slots; ++i) {
      const int row = To::Row::index(i) - first;
#pragma unroll
      for (int j = 0; j < To::col_slots; j += W) {
        if (slab == To::rows || (row >= 0 && row < slab)) read<W>(&out.v[i][j], image + row * pitch + To::Col::index(j));
      }
    }
  }
  return out;
}

}  // namespace detail

template <class To, class T, class L> PK_FN Tile<T, To> relayout(const Tile<T, L>& tile) {
  if constexpr (same<To, L>) {
    return tile;
  } else if constexpr (To::rows == L::rows && To::cols == L::cols) {
    return detail::exchange<To, false>(tile);
  } else {  // a vector of rows as one of columns, or the reverse
    static_assert(To::vector && L::vector && To::rows * To::cols == L::rows * L::cols, "as many elements");
    return detail::exchange<To, true>(tile);
  }
}

template <class To, class T, class L> PK_FN Tile<T, To> transpose(const Tile<T, L>& tile) {
  static_assert(To::rows == L::cols && To::cols == L::rows, "rows become columns");
  return detail::exchange<To, true>(tile);
}

}  // namespace pk
