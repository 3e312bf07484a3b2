// Matrix products: operands in LDS, fragments, and the products themselves on the matrix cores.
#pragma once

#include "pk/tile.h"

namespace pk {

// ---- operands in LDS ----------------------------------------------------------------------------------------------

// Along which dim of an operand the products are summed.
enum class Depth { along_cols, along_rows };

// An R x C operand, shared by the block.  However it lies in memory, LDS holds it with the depth running fastest, so that
// a fragment is one wide read; rows are 16 bytes apart from a power of two, which spreads them over the banks.
template <class T, int R, int C, Depth D, int Threads> struct Shared {
  using Element = T;
  static constexpr bool straight = D == Depth::along_cols;
  static constexpr int rows = R, cols = C, threads = Threads;
  static constexpr int free = straight ? R : C, depth = straight ? C : R;
  static constexpr int pitch = depth + 16 / static_cast<int>(sizeof(T));
  T data[free * pitch] __attribute__((aligned(16)));

  PK_FN T* at(int n, int k) { return data + n * pitch + k; }
  PK_FN const T* at(int n, int k) const { return data + n * pitch + k; }
};

namespace detail {

// How a block copies an operand: each unit is a patch of `deep` x `wide` elements, read with 16-byte accesses along the
// rows of memory and written along the depth.
template <class S> struct CopyShape {
  static constexpr int wide = power_in(S::cols, 16 / static_cast<int>(sizeof(typename S::Element)));
  static constexpr int across = S::cols / wide;
  static constexpr int deep = S::straight ? 1 : power_in(S::rows, larger(1, smaller(8, S::rows * across / S::threads)));
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

// Starts reading an operand from memory; what lies outside the buffer is zero.
template <bool Bounded = true, class S, class T>
PK_FN void fetch(Held<S>& share, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left) {
  using Shape = typename Held<S>::Shape;
#pragma unroll
  for (int u = 0; u < Shape::per_thread; ++u) {
    const int unit = u * S::threads + thread();
    if (!Shape::even && unit >= Shape::units) break;
    const int col = unit % Shape::across * Shape::wide, row = unit / Shape::across * Shape::deep;
#pragma unroll
    for (int d = 0; d < Shape::deep; ++d) {
      const T* line = origin + (row + d) * row_stride + col * col_stride;
      const bool row_in = !Bounded || row + d < rows_left;
      if (col_stride == 1 && (!Bounded || (row_in && col + Shape::wide <= cols_left))) {
        detail::read<Shape::wide>(share.v[u][d], line);
      } else {
#pragma unroll
        for (int e = 0; e < Shape::wide; ++e) {
          share.v[u][d][e] = !Bounded || (row_in && col + e < cols_left) ? line[e * col_stride] : T(0);
        }
      }
    }
  }
}

template <class S, class T> PK_FN void fetch(Held<S>& share, const T* origin, int64_t row_stride, int64_t col_stride) {
  fetch<false>(share, origin, row_stride, col_stride, detail::all, detail::all);
}

// Writes what `fetch` has read to LDS.
template <class S> PK_FN void put(S& operand, const Held<S>& share) {
  using Shape = typename Held<S>::Shape;
  using T = typename S::Element;
#pragma unroll
  for (int u = 0; u < Shape::per_thread; ++u) {
    const int unit = u * S::threads + thread();
    if (!Shape::even && unit >= Shape::units) break;
    const int col = unit % Shape::across * Shape::wide, row = unit / Shape::across * Shape::deep;
    if constexpr (S::straight) {
      detail::to_lds<Shape::wide>(operand.at(row, col), share.v[u][0]);
    } else {
#pragma unroll
      for (int e = 0; e < Shape::wide; ++e) {  // a column of the patch is a run along the depth
        T run[Shape::deep];
#pragma unroll
        for (int d = 0; d < Shape::deep; ++d) run[d] = share.v[u][d][e];
        detail::to_lds<Shape::deep>(operand.at(col + e, row), run);
      }
    }
  }
}

// An operand from memory to LDS at once.
template <class S, class T, class... Left>
PK_FN void stage(S& operand, const T* origin, int64_t row_stride, int64_t col_stride, Left... left) {
  Held<S> share;
  fetch(share, origin, row_stride, col_stride, left...);
  put(operand, share);
}

// An operand that was computed in registers to LDS.
template <class S, class T, class L> PK_FN void put(S& operand, const Tile<T, L>& tile) {
  static_assert(L::rows == S::rows && L::cols == S::cols, "the operand has the shape of the tile");
  constexpr int V = S::straight ? L::Col::vector : 1;
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

// The lanes' part of an operand in LDS for one step: 16 rows from `first` on, `per` consecutive depths in each lane.
template <class S> PK_FN auto fragment(const S& operand, int first, int step) {
  using Step = Fragment<typename S::Element>;
  constexpr int per = Step::k / Step::lanes;
  typename Step::type out;
  from_lds<per>(reinterpret_cast<typename S::Element*>(&out),
                operand.at(first + lane() % 16, step * Step::k + lane() / 16 % Step::lanes * per));
  return out;
}

// The same where the depths are ordered as the columns of layout L, whose tile is the other operand.
template <class L, class S> PK_FN auto fragment_like(const S& operand, int first, int step) {
  using Step = Fragment<typename S::Element>;
  using Col = typename L::Col;
  if constexpr (Step::lanes == 1) {
    return fragment(operand, first, step);
  } else {
    constexpr int per = Step::k / Step::lanes, run = smaller(per, Col::vector);
    typename Step::type out;
#pragma unroll
    for (int j = 0; j < per; j += run) {
      from_lds<run>(reinterpret_cast<typename S::Element*>(&out) + j,
                    operand.at(first + lane() % 16, Col::own() + Col::fixed(step * per + j)));
    }
    return out;
  }
}

// Row tile i of a tile in registers, as a fragment: the lane holds the depths it is asked for already.
template <class T, class L> PK_FN auto fragment_of(const Tile<T, L>& tile, int i, int step) {
  using Step = Fragment<T>;
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
    for (int j = 0; j < per; ++j) out[j] = tile.v[i][step * per + j];
  }
  return out;
}

// acc += x y for all 16 x 16 tiles of the wave; `left(i)` and `right(first)` give fragments of one step.
template <class L, class Left, class Right> PK_FN void multiply(Tile<float, L>& acc, int, Left left, Right right) {
  using Acc = MatrixAccumulator;
  constexpr int per = sizeof(Acc) / sizeof(float), tiles_n = L::col_slots / per;
  decltype(right(0)) x[tiles_n];
#pragma unroll
  for (int j = 0; j < tiles_n; ++j) x[j] = right(L::Col::wave_own() + L::Col::fixed(j * per));
#pragma unroll
  for (int i = 0; i < L::row_slots; ++i) {
    const auto y = left(i);
#pragma unroll
    for (int j = 0; j < tiles_n; ++j) {
      Acc d;
      __builtin_memcpy(&d, &acc.v[i][j * per], sizeof d);
      d = matrix_step(d, x[j], y);
      __builtin_memcpy(&acc.v[i][j * per], &d, sizeof d);
    }
  }
}

// Without matrix instructions: every thread multiplies its rows by its columns, four depths at a time.
template <class L, class A, class B> PK_FN void multiply_by_fma(Tile<float, L>& acc, const A& a, const B& b) {
#pragma unroll 1
  for (int k = 0; k < A::depth; k += 4) {
    float x[L::row_slots][4], y[L::col_slots][4];
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) from_lds<4>(x[i], a.at(L::Row::index(i), k));
#pragma unroll
    for (int j = 0; j < L::col_slots; ++j) from_lds<4>(y[j], b.at(L::Col::index(j), k));
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int i = 0; i < L::row_slots; ++i) {
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) acc.v[i][j] = __builtin_fmaf(x[i][e], y[j][e], acc.v[i][j]);
      }
    }
  }
}

}  // namespace detail

// acc += a b, both operands in LDS: a is m x k, b is k x n, whichever way they lie.
template <class L, class A, class B> PK_FN void dot(Tile<float, L>& acc, const A& a, const B& b) {
  using T = typename B::Element;
  static_assert(A::free == L::rows && B::free == L::cols && A::depth == B::depth, "m x k times k x n");
  if constexpr (has_matrix<T>) {
    static_assert(A::depth % Fragment<T>::k == 0, "the depth is a multiple of a matrix step's");
#pragma unroll
    for (int step = 0; step < A::depth / Fragment<T>::k; ++step) {
      detail::multiply(
          acc, step, [&](int i) { return detail::fragment(a, L::Row::wave_own() + L::Row::fixed(i), step); },
          [&](int first) { return detail::fragment(b, first, step); });
    }
  } else {
    detail::multiply_by_fma(acc, a, b);
  }
}

// acc += a b with a in registers, where a matrix product or `load` left it: it never goes through LDS.
template <class L, class T, class LA, class B> PK_FN void dot(Tile<float, L>& acc, const Tile<T, LA>& a, const B& b) {
  static_assert(LA::rows == L::rows && B::free == L::cols && LA::cols == B::depth, "m x k times k x n");
  static_assert(same<typename LA::Row, typename L::Row> && LA::Col::waves == 1, "a wave holds its rows whole");
  static_assert(LA::cols % Fragment<T>::k == 0, "the depth is a multiple of a matrix step's");
#pragma unroll
  for (int step = 0; step < LA::cols / Fragment<T>::k; ++step) {
    detail::multiply(
        acc, step, [&](int i) { return detail::fragment_of(a, i, step); },
        [&](int first) { return detail::fragment_like<LA>(b, first, step); });
  }
}

}  // namespace pk
