// Running sums (products, extremes) along the rows of a tile of the layout Rows.
//
// A row is cut into groups: the vectors that its threads hold side by side.  A thread runs over its own vector of each group,
// the lanes of a wave pass their totals on in steps of 1, 2, 4, ..., and where a row spans waves, the waves' totals meet in
// LDS once for all groups: lane g of every wave sums up what stands before its wave in group g, an exchange gives that to
// all.  So a row costs two barriers, however long it is.
#pragma once

#include "pk/reduce.h"

namespace pk {

template <class Op> struct Identity;  // what it leaves everything unchanged with
template <> struct Identity<Sum> { template <class T> PK_FN static T of() { return T(0); } };
template <> struct Identity<Prod> { template <class T> PK_FN static T of() { return T(1); } };
template <> struct Identity<Max> {
  template <class T> PK_FN static T of() {
    if constexpr (T(0.5f) != T(0)) return static_cast<T>(-__builtin_inff());
    else return static_cast<T>(static_cast<T>(1) << (8 * sizeof(T) - 1));
  }
};
template <> struct Identity<Min> {
  template <class T> PK_FN static T of() {
    if constexpr (T(0.5f) != T(0)) return static_cast<T>(__builtin_inff());
    else return static_cast<T>(~(static_cast<T>(1) << (8 * sizeof(T) - 1)));
  }
};

namespace detail {

template <class T> PK_FN T from_lane(T value, int lane) {
  if constexpr (sizeof(T) == 8) {
    struct Halves { int lo, hi; };
    const Halves h = __builtin_bit_cast(Halves, value);
    return __builtin_bit_cast(T, Halves{shuffle(h.lo, lane), shuffle(h.hi, lane)});
  } else {
    return __builtin_bit_cast(T, shuffle(__builtin_bit_cast(int, value), lane));
  }
}

// One row slot of a scan; `Reverse` counts threads, groups and elements from the end of the row.
template <class Op, bool Exclusive, bool Reverse, class T, class L> struct RowScan {
  static constexpr int vector = L::Col::vector, groups = L::col_slots / vector;
  static constexpr int lanes = smaller(L::Col::lanes, wave), waves = L::Col::lanes / lanes;
  static_assert(L::Col::waves == 1 && L::Col::lane_stride == 1, "only the layout Rows is scanned");
  static_assert(groups <= wave, "the row is too long");

  // Numbers along the row, in the direction of the scan.
  static constexpr int slot(int group, int e) {
    return Reverse ? (groups - 1 - group) * vector + vector - 1 - e : group * vector + e;
  }
  PK_FN static T in_row(T x, int number) {  // the value of one of this row's lanes
    return from_lane(x, lane() / lanes * lanes + (Reverse ? lanes - 1 - number : number));
  }

  // Replaces the elements v of the row by the running values after `carry`, which goes on to what follows.
  PK_FN static void run(T* v, T& carry) {
    const int me = Reverse ? lanes - 1 - lane() % lanes : lane() % lanes;
    T mine[groups], all[groups];  // of the lanes before this one; of the wave
#pragma unroll
    for (int g = 0; g < groups; ++g) {
#pragma unroll
      for (int e = 1; e < vector; ++e) v[slot(g, e)] = Op::apply(v[slot(g, e - 1)], v[slot(g, e)]);
      T total = v[slot(g, vector - 1)];
#pragma unroll
      for (int step = 1; step < lanes; step *= 2) {
        const T before = in_row(total, me - step);
        if (me >= step) total = Op::apply(before, total);
      }
      const T before = in_row(total, me - 1);
      mine[g] = me > 0 ? before : Identity<Op>::template of<T>();
      all[g] = in_row(total, lanes - 1);
    }
    if constexpr (waves == 1) {
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        finish(v, g, Op::apply(carry, mine[g]));
        carry = Op::apply(carry, all[g]);
      }
    } else {
      across_waves(v, mine, all, carry);
    }
  }

  PK_FN static void across_waves(T* v, const T (&mine)[groups], const T (&all)[groups], T& carry) {
    T* shared = reinterpret_cast<T*>(scratch<L::threads / wave * groups * static_cast<int>(sizeof(T))>());  // [wave][group]
    const int number = thread() / wave, first = number / waves * waves;  // of the waves that share this row
    const int me = Reverse ? waves - 1 - number % waves : number % waves;
    sync();
    if (lane() == 0) {
#pragma unroll
      for (int g = 0; g < groups; ++g) shared[number * groups + g] = all[g];
    }
    sync();
    const int g = lane() % groups;
    T before = Identity<Op>::template of<T>(), total = before;
#pragma unroll
    for (int w = 0; w < waves; ++w) {
      if (w == me) before = total;
      total = Op::apply(total, shared[(first + (Reverse ? waves - 1 - w : w)) * groups + g]);
    }
    // `total` is that of group g now: what stands before it are the groups before.
    T so_far = total;
#pragma unroll
    for (int step = 1; step < groups; step *= 2) {
      const T other = from_lane(so_far, lane() - step);
      if (g >= step) so_far = Op::apply(other, so_far);
    }
    const T groups_before = from_lane(so_far, lane() - 1);
    if (g > 0) before = Op::apply(groups_before, before);
    before = Op::apply(carry, before);
#pragma unroll
    for (int i = 0; i < groups; ++i) finish(v, i, Op::apply(from_lane(before, i), mine[i]));
    carry = Op::apply(carry, from_lane(so_far, groups - 1));
  }

  // Puts what stands `before` this thread's vector of a group to its elements.
  PK_FN static void finish(T* v, int g, T before) {
    T last = before;
#pragma unroll
    for (int e = 0; e < vector; ++e) {
      const T running = Op::apply(before, v[slot(g, e)]);
      v[slot(g, e)] = Exclusive ? last : running;
      last = running;
    }
  }
};

}  // namespace detail

// The running values along each row, after `carry` (a scalar where there is one row), which takes those at the end.
template <class Op, bool Exclusive = false, bool Reverse = false, class T, class L, class Carry>
PK_FN Tile<T, L> scan_cols(const Tile<T, L>& tile, Carry& carry) {
  Tile<T, L> out = tile;
#pragma unroll
  for (int i = 0; i < L::row_slots; ++i) {
    if constexpr (same<Carry, T>) detail::RowScan<Op, Exclusive, Reverse, T, L>::run(out.v[i], carry);
    else detail::RowScan<Op, Exclusive, Reverse, T, L>::run(out.v[i], carry.v[i][0]);
  }
  return out;
}

template <class Op, bool Exclusive = false, bool Reverse = false, class T, class L>
PK_FN Tile<T, L> scan_cols(const Tile<T, L>& tile) {
  Tile<T, RowOf<L>> carry = fill<T, RowOf<L>>(Identity<Op>::template of<T>());
  return scan_cols<Op, Exclusive, Reverse>(tile, carry);
}

}  // namespace pk
