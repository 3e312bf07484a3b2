// Operands of matrix products in LDS, swizzled, and what a wave reads of them into registers.
#pragma once

#include "pk/buffer.h"
#include "pk/matrix.h"

#if defined(__GFX9__)

namespace pk {

// One step's slice of an operand of 8- or 16-bit elements, R x C as it lies in memory, in two halves along the free dim.
//
// Chunks of 16 bytes are permuted inside a line (XOR with bits of the line's number), so that neither copying nor reading
// meets a bank of LDS twice.  An upright slab has the depth along its lines.  Where memory has it the other way round, gfx950
// keeps that and transposes as it reads; the others transpose on the way to LDS.
// `Parts` waves share each half among them, `Threads` threads bring it.
template <class T, int R, int C, Depth D, int Parts, int Threads = 8 * wave> struct Slab {
  using Element = T;
  static constexpr int parts = Parts, threads = Threads;
  static constexpr bool straight = D == Depth::along_cols;
#if defined(__gfx950__)
  static constexpr bool upright = straight;
#else
  static constexpr bool upright = true;
#endif
  static constexpr int size = static_cast<int>(sizeof(T));
  static constexpr int free = straight ? R : C, depth = straight ? C : R;
  static constexpr int line = (upright ? depth : free / 2) * size;  // bytes
  static constexpr int half = free / 2 * depth * size;
  static_assert(upright ? line == 64 || line == 128 : size == 2 ? line == 128 || line == 256 : line == 64 || line == 128,
                "lines fill the banks");
  char data[2 * half] __attribute__((aligned(1024)));

  // Where byte `at` of line n is, in a half.
  PK_FN static int place(int n, int at) { return (n * line + at) ^ key(n); }

  PK_FN static int key(int n) {
    if constexpr (upright) return Swizzle<line>::key(n);
    else if constexpr (size == 1) return line == 128 ? ((n >> 1 & 3) | (n >> 4 & 1) << 2) << 4  // eight lines, 16 bytes of each
                                                     : ((n >> 2 & 1) | (n >> 4 & 1) << 1) << 4;
    else if constexpr (line == 256) return ((n & 3) | (n >> 3 & 1) << 2) << 5;  // four lines are read at once, 32 bytes of each
    else return ((n >> 1 & 1) | (n >> 3 & 1) << 1) << 5;
  }
};

// What a lane holds of one half: `Tiles` tiles of 16 by `Steps` steps of 64 bytes deep, 16 bytes of each.  `small` tells
// which lanes of the wave hold subnormal ones, where that matters (subnormal.h).
template <class T, int Tiles, int Steps> struct Part {
  using Element = T;
  i32x4 v[Tiles][Steps];
  uint64_t small = 0;
};

// How wave number `part` of those that share a half reads its part of it.
template <class S> struct Reader;

// A read of half H into fragments, piece by piece: for `multiply` to put between products.
template <class S, int H> struct Reading {
  static constexpr int pieces = Reader<S>::tiles * Reader<S>::steps;
  const Reader<S>& reader;
  typename Reader<S>::Fragments& to;
  LdsAddress slab;
  template <int N> PK_FN void piece() const { reader.template piece<H, N>(to, slab); }
};

template <class S> struct Reader {
  static constexpr int tiles = S::free / 2 / S::parts / 16, steps = S::depth * S::size / 64;
  using Fragments = Part<typename S::Element, tiles, steps>;
  static constexpr int starts = S::upright ? steps : tiles;  // the rest is in the instructions' offsets
  static constexpr int rows = 8 / S::size, deep = 64 / S::size;  // of one transposing read by 16 lanes, of a step

  LdsAddress slots;
  int own[starts];

  PK_FN Reader(const S* slots_, int part) : slots(lds_address(slots_)) {
    const int l = lane() % 16, group = lane() / 16;
#pragma unroll
    for (int n = 0; n < starts; ++n) {
      own[n] = S::upright ? S::place(part * tiles * 16 + l, n * 64 + group * 16)
                          : S::place(group * (deep / 4) + l * rows / 16, ((part * tiles + n) * 2 * S::size + l % (16 / rows)) * 8);
    }
  }

  // Starts reading this wave's part of half H of a slot; `arrived` says when it is there.
  template <int H> PK_FN void read(Fragments& to, int slot) const { all<H>(to, at(slot)); }

  // The same for later, in pieces.
  template <int H> PK_FN Reading<S, H> reading(Fragments& to, int slot) const { return {*this, to, at(slot)}; }

  // One read of a tile and step.
  template <int H, int N> PK_FN void piece(Fragments& to, LdsAddress slab) const {
    constexpr int inner = S::upright ? tiles : steps, n = N / inner, i = N % inner;
    if constexpr (S::upright) lds_read<H * S::half + i * 16 * S::line>(to.v[i][n], slab + own[n]);
    else lds_read_transposed<8 * S::size, H * S::half + i * deep * S::line, rows * S::line>(to.v[n][i], slab + own[n]);
  }

 private:
  PK_FN LdsAddress at(int slot) const { return slots + slot * static_cast<int>(sizeof(S)); }

  template <int H, int N = 0> PK_FN void all(Fragments& to, LdsAddress slab) const {
    if constexpr (N < tiles * steps) {
      piece<H, N>(to, slab);
      all<H, N + 1>(to, slab);
    }
  }
};

namespace detail {

template <class T, int Tiles, int Steps> PK_FN void release(Part<T, Tiles, Steps>& part) {
#pragma unroll
  for (auto& tile : part.v) {
#pragma unroll
    for (i32x4& x : tile) after_wait(x);
  }
  using V = typename Fragment<T>::type;
  if constexpr (flushes<V>) {
    Subnormals<V> seen;
#pragma unroll
    for (auto& tile : part.v) {
#pragma unroll
      for (i32x4& x : tile) seen.look(bitcast<V>(x));
    }
    part.small = seen.lanes();
  }
}

}  // namespace detail

// What this wave reads of LDS has arrived, and the fragments may be used.
template <class... Parts> PK_FN void arrived(Parts&... parts) {
  wait_for_lds();
  (detail::release(parts), ...);
}

}  // namespace pk

#endif
