// Elements that indices pick: where an index picks whole rows, wide accesses of a row as in pk/tile.h.
#pragma once

#include "pk/tile.h"

namespace pk {

// Coordinates along a dim of `size` elements that lie `stride` apart: a tile of them, a value for each of its rows or
// columns, or a scalar.  One outside of [0, size) picks nothing.
template <class I> struct Along {
  I index;
  int64_t size, stride;
};

template <class I> PK_FN Along<I> along(const I& index, int64_t size, int64_t stride) { return {index, size, stride}; }

// Row i of a tile lies at Scale * ((first + i) / Div % Mod) + begin; no Mod: the quotient itself.
template <class Whole, int Div, int Mod, int Scale> struct RowPart {
  Whole first, begin;
  PK_FN int64_t at(int i) const {
    const Whole quotient = (first + i) / Div;
    return static_cast<int64_t>((Mod > 0 ? quotient % (Mod > 0 ? Mod : 1) : quotient) * Scale + begin);
  }
};

template <int Div, int Mod = 0, int Scale = 1> PK_FN RowPart<int, Div, Mod, Scale> part(int64_t first, int64_t begin = 0) {
  return {static_cast<int>(first), static_cast<int>(begin)};
}

// Where the axis has more than 2^31 coordinates.
template <int Div, int Mod = 0, int Scale = 1> PK_FN RowPart<int64_t, Div, Mod, Scale> wide_part(int64_t first, int64_t begin = 0) {
  return {first, begin};
}

// The same of columns: of column j what `P` is of row j.
template <class P> struct Columns {
  P part;
};

template <class P> PK_FN Columns<P> columns(const P& part) { return {part}; }

namespace detail {

template <class L, class Whole, int Div, int Mod, int Scale> PK_FN int64_t pick(const RowPart<Whole, Div, Mod, Scale>& x, int i, int) {
  return x.at(L::Row::own() + L::Row::fixed(i));
}

template <class L, class P> PK_FN int64_t pick(const Columns<P>& x, int, int j) {
  return x.part.at(L::Col::own() + L::Col::fixed(j));
}

// A negative number is a large one without its sign, so that one comparison does for both ends.
template <class T> PK_FN bool exists(T coordinate, int64_t size) {
  return static_cast<uint64_t>(static_cast<int64_t>(coordinate)) < static_cast<uint64_t>(size);
}

template <class T> PK_FN int64_t offset_of(T coordinate, int64_t size, int64_t stride) {
  return exists(coordinate, size) ? static_cast<int64_t>(coordinate) * stride : 0;
}

// Whether all elements of a row of L are picked by the same indices.
template <class L, class I> constexpr bool picks_rows = true;
template <class L, class T, class M> constexpr bool picks_rows<L, Tile<T, M>> = same<typename M::Col, One>;
template <class L, class P> constexpr bool picks_rows<L, Columns<P>> = false;

template <class L, class T, class... I>
PK_FN Tile<T, L> gather(const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left, T pad,
                        const Along<I>&... picks) {
  constexpr int V = (picks_rows<L, I> && ...) ? L::Col::vector : 1;
  Tile<T, L> out;
  const int row = L::Row::own(), col = L::Col::own();
  const T* base = origin + row * row_stride + col * col_stride;
#pragma unroll
  for (int i = 0; i < L::row_slots; ++i) {
    const bool row_in = row + L::Row::fixed(i) < rows_left;
    const T* line = base + L::Row::fixed(i) * row_stride;
#pragma unroll
    for (int j = 0; j < L::col_slots; j += V) {
      const int first = L::Col::fixed(j);
      const bool there = row_in && (exists(pick<L>(picks.index, i, j), picks.size) && ...);
      const int64_t offset = (0 + ... + offset_of(pick<L>(picks.index, i, j), picks.size, picks.stride));
      read_some<V>(&out.v[i][j], line + offset + first * col_stride, col_stride, there ? inside<V>(cols_left, col + first) : 0, pad);
    }
  }
  return out;
}

}  // namespace detail

// As load, of elements that lie further on by what the indices pick; `pad` also where one picks nothing, which is not read.
// After the origin: strides, how much is left along each dim, what stands outside, and the indices.
template <class L, class T, class P, class... I>
PK_FN Tile<T, L> gather(const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left, P pad,
                        const Along<I>&... picks) {
  return detail::gather<L>(origin, row_stride, col_stride, rows_left, cols_left, static_cast<T>(pad), picks...);
}

template <class L, class T, class P, class... I>
PK_FN Tile<T, L> gather(const T* origin, int64_t stride, int left, P pad, const Along<I>&... picks) {
  return detail::gather<L>(origin, stride, stride, left, left, static_cast<T>(pad), picks...);
}

// One element.
template <class T, class P, class... I> PK_FN T gather(const T* origin, P pad, const Along<I>&... picks) {
  if (!(detail::exists(picks.index, picks.size) && ...)) return static_cast<T>(pad);
  return origin[(0 + ... + detail::offset_of(picks.index, picks.size, picks.stride))];
}

}  // namespace pk
