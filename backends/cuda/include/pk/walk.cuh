// Attention on Hopper: warpgroups keep rows of the result and walk along the keys that a producer brings through the copy engine.
// Weights never leave registers: they are the left operand of the second product. While the matrix unit multiplies the weights
// of one step, the threads compute those of the next.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/layout.cuh"
#include "pk/ptx_tma.cuh"
#include "pk/ptx_walk.cuh"
#include "pk/ptx_wgmma.cuh"
#include "pk/relayout.cuh"
#include "pk/rings.cuh"
#include "pk/shared.cuh"
#include "pk/tile.cuh"
#include "pk/wgmma.cuh"

namespace pk {

/// Two warpgroups take turns on the matrix unit: while one has its products started, the other computes weights.
struct Turns {
    static constexpr int first = 8, threads = 256;  // barriers 8 and 9; those below belong to others

    PK_DEVICE Turns() {
        if (warp() / 4 == 1) ptx::numbered_arrive(first, threads);  // the first turn is warpgroup 0's
    }
    PK_DEVICE void wait() { ptx::numbered_wait(first + warp() / 4, threads); }
    PK_DEVICE void pass() { ptx::numbered_arrive(first + 1 - warp() / 4, threads); }
};

/// The warps that multiply, which hold tiles among themselves (see `relayout`): `Threads`, without the producer's.
template <int Threads> struct Consumers {
    static constexpr int barrier = 10;

    static PK_DEVICE void sync() { ptx::numbered_wait(barrier, Threads); }
};

template <class T, class L> PK_DEVICE void settle(Tile<T, L>& x) {
#pragma unroll
    for (int i = 0; i < L::slots; ++i) ptx::settle(x.v[i]);
}
template <class E, class L> PK_DEVICE void settle(Packed<E, L>& x) {
#pragma unroll
    for (int i = 0; i < L::slots / 2; ++i) ptx::settle(x.words[i]);
}

/// Waits until at most `Pending` of the products that were started are incomplete. `tiles` are what is then complete, or read.
template <int Pending, class... Tiles> PK_DEVICE void complete(Tiles&... tiles) {
    ptx::wgmma_wait<Pending>();
    (settle(tiles), ...);
}

/// The sums of rows `x`, which are not below 0, are computed before what follows is waited for.
template <class L> PK_DEVICE void computed_here(const Tile<float, RowOf<L>>& x) {
    float least = x.v[0];
#pragma unroll
    for (int i = 1; i < L::row_slots; ++i) least = min(least, x.v[i]);
    ptx::computed_here(least);
}

/// x *= `factor` of each row, which most rows of most steps leave as it is: a warp none of whose rows changes does nothing.
template <class L> PK_DEVICE void rescale(Tile<float, L>& x, const Tile<float, RowOf<L>>& factor) {
    bool changes = false;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) changes |= factor.v[i] != 1.0f;
    if (!ptx::any(changes)) return;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) x.at(i, j) *= factor.v[i];
}

/// Columns of an instruction here: products of registers have no form for 192.
template <class L> constexpr int kAtOnce = L::width == 192 ? 64 : L::width;

/// Starts y = a b, both in shared memory.
template <int R, int C, int Warps, class E, class A, class B>
PK_DEVICE void start_product(Tile<float, WarpgroupAccumulator<R, C, Warps, E>>& y, const A& a, const B& b) {
    using L = WarpgroupAccumulator<R, C, Warps, E>;
    static_assert(A::rows == R && B::cols == C && A::cols == B::rows && R == Warps * 16, "a warpgroup holds whole rows");
    constexpr int turn_a = Stored<A>::transposed, turn_b = !Stored<B>::transposed;
    const int m = warpgroup() * 64;
    settle(y);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < A::cols; k += 16)
#pragma unroll
        for (int n = 0; n < C; n += kAtOnce<L>) {
            const uint64_t left = Stored<A>::left(a, m, k), right = Stored<B>::right(b, k, n);
            float* d0 = &y.v[n / 4];
            float* d8 = d0 + L::col_slots;
            if constexpr (kAtOnce<L> == 256) ptx::wgmma_256<E, turn_a, turn_b>(d0, d8, left, right, k > 0);
            else if constexpr (kAtOnce<L> == 128) ptx::wgmma_128<E, turn_a, turn_b>(d0, d8, left, right, k > 0);
            else ptx::wgmma_64<E, turn_a, turn_b>(d0, d8, left, right, k > 0);
        }
    ptx::wgmma_commit();
}

/// Starts acc += a b with `a` in registers, which stay as they are until the product is complete.
template <int R, int C, int D, int Warps, class Of, class E, class By, class B>
PK_DEVICE void start_dot(Tile<float, WarpgroupAccumulator<R, D, Warps, Of>>& acc,
                         Packed<E, WarpgroupAccumulator<R, C, Warps, By>>& a, const B& b) {
    using K = WarpgroupAccumulator<R, C, Warps, By>;
    using L = WarpgroupAccumulator<R, D, Warps, Of>;
    static_assert(B::rows == C && B::cols == D && R == Warps * 16, "a warpgroup holds whole rows");
    constexpr int turn_b = !Stored<B>::transposed;
    settle(acc);
    settle(a);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C; k += 16)
#pragma unroll
        for (int n = 0; n < D; n += kAtOnce<L>) {
            const uint32_t* words = a.words + k / 8;
            ptx::wgmma_of_registers<E, kAtOnce<L>, turn_b>(&acc.v[n / 4], &acc.v[L::col_slots + n / 4], words[0],
                                                         words[K::col_slots / 2], words[1], words[K::col_slots / 2 + 1],
                                                         Stored<B>::right(b, k, n));
        }
    ptx::wgmma_commit();
}

/// Nothing was started: what waits for the product before the last one waits for the last one.
PK_DEVICE void start_nothing() { ptx::wgmma_commit(); }

/// Whether two layouts give the same rows to the same threads: rows lie in warps alike, whatever the columns.
template <int R, int C, int D, int Warps, class E, class F>
struct SameRows<WarpgroupAccumulator<R, C, Warps, E>, WarpgroupAccumulator<R, D, Warps, F>> {
    static constexpr bool value = true;
};

}  // namespace pk
