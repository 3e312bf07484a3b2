// Running sums (products, extremes) along the rows of a tile of the layout Rows.
//
// A row is cut into groups: the vectors that its items hold side by side. An item runs over its own vector of each group, the
// lanes of a sub-group pass their totals on in steps of 1, 2, 4, 8, and where a row spans sub-groups, their totals meet in
// local memory once for all groups of vectors.
#pragma once
#include "pk/gpu/reduce.hpp"

namespace pk {

// The value of the lane `from` of this sub-group; of any, where there is no such lane.
template <class T>
PK_INLINE T shuffle(T x, int from) {
    return sycl::select_from_group(this_item().get_sub_group(), x, static_cast<unsigned>(from) % sub_group_items);
}

// One row slot of a scan; `Reverse` counts items, groups and elements from the end of the row.
template <class Op, bool Exclusive, bool Reverse, class T, class L>
struct RowScan {
    static constexpr int groups = L::col_slots / L::vector;
    static constexpr int lanes = smaller(L::row_items, sub_group_items), subs = L::row_items / lanes;

    // Numbers along the row, in the direction of the scan.
    static constexpr int slot(int group, int e) {
        return Reverse ? (groups - 1 - group) * L::vector + L::vector - 1 - e : group * L::vector + e;
    }
    static PK_INLINE T in_row(T x, int number) {  // the value of one of this row's lanes
        return shuffle(x, lane() / lanes * lanes + (Reverse ? lanes - 1 - number : number));
    }

    // Replaces the elements v of the row by the running values after `carry`, which goes on to what follows.
    static PK_INLINE void run(T* v, T& carry) {
        const int me = Reverse ? lanes - 1 - lane() % lanes : lane() % lanes;
        T mine[groups], all[groups];  // of the lanes before this one; of the sub-group
#pragma unroll
        for (int g = 0; g < groups; ++g) {
#pragma unroll
            for (int e = 0; e < L::vector; ++e) {
                if (!inside<L>(0, L::col(item(), slot(g, e)))) v[slot(g, e)] = Op::template identity<T>();
                if (e > 0) v[slot(g, e)] = Op::join(v[slot(g, e - 1)], v[slot(g, e)]);
            }
            T total = v[slot(g, L::vector - 1)];
#pragma unroll
            for (int step = 1; step < lanes; step *= 2) {
                const T before = in_row(total, me - step);
                if (me >= step) total = Op::join(before, total);
            }
            const T before = in_row(total, me - 1);
            mine[g] = me > 0 ? before : Op::template identity<T>();
            all[g] = in_row(total, lanes - 1);
        }
        if constexpr (subs > 1) across(mine, all, carry);
#pragma unroll
        for (int g = 0; g < groups; ++g) {
            finish(v, g, subs > 1 ? mine[g] : Op::join(carry, mine[g]));
            if constexpr (subs == 1) carry = Op::join(carry, all[g]);
        }
    }

    // Puts `carry` and what stands before this sub-group to `mine`.
    static PK_INLINE void across(T (&mine)[groups], const T (&all)[groups], T& carry) {
        static local<T, L::items / sub_group_items * groups> partial;  // [sub-group][group]
        const int number = item() / sub_group_items, first = number / subs * subs;
        const int me = Reverse ? subs - 1 - number % subs : number % subs;
        if (lane() == 0) {
#pragma unroll
            for (int g = 0; g < groups; ++g) partial[number * groups + g] = all[g];
        }
        sync();
#pragma unroll
        for (int g = 0; g < groups; ++g) {
            T before = carry;
            for (int s = 0; s < subs; ++s) {
                if (s == me) before = carry;
                carry = Op::join(carry, partial[(first + (Reverse ? subs - 1 - s : s)) * groups + g]);
            }
            mine[g] = Op::join(before, mine[g]);
        }
        sync();  // `partial` may be written again
    }

    // Puts what stands `before` this item's vector of a group to its elements.
    static PK_INLINE void finish(T* v, int g, T before) {
        T last = before;
#pragma unroll
        for (int e = 0; e < L::vector; ++e) {
            const T running = Op::join(before, v[slot(g, e)]);
            v[slot(g, e)] = Exclusive ? last : running;
            last = running;
        }
    }
};

// The running values along each row, after `carry` (a scalar where there is one row), which takes those at the end.
template <class Op, bool Exclusive = false, bool Reverse = false, class T, class L, class Carry>
PK_INLINE Tile<T, L> scan_cols(const Tile<T, L>& x, Carry& carry) {
    Tile<T, L> y = x;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) {
        if constexpr (L::rows == 1) RowScan<Op, Exclusive, Reverse, T, L>::run(&y.v[i * L::col_slots], carry);
        else RowScan<Op, Exclusive, Reverse, T, L>::run(&y.v[i * L::col_slots], carry.v[i]);
    }
    return y;
}
template <class Op, bool Exclusive = false, bool Reverse = false, class T, class L>
PK_INLINE Tile<T, L> scan_cols(const Tile<T, L>& x) {
    if constexpr (L::rows == 1) {
        T carry = Op::template identity<T>();
        return scan_cols<Op, Exclusive, Reverse>(x, carry);
    } else {
        auto carry = fill<T, RowOf<L>>(Op::template identity<T>());
        return scan_cols<Op, Exclusive, Reverse>(x, carry);
    }
}

}  // namespace pk
