// Matrix products of warpgroups on Hopper: both operands are read from shared memory by the matrix unit itself.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/layout.cuh"
#include "pk/memory.cuh"
#include "pk/ptx_wgmma.cuh"
#include "pk/shared.cuh"
#include "pk/tile.cuh"

namespace pk {

/// The reader of operands in shared memory (see `wait` and `put`) when products are those of warpgroups.
struct ByMatrixUnit {
    static PK_DEVICE void announce() { ptx::fence_async_proxy(); }
};

/// The accumulator of wgmma: fragments like those of mma.sync, with 16 rows in each warp, 64 in a warpgroup. Warpgroups lie below
/// each other, then side by side. A tile that has more rows than they cover is `repeats` times as high.
template <int R, int C, int Warps, class E>
struct WarpgroupAccumulator : Accumulator<R, C, Warps, E, min_of(R / 16, Warps)> {
    using Base = Accumulator<R, C, Warps, E, min_of(R / 16, Warps)>;
    static_assert(multiplied_whole<E>, "wgmma multiplies 16- and 8-bit operands here");
    static_assert(R % 64 == 0 && Base::down * Base::side == Warps, "warpgroups do not cover the tile exactly");
    static constexpr int high = Base::down * 16, repeats = R / high;
    static constexpr int panel_rows = 64;  // that a warpgroup has, see Outbox
    static constexpr int wide = Base::warp_cols;
    static constexpr int width = wide % 256 == 0 ? 256 : wide % 192 == 0 ? 192 : wide % 128 == 0 ? 128 : 64;
    static_assert(wide % width == 0, "columns of a warpgroup come in multiples of 64");

    static PK_CONSTEXPR int warp_row(int thread) { return thread / kWarp % Base::down * 16; }
    static PK_CONSTEXPR int row(int thread, int i) {
        return i / 2 * high + warp_row(thread) + i % 2 * 8 + thread % kWarp / Base::lanes_side;
    }
};

/// Which warpgroup this is, in a way that tells the compiler that all lanes of a warp agree: what descriptors are computed from.
PK_DEVICE int warpgroup() { return __shfl_sync(~0u, warp() / 4, 0); }

template <class T, int R, int C, int Warps, class E>
struct InQuads<T, WarpgroupAccumulator<R, C, Warps, E>> : InQuads<T, typename WarpgroupAccumulator<R, C, Warps, E>::Base> {};

// Descriptors of 64 rows of the left operand from (m, k), and of columns of the right one from (k, n). Where k runs along
// the 128 bytes of a panel's row ("K-major"), an instruction takes 32 bytes of it; else 16 of k are 16 rows of the panel.
template <class T, int R, int C> PK_DEVICE uint64_t describe(const Shared<T, R, C>& s, int row, int col, bool k_major) {
    using S = Shared<T, R, C>;
    static_assert(S::panel * sizeof(T) == 128 && R % 8 == 0, "panels of 128 bytes, rows in groups of eight");
    const int start = col / S::panel * R * S::panel + row * S::panel + (k_major ? col % S::panel : 0);
    return ptx::wgmma_descriptor(s.data, start * static_cast<int>(sizeof(T)), R * 128, 8 * 128);
}

template <class S> struct Stored {
    static constexpr bool transposed = false;
    static PK_DEVICE uint64_t left(const S& s, int m, int k) { return describe(s, m, k, true); }
    static PK_DEVICE uint64_t right(const S& s, int k, int n) { return describe(s, k, n, false); }
};
template <class S> struct Stored<Transposed<S>> {
    static constexpr bool transposed = true;
    static PK_DEVICE uint64_t left(const Transposed<S>& s, int m, int k) { return describe(s.of, k, m, false); }
    static PK_DEVICE uint64_t right(const Transposed<S>& s, int k, int n) { return describe(s.of, n, k, true); }
};

/// Starts acc += a b on the matrix unit of the warpgroup, with both operands in shared memory, each stored either way. `acc`
/// and the operands are left alone until the product is complete (ptx::wgmma_wait). With `Deep`, only the first so many of k
/// take part. Without `keep`, acc = a b.
template <int Deep = 0, class T, int R, int C, int Warps, class Other, class A, class B>
PK_DEVICE void start_dot(Tile<T, WarpgroupAccumulator<R, C, Warps, Other>>& acc, const A& a, const B& b, bool keep = true) {
    using L = WarpgroupAccumulator<R, C, Warps, Other>;
    using E = typename A::Element;  // of operands of other types the accumulator is the same
    static_assert(same<E, typename B::Element>, "operand types differ");
    constexpr int step = 32 / static_cast<int>(sizeof(E));
    static_assert(A::rows == R && B::cols == C && A::cols == B::rows && A::cols % step == 0, "sizes do not match");
    static_assert(Deep % step == 0 && Deep <= A::cols, "a wgmma takes 32 bytes of k");
    constexpr int turn_a = Stored<A>::transposed, turn_b = !Stored<B>::transposed, deep = Deep ? Deep : A::cols;
    constexpr int below = L::high / 64;  // warpgroups below each other
    const int group = warpgroup(), m = group % below * 64, n = group / below * L::wide;
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < deep; k += step)
#pragma unroll
        for (int r = 0; r < L::repeats; ++r)
#pragma unroll
            for (int part = 0; part < L::warp_cols; part += L::width) {
                const uint64_t left = Stored<A>::left(a, m + r * L::high, k), right = Stored<B>::right(b, k, n + part);
                T* d0 = &acc.v[2 * r * L::col_slots + part / 4];
                T* d8 = d0 + L::col_slots;
                const int more = keep || k > 0;
                if constexpr (L::width == 256) ptx::wgmma_256<E, turn_a, turn_b>(d0, d8, left, right, more);
                else if constexpr (L::width == 192) ptx::wgmma_192<E, turn_a, turn_b>(d0, d8, left, right, more);
                else if constexpr (L::width == 128) ptx::wgmma_128<E, turn_a, turn_b>(d0, d8, left, right, more);
                else ptx::wgmma_64<E, turn_a, turn_b>(d0, d8, left, right, more);
            }
    ptx::wgmma_commit();
}

/// acc += a b.
template <class T, int R, int C, int Warps, class E, class A, class B>
PK_DEVICE void dot(Tile<T, WarpgroupAccumulator<R, C, Warps, E>>& acc, const A& a, const B& b) {
    start_dot(acc, a, b);
    ptx::wgmma_wait<0>();
}

}  // namespace pk
