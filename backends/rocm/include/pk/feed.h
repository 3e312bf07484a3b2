// Operands on their way from memory to the slots of a slab: straight to LDS on gfx950, through registers on the others.
//
// The origin is the tile's first element at depth 0.  What lies outside the array, and all beyond its depth, is zero.
#pragma once

#include "pk/slab.h"

#if defined(__GFX9__)

namespace pk {

#if defined(__gfx950__)

// Copies to LDS that no register sees.  A lane's 16 bytes land where its number says, so it is the place they are fetched
// from that is swizzled.
template <class S> struct Feed {
  using T = typename S::Element;
  static constexpr int wide = 16, lanes = S::line / wide;  // bytes a lane copies at once; lanes along a line
  static constexpr int rounds = S::half / (S::threads * wide);

  Buffer array;
  LdsAddress slots;
  int stride, depth;  // bytes between lines; how deep the operand is
  int from[2];        // where the lane fetches, for each half
  int deep;           // how deep that is in a slice

  PK_FN Feed(const S* slots_, const T* origin, int stride_, int free_left, int depth_)
      : slots(lds_address(slots_)), stride(stride_ * S::size), depth(depth_) {
    array = Buffer(origin, (S::straight ? smaller(free_left, S::free) : depth) * stride);
    const int n = thread() / lanes, at = thread() % lanes * wide ^ S::key(n);
    deep = S::straight ? at / S::size : 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const bool there = S::straight || h * S::line + at < free_left * S::size;
      from[h] = there ? n * stride + at : Buffer::outside;
    }
  }

  // Half H of slice `k`, copied piece by piece.
  template <int H> struct Starting {
    static constexpr int pieces = rounds;
    Buffer source;
    LdsAddress to;
    int offset, base, stride;
    template <int N> PK_FN void piece() const {
      source.to_lds(to + N * S::threads * wide, offset, base + N * (S::threads / lanes) * stride);
    }
  };

  template <int H> PK_FN Starting<H> starting(int k) const {
    const int first = k * S::depth;
    const int base = S::straight ? H * (S::free / 2) * stride + first * S::size : first * stride + H * S::line;
    const LdsAddress to = slots + k % 2 * static_cast<int>(sizeof(S)) + H * S::half + wave_number() * (wave * wide);
    int offset = from[H];
    if (S::straight && depth % S::depth != 0) offset = first + deep < depth ? offset : Buffer::outside;
    return {S::straight && first >= depth ? Buffer(array.start, 0) : array, to, offset, base, stride};
  }

  // Starts copying half H of slice `k`; `wait_for_copies` says when it has landed.
  template <int H> PK_FN void start(int k) const { all(starting<H>(k)); }

 private:
  template <int N = 0, class Half> PK_FN static void all(const Half& half) {
    if constexpr (N < rounds) {
      half.template piece<N>();
      all<N + 1>(half);
    }
  }
};

#else

// Through registers.  Two slices are fetched at once, so that whole lines of the cache are used, and put into the two slots
// one after the other.  A lane holds 8 elements along the depth, or a patch of 4 x 4 that it transposes.
template <class S> struct HeldFeed {
  using T = typename S::Element;
  static_assert(S::upright && S::line == 64, "slices are 32 deep");
  static constexpr int rounds = S::half * 2 / (S::threads * (S::straight ? 16 : 32));
  static constexpr int pieces = S::straight ? rounds : 4 * rounds, places = S::straight ? rounds : 4 * rounds;
  static_assert(rounds > 0, "every lane has something to hold");
  using Piece = choose<S::straight, i32x4, i16x4>;

  Buffer array;
  LdsAddress slots;
  int stride, depth;  // bytes between lines of memory; how deep the operand is
  int from, deep;     // where the lane fetches, and how deep that is in a slice
  int to[places];     // where it puts that
  Piece held[2][pieces];

  PK_FN HeldFeed(const S* slots_, const T* origin, int stride_, int free_left, int depth_)
      : slots(lds_address(slots_)), stride(stride_ * S::size), depth(depth_) {
    array = Buffer(origin, (S::straight ? smaller(free_left, S::free) : depth) * stride);
    if constexpr (S::straight) {
      const int row = thread() / 4, at = thread() % 4 * 16;
      deep = at / S::size;
      from = row * stride + at;
#pragma unroll
      for (int u = 0; u < rounds; ++u) to[u] = slab_place(row + u * (S::threads / 4), at);
    } else {
      // A wave takes 64 along the free dim and 16 deep: whole lines of memory, and no bank of LDS twice.
      constexpr int waves_free = S::free / 64;
      const int col = wave_number() % waves_free * 64 + lane() / 4 * 4;
      const int row = wave_number() / waves_free * 16 + lane() % 4 * 4;
      deep = 0;
      from = col < free_left ? row * stride + col * S::size : Buffer::outside;
#pragma unroll
      for (int p = 0; p < places; ++p) to[p] = slab_place(col + p % 4, (row + p / 4 * round_depth) * S::size);
    }
  }

  // Starts fetching slices 2 k and 2 k + 1.
  PK_FN void fetch(int k) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const int first = (2 * k + s) * S::depth;
      const Buffer source = S::straight && first >= depth ? Buffer(array.start, 0) : array;
      int offset = from;
      if (S::straight && depth % S::depth != 0) offset = first + deep < depth ? offset : Buffer::outside;
#pragma unroll
      for (int p = 0; p < pieces; ++p) {
        const int lines = S::straight ? p * (S::threads / 4) : first + p / 4 * round_depth + p % 4;
        held[s][p] = source.template read<Piece>(offset, lines * stride + (S::straight ? first * S::size : 0));
      }
    }
  }

  // Puts the slice that was fetched as number `slot` of two into that slot.
  PK_FN void put(int slot) const {
    const LdsAddress slab = slots + slot * static_cast<int>(sizeof(S));
#pragma unroll
    for (int p = 0; p < places; ++p) {
      if constexpr (S::straight) {
        lds_write(slab + to[p], held[slot][p]);
      } else {
        const Piece(&patch)[4] = reinterpret_cast<const Piece(&)[4]>(held[slot][p / 4 * 4]);
        lds_write(slab + to[p], Piece{patch[0][p % 4], patch[1][p % 4], patch[2][p % 4], patch[3][p % 4]});
      }
    }
  }

 private:
  static constexpr int round_depth = S::threads / wave * 16 * 64 / S::free;  // of the patches of one round

  PK_FN static int slab_place(int n, int at) { return n / (S::free / 2) * S::half + S::place(n % (S::free / 2), at); }
};

#endif

}  // namespace pk

#endif
