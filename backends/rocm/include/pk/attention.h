// Attention on CDNA: two waves of a SIMD take turns, one multiplying while the other one reads keys or values from LDS, and
// each makes its weights between its own products.
//
// A step is 64 keys.  Waves hold 32 rows of queries each; a lane holds half of a row's scores.  Tile t of the keys is
// multiplied while the weights of tile t - 1 are finished, and the values of t - 1 while the weights of t are begun:
//
//   score_while_finishing    ahead = queries keys[t]       and    second half of the powers of t - 1, their sum, their packing
//   weigh_while_beginning    acc += weights values[t - 1]  and    maxima of t, its exponents, first half of its powers
//
// Powers are those of a difference to a shift, any shift that is not far below the row's maximum: so it follows the maximum
// only where that has grown by more than `slack`, and what was summed is scaled down only then.
#pragma once

#include "pk/reduce.h"
#include "pk/strip.h"

#if defined(__GFX9__)

namespace pk {

// ---- queries --------------------------------------------------------------------------------------------------------

// A wave's queries as fragments, from `origin` on, rows `stride` apart: of those beyond `rows_left` or `features` all are zero.
template <class L, class T> PK_FN Tile<T, L> load_queries(const T* origin, int stride, int rows_left, int features) {
  const Buffer source(origin, smaller(rows_left, L::rows) * stride * 2);
  const int row = L::Row::own(), col = L::Col::own();
  Tile<T, L> out;
#pragma unroll
  for (int i = 0; i < L::row_slots; ++i) {
#pragma unroll
    for (int j = 0; j < L::col_slots; j += 8) {
      const bool there = col + L::Col::fixed(j) < features;
      const int from = there ? (row + L::Row::fixed(i)) * stride * 2 + col * 2 : Buffer::outside;
      const auto bits = source.template read<i32x4>(from, L::Col::fixed(j) * 2);
      __builtin_memcpy(&out.v[i][j], &bits, sizeof bits);
    }
  }
  return out;
}

// ---- weights --------------------------------------------------------------------------------------------------------

namespace detail {

typedef float f32x2 __attribute__((ext_vector_type(2)));  // two at once (packed instructions)

// The larger one: a NaN may be lost, which the powers bring back.
PK_FN float larger_of(float a, float b) {
#if defined(__gfx950__)
  return max(a, b);  // one instruction for three of them
#else
  return __builtin_fmaxf(a, b);
#endif
}

// After each of `Products` products so many other vector instructions and powers.
template <int Products, int Others, int Powers> PK_FN void weave() {
#pragma unroll
  for (int n = 0; n < Products; ++n) {
    __builtin_amdgcn_sched_group_barrier(0x008, 1, 0);
    __builtin_amdgcn_sched_group_barrier(0x002, Others, 0);
    if constexpr (Powers > 0) __builtin_amdgcn_sched_group_barrier(0x400, Powers, 0);
  }
}

constexpr int products_in(int steps_of_16) {  // matrix instructions
#if defined(__gfx950__)
  return steps_of_16;
#else
  return 2 * steps_of_16;
#endif
}

}  // namespace detail

// The running softmax of the rows that a wave holds, in powers of two: weights are 2^(factor x - shift).
template <class L> struct OnlineSoftmax {
  static constexpr int count = L::col_slots;
  static_assert(L::row_slots == 1 && L::Row::lanes == 32, "a wave holds 32 rows");
  static constexpr float slack = 8.0f;  // weights are at most 2^8: no format is left, and none loses bits

  float factor, shift = -3.402823466e38f;  // less than any product; finite, so that nothing is NaN where all is -inf
  float sum = 0.0f, scale = 1.0f;

  PK_FN explicit OnlineSoftmax(float factor_) : factor(factor_) {}

  // Moves the shift where a maximum is far above it; whether any has moved, and what is summed is to be multiplied by `scale`.
  PK_FN bool follow(const Tile<float, L>& x) {
    float most = x.v[0][0];
#pragma unroll
    for (int j = 1; j < count; ++j) most = detail::larger_of(most, x.v[0][j]);
    most = detail::larger_of(most, detail::from_lane_xor<32>(most)) * factor;
    const bool far = most > shift + slack;
    const float next = far ? most : shift;
    scale = __builtin_amdgcn_exp2f(shift - next);
    shift = next;
    return ballot(far) != 0;
  }

  PK_FN void exponents(Tile<float, L>& to, const Tile<float, L>& x) const {
    const detail::f32x2 by = {factor, factor}, less = {-shift, -shift};
#pragma unroll
    for (int j = 0; j < count; j += 2) {
      const detail::f32x2 e = __builtin_elementwise_fma(detail::f32x2{x.v[0][j], x.v[0][j + 1]}, by, less);
      to.v[0][j] = e[0];
      to.v[0][j + 1] = e[1];
    }
  }

  template <int Half> PK_FN void powers(Tile<float, L>& x) const {
#pragma unroll
    for (int j = Half * count / 2; j < (Half + 1) * count / 2; ++j) x.v[0][j] = __builtin_amdgcn_exp2f(x.v[0][j]);
  }

  PK_FN void add(const Tile<float, L>& x) {
    detail::f32x2 part[4] = {};
#pragma unroll
    for (int j = 0; j < count; j += 2) {
      const detail::f32x2 two = {x.v[0][j], x.v[0][j + 1]};
      part[j / 2 % 4] = j < 8 ? two : part[j / 2 % 4] + two;
    }
    const detail::f32x2 all = (part[0] + part[1]) + (part[2] + part[3]);
    sum += all[0] + all[1];
  }

  // The sum of each row, over the lanes that share it.
  PK_FN Tile<float, RowOf<L>> total() const { return {{{sum + detail::from_lane_xor<32>(sum)}}}; }
};

namespace detail {

// Weights in 16 bits, the last step's.
template <class T, class L> PK_FN void pack(Tile<T, L>& to, const Tile<float, L>& x) {
#pragma unroll
  for (int j = 0; j < L::col_slots; j += 2) {
#if !defined(__gfx950__)
    // Without an instruction for it: halves away from zero.  Weights are no less than 0; one that is NaN is in the sum, too.
    if constexpr (same<T, bf16>) {
      const uint32_t low = bitcast<uint32_t>(x.v[0][j]) + 0x8000u, high = bitcast<uint32_t>(x.v[0][j + 1]) + 0x8000u;
      const uint32_t two = __builtin_amdgcn_perm(high, low, 0x07060302u);
      __builtin_memcpy(&to.v[0][j], &two, sizeof two);
      continue;
    }
#endif
    to.v[0][j] = T(x.v[0][j]);
    to.v[0][j + 1] = T(x.v[0][j + 1]);
  }
}

// What is computed up to here is not left for later, behind a branch.
template <class T, class L> PK_FN void keep_here(Tile<T, L>& x) {
  constexpr int each = 4 / sizeof(T);  // elements of a register
#pragma unroll
  for (int j = 0; j < L::col_slots; j += each) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x.v[0][j], sizeof bits);
    asm volatile("" : "+v"(bits));
    __builtin_memcpy(&x.v[0][j], &bits, sizeof bits);
  }
}

}  // namespace detail

// The first step's weights, as far as they are made before the values.
template <class L> PK_FN void begin(OnlineSoftmax<L>& soft, Tile<float, L>& scores) {
  soft.follow(scores);
  soft.exponents(scores, scores);
  soft.template powers<0>(scores);
}

// What is left to do of a step's weights.
template <class T, class L> PK_FN void finish(OnlineSoftmax<L>& soft, Tile<T, L>& weights, Tile<float, L>& scores) {
  soft.template powers<1>(scores);
  soft.add(scores);
  detail::pack(weights, scores);
}

// scores = queries keys^T.
template <class T, class L, class LQ, class S>
PK_FN void score(Tile<float, L>& scores, const Tile<T, LQ>& queries, const StripPart<S>& keys) {
  using V = typename Fragment<T, 32>::type;
#pragma unroll
  for (int i = 0; i < S::tiles; ++i) {
    f32x16 d = {};
#pragma unroll
    for (int s = 0; s < S::steps; ++s) d = matrix_step(d, bitcast<V>(keys.v[i][s]), detail::depth_of(queries, s));
    __builtin_memcpy(&scores.v[0][i * 16], &d, sizeof d);
  }
}

// ahead = queries keys^T, and meanwhile the weights of the step before are finished.
template <class T, class L, class LQ, class S>
PK_FN void score_while_finishing(Tile<float, L>& ahead, const Tile<T, LQ>& queries, const StripPart<S>& keys,
                                 OnlineSoftmax<L>& soft, Tile<T, L>& weights, Tile<float, L>& scores) {
  constexpr int products = detail::products_in(S::tiles * S::steps), powers = L::col_slots / 2;
  __builtin_amdgcn_s_setprio(1);  // ahead of the other wave, which reads
  score(ahead, queries, keys);
  finish(soft, weights, scores);
  detail::weave<products, 4, larger(1, powers / products)>();
  asm volatile("" : "+v"(soft.sum));
#if !defined(__gfx950__)  // where packing is one instruction, that is where it is
  detail::keep_here(weights);
#endif
  __builtin_amdgcn_s_setprio(0);
}

// acc += weights values, and meanwhile the weights of the scores ahead are begun.
template <class T, class L, class LA, class S>
PK_FN void weigh_while_beginning(Tile<float, LA>& acc, const Tile<T, L>& weights, const StripPart<S>& values,
                                 OnlineSoftmax<L>& soft, Tile<float, L>& scores, const Tile<float, L>& ahead) {
  constexpr int products = detail::products_in(S::tiles * S::steps), powers = L::col_slots / 2;
  constexpr int first = larger(4, products / 4), rest = products - first;  // the first are for the maxima
  __builtin_amdgcn_s_setprio(1);
  const bool moved = soft.follow(ahead);
  soft.exponents(scores, ahead);
  soft.template powers<0>(scores);
  dot(acc, weights, values);
  detail::weave<first, 7, 0>();
  detail::weave<smaller(rest, powers), 2 * larger(1, powers / rest), (powers + rest - 1) / rest>();
  detail::keep_here(scores);
  __builtin_amdgcn_s_setprio(0);
  if (__builtin_expect(moved, 0)) {
    soft.sum *= soft.scale;
#pragma unroll
    for (float& each : acc.v[0]) each *= soft.scale;
  }
}

}  // namespace pk

#endif
