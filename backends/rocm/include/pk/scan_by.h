// Scans by a function of the operator's own.  `Part` holds one element of every tile and says how a part of the row is joined
// with the part right of it: `static Part join(Part left, Part right)`.  It need have no identity: where there is nothing, a
// flag says so.
#pragma once

#include "pk/scan.h"

namespace pk {

namespace detail {

template <class Part> struct Maybe {
  Part value;
  int there;
};

template <class Part> PK_FN Maybe<Part> from_lane(Maybe<Part> value, int lane) {
  struct Words { int at[sizeof(Maybe<Part>) / 4]; };
  Words words = __builtin_bit_cast(Words, value);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Words) / 4); ++i) words.at[i] = shuffle(words.at[i], lane);
  return __builtin_bit_cast(Maybe<Part>, words);
}

}  // namespace detail

template <class Part> struct Joining {
  template <class T> PK_FN static T apply(T a, T b) {
    return !a.there ? b : !b.there ? a : T{Part::join(a.value, b.value), 1};
  }
};
template <class Part> struct Identity<Joining<Part>> {
  template <class T> PK_FN static T of() { return T{}; }
};

template <class Part, class L> struct Scanned {
  Tile<Part, L> tile;
  Tile<Part, RowOf<L>> last;  // of each row
};

// The running values along each row of `tiles`, joined as `Part` says.
template <class Part, class L, class... T> PK_FN Scanned<Part, L> scan_by(const Tile<T, L>&... tiles) {
  Scanned<Part, L> out;
#pragma unroll
  for (int i = 0; i < L::row_slots; ++i) {
    detail::Maybe<Part> v[L::col_slots], last = {};
#pragma unroll
    for (int j = 0; j < L::col_slots; ++j) v[j] = {Part{tiles.v[i][j]...}, 1};
    detail::RowScan<Joining<Part>, false, false, detail::Maybe<Part>, L>::run(v, last);
#pragma unroll
    for (int j = 0; j < L::col_slots; ++j) out.tile.v[i][j] = v[j].value;
    out.last.v[i][0] = last.value;
  }
  return out;
}

}  // namespace pk
