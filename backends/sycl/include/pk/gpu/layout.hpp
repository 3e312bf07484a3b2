// Layouts: which work-item of the group holds which element of a tile.
//
// A work-item holds the elements at row(item, i), col(item, j) for its row slots i and column slots j, in register
// i * col_slots + j. Bits of the item's index in `col_bits` tell items of one row apart, those in `row_bits` items of one
// column, so that a reduction is a butterfly over those bits. Items that differ elsewhere hold copies.
#pragma once
#include <sycl/group_barrier.hpp>
#include <sycl/khr/split_headers/group_algorithms.hpp>
#include <sycl/sub_group.hpp>

#include "pk/math.hpp"

#define PK_KERNEL(items)                                                                                  \
    extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((sycl::ext::oneapi::experimental::nd_range_kernel<1>))    \
    SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((sycl::ext::oneapi::experimental::sub_group_size<16>))               \
    SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((sycl::ext::oneapi::experimental::work_group_size<items>)) void

namespace pk {

constexpr int sub_group_items = 16;

PK_INLINE auto this_item() { return sycl::ext::oneapi::this_work_item::get_nd_item<1>(); }
PK_INLINE int item() { return static_cast<int>(this_item().get_local_id(0)); }
PK_INLINE int lane() { return item() % sub_group_items; }
PK_INLINE int64_t block() { return static_cast<int64_t>(this_item().get_group(0)); }
PK_INLINE void sync() { sycl::group_barrier(this_item().get_group()); }

constexpr int smaller(int a, int b) { return a < b ? a : b; }
constexpr int larger(int a, int b) { return a > b ? a : b; }
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr int power_of_two_from(int n) { return n <= 1 ? 1 : 2 * power_of_two_from((n + 1) / 2); }
constexpr int power_of_two_in(int n) { return n % 2 ? 1 : 2 * power_of_two_in(n / 2); }  // the largest that divides n

// R x C values, columns over neighbouring lanes. An item holds `Vector` neighbours of a row at a time (fewer where the
// tile is small), and a row stays in one sub-group unless there are too few rows for all of them.
template <int R, int C, int Items, int Vector = 4>
struct Rows {
    static constexpr int widest() {
        int v = smaller(Vector, power_of_two_in(C));
        while (v > 1 && R * (C / v) < Items) v /= 2;
        return v;
    }
    static constexpr int rows = R, cols = C, items = Items;
    static constexpr int vector = widest();
    static constexpr int vectors = C / vector;  // of a row
    static constexpr int row_items =
        smaller(power_of_two_from(vectors), larger(Items / power_of_two_from(R), smaller(sub_group_items, Items)));
    static constexpr int rows_at_once = smaller(Items / row_items, power_of_two_from(R));
    static constexpr int row_slots = ceil_div(R, rows_at_once);
    static constexpr int col_slots = ceil_div(vectors, row_items) * vector;
    static constexpr int slots = row_slots * col_slots;
    static constexpr int col_bits = row_items - 1;
    static constexpr int row_bits = (rows_at_once - 1) * row_items;
    static constexpr bool full_rows = R % rows_at_once == 0;  // no slot lies outside the tile
    static constexpr bool full_cols = vectors % row_items == 0;

    static PK_INLINE int row(int item, int i) { return i * rows_at_once + item / row_items % rows_at_once; }
    static PK_INLINE int col(int item, int j) {
        return (j / vector * row_items + item % row_items) * vector + j % vector;
    }
};

// The accumulator of a matrix product of operands E, in fragments of 8 x 16: a lane holds one column of 8 rows, which is
// what DPAS writes. Sub-groups stand below each other and side by side so that their parts are as square as can be.
template <int R, int C, int SubGroups, class E>
struct Accumulator {
    static_assert(R % 8 == 0 && C % 16 == 0, "the tile is a multiple of the fragment");
    static constexpr int choose() {
        int best = 0, cost = 1 << 30;
        for (int down = 1; down <= SubGroups; down *= 2) {
            const int side = SubGroups / down;
            if (R % (down * 8) || C % (side * 16)) continue;
            if (R / down + C / side < cost) best = down, cost = R / down + C / side;
        }
        return best;
    }
    using Operand = E;
    static constexpr int rows = R, cols = C, items = SubGroups * sub_group_items;
    static constexpr int down = choose();
    static_assert(down > 0, "there are more sub-groups than fragments");
    static constexpr int side = SubGroups / down;
    static constexpr int part_rows = R / down, part_cols = C / side;
    static constexpr int row_slots = part_rows, col_slots = part_cols / 16, slots = row_slots * col_slots;
    static constexpr int vector = 1;
    static constexpr int col_bits = 15 | (side - 1) * 16;
    static constexpr int row_bits = (down - 1) * side * 16;
    static constexpr bool full_rows = true, full_cols = true;

    static PK_INLINE int first_row(int item) { return item / 16 / side * part_rows; }
    static PK_INLINE int first_col(int item) { return item / 16 % side * part_cols; }
    static PK_INLINE int row(int item, int i) { return first_row(item) + i; }
    static PK_INLINE int col(int item, int j) { return first_col(item) + j * 16 + item % 16; }
};

// One value for each row of L: what a reduction along columns gives.
template <class L>
struct RowOf {
    static constexpr int rows = L::rows, cols = 1, items = L::items;
    static constexpr int row_slots = L::row_slots, col_slots = 1, slots = row_slots, vector = 1;
    static constexpr int col_bits = 0, row_bits = L::row_bits;
    static constexpr bool full_rows = L::full_rows, full_cols = true;
    static PK_INLINE int row(int item, int i) { return L::row(item, i); }
    static PK_INLINE int col(int, int) { return 0; }
};

// One value for each column of L: what a reduction along rows gives.
template <class L>
struct ColOf {
    static constexpr int rows = 1, cols = L::cols, items = L::items;
    static constexpr int row_slots = 1, col_slots = L::col_slots, slots = col_slots, vector = L::vector;
    static constexpr int col_bits = L::col_bits, row_bits = 0;
    static constexpr bool full_rows = true, full_cols = L::full_cols;
    static PK_INLINE int row(int, int) { return 0; }
    static PK_INLINE int col(int item, int j) { return L::col(item, j); }
};

// Whether a tile of L is addressed by one stride: one value per row or per column, or a single row.
template <class L>
constexpr bool is_column = false;
template <class L>
constexpr bool is_column<RowOf<L>> = true;
template <class L>
constexpr bool is_line = L::rows == 1 || is_column<L>;

// Whether this item is the one, of several with the same elements, that writes them.
template <class L>
PK_INLINE bool owns() { return (item() & ~(L::col_bits | L::row_bits)) == 0; }
// Whether a slot holds an element of the tile: always, where the layout is full.
template <class L>
PK_INLINE bool inside(int row, int col) {
    return (L::full_rows || row < L::rows) && (L::full_cols || col < L::cols);
}

}  // namespace pk
