// Reductions: over the registers of an item, then a butterfly over the lanes of a sub-group, then, where a row (column)
// spans sub-groups, through local memory. Every item gets the result.
#pragma once
#include "pk/gpu/tile.hpp"

namespace pk {

struct Sum {
    template <class T>
    static PK_INLINE T identity() { return T(0); }
    template <class T>
    static PK_INLINE T join(T a, T b) { return a + b; }
};
struct Prod {
    template <class T>
    static PK_INLINE T identity() { return T(1); }
    template <class T>
    static PK_INLINE T join(T a, T b) { return a * b; }
};
template <class T>
PK_INLINE T lowest() {
    if constexpr (is_float<T>) return T(-INFINITY);
    else return T(-1) < T(0) ? T(T(1) << (8 * sizeof(T) - 1)) : T(0);
}
struct Max {
    template <class T>
    static PK_INLINE T identity() { return lowest<T>(); }
    template <class T>
    static PK_INLINE T join(T a, T b) { return pk::max(a, b); }
};
struct Min {
    template <class T>
    static PK_INLINE T identity() {
        if constexpr (is_float<T>) return T(INFINITY);
        else return ~lowest<T>();
    }
    template <class T>
    static PK_INLINE T join(T a, T b) { return pk::min(a, b); }
};
struct Any {
    template <class T>
    static PK_INLINE T identity() { return T(0); }
    template <class T>
    static PK_INLINE T join(T a, T b) { return a || b; }
};
struct All {
    template <class T>
    static PK_INLINE T identity() { return T(1); }
    template <class T>
    static PK_INLINE T join(T a, T b) { return a && b; }
};

// The value of the lane whose number differs in the bits of `mask`.
template <class T>
PK_INLINE T exchange(T x, int mask) {
    return sycl::permute_group_by_xor(this_item().get_sub_group(), x, mask);
}
PK_INLINE bool exchange(bool x, int mask) { return exchange(static_cast<int32_t>(x), mask) != 0; }

// Joins `x` with the values of all items whose index differs in the bits of `Bits` only.
template <class Op, int Bits, int Items, int Slots, class T>
PK_INLINE void join_items(T (&x)[Slots]) {
#pragma unroll
    for (int bit = 1; bit < sub_group_items; bit *= 2)
        if (Bits & bit)
#pragma unroll
            for (int s = 0; s < Slots; ++s) x[s] = Op::join(x[s], exchange(x[s], bit));

    if constexpr (Bits >= sub_group_items) {
        // Every sub-group leaves its results; an item joins those of the sub-groups it shares a row with, all in one
        // order, so that the result is the same in each.
        constexpr int groups = Items / sub_group_items, group_bits = Bits / sub_group_items;
        static local<T, Slots * Items> partial;
#pragma unroll
        for (int s = 0; s < Slots; ++s) partial[s * Items + item()] = x[s];
        sync();
        const int mine = item() / sub_group_items & ~group_bits;
#pragma unroll
        for (int s = 0; s < Slots; ++s) {
            T total = Op::template identity<T>();
#pragma unroll
            for (int g = 0; g < groups; ++g)
                if ((g & ~group_bits) == 0)
                    total = Op::join(total, partial[s * Items + (mine | g) * sub_group_items + lane()]);
            x[s] = total;
        }
        sync();  // `partial` may be written again
    }
}

// Along each row: one value per row, or a scalar where there is one row.
template <class Op, class T, class L>
PK_INLINE auto reduce_cols(const Tile<T, L>& x) {
    Tile<T, RowOf<L>> y;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) {
        T total = Op::template identity<T>();
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j)
            if (inside<L>(0, L::col(item(), j))) total = Op::join(total, x.at(i, j));
        y.v[i] = total;
    }
    join_items<Op, L::col_bits, L::items>(y.v);
    if constexpr (L::rows == 1) return y.v[0];
    else return y;
}

// Along each column.
template <class Op, class T, class L>
PK_INLINE auto reduce_rows(const Tile<T, L>& x) {
    Tile<T, ColOf<L>> y;
#pragma unroll
    for (int j = 0; j < L::col_slots; ++j) {
        T total = Op::template identity<T>();
#pragma unroll
        for (int i = 0; i < L::row_slots; ++i)
            if (inside<L>(L::row(item(), i), 0)) total = Op::join(total, x.at(i, j));
        y.v[j] = total;
    }
    join_items<Op, L::row_bits, L::items>(y.v);
    // Of a tile within one sub-group few items own the result.  Intel's CPU runtime moves an exchange behind their branch,
    // where its partner does not run (seen with 2026.1); nothing but a barrier of the group keeps it in front.
    if constexpr (L::row_bits && L::row_bits < sub_group_items) sync();
    if constexpr (L::cols == 1) return y.v[0];
    else return y;
}

}  // namespace pk
