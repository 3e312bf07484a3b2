// Products on CDNA whose waves take turns: of the two waves of a SIMD one reads operands while the other one multiplies.
//
// A block's tile of the result has four quarters, and each of its eight waves has a part of every quarter.  In a turn a wave
// reads its part of one half of an operand, helps to bring a later slice to LDS, and multiplies one quarter.  Barriers part
// reading from multiplying, and waves 4 to 7 are one barrier behind waves 0 to 3: the matrix core of every SIMD always has
// one wave's instructions.
#pragma once

#include "pk/feed.h"

#if defined(__GFX9__)

namespace pk {

// The accumulator of R x C by WavesM x WavesN waves, each with a part of every quarter.
template <int R, int C, class Element, int WavesM = 2, int WavesN = 4>
using Quarters = Layout<Spread<R, 1, 16, 1, R / 2 / WavesM / 16, WavesM, wave * WavesN>,
                        Spread<C, 4, 4, 16, C / 2 / WavesN / 16, WavesN, wave>, WavesM * WavesN * wave>;

// Quarter (I, J) of the accumulator += rows * cols, ahead of whatever the other wave of the SIMD issues meanwhile.
template <int I, int J, class L, class T, int TM, int TN, int Steps>
PK_FN void multiply(Tile<float, L>& acc, const Part<T, TM, Steps>& rows, const Part<T, TN, Steps>& cols) {
  using Step = typename Fragment<T>::type;
  __builtin_amdgcn_s_setprio(1);
#pragma unroll
  for (int s = 0; s < Steps; ++s) {
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
      for (int j = 0; j < TN; ++j) {
        f32x4 d;
        float* const at = &acc.v[I * TM + i][(J * TN + j) * 4];
        __builtin_memcpy(&d, at, sizeof d);
        d = matrix_step(d, bitcast<Step>(cols.v[j][s]), bitcast<Step>(rows.v[i][s]));
        __builtin_memcpy(at, &d, sizeof d);
      }
    }
  }
  __builtin_amdgcn_s_setprio(0);
}

}  // namespace pk

#endif
