// Running sums (products, extremes) along the rows of a tile of the layout Rows.
//
// A row is cut into groups: the vectors that its threads hold side by side. A thread runs over its own vector of each group,
// the lanes of a warp pass their totals on in log2(32) shuffles, and where a row spans warps, the warps' totals meet in
// shared memory once for all groups: lane g of every warp sums up what stands before its warp in group g, a shuffle gives
// that to all. So a row costs two barriers, however long it is.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/math.cuh"
#include "pk/reduce.cuh"
#include "pk/tile.cuh"

namespace pk {

template <class T> PK_DEVICE T shuffle(T x, int from) { return __shfl_sync(0xffffffffu, x, from); }

/// One row slot of a scan; `Reverse` counts threads, groups and elements from the end of the row.
template <class Op, bool Exclusive, bool Reverse, class T, class L> struct RowScan {
    static constexpr int groups = L::col_slots / L::vector;
    static constexpr int lanes = min_of(L::row_threads, kWarp), warps = L::row_threads / lanes;
    static_assert(warps == 1 || L::row_slots == 1, "a row spans warps only where there are few");
    static_assert(groups <= kWarp && groups * (L::threads / kWarp) * int(sizeof(T)) <= kPartialBytes, "the row is too long");

    // Numbers along the row, in the direction of the scan.
    static PK_DEVICE int lane_in_row() { return Reverse ? lanes - 1 - lane() % lanes : lane() % lanes; }
    static PK_DEVICE int warp_in_row() { return Reverse ? warps - 1 - warp() % warps : warp() % warps; }
    static PK_CONSTEXPR int slot(int group, int e) {
        return Reverse ? (groups - 1 - group) * L::vector + L::vector - 1 - e : group * L::vector + e;
    }
    static PK_DEVICE T from_lane(T x, int number) {  // of this row's lanes
        return shuffle(x, lane() / lanes * lanes + (Reverse ? lanes - 1 - number : number));
    }

    /// Replaces the elements v of the row by the running values after `carry`, which goes on to what follows.
    static PK_DEVICE void run(T* v, T& carry) {
        const int me = lane_in_row();
        T mine[groups], all[groups];  // of the lanes before this one; of the warp
#pragma unroll
        for (int g = 0; g < groups; ++g) {
#pragma unroll
            for (int e = 0; e < L::vector; ++e) {
                if (!inside<L>(0, L::col(thread(), slot(g, e)))) v[slot(g, e)] = Op::template identity<T>();
                if (e > 0) v[slot(g, e)] = Op::join(v[slot(g, e - 1)], v[slot(g, e)]);
            }
            T total = v[slot(g, L::vector - 1)];
#pragma unroll
            for (int step = 1; step < lanes; step *= 2) {
                const T before = from_lane(total, me - step);
                if (me >= step) total = Op::join(before, total);
            }
            const T before = from_lane(total, me - 1);
            mine[g] = me > 0 ? before : Op::template identity<T>();
            all[g] = from_lane(total, lanes - 1);
        }
        if constexpr (warps == 1) {
#pragma unroll
            for (int g = 0; g < groups; ++g) {
                finish(v, g, Op::join(carry, mine[g]));
                carry = Op::join(carry, all[g]);
            }
        } else {
            across_warps(v, mine, all, carry);
        }
    }

    static PK_DEVICE void across_warps(T* v, const T (&mine)[groups], const T (&all)[groups], T& carry) {
        T* partial = static_cast<T*>(partial_results());  // [warp][group]
        const int first = warp() / warps * warps;         // of the warps that share this row
        __syncthreads();                                  // what was there has been read
        if (lane() == 0) {
#pragma unroll
            for (int g = 0; g < groups; ++g) partial[warp() * groups + g] = all[g];
        }
        __syncthreads();
        const int g = lane() % groups;
        T before = Op::template identity<T>(), total = before;
#pragma unroll
        for (int w = 0; w < warps; ++w) {
            if (w == warp_in_row()) before = total;
            total = Op::join(total, partial[(first + (Reverse ? warps - 1 - w : w)) * groups + g]);
        }
        // `total` is that of group g now: what stands before it are the groups before.
        T so_far = total;
#pragma unroll
        for (int step = 1; step < groups; step *= 2) {
            const T other = shuffle(so_far, lane() - step);
            if (g >= step) so_far = Op::join(other, so_far);
        }
        const T groups_before = shuffle(so_far, lane() - 1);
        if (g > 0) before = Op::join(groups_before, before);
        before = Op::join(carry, before);
#pragma unroll
        for (int i = 0; i < groups; ++i) finish(v, i, Op::join(shuffle(before, i), mine[i]));
        carry = Op::join(carry, shuffle(so_far, groups - 1));
    }

    /// Puts what stands `before` this thread's vector of a group to its elements.
    static PK_DEVICE void finish(T* v, int g, T before) {
        T last = before;
#pragma unroll
        for (int e = 0; e < L::vector; ++e) {
            const T running = Op::join(before, v[slot(g, e)]);
            v[slot(g, e)] = Exclusive ? last : running;
            last = running;
        }
    }
};

/// The running values along each row of `x`, after `carry` (a scalar where there is one row), which takes those at the end.
template <class Op, bool Exclusive = false, bool Reverse = false, class T, class L, class Carry>
PK_DEVICE Tile<T, L> scan_cols(const Tile<T, L>& x, Carry& carry) {
    Tile<T, L> y = x;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) {
        if constexpr (same<Carry, T>) RowScan<Op, Exclusive, Reverse, T, L>::run(&y.v[i * L::col_slots], carry);
        else RowScan<Op, Exclusive, Reverse, T, L>::run(&y.v[i * L::col_slots], carry.v[i]);
    }
    return y;
}

template <class Op, bool Exclusive = false, bool Reverse = false, class T, class L>
PK_DEVICE Tile<T, L> scan_cols(const Tile<T, L>& x) {
    Tile<T, RowOf<L>> carry;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) carry.v[i] = Op::template identity<T>();
    return scan_cols<Op, Exclusive, Reverse>(x, carry);
}

}  // namespace pk
