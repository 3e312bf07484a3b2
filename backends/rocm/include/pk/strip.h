// Operands of 16 bits that a walk goes along, in LDS as strips, and what a wave reads of them into registers.
#pragma once

#include "pk/buffer.h"
#include "pk/matrix.h"

#if defined(__GFX9__)

namespace pk {

// ---- in LDS ---------------------------------------------------------------------------------------------------------

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

  // The same `e` lines below, a power of two or less than one that divides the line's number.
  PK_FN static int below(int place, int e) {
    if constexpr (line < 128) return place ^ e << 4 ^ e * line;  // where the key says in which of two lines, too
    else return (place ^ e << 4) + e * line;
  }

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

// How far it is to the next of `Slots` slots, which are taken in turn.
template <class S, int Slots> struct SlotStep {
  static constexpr int size = static_cast<int>(sizeof(S));
  int step = size, at = 0;

  PK_FN int next() {
    const int found = step;
    if constexpr (Slots == 2) {
      step = -step;
    } else {
      at = at == Slots - 1 ? 0 : at + 1;
      step = at == Slots - 1 ? -(Slots - 1) * size : size;
    }
    return found;
  }
};

// The numbers of a thread and of its lane.
struct Own {
  PK_FN int thread() const { return pk::thread(); }
  PK_FN int lane() const { return pk::lane(); }
};

// The same, of which the compiler does not know that they are: what follows from them is computed anew, and is in no registers
// before that.
struct Anew {
  int own = opaque(pk::thread());
  PK_FN int thread() const { return own; }
  PK_FN int lane() const { return own & (wave - 1); }
};

// Reads the slots of a strip in turn.
template <class S, int Slots> struct StripReader {
  using Part = StripPart<S>;
#if defined(__gfx950__)
  static constexpr int starts = S::upright ? S::steps : S::tiles;  // no address is computed while the other wave computes
#else
  static constexpr int starts = 1;
#endif
  LdsAddress own[starts];
  SlotStep<S, Slots> slot;

  template <class Who = Own> PK_FN explicit StripReader(const S (&slots)[Slots], Who who = {}) {
    const int l = who.lane() % 32, half = who.lane() / 32;
#pragma unroll
    for (int n = 0; n < starts; ++n) {
      own[n] = lds_address(slots) + (S::upright ? S::place(l, n * 32 + half * 16)
                                                : S::place(half * 4 + l % 16 / 4, n * 64 + l / 16 * 32 + l % 4 * 8));
    }
  }

  // Starts reading the next slot; `arrived` says when it is there.
  PK_FN void read(Part& to) {
    all<0>(to);
    const int step = slot.next();
#pragma unroll
    for (auto& x : own) {
      x += step;
      asm volatile("" : "+v"(x));  // at once: all slots' addresses would take as many registers
    }
  }

  // The same as the compiler sees it: it waits where what is read is used, which copies straight to LDS would make much too early.
  PK_FN void load(Part& to) {
    seen<0>(to);
    const int step = slot.next();
#pragma unroll
    for (auto& x : own) x = static_cast<LdsAddress>(opaque(static_cast<int>(x + step)));
  }

 private:
  template <int N> PK_FN void seen(Part& to) const {
    if constexpr (N < S::tiles * S::steps) {
      constexpr int i = N % S::tiles, s = N / S::tiles;
      if constexpr (starts == 1) to.v[i][s] = lds_load<i * 32 * S::line>(own[0] ^ s * 32);
      else if constexpr (S::upright) to.v[i][s] = lds_load<i * 32 * S::line>(own[s]);
      else to.v[i][s] = lds_load_transposed<s * 16 * S::line, 8 * S::line>(own[i]);
      seen<N + 1>(to);
    }
  }

  template <int N> PK_FN void all(Part& to) const {
    if constexpr (N < S::tiles * S::steps) {
      constexpr int i = N % S::tiles, s = N / S::tiles;
      if constexpr (starts == 1) lds_read<i * 32 * S::line>(to.v[i][s], own[0] ^ s * 32);
      else if constexpr (S::upright) lds_read<i * 32 * S::line>(to.v[i][s], own[s]);
      else lds_read_transposed<16, s * 16 * S::line, 8 * S::line>(to.v[i][s], own[i]);
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

// The same, behind the products that were written before: they run while it is read.
template <class S> PK_FN void arrived_meanwhile(StripPart<S>& part) {
  __builtin_amdgcn_sched_barrier(0);
  arrived(part);
}

// ---- from memory to LDS ---------------------------------------------------------------------------------------------

namespace detail {

// `rows` lines of memory from line `first` on, of which `end` exist: the others read as zero.
template <class T> PK_FN Buffer lines_from(const T* origin, int first, int end, int rows, int stride) {
  const int left = end - first, count = left < 0 ? 0 : left < rows ? left : rows;
  return {origin + int64_t(first) * (stride / 2), __builtin_amdgcn_readfirstlane(count * stride)};
}

}  // namespace detail

// Strips on their way to the slots in turn.  `end` keys exist, with `features` each; what lies outside is zero.
#if defined(__gfx950__)

// Copies that no register sees.  A lane's 16 bytes land where its number says, so it is the place they are fetched from that is
// swizzled.
template <class S, int Slots> struct StripFeed {
  static constexpr int across = S::cols * 2 / 16;  // lanes along a line
  static constexpr int copies = S::rows * across / S::threads;
  const typename S::Element* origin;
  LdsAddress to;
  SlotStep<S, Slots> slot;
  int stride, end, from;

  template <class Who = Own>
  PK_FN StripFeed(const S (&slots)[Slots], const typename S::Element* origin_, int stride_, int end_, int features, Who who = {})
      : origin(origin_), to(lds_address(slots) + wave_number() * (wave * 16)), stride(stride_ * 2), end(end_) {
    const int n = who.thread() / across, at = who.thread() % across * 16 ^ S::key(n);
    from = at < features * 2 ? n * stride + at : Buffer::outside;
  }

  // Starts copying the strip from key `first` on; `wait_for_copies` says when it has landed.
  PK_FN void start(int first) {
    const Buffer source = detail::lines_from(origin, first, end, S::rows, stride);
#pragma unroll
    for (int u = 0; u < copies; ++u) source.to_lds(to + u * (S::threads * 16), from, u * (S::threads / across) * stride);
    to += slot.next();
  }
};

#endif

// Through registers.  A lane holds 16 bytes of a line, or a patch of 4 lines that it transposes.
template <class S, int Slots> struct HeldStripFeed {
  static constexpr bool plain = S::straight || !S::upright;  // lines as they lie in memory
  static constexpr int share = S::rows * S::cols * 2 / S::threads;               // bytes of a thread
  static constexpr int wide = plain ? 16 : share / 4, deep = plain ? 1 : 4;
  static constexpr int across = plain ? S::cols / 8 : 16;                  // lanes of a wave along a line
  static constexpr int pieces = share / wide, beside = S::cols * 2 / (across * wide);
  static constexpr int apart = S::threads / (across * beside);                   // lines between two pieces
  static_assert(plain || wide == 4 || wide == 8, "a thread has one patch");
  using Piece = choose<wide == 16, i32x4, choose<wide == 8, i16x4, i16x2>>;

  const typename S::Element* origin;
  LdsAddress to;
  SlotStep<S, Slots> slot;
  int stride, end, from;
  Piece held[pieces];

  template <class Who = Own>
  PK_FN HeldStripFeed(const S (&slots)[Slots], const typename S::Element* origin_, int stride_, int end_, int features, Who who = {})
      : origin(origin_), to(lds_address(slots)), stride(stride_ * 2), end(end_) {
    if constexpr (plain) {
      const int n = who.thread() / across, at = who.thread() % across * 16;
      from = at < features * 2 ? n * stride + at : Buffer::outside;
      to += S::place(n, at);
    } else {  // a wave takes 16 patches along the line and 4 down
      const int col = (wave_number() % beside * 16 + who.lane() / 4) * (wide / 2);
      const int row = wave_number() / beside * 16 + who.lane() % 4 * 4;
      from = col < features ? row * stride + col * 2 : Buffer::outside;
      to += S::place(col, (row / 16 * 16 + row / 4 % 2 * 8 + row / 8 % 2 * 4) * 2);  // as lanes hold weights of keys
    }
  }

  // Starts fetching the strip from key `first` on.
  PK_FN void fetch(int first) {
    const Buffer source = detail::lines_from(origin, first, end, S::rows, stride);
#pragma unroll
    for (int p = 0; p < pieces; ++p) held[p] = source.template read<Piece>(from, p * (plain ? apart : 1) * stride);
  }

  // Puts it into the next slot.
  PK_FN void put() {
    if constexpr (plain) {
#pragma unroll
      for (int p = 0; p < pieces; ++p) lds_write(to + p * apart * S::line, held[p]);
    } else {
#pragma unroll
      for (int e = 0; e < wide / 2; ++e) {
        lds_write(S::below(to, e), i16x4{held[0][e], held[1][e], held[2][e], held[3][e]});
      }
    }
    to += slot.next();
  }
};

// ---- vectors ----------------------------------------------------------------------------------------------------------

// A value for each column, of which `left` exist from `origin` on: the others are 0, without a branch.
template <class L> PK_FN Tile<float, L> load_within(const float* origin, int left) {
  static_assert(same<typename L::Row, One> && L::Col::vector == 4, "columns by fours");
  const Buffer source(origin, left * 4);
  Tile<float, L> out;
#pragma unroll
  for (int j = 0; j < L::col_slots; j += 4) {
    const auto four = source.template read<i32x4>(L::Col::own() * 4, L::Col::fixed(j) * 4);
    __builtin_memcpy(&out.v[0][j], &four, sizeof four);
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

// map of f, four columns after the other: in the middle of a walk there are registers for no more at once.
template <class L, class F, class... Tiles> PK_FN auto map_by_fours(const F& f, Tiles... tiles) {
  using T = decltype(f(detail::pick<L>(tiles, 0, 0)...));
  static_assert(L::row_slots == 1 && L::Col::vector == 4, "a wave holds 32 rows");
  Tile<T, L> out;
#pragma unroll
  for (int j = 0; j < L::col_slots; j += 4) {
#pragma unroll
    for (int e = j; e < j + 4; ++e) out.v[0][e] = f(detail::pick<L>(tiles, 0, e)...);
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int e = j; e < j + 4; ++e) asm volatile("" : "+v"(out.v[0][e]));
    }
    (detail::go_on(tiles), ...);
  }
  return out;
}

// ---- products -------------------------------------------------------------------------------------------------------

namespace detail {

// Step s of a tile in registers.
template <class T, class L> PK_FN auto depth_of(const Tile<T, L>& tile, int s) {
  typename Fragment<T, 32>::type out;
  __builtin_memcpy(&out, &tile.v[0][s * 8], sizeof out);
  return out;
}

}  // namespace detail

// acc += a b, with rows of a in registers: columns as the lanes hold them, where b is summed across its lines.
template <class T, class L, class LA, class S>
PK_FN void dot(Tile<float, L>& acc, const Tile<T, LA>& a, const StripPart<S>& b) {
  static_assert(L::row_slots == 1 && L::Row::lanes == 32 && LA::col_slots == S::steps * 8, "a wave holds 32 rows");
  using V = typename Fragment<T, 32>::type;
#pragma unroll
  for (int s = 0; s < S::steps; ++s) {
#pragma unroll
    for (int i = 0; i < S::tiles; ++i) {
      f32x16 d;
      __builtin_memcpy(&d, &acc.v[0][i * 16], sizeof d);
      d = matrix_step(d, bitcast<V>(b.v[i][s]), detail::depth_of(a, s));
      __builtin_memcpy(&acc.v[0][i * 16], &d, sizeof d);
    }
  }
}

}  // namespace pk

#endif
