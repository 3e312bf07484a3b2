// Matrix products: operands in LDS, fragments, and the products themselves on the matrix cores.
#pragma once

#include "pk/subnormal.h"
#include "pk/tile.h"

namespace pk {

// ---- operands in LDS ----------------------------------------------------------------------------------------------

// Along which dim of an operand the products are summed.
enum class Depth { along_cols, along_rows };

// Where things lie in lines of `Line` bytes: chunks of 16 bytes are permuted inside 128 bytes (256, for lines that long) by an
// XOR with bits of the line's number, so that lanes that read the same chunk of neighbouring lines meet no bank of LDS twice.
// `Strided` lines are also written eight lines apart, by lanes that transpose patches.
template <int Line, bool Strided = false> struct Swizzle {
  static constexpr int together = larger(1, 128 / Line);  // lines that fill all banks
  static constexpr int period = Strided ? 128 : 16;       // lines after which the pattern repeats

  PK_FN static int key(int n) {
    if constexpr (Strided) n ^= n >> 3;
    if constexpr (Line % 256 == 0) return n % 16 << 4;
    else if constexpr (Line % 128 == 0) return n % 8 << 4;
    else return n % 16 / together << 4;
  }
  PK_FN static int place(int n, int at) { return (n * Line + at) ^ key(n); }
};

// An R x C operand, shared by the block.  However it lies in memory, LDS holds it with the depth running fastest, so that
// a fragment is one wide read.
template <class T, int R, int C, Depth D, int Threads> struct Shared {
  using Element = T;
  static constexpr bool straight = D == Depth::along_cols;
  static constexpr int rows = R, cols = C, threads = Threads;
  static constexpr int free = straight ? R : C, depth = straight ? C : R;
  static constexpr int chunk = 16 / static_cast<int>(sizeof(T));
  static constexpr bool strided = !straight && wave == 64;  // RDNA has no registers for the addresses that it takes
  using Lines = Swizzle<depth * static_cast<int>(sizeof(T)), strided>;
  T data[free * depth] __attribute__((aligned(256)));

  // Depths k, k + 1, ... of number n, up to the end of their 16 bytes.
  PK_FN T* at(int n, int k) { return data + place(n, k); }
  PK_FN const T* at(int n, int k) const { return data + place(n, k); }

  // The same for number first + n, where `first` is a multiple of 16 that is known to the compiler.
  PK_FN const T* at(int first, int n, int k) const {
    return strided ? data + place(first + n, k) : data + first * depth + place(n, k);
  }

 private:
  PK_FN static int place(int n, int k) { return Lines::place(n, k * static_cast<int>(sizeof(T))) / static_cast<int>(sizeof(T)); }
};

namespace detail {

// How a block copies an operand: each unit is a patch of `deep` x `wide` elements, read with 16-byte accesses along the
// rows of memory and written along the depth.
template <class S> struct CopyShape {
  static constexpr int wide = power_in(S::cols, 16 / static_cast<int>(sizeof(typename S::Element)));
  static constexpr int across = S::cols / wide;
  static constexpr int deep = S::straight ? 1 : power_in(S::rows, larger(1, smaller(S::chunk, S::rows * across / S::threads)));
  static constexpr int units = across * (S::rows / deep);
  static constexpr int per_thread = (units + S::threads - 1) / S::threads;
  static constexpr bool even = units % S::threads == 0;
};

template <int N, class T> PK_FN void to_lds(T* to, const T* from) {
  __builtin_memcpy(__builtin_assume_aligned(to, N * sizeof(T) > 16 ? 16 : N * sizeof(T)), from, N * sizeof(T));
}

template <int N, class T> PK_FN void from_lds(T* to, const T* from) {
  __builtin_memcpy(to, __builtin_assume_aligned(from, N * sizeof(T) > 16 ? 16 : N * sizeof(T)), N * sizeof(T));
}

}  // namespace detail

// One thread's share of an operand, in registers on its way from memory to LDS.
template <class S> struct Held {
  using Shape = detail::CopyShape<S>;
  typename S::Element v[Shape::per_thread][Shape::deep][Shape::wide];
};

template <class S> PK_FN Held<S> held(const S&) { return Held<S>(); }

namespace detail {

// Unit u of a thread's share: whether there is one, and the row and column of its patch.
template <class S> struct Unit {
  using Shape = CopyShape<S>;
  bool there;
  int row, col;
  PK_FN explicit Unit(int u) {
    const int unit = u * S::threads + thread();
    there = Shape::even || unit < Shape::units;
    col = unit % Shape::across * Shape::wide;
    row = unit / Shape::across * Shape::deep;
  }
};

template <bool Bounded, class S, class Patch, class T>
PK_FN void fetch_unit(Patch& patch, const Unit<S>& unit, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left,
                      int cols_left) {
  using Shape = CopyShape<S>;
#pragma unroll
  for (int d = 0; d < Shape::deep; ++d) {
    const T* line = origin + (unit.row + d) * row_stride + unit.col * col_stride;
    const int count = !Bounded ? Shape::wide : unit.row + d < rows_left ? inside<Shape::wide>(cols_left, unit.col) : 0;
    read_some<Shape::wide>(patch[d], line, col_stride, count, T(0));
  }
}

template <class S, class Patch> PK_FN void put_unit(S& operand, const Unit<S>& unit, const Patch& patch) {
  using Shape = CopyShape<S>;
  if constexpr (S::straight) {
    to_lds<Shape::wide>(operand.at(unit.row, unit.col), patch[0]);
  } else {
#pragma unroll
    for (int e = 0; e < Shape::wide; ++e) {  // a column of the patch is a run along the depth
      typename S::Element run[Shape::deep];
#pragma unroll
      for (int d = 0; d < Shape::deep; ++d) run[d] = patch[d][e];
      to_lds<Shape::deep>(operand.at(unit.col + e, unit.row), run);
    }
  }
}

template <bool Bounded, class S, class T>
PK_FN void fetch(Held<S>& share, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left) {
#pragma unroll
  for (int u = 0; u < CopyShape<S>::per_thread; ++u) {
    const Unit<S> unit(u);
    if (unit.there) {
      fetch_unit<Bounded, S>(share.v[u], unit, origin, row_stride, col_stride, rows_left, cols_left);
    } else {
      // Left alone, the old one would be read again from private memory, by a flat load from either address.
      __builtin_memset(share.v[u], 0, sizeof share.v[u]);
    }
  }
}

// A few units at a time, so that large operands do not fill the registers on their way.
template <bool Bounded, class S, class T>
PK_FN void stage(S& operand, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left) {
  using Shape = CopyShape<S>;
  constexpr int patch = Shape::deep * Shape::wide * static_cast<int>(sizeof(T)) / 4;
  constexpr int some = power_in(Shape::per_thread, larger(1, 16 / patch));
#pragma unroll 1
  for (int first = 0; first < Shape::per_thread; first += some) {
    T v[some][Shape::deep][Shape::wide];
#pragma unroll
    for (int u = 0; u < some; ++u) {
      const Unit<S> unit(first + u);
      if (unit.there) fetch_unit<Bounded, S>(v[u], unit, origin, row_stride, col_stride, rows_left, cols_left);
    }
#pragma unroll
    for (int u = 0; u < some; ++u) {
      const Unit<S> unit(first + u);
      if (unit.there) put_unit(operand, unit, v[u]);
    }
  }
}

}  // namespace detail

// Starts reading an operand from memory; what lies outside the buffer is zero.
template <class S, class T>
PK_FN void fetch(Held<S>& share, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left) {
  detail::fetch<true>(share, origin, row_stride, col_stride, rows_left, cols_left);
}

template <class S, class T> PK_FN void fetch(Held<S>& share, const T* origin, int64_t row_stride, int64_t col_stride) {
  detail::fetch<false>(share, origin, row_stride, col_stride, detail::all, detail::all);
}

// Writes what `fetch` has read to LDS.
template <class S> PK_FN void put(S& operand, const Held<S>& share) {
#pragma unroll
  for (int u = 0; u < detail::CopyShape<S>::per_thread; ++u) {
    const detail::Unit<S> unit(u);
    if (unit.there) detail::put_unit(operand, unit, share.v[u]);
  }
}

// An operand from memory to LDS at once.
template <class S, class T>
PK_FN void stage(S& operand, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left) {
  detail::stage<true>(operand, origin, row_stride, col_stride, rows_left, cols_left);
}

template <class S, class T> PK_FN void stage(S& operand, const T* origin, int64_t row_stride, int64_t col_stride) {
  detail::stage<false>(operand, origin, row_stride, col_stride, detail::all, detail::all);
}

// An operand that was computed in registers to LDS.
template <class S, class T, class L> PK_FN void put(S& operand, const Tile<T, L>& tile) {
  static_assert(L::rows == S::rows && L::cols == S::cols, "the operand has the shape of the tile");
  constexpr int V = S::straight ? smaller(L::Col::vector, S::chunk) : 1;
  if (!L::owner()) return;
#pragma unroll
  for (int i = 0; i < L::row_slots; ++i) {
#pragma unroll
    for (int j = 0; j < L::col_slots; j += V) {
      const int row = L::Row::index(i), col = L::Col::index(j);
      detail::to_lds<V>(S::straight ? operand.at(row, col) : operand.at(col, row), &tile.v[i][j]);
    }
  }
}

// ---- products -----------------------------------------------------------------------------------------------------

namespace detail {

// The lanes' part of an operand in LDS for one step: a tile's rows from `first` on, consecutive depths in each lane.
template <class Step, class S> PK_FN auto fragment(const S& operand, int first, int step) {
  constexpr int per = Step::k / Step::lanes, run = smaller(per, S::chunk);
  typename Step::type out;
#pragma unroll
  for (int j = 0; j < per; j += run) {
    from_lds<run>(reinterpret_cast<typename S::Element*>(&out) + j,
                  operand.at(first, lane() % Step::edge, step * Step::k + lane() / Step::edge % Step::lanes * per + j));
  }
  return out;
}

// The same where the depths are ordered as the columns of layout L, whose tile is the other operand.
template <class Step, class L, class S> PK_FN auto fragment_like(const S& operand, int first, int step) {
  using Col = typename L::Col;
  if constexpr (Step::lanes == 1) {
    return fragment<Step>(operand, first, step);
  } else {
    constexpr int per = Step::k / Step::lanes, run = smaller(smaller(per, Col::vector), S::chunk);
    typename Step::type out;
#pragma unroll
    for (int j = 0; j < per; j += run) {
      from_lds<run>(reinterpret_cast<typename S::Element*>(&out) + j,
                    operand.at(first, lane() % Step::edge, Col::own() + Col::fixed(step * per + j)));
    }
    return out;
  }
}

// Row tile i of a tile in registers, as a fragment: the lane holds the depths it is asked for already.
template <class Step, class T, class L> PK_FN auto fragment_of(const Tile<T, L>& tile, int i, int step) {
  constexpr int per = Step::k / Step::lanes;
  typename Step::type out;
  if constexpr (Step::lanes == 1 && L::Col::lanes == 2) {
    // RDNA 3 wants all 16 depths in both halves of the wave, and each half holds every other one: swap, then interleave.
    const bool upper = lane() >= 16;
    uint32_t* words = reinterpret_cast<uint32_t*>(&out);
#pragma unroll
    for (int r = 0; r < 8; r += 2) {
      const T pair[2] = {tile.v[i][step * 8 + r], tile.v[i][step * 8 + r + 1]};
      const uint32_t mine = __builtin_bit_cast(uint32_t, pair);
      const uint32_t theirs = static_cast<uint32_t>(shuffle_xor<16>(static_cast<int>(mine)));
      const uint32_t even = upper ? theirs : mine, odd = upper ? mine : theirs;
      words[r] = (even & 0xffffu) | odd << 16;
      words[r + 1] = even >> 16 | (odd & 0xffff0000u);
    }
  } else {
#pragma unroll
    for (int j = 0; j < per; ++j) reinterpret_cast<T*>(&out)[j] = tile.v[i][step * per + j];
  }
  return out;
}

// acc += x y for all tiles of the wave; `left(i)` and `right(first)` give fragments of one step.
template <class Sum, class L, class Left, class Right> PK_FN void multiply(Tile<Sum, L>& acc, Left left, Right right) {
  using Acc = MatrixAccumulator<Sum, edge_of<L>>;
  using V = decltype(right(0));
  constexpr int per = sizeof(Acc) / sizeof(Sum), tiles_m = L::row_slots, tiles_n = L::col_slots / per;
  const auto step = [&](int i, int j, V x, V y, auto product) PK_INLINE {
    Acc d;
    __builtin_memcpy(&d, &acc.v[i][j * per], sizeof d);
    d = product(d, x, y);
    __builtin_memcpy(&acc.v[i][j * per], &d, sizeof d);
  };
  const auto plain = [](Acc d, V x, V y) PK_INLINE { return matrix_step(d, x, y); };
  const auto column = [&](int j) PK_INLINE { return right(L::Col::wave_own() + L::Col::fixed(j * per)); };
  if constexpr (flushes<V>) {  // both sides are looked at before the first product
    V x[tiles_n], y[tiles_m];
    Subnormals<V> seen;
#pragma unroll
    for (int j = 0; j < tiles_n; ++j) seen.look(x[j] = column(j));
#pragma unroll
    for (int i = 0; i < tiles_m; ++i) seen.look(y[i] = left(i));
    const auto all = [&](auto product) PK_INLINE {
#pragma unroll
      for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
        for (int j = 0; j < tiles_n; ++j) step(i, j, x[j], y[i], product);
      }
    };
    by_floats_if_any(seen.lanes(), [&] PK_INLINE { all([](Acc d, V x, V y) PK_INLINE { return matrix_step_as_floats(d, x, y); }); },
                     [&] PK_INLINE { all(plain); });
  } else if constexpr (tiles_n <= tiles_m) {  // the shorter side is held, the other one passes by
    V x[tiles_n];
#pragma unroll
    for (int j = 0; j < tiles_n; ++j) x[j] = column(j);
#pragma unroll
    for (int i = 0; i < tiles_m; ++i) {
      const V y = left(i);
#pragma unroll
      for (int j = 0; j < tiles_n; ++j) step(i, j, x[j], y, plain);
    }
  } else {
    V y[tiles_m];
#pragma unroll
    for (int i = 0; i < tiles_m; ++i) y[i] = left(i);
#pragma unroll
    for (int j = 0; j < tiles_n; ++j) {
      const V x = column(j);
#pragma unroll
      for (int i = 0; i < tiles_m; ++i) step(i, j, x, y[i], plain);
    }
  }
}

// WMMA needs all lanes (RDNA 3 ISA guide, 7.9: EXEC must be all ones), which the compiler does not know when only some lanes
// store what comes out: it would move the products to where those lanes are alone.
template <class Sum, class L> PK_FN void keep_together(Tile<Sum, L>& acc) {
#if !defined(__GFX9__)
#pragma unroll
  for (int i = 0; i < L::row_slots; ++i) {
#pragma unroll
    for (int j = 0; j < L::col_slots; j += 8) asm volatile("" ::"v"(acc.v[i][j]));  // one register holds the whole product here
  }
#endif
}

// Without matrix instructions: every thread multiplies its rows by its columns, as many depths at a time as 16 bytes hold.
template <class T, class L, class A, class B> PK_FN void multiply_by_fma(Tile<T, L>& acc, const A& a, const B& b) {
  constexpr int run = A::chunk;
#pragma unroll 1
  for (int k = 0; k < A::depth; k += run) {
    T x[L::row_slots][run];
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) from_lds<run>(x[i], a.at(L::Row::index(i), k));
#pragma unroll
    for (int j = 0; j < L::col_slots; ++j) {
      T y[run];
      from_lds<run>(y, b.at(L::Col::index(j), k));
#pragma unroll
      for (int e = 0; e < run; ++e) {
#pragma unroll
        for (int i = 0; i < L::row_slots; ++i) acc.v[i][j] = __builtin_elementwise_fma(x[i][e], y[e], acc.v[i][j]);
      }
    }
  }
}

}  // namespace detail

// acc += a b, both operands in LDS: a is m x k, b is k x n, whichever way they lie.  `As` may name what the elements are taken
// as (xf32 for floats).
template <class As = void, class Sum, class L, class A, class B> PK_FN void dot(Tile<Sum, L>& acc, const A& a, const B& b) {
  using T = choose<same<As, void>, typename B::Element, As>;
  static_assert(A::free == L::rows && B::free == L::cols && A::depth == B::depth, "m x k times k x n");
  if constexpr (has_matrix<T>) {
    using Step = choose<goes_twice_as_deep<T> && A::depth % 128 == 0, Fragment<Twice<T>>, Fragment<T, edge_of<L>>>;
    static_assert(A::depth % Step::k == 0, "the depth is a multiple of a matrix step's");
#pragma unroll
    for (int step = 0; step < A::depth / Step::k; ++step) {
      detail::multiply(
          acc, [&](int i) { return detail::fragment<Step>(a, L::Row::wave_own() + L::Row::fixed(i), step); },
          [&](int first) { return detail::fragment<Step>(b, first, step); });
    }
    detail::keep_together(acc);
  } else {
    detail::multiply_by_fma(acc, a, b);
  }
}

// acc += a b with a in registers, where a matrix product or `load` left it: it never goes through LDS.
template <class Sum, class L, class T, class LA, class B> PK_FN void dot(Tile<Sum, L>& acc, const Tile<T, LA>& a, const B& b) {
  static_assert(LA::rows == L::rows && B::free == L::cols && LA::cols == B::depth, "m x k times k x n");
  static_assert(same<typename LA::Row, typename L::Row> && LA::Col::waves == 1, "a wave holds its rows whole");
  using Step = Fragment<T, edge_of<L>>;
  static_assert(LA::cols % Step::k == 0, "the depth is a multiple of a matrix step's");
#pragma unroll
  for (int step = 0; step < LA::cols / Step::k; ++step) {
    detail::multiply(
        acc, [&](int i) { return detail::fragment_of<Step>(a, i, step); },
        [&](int first) { return detail::fragment_like<Step, LA>(b, first, step); });
  }
  detail::keep_together(acc);
}

}  // namespace pk
