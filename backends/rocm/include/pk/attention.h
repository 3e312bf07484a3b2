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

#include "pk/buffer.h"
#include "pk/matrix.h"
#include "pk/reduce.h"

#if defined(__GFX9__)

namespace pk {

// ---- keys and values in LDS -----------------------------------------------------------------------------------------

// One step's keys or values of 16 bits, as `R` rows of `C` features lie in memory.
//
// Upright strips have the depth along their lines: keys, and on devices that do not transpose as they read, values, of which
// each 16 keys are ordered as the lanes hold their weights.  Chunks of 16 bytes are permuted inside a line by an XOR with bits
// of its number, so that no access meets a bank of LDS twice.
template <class T, int R, int C, Depth D, int Threads> struct Strip {
  using Element = T;
  static_assert(sizeof(T) == 2, "elements of 16 bits");
  static constexpr bool straight = D == Depth::along_cols;
#if defined(__gfx950__)
  static constexpr bool upright = straight;
#else
  static constexpr bool upright = true;
#endif
  static constexpr int rows = R, cols = C, threads = Threads;
  static constexpr int free = straight ? R : C, depth = straight ? C : R;
  static constexpr int line = (upright ? depth : free) * 2;  // bytes
  static constexpr int tiles = free / 32, steps = depth / 16;
  char data[R * C * 2] __attribute__((aligned(1024)));

  PK_FN static int place(int n, int at) { return (n * line + at) ^ key(n); }

  PK_FN static int key(int n) {
    if constexpr (!upright) return line % 256 == 0 ? n % 4 << 6 : n / 2 % 2 << 6;  // four lines are read at once, 64 bytes of each
    else if constexpr (line % 256 == 0) return n % 16 << 4;
#if defined(__gfx950__)
    else return n / 2 % 8 << 4;  // two lines fill its 64 banks
#else
    else return (n % 8 ^ (straight ? 0 : n / 8 % 2 << 1)) << 4;
#endif
  }
};

// What a lane holds of a strip: tiles of 32 by steps of 16 deep, 8 elements of each.
template <class S> struct StripPart { i32x4 v[S::tiles][S::steps]; };

// Reads the two slots of a strip in turn.
template <class S> struct StripReader {
  using Part = StripPart<S>;
#if defined(__gfx950__)
  static constexpr int starts = S::upright ? S::steps : S::tiles;  // no address is computed while the other wave computes
#else
  static constexpr int starts = 1;
#endif
  LdsAddress own[starts];
  int other = sizeof(S);  // how far away the other slot is

  PK_FN explicit StripReader(const S* slots) {
    const int l = lane() % 32, half = lane() / 32;
#pragma unroll
    for (int n = 0; n < starts; ++n) {
      own[n] = lds_address(slots) + (S::upright ? S::place(l, n * 32 + half * 16)
                                                : S::place(half * 4 + l % 16 / 4, n * 64 + l / 16 * 32 + l % 4 * 8));
    }
  }

  // Starts reading the next slot; `arrived` says when it is there.
  PK_FN void read(Part& to) {
    all<0>(to);
#pragma unroll
    for (auto& x : own) {
      x += other;
      asm volatile("" : "+v"(x));  // at once: both slots' addresses would take twice the registers
    }
    other = -other;
  }

 private:
  template <int N> PK_FN void all(Part& to) const {
    if constexpr (N < S::tiles * S::steps) {
      constexpr int i = N % S::tiles, s = N / S::tiles;
      if constexpr (starts == 1) lds_read<i * 32 * S::line>(to.v[i][s], own[0] ^ s * 32);
      else if constexpr (S::upright) lds_read<i * 32 * S::line>(to.v[i][s], own[s]);
      else lds_read_transposed<s * 16 * S::line, 8 * S::line>(to.v[i][s], own[i]);
      all<N + 1>(to);
    }
  }
};

// What this wave reads of LDS has arrived, and `part` may be used.
template <class S> PK_FN void arrived(StripPart<S>& part) {
  wait_for_lds();
#pragma unroll
  for (auto& tile : part.v) {
#pragma unroll
    for (i32x4& x : tile) after_wait(x);
  }
}

// ---- from memory to LDS ---------------------------------------------------------------------------------------------

namespace detail {

// `rows` lines of memory from line `first` on, of which `end` exist: the others read as zero.
template <class T> PK_FN Buffer lines_from(const T* origin, int first, int end, int rows, int stride) {
  const int left = end - first, count = left < 0 ? 0 : left < rows ? left : rows;
  return {origin + int64_t(first) * (stride / 2), __builtin_amdgcn_readfirstlane(count * stride)};
}

}  // namespace detail

// Strips on their way to two slots in turn.  `end` keys exist, with `features` each; what lies outside is zero.
#if defined(__gfx950__)

// Copies that no register sees.  A lane's 16 bytes land where its number says, so it is the place they are fetched from that is
// swizzled.
template <class S> struct StripFeed {
  static constexpr int across = S::cols * 2 / 16;  // lanes along a line
  static constexpr int copies = S::rows * across / S::threads;
  const typename S::Element* origin;
  LdsAddress to;
  int other = sizeof(S);
  int stride, end, from;

  PK_FN StripFeed(const S* slots, const typename S::Element* origin_, int stride_, int end_, int features)
      : origin(origin_), to(lds_address(slots) + wave_number() * (wave * 16)), stride(stride_ * 2), end(end_) {
    const int n = thread() / across, at = thread() % across * 16 ^ S::key(n);
    from = at < features * 2 ? n * stride + at : Buffer::outside;
  }

  // Starts copying the strip from key `first` on; `wait_for_copies` says when it has landed.
  PK_FN void start(int first) {
    const Buffer source = detail::lines_from(origin, first, end, S::rows, stride);
#pragma unroll
    for (int u = 0; u < copies; ++u) source.to_lds(to + u * (S::threads * 16), from, u * (S::threads / across) * stride);
    to += other;
    other = -other;
  }
};

#else

// Through registers.  A lane holds 16 bytes of a line, or a patch of 4 lines that it transposes.
template <class S> struct StripFeed {
  static constexpr int share = S::rows * S::cols * 2 / S::threads;               // bytes of a thread
  static constexpr int wide = S::straight ? 16 : share / 4, deep = S::straight ? 1 : 4;
  static constexpr int across = S::straight ? S::cols / 8 : 16;                  // lanes of a wave along a line
  static constexpr int pieces = share / wide, beside = S::cols * 2 / (across * wide);
  static constexpr int apart = S::threads / (across * beside);                   // lines between two pieces
  static_assert(S::straight || wide == 4 || wide == 8, "a thread has one patch");
  using Piece = choose<wide == 16, i32x4, choose<wide == 8, i16x4, i16x2>>;

  const typename S::Element* origin;
  LdsAddress to;
  int other = sizeof(S);
  int stride, end, from;
  Piece held[pieces];

  PK_FN StripFeed(const S* slots, const typename S::Element* origin_, int stride_, int end_, int features)
      : origin(origin_), to(lds_address(slots)), stride(stride_ * 2), end(end_) {
    if constexpr (S::straight) {
      const int n = thread() / across, at = thread() % across * 16;
      from = at < features * 2 ? n * stride + at : Buffer::outside;
      to += S::place(n, at);
    } else {  // a wave takes 16 patches along the line and 4 down
      const int col = (wave_number() % beside * 16 + lane() / 4) * (wide / 2), row = wave_number() / beside * 16 + lane() % 4 * 4;
      from = col < features ? row * stride + col * 2 : Buffer::outside;
      to += S::place(col, (row / 16 * 16 + row / 4 % 2 * 8 + row / 8 % 2 * 4) * 2);  // as lanes hold weights of keys
    }
  }

  // Starts fetching the strip from key `first` on.
  PK_FN void fetch(int first) {
    const Buffer source = detail::lines_from(origin, first, end, S::rows, stride);
#pragma unroll
    for (int p = 0; p < pieces; ++p) held[p] = source.template read<Piece>(from, p * (S::straight ? apart : 1) * stride);
  }

  // Puts it into the next slot.
  PK_FN void put() {
    if constexpr (S::straight) {
#pragma unroll
      for (int p = 0; p < pieces; ++p) lds_write(to + p * apart * S::line, held[p]);
    } else {
#pragma unroll
      for (int e = 0; e < wide / 2; ++e) {
        lds_write((to ^ e << 4) + e * S::line, i16x4{held[0][e], held[1][e], held[2][e], held[3][e]});
      }
    }
    to += other;
    other = -other;
  }
};

#endif

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

// ---- masks ----------------------------------------------------------------------------------------------------------

// The local number of each column, computed where it is asked for and not kept in registers for tiles that need no mask.
template <class L> struct ColumnsHere { int own; };

template <class L> PK_FN ColumnsHere<L> col_index_here() { return {opaque(L::Col::own())}; }

namespace detail {

template <class L> PK_FN int pick(const ColumnsHere<L>& columns, int, int j) { return columns.own + L::Col::fixed(j); }

template <class T> PK_FN void go_on(T&) {}
template <class L> PK_FN void go_on(ColumnsHere<L>& columns) { columns.own = opaque(columns.own); }

}  // namespace detail

// map of f for scores, four columns after the other: in the middle of a walk there are registers for no more at once.
template <class L, class F, class... Tiles> PK_FN Tile<float, L> map_by_fours(const F& f, Tiles... tiles) {
  Tile<float, L> out;
#pragma unroll
  for (int j = 0; j < L::col_slots; j += 4) {
#pragma unroll
    for (int e = j; e < j + 4; ++e) out.v[0][e] = f(detail::pick<L>(tiles, 0, e)...);
#pragma unroll
    for (int e = j; e < j + 4; ++e) asm volatile("" : "+v"(out.v[0][e]));
    (detail::go_on(tiles), ...);
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

// Step s of a tile in registers.
template <class T, class L> PK_FN auto depth_of(const Tile<T, L>& tile, int s) {
  typename Fragment<T, 32>::type out;
  __builtin_memcpy(&out, &tile.v[0][s * 8], sizeof out);
  return out;
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

// acc += weights values.
template <class T, class L, class LW, class S>
PK_FN void weigh(Tile<float, L>& acc, const Tile<T, LW>& weights, const StripPart<S>& values) {
  using V = typename Fragment<T, 32>::type;
#pragma unroll
  for (int s = 0; s < S::steps; ++s) {
#pragma unroll
    for (int i = 0; i < S::tiles; ++i) {
      f32x16 d;
      __builtin_memcpy(&d, &acc.v[0][i * 16], sizeof d);
      d = matrix_step(d, bitcast<V>(values.v[i][s]), detail::depth_of(weights, s));
      __builtin_memcpy(&acc.v[0][i * 16], &d, sizeof d);
    }
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
  weigh(acc, weights, values);
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
