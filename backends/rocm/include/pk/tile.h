// Tiles in registers: load, store, map, masks.
#pragma once

#include "pk/layout.h"
#include "pk/math.h"

namespace pk {

template <class T, class L> struct Tile {
  using Element = T;
  using Where = L;
  T v[L::row_slots][L::col_slots];
};

// How many of `extent` coordinates remain from `start` on, in 32 bits.
PK_FN int left(int64_t extent, int64_t start) {
  const int64_t n = extent - start;
  return n > 0x7fffffff ? 0x7fffffff : n < 0 ? 0 : static_cast<int>(n);
}

// ---- memory -------------------------------------------------------------------------------------------------------

namespace detail {

// N neighbouring elements at any alignment that is an element's: global memory takes wide accesses there.
template <int N, class T> PK_FN void read(T* to, const T* from) { __builtin_memcpy(to, from, N * sizeof(T)); }
template <int N, class T> PK_FN void write(T* to, const T* from) { __builtin_memcpy(to, from, N * sizeof(T)); }

// V neighbouring elements of a line that starts `stride` apart, of which `inside` exist (all where it is V or more); `pad`
// for the others.  Where only some exist each is read by itself, from the nearest one inside: no lane has to step aside.
template <int V, class T> PK_FN void read_one_by_one(T* to, const T* from, int64_t stride, int inside, T pad) {
  if (inside <= 0) {
#pragma unroll
    for (int e = 0; e < V; ++e) to[e] = pad;
  } else if (V > 1 && stride == 1 && inside >= V) {
    read<V>(to, from);
  } else {
    const int some = V > 1 ? opaque(inside) : inside;
#pragma unroll
    for (int e = 0; e < V; ++e) {
      const T x = from[(e < some ? e : some - 1) * stride];
      to[e] = e < some ? x : pad;
    }
  }
}

// On RDNA, elements of less than a register are carried in whole registers past the branch: taken apart inside it, each load
// would be waited for where it is issued.
template <int V, class T> PK_FN void read_some(T* to, const T* from, int64_t stride, int inside, T pad) {
#if defined(__GFX11__) || defined(__GFX12__)
  if constexpr (V > 1 && sizeof(T) < 4 && V * sizeof(T) % 4 == 0) {
    constexpr int count = V * static_cast<int>(sizeof(T)) / 4;
    typedef uint32_t Words __attribute__((ext_vector_type(count)));
    Words words;
    if (stride == 1 && inside >= V) {
      __builtin_memcpy(&words, from, sizeof(Words));
    } else {
      T each[V];
      read_one_by_one<V>(each, from, stride, inside, pad);
      __builtin_memcpy(&words, each, sizeof(Words));
    }
    __builtin_memcpy(to, &words, sizeof(Words));
    return;
  }
#endif
  read_one_by_one<V>(to, from, stride, inside, pad);
}

// How many of V elements from `first` on are inside.  Where what is left is known to be a multiple of V when the kernel is
// compiled, that is all or nothing, and the code for some of them goes away.
template <int V> PK_FN int inside(int left, int first) {
  if (__builtin_constant_p(left) && left % V == 0) return first < left ? V : 0;
  return left - first;
}

template <class L, bool Bounded, class T>
PK_FN Tile<T, L> load(const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left, T pad) {
  constexpr int V = L::Col::vector;
  Tile<T, L> out;
  const int row = L::Row::own(), col = L::Col::own();
  const T* base = origin + row * row_stride + col * col_stride;
#pragma unroll
  for (int i = 0; i < L::row_slots; ++i) {
    const bool row_in = !Bounded || row + L::Row::fixed(i) < rows_left;
    const T* line = base + L::Row::fixed(i) * row_stride;
#pragma unroll
    for (int j = 0; j < L::col_slots; j += V) {
      const int first = L::Col::fixed(j);
      const int count = !Bounded ? V : row_in ? inside<V>(cols_left, col + first) : 0;
      read_some<V>(&out.v[i][j], line + first * col_stride, col_stride, count, pad);
    }
  }
  return out;
}

constexpr int all = 0x7fffffff;

// How a value gets to memory.
struct Set {
  static constexpr bool wide = true;
  template <class T> PK_FN static void write(T* where, T value) { *where = value; }
};

struct Add {
  static constexpr bool wide = false;
  template <class T> PK_FN static void write(T* where, T value) { atomic_add(where, value); }
};

struct Maximum {
  static constexpr bool wide = false;
  template <class T> PK_FN static void write(T* where, T value) {
    T seen = *where;
    while (!(seen != seen) && !(seen >= value) && !atomic_replace(where, seen, value)) {}
  }
};

template <class Mode, bool Bounded, class T, class L>
PK_FN void store(const Tile<T, L>& tile, T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left) {
  constexpr int V = L::Col::vector;
  if (!L::owner()) return;
  const int row = L::Row::own(), col = L::Col::own();
  T* base = origin + row * row_stride + col * col_stride;
#pragma unroll
  for (int i = 0; i < L::row_slots; ++i) {
    const bool row_in = !Bounded || row + L::Row::fixed(i) < rows_left;
    T* line = base + L::Row::fixed(i) * row_stride;
#pragma unroll
    for (int j = 0; j < L::col_slots; j += V) {
      const int first = L::Col::fixed(j);
      const int count = !Bounded ? V : row_in ? inside<V>(cols_left, col + first) : 0;
      if (Mode::wide && V > 1 && col_stride == 1 && count >= V) {
        write<V>(line + first, &tile.v[i][j]);
      } else {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          if (e < count) Mode::write(line + (first + e) * col_stride, tile.v[i][j + e]);
        }
      }
    }
  }
}

template <class Mode, class T, class L> PK_FN void store_any(const Tile<T, L>& tile, T* origin, int64_t stride) {
  static_assert(L::vector, "a tile has two strides");
  store<Mode, false>(tile, origin, stride, stride, all, all);
}

template <class Mode, class T, class L> PK_FN void store_any(const Tile<T, L>& tile, T* origin, int64_t a, int64_t b) {
  if constexpr (L::vector) {
    store<Mode, true>(tile, origin, a, a, static_cast<int>(b), static_cast<int>(b));
  } else {
    store<Mode, false>(tile, origin, a, b, all, all);
  }
}

template <class Mode, class T, class L>
PK_FN void store_any(const Tile<T, L>& tile, T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left) {
  store<Mode, true>(tile, origin, row_stride, col_stride, rows_left, cols_left);
}

template <class Mode, class T> PK_FN void store_any(T value, T* where) {
  if (thread() == 0) Mode::write(where, value);
}

}  // namespace detail

// The arguments after the origin are strides, then how much of the buffer is left along each dim, then what stands
// outside: two of each for a tile, one for a vector.

template <class L, class T> PK_FN Tile<T, L> load(const T* origin, int64_t stride) {
  static_assert(L::vector, "a tile has two strides");
  return detail::load<L, false>(origin, stride, stride, detail::all, detail::all, T());
}

template <class L, class T> PK_FN Tile<T, L> load(const T* origin, int64_t a, int64_t b) {
  if constexpr (L::vector) {
    return detail::load<L, true>(origin, a, a, static_cast<int>(b), static_cast<int>(b), T());
  } else {
    return detail::load<L, false>(origin, a, b, detail::all, detail::all, T());
  }
}

template <class L, class T, class P> PK_FN Tile<T, L> load(const T* origin, int64_t stride, int left, P pad) {
  static_assert(L::vector, "a tile has two strides");
  return detail::load<L, true>(origin, stride, stride, left, left, static_cast<T>(pad));
}

template <class L, class T, class P = float>
PK_FN Tile<T, L> load(const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left, P pad = P()) {
  return detail::load<L, true>(origin, row_stride, col_stride, rows_left, cols_left, static_cast<T>(pad));
}

// Arguments as for load.  A scalar is written by one thread.
template <class V, class T, class... Where> PK_FN void store(const V& value, T* origin, Where... where) {
  detail::store_any<detail::Set>(value, origin, where...);
}

// Adds to what is there, or keeps the larger (NaN wins); several blocks may do so at once.
template <class V, class T, class... Where> PK_FN void store_add(const V& value, T* origin, Where... where) {
  detail::store_any<detail::Add>(value, origin, where...);
}

template <class V, class T, class... Where> PK_FN void store_max(const V& value, T* origin, Where... where) {
  detail::store_any<detail::Maximum>(value, origin, where...);
}

// ---- elementwise --------------------------------------------------------------------------------------------------

namespace detail {

// The element of an operand that goes with slot (i, j) of L: vectors and scalars are repeated.
template <class L, class T, class M> PK_FN T pick(const Tile<T, M>& tile, int i, int j) {
  static_assert(same<typename M::Row, One> || same<typename M::Row, typename L::Row>, "rows are spread alike");
  static_assert(same<typename M::Col, One> || same<typename M::Col, typename L::Col>, "columns are spread alike");
  return tile.v[same<typename M::Row, One> ? 0 : i][same<typename M::Col, One> ? 0 : j];
}

template <class L, class T> PK_FN T pick(T scalar, int, int) { return scalar; }

}  // namespace detail

// f on each element; vectors of a row or column and scalars are repeated.  (By value, a captured bool would be left in memory.)
template <class L, class F, class... Tiles> PK_FN auto map(const F& f, const Tiles&... tiles) {
  using T = decltype(f(detail::pick<L>(tiles, 0, 0)...));
  Tile<T, L> out;
#pragma unroll
  for (int i = 0; i < L::row_slots; ++i) {
#pragma unroll
    for (int j = 0; j < L::col_slots; ++j) out.v[i][j] = f(detail::pick<L>(tiles, i, j)...);
  }
  return out;
}

template <class T, class L> PK_FN Tile<T, L> fill(T value) {
  return map<L>([=]() { return value; });
}

// The local number of each row (column), as a vector.
template <class L> PK_FN Tile<int, RowOf<L>> row_index() {
  Tile<int, RowOf<L>> out;
#pragma unroll
  for (int i = 0; i < L::row_slots; ++i) out.v[i][0] = L::Row::index(i);
  return out;
}

template <class L> PK_FN Tile<int, ColOf<L>> col_index() {
  Tile<int, ColOf<L>> out;
#pragma unroll
  for (int j = 0; j < L::col_slots; ++j) out.v[0][j] = L::Col::index(j);
  return out;
}

// `value` from column cols_left (row rows_left) on.
template <class T, class L, class V> PK_FN Tile<T, L> mask_cols(const Tile<T, L>& tile, int cols_left, V value) {
  return map<L>([=](T x, int j) { return j < cols_left ? x : static_cast<T>(value); }, tile, col_index<L>());
}

template <class T, class L, class V> PK_FN Tile<T, L> mask_rows(const Tile<T, L>& tile, int rows_left, V value) {
  return map<L>([=](T x, int i) { return i < rows_left ? x : static_cast<T>(value); }, tile, row_index<L>());
}

}  // namespace pk
