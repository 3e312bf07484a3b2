// Layouts: which thread of the block holds which element of a tile.
//
// Every layout here is separable: a thread holds the elements at row(thread, i), col(thread, j) for all of its row
// slots i and column slots j; element (i, j) is register i * col_slots + j. Of the bits of the thread index, those in
// `col_bits` tell threads of one row apart and those in `row_bits` threads of one column, so a reduction is a butterfly
// over these bits. Threads that differ in other bits only hold copies; the one where they are zero `owns` the element.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"

namespace pk {

/// R x C values with columns contiguous over neighbouring lanes. A thread holds `Vector` neighbours of a row at a time
/// (fewer where the tile is small), and a row stays inside a warp unless there are too few rows for all warps.
template <int R, int C, int Threads, int Vector = 8> struct Rows {
    static_assert(is_power_of_two(Threads) && Threads >= kWarp, "warps come in powers of two");

    static PK_CONSTEXPR int widest() {
        int v = min_of(Vector, power_of_two_in(C));
        while (v > 1 && R * (C / v) < Threads) v /= 2;
        return v;
    }
    static constexpr int rows = R, cols = C, threads = Threads;
    static constexpr int vector = widest();
    static constexpr int vectors = C / vector;  // of a row
    static constexpr int row_threads = min_of(power_of_two_from(vectors), max_of(Threads / power_of_two_from(R), kWarp));
    static constexpr int rows_at_once = min_of(Threads / row_threads, power_of_two_from(R));
    static constexpr int row_slots = ceil_div(R, rows_at_once);
    static constexpr int col_slots = ceil_div(vectors, row_threads) * vector;
    static constexpr int slots = row_slots * col_slots;
    static constexpr int col_bits = row_threads - 1;
    static constexpr int row_bits = (rows_at_once - 1) * row_threads;
    static constexpr bool full_rows = R % rows_at_once == 0;  // no slot lies outside the tile
    static constexpr bool full_cols = vectors % row_threads == 0;

    static PK_CONSTEXPR int row(int thread, int i) { return i * rows_at_once + (thread / row_threads) % rows_at_once; }
    static PK_CONSTEXPR int col(int thread, int j) {
        return (j / vector * row_threads + thread % row_threads) * vector + j % vector;
    }
};

/// The way a matrix accumulator of R x C is cut into warps: as square as can be, at least `RowUnit` x `ColUnit` a warp.
template <int R, int C, int Warps, int RowUnit, int ColUnit> struct WarpGrid {
    static PK_CONSTEXPR int choose() {
        int best = 1, cost = 1 << 30;
        for (int down = 1; down <= Warps; down *= 2) {
            if (R % (down * RowUnit)) break;
            int across = Warps / down;
            while (across > 1 && C % (across * ColUnit)) across /= 2;
            // Operand traffic of a warp, times the copies where warps are left over.
            const int c = (R / down + C / across) * (Warps / (down * across));
            if (c <= cost) best = down, cost = c;
        }
        return best;
    }
};

template <class E> constexpr bool on_matrix_unit = multiplied_whole<E> || same<E, tf32> || same<E, bf16x6>;

/// The accumulator of a matrix product of operands `E`: fragments of mma.sync (16 x 8, see pk/ptx.cuh) for bf16, f16,
/// 8-bit numbers, tf32 and bf16x6. For float and double multiplied one by one, warps of 4 x 8 lanes that each hold
/// small blocks of neighbours. `Down` warps lie below each other (0: chosen), the others side by side.
template <int R, int C, int Warps, class E, int Down = 0> struct Accumulator {
    static_assert(is_power_of_two(Warps), "warps come in powers of two");
    static constexpr bool fragments = on_matrix_unit<E>;
    static constexpr int row_unit = fragments ? 16 : 4, col_unit = 8;
    static_assert(R % row_unit == 0 && C % col_unit == 0, "the tile is no multiple of the fragment");

    static PK_CONSTEXPR int across() {
        int n = Warps / down;
        while (n > 1 && C % (n * col_unit)) n /= 2;
        return n;
    }
    using Operand = E;
    static constexpr int rows = R, cols = C, threads = Warps * kWarp;
    static constexpr int down = Down ? Down : WarpGrid<R, C, Warps, row_unit, col_unit>::choose();
    static constexpr int side = across();
    static constexpr int warp_rows = R / down, warp_cols = C / side;
    static_assert(R % (down * row_unit) == 0, "too many warps below each other");

    // Neighbours a lane holds in each direction.
    static constexpr int row_block = fragments ? 1 : min_of(4, power_of_two_in(warp_rows / 4));
    static constexpr int col_block = fragments ? 2 : min_of(4, power_of_two_in(warp_cols / 8));
    static constexpr int lanes_down = fragments ? 8 : 4, lanes_side = kWarp / lanes_down;

    static constexpr int row_slots = warp_rows / lanes_down, col_slots = warp_cols / lanes_side;
    static constexpr int slots = row_slots * col_slots;
    static constexpr int vector = col_block;
    static constexpr int col_bits = (lanes_side - 1) | (side - 1) * down * kWarp;
    static constexpr int row_bits = (lanes_down - 1) * lanes_side | (down - 1) * kWarp;
    static constexpr bool full_rows = true, full_cols = true;

    static PK_CONSTEXPR int warp_row(int thread) { return thread / kWarp % down * warp_rows; }
    static PK_CONSTEXPR int warp_col(int thread) { return thread / kWarp / down % side * warp_cols; }
    static PK_CONSTEXPR int row(int thread, int i) {
        const int lane_row = thread % kWarp / lanes_side;
        return warp_row(thread) + (i / row_block * lanes_down + lane_row) * row_block + i % row_block;
    }
    static PK_CONSTEXPR int col(int thread, int j) {
        const int lane_col = thread % lanes_side;
        return warp_col(thread) + (j / col_block * lanes_side + lane_col) * col_block + j % col_block;
    }
};

/// An accumulator whose warps lie below each other as far as its rows reach, so that a row (of the scores of attention,
/// say) is reduced inside a warp and the tile can be the left operand of the next product without leaving registers.
template <int R, int C, int Warps, class E>
using StackedAccumulator = Accumulator<R, C, Warps, E, min_of(Warps, R / (on_matrix_unit<E> ? 16 : 4))>;

/// One value for each row of L: what a reduction along columns gives.
template <class L> struct RowOf {
    using Of = L;
    static constexpr int rows = L::rows, cols = 1, threads = L::threads;
    static constexpr int row_slots = L::row_slots, col_slots = 1, slots = row_slots, vector = 1;
    static constexpr int col_bits = 0, row_bits = L::row_bits;
    static constexpr bool full_rows = L::full_rows, full_cols = true;

    static PK_CONSTEXPR int row(int thread, int i) { return L::row(thread, i); }
    static PK_CONSTEXPR int col(int, int) { return 0; }
};

/// One value for each column of L: what a reduction along rows gives.
template <class L> struct ColOf {
    using Of = L;
    static constexpr int rows = 1, cols = L::cols, threads = L::threads;
    static constexpr int row_slots = 1, col_slots = L::col_slots, slots = col_slots, vector = L::vector;
    static constexpr int col_bits = L::col_bits, row_bits = 0;
    static constexpr bool full_rows = true, full_cols = L::full_cols;

    static PK_CONSTEXPR int row(int, int) { return 0; }
    static PK_CONSTEXPR int col(int thread, int j) { return L::col(thread, j); }
};

/// Whether a tile of L is addressed by one stride: one value per row or per column, or a single row.
template <class L> struct IsVector { static constexpr bool value = L::rows == 1; };
template <class L> struct IsVector<RowOf<L>> { static constexpr bool value = true; };
template <class L> constexpr bool is_vector = IsVector<L>::value;
template <class L> constexpr bool is_column = false;
template <class L> constexpr bool is_column<RowOf<L>> = true;

/// Whether this thread is the one of several holding the same elements that writes them.
template <class L> PK_CONSTEXPR bool owns(int thread) {
    constexpr int told_apart = L::col_bits | L::row_bits;
    return told_apart == L::threads - 1 || (thread & ~told_apart) == 0;
}

/// Whether a slot holds an element of the tile (always, where the layout is full).
template <class L> PK_CONSTEXPR bool inside(int row, int col) {
    return (L::full_rows || row < L::rows) && (L::full_cols || col < L::cols);
}

}  // namespace pk
