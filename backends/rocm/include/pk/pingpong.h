// Products on CDNA that keep the matrix cores busy, in two ways.
//
// *Turns*: of the two waves of a SIMD one reads operands while the other one multiplies.
//
// A block's tile of the result has four quarters, and each of its eight waves has a part of every quarter.  In a turn a wave
// reads its part of one half of an operand, helps to bring a later slice to LDS, and multiplies one quarter.  Barriers part
// reading from multiplying, and waves 4 to 7 are one barrier behind waves 0 to 3: the matrix core of every SIMD always has
// one wave's instructions.
//
// *Interleaved* (gfx950): four waves, each alone on its SIMD, read and copy between their own products.  One barrier a slice.
#pragma once

#include "pk/feed.h"

#if defined(__GFX9__)

namespace pk {

// The accumulator of R x C by WavesM x WavesN waves, each with a part of every quarter.
template <int R, int C, class Element, int WavesM = 2, int WavesN = 4>
using Quarters = Layout<Spread<R, 1, 16, 1, R / 2 / WavesM / 16, WavesM, wave * WavesN>,
                        Spread<C, 4, 4, 16, C / 2 / WavesN / 16, WavesN, wave>, WavesM * WavesN * wave>;

namespace detail {

// How many steps of a part one matrix instruction takes.
template <class T, int Steps> constexpr int at_once = goes_twice_as_deep<T> && Steps % 2 == 0 ? 2 : 1;

// One matrix instruction of a quarter: number N of them, step by step.
template <int I, int J, int N, bool AsFloats = false, class Sum, class L, class T, int TM, int TN, int Steps>
PK_FN void one_of(Tile<Sum, L>& acc, const Part<T, TM, Steps>& rows, const Part<T, TN, Steps>& cols) {
  constexpr int once = at_once<T, Steps>, s = N / (TM * TN) * once, i = N / TN % TM, j = N % TN;
  using V = typename choose<once == 2, Fragment<Twice<T>>, Fragment<T>>::type;
  MatrixAccumulator<Sum, 16> d;
  Sum* const at = &acc.v[I * TM + i][(J * TN + j) * 4];
  __builtin_memcpy(&d, at, sizeof d);
  V x, y;
  __builtin_memcpy(&x, &cols.v[j][s], sizeof x);
  __builtin_memcpy(&y, &rows.v[i][s], sizeof y);
  if constexpr (AsFloats) d = matrix_step_as_floats(d, x, y);
  else d = matrix_step(d, x, y);
  __builtin_memcpy(at, &d, sizeof d);
}

template <int I, int J, int N = 0, class Sum, class L, class T, int TM, int TN, int Steps>
PK_FN void multiply_as_floats(Tile<Sum, L>& acc, const Part<T, TM, Steps>& rows, const Part<T, TN, Steps>& cols) {
  if constexpr (N < TM * TN * Steps) {
    one_of<I, J, N, true>(acc, rows, cols);
    multiply_as_floats<I, J, N + 1>(acc, rows, cols);
  }
}

// Pieces First to Last of all that is to be done besides.
template <int First, int Last> PK_FN void pieces() {}
template <int First, int Last, class Work, class... More> PK_FN void pieces(const Work& work, const More&... more) {
  if constexpr (First < Last && First < Work::pieces) {
    work.template piece<First>();
    pieces<First + 1, Last>(work, more...);
  } else {
    pieces<larger(0, First - Work::pieces), larger(0, Last - Work::pieces)>(more...);
  }
}

template <int I, int J, int N = 0, class Sum, class L, class T, int TM, int TN, int Steps, class... Works>
PK_FN void multiply_from(Tile<Sum, L>& acc, const Part<T, TM, Steps>& rows, const Part<T, TN, Steps>& cols, const Works&... works) {
  constexpr int all = TM * TN * Steps / at_once<T, Steps>, sum = (0 + ... + Works::pieces);
  if constexpr (N < all) {
    one_of<I, J, N>(acc, rows, cols);
    constexpr int first = N * sum / all, last = (N + 1) * sum / all;
    if constexpr (first < last) {
      __builtin_amdgcn_sched_barrier(0);  // here, and not where the compiler would gather them
      pieces<first, last>(works...);
      __builtin_amdgcn_sched_barrier(0);
    }
    multiply_from<I, J, N + 1>(acc, rows, cols, works...);
  }
}

}  // namespace detail

// Quarter (I, J) of the accumulator += rows * cols, ahead of whatever the other wave of the SIMD issues meanwhile.
template <int I, int J, class Sum, class L, class T, int TM, int TN, int Steps>
PK_FN void multiply(Tile<Sum, L>& acc, const Part<T, TM, Steps>& rows, const Part<T, TN, Steps>& cols) {
  __builtin_amdgcn_s_setprio(1);
  if constexpr (flushes<typename Fragment<T>::type>) {
    by_floats_if_any(rows.small | cols.small, [&] PK_INLINE { detail::multiply_as_floats<I, J>(acc, rows, cols); },
                     [&] PK_INLINE { detail::multiply_from<I, J>(acc, rows, cols); });
  } else {
    detail::multiply_from<I, J>(acc, rows, cols);
  }
  __builtin_amdgcn_s_setprio(0);
}

// The same with reads and copies evenly between the products: for a wave that has its SIMD to itself.
template <int I, int J, class Sum, class L, class T, int TM, int TN, int Steps, class... Works>
PK_FN void multiply_while(Tile<Sum, L>& acc, const Part<T, TM, Steps>& rows, const Part<T, TN, Steps>& cols,
                          const Works&... works) {
  detail::multiply_from<I, J>(acc, rows, cols, works...);
}

}  // namespace pk

#endif
