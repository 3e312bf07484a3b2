// Layouts: which thread holds which elements of a tile.
//
// Rows and columns are spread independently, so a thread holds a small grid of slots: the element in slot (i, j) is in
// row Row::index(i) and column Col::index(j).  Thread numbers are cut into bit fields; the bits that neither rows nor
// columns use hold copies.
#pragma once

#include "pk/narrow.h"

namespace pk {

// An index range of N over the slots of a thread and over threads, from the fastest part to the slowest:
//   Vector consecutive slots, Lanes threads that are LaneStride apart, Repeat slots, Waves threads WaveStride apart, and
//   slots again until N is covered.
template <int N, int Vector, int Lanes, int LaneStride, int Repeat = 1, int Waves = 1, int WaveStride = 1> struct Spread {
  static constexpr int size = N;
  static constexpr int vector = Vector;
  static constexpr int lanes = Lanes;
  static constexpr int lane_stride = LaneStride;
  static constexpr int waves = Waves;
  static constexpr int slots = N / (Lanes * Waves);
  static constexpr int threads_mask = (Lanes - 1) * LaneStride | (Waves - 1) * WaveStride;
  static_assert(N % (Vector * Lanes * Repeat * Waves) == 0, "the range is covered evenly");

  // The part of the index that depends on the slot: known when the kernel is compiled.
  static constexpr int fixed(int slot) {
    const int outer = slot / (Vector * Repeat), repeat = slot / Vector % Repeat;
    return ((outer * Waves * Repeat) + repeat) * Lanes * Vector + slot % Vector;
  }

  // The part that depends on the thread.
  PK_FN static int own() {
    const int lane = thread() / LaneStride % Lanes, w = thread() / WaveStride % Waves;
    return (w * Repeat * Lanes + lane) * Vector;
  }

  // The part that depends on the wave alone: where the wave's first tile of Repeat * Lanes * Vector begins.
  PK_FN static int wave_own() { return thread() / WaveStride % Waves * (Repeat * Lanes * Vector); }

  PK_FN static int index(int slot) { return own() + fixed(slot); }
};

// The single row (or column) of a vector.
using One = Spread<1, 1, 1, 1>;

template <class RowSpread, class ColSpread, int Threads> struct Layout {
  using Row = RowSpread;
  using Col = ColSpread;
  static constexpr int rows = Row::size, cols = Col::size, threads = Threads;
  static constexpr int row_slots = Row::slots, col_slots = Col::slots;
  static constexpr bool vector = same<Row, One> || same<Col, One>;
  static constexpr int copies_mask = (Threads - 1) & ~(Row::threads_mask | Col::threads_mask);
  static_assert((Threads & (Threads - 1)) == 0, "thread numbers are cut into bit fields");
  static_assert((Row::threads_mask & Col::threads_mask) == 0, "rows and columns use different thread bits");

  // Whether this thread is the one that stores its elements: of equal copies only one does.
  PK_FN static bool owner() { return copies_mask == 0 || (thread() & copies_mask) == 0; }
};

// ---- rows: for loads and stores of whole rows ---------------------------------------------------------------------

template <int R, int C, int Threads, int Widest> struct RowsShape {
  // 16-byte accesses for 16-bit elements, narrower where the tile would otherwise leave threads idle.
  static constexpr int vector = power_in(C, larger(1, smaller(Widest, R * C / Threads)));
  // A row stays within a wave unless there are fewer rows than waves.
  static constexpr int waves = larger(1, Threads / wave);
  static constexpr int across = R >= waves ? smaller(wave, Threads) : Threads / power_in(R, Threads);
  static constexpr int col_lanes = power_in(C / vector, across);
  static constexpr int row_lanes = power_in(R, Threads / col_lanes);
  using Row = Spread<R, 1, row_lanes, row_lanes == 1 ? 1 : col_lanes>;
  using Col = Spread<C, vector, col_lanes, 1>;
};

// R x C over Threads, the columns contiguous over neighbouring lanes.
template <int R, int C, int Threads, int Widest = 8>
using Rows = Layout<typename RowsShape<R, C, Threads, Widest>::Row, typename RowsShape<R, C, Threads, Widest>::Col, Threads>;

// ---- the accumulator of a matrix product --------------------------------------------------------------------------
//
// The product is computed as its transpose (c^T = b^T a^T), so that a lane holds consecutive columns of one row: stores
// and masks work on short vectors, a row's statistics stay in a few lanes, and a tile that was just accumulated is at once
// the left operand of the next product (attention).

// What one lane hands to one matrix_step: of tiles of Edge x Edge, k deep, over `lanes` groups of lanes.
template <class Element, int Edge = 16> struct Fragment;

#if defined(__GFX9__)
template <> struct Fragment<float> { using type = f32x4; static constexpr int edge = 16, k = 16, lanes = 4; };  // four steps
template <> struct Fragment<double> { using type = f64x4; static constexpr int edge = 16, k = 16, lanes = 4; };
template <> struct Fragment<f16> { using type = f16x8; static constexpr int edge = 16, k = 32, lanes = 4; };
template <> struct Fragment<bf16> { using type = bf16x8; static constexpr int edge = 16, k = 32, lanes = 4; };
template <> struct Fragment<f16, 32> { using type = f16x8; static constexpr int edge = 32, k = 16, lanes = 2; };
template <> struct Fragment<bf16, 32> { using type = bf16x8; static constexpr int edge = 32, k = 16, lanes = 2; };
template <> struct Fragment<xf32> { using type = Packed<xf32, f32x4>; static constexpr int edge = 16, k = 16, lanes = 4; };
template <class Byte> struct Fragment<Byte, 16> { using type = Packed<Byte, Bytes>; static constexpr int edge = 16, k = 64, lanes = 4; };
template <class Byte> struct Fragment<Twice<Byte>, 16> {
  using type = Packed<Byte, i32x8>;
  static constexpr int edge = 16, k = 128, lanes = 4;
};
template <int N, int Waves, class Element>  // rows of doubles are 4 apart
using MatrixCols = choose<same<Element, double>, Spread<N, 1, 4, 16, 4, Waves, wave>, Spread<N, 4, 4, 16, 1, Waves, wave>>;
#elif defined(__GFX12__)
template <> struct Fragment<f16> { using type = f16x8; static constexpr int edge = 16, k = 16, lanes = 2; };
template <> struct Fragment<bf16> { using type = bf16x8; static constexpr int edge = 16, k = 16, lanes = 2; };
template <class Byte> struct Fragment<Byte, 16> { using type = Packed<Byte, Bytes>; static constexpr int edge = 16, k = 16, lanes = 2; };
template <int N, int Waves, class> using MatrixCols = Spread<N, 8, 2, 16, 1, Waves, wave>;
#else
template <> struct Fragment<f16> { using type = f16x16; static constexpr int edge = 16, k = 16, lanes = 1; };
template <> struct Fragment<bf16> { using type = bf16x16; static constexpr int edge = 16, k = 16, lanes = 1; };
template <class Byte> struct Fragment<Byte, 16> { using type = Packed<Byte, Bytes>; static constexpr int edge = 16, k = 16, lanes = 1; };
template <int N, int Waves, class> using MatrixCols = Spread<N, 1, 2, 16, 8, Waves, wave>;
#endif

#if defined(__GFX9__)
template <class Element> constexpr bool has_matrix = true;
#else
template <class Element> constexpr bool has_matrix = sizeof(Element) <= 2;  // RDNA has no matrix instruction for f32 and f64
#endif

// Waves side by side along the columns: none while there are 16 rows for each wave.
constexpr int column_waves(int rows, int waves) { return larger(1, waves / power_in(rows / 16, waves)); }

template <int R, int C, int Waves, class Element, int WavesN> struct AccumulatorShape {
  static constexpr int waves_m = Waves / WavesN;
  // Without a matrix instruction a wave is a grid of 8 x 4 threads with four columns each.
  using Row = choose<has_matrix<Element>, Spread<R, 1, 16, 1, 1, waves_m, wave * WavesN>,
                     Spread<R, 1, 8, 1, 1, waves_m, wave * WavesN>>;
  using Col = choose<has_matrix<Element>, MatrixCols<C, WavesN, Element>, Spread<C, 4, 4, 8, 1, WavesN, wave>>;
};

// R x C accumulated by Waves waves from operands of type Element.
template <int R, int C, int Waves, class Element, int WavesN = column_waves(R, Waves)>
using Accumulator = Layout<typename AccumulatorShape<R, C, Waves, Element, WavesN>::Row,
                           typename AccumulatorShape<R, C, Waves, Element, WavesN>::Col, Waves * wave>;

// The left operand of a product with that accumulator, as fragments in registers: loaded once, used by many steps.
template <int R, int K, int Waves, class Element, class Step = Fragment<Element>>
using LeftOperand = Layout<Spread<R, 1, Step::edge, 1, 1, Waves, wave>,
                           Spread<K, Step::k / Step::lanes, Step::lanes, Step::lanes == 1 ? 1 : Step::edge>, Waves * wave>;

#if defined(__GFX9__)
// Both by tiles of 32 x 32: a lane holds one row of 32, so that a row's statistics take one exchange between lanes.
template <int R, int C, int Waves, class Element>
using Accumulator32 = Layout<Spread<R, 1, 32, 1, 1, Waves, wave>, Spread<C, 4, 2, 32>, Waves * wave>;
template <int R, int K, int Waves, class Element> using LeftOperand32 = LeftOperand<R, K, Waves, Element, Fragment<Element, 32>>;
#endif

// The tiles of an accumulator's layout.
template <class L> constexpr int edge_of = wave == 64 && L::Row::lanes == 32 ? 32 : 16;

// ---- vectors ------------------------------------------------------------------------------------------------------

template <class L> using RowOf = Layout<typename L::Row, One, L::threads>;  // a value for each row
template <class L> using ColOf = Layout<One, typename L::Col, L::threads>;  // a value for each column

}  // namespace pk
