// Products of float by thirds (see pk/thirds.cuh) on the matrix unit of warpgroups, which reads them from shared memory.
#pragma once
#include "pk/base.cuh"
#include "pk/dot.cuh"
#include "pk/element.cuh"
#include "pk/ptx_wgmma.cuh"
#include "pk/shared.cuh"
#include "pk/thirds.cuh"
#include "pk/tile.cuh"
#include "pk/wgmma.cuh"

namespace pk {

/// Thirds of the operands of M x K by K x N, k along rows. Two steps': while one is multiplied, the next is split.
template <int M, int N, int K> struct Thirds {
    static constexpr int deep = K;
    struct Step {
        Shared<bf16, K, M> a[3];
        Shared<bf16, K, N> b[3];
    } step[2];
};

// Eight neighbours of row `row` from `col` on.
template <class T, int R, int C, int P> PK_DEVICE void read_eight(T (&to)[8], const Lines<T, R, C, P>& x, int row, int col) {
    read_row(to, x, row, col);
}
template <class S> PK_DEVICE void read_eight(typename S::Element (&to)[8], const S& x, int row, int col) {
#pragma unroll
    for (int n = 0; n < 8; ++n) to[n] = element(x, row, col + n);
}

/// The operand's thirds to shared memory, by all threads. Neighbouring lanes write to different rows, and so to different banks.
template <int Threads, int R, int C, class X> PK_DEVICE void split(Shared<bf16, R, C> (&third)[3], const X& x) {
    constexpr int pieces = R * C / 8;
#pragma unroll
    for (int i = 0; i < (pieces + Threads - 1) / Threads; ++i) {  // the compiler knows how far a thread's pieces lie apart
        const int n = thread() + i * Threads;
        const int row = Threads % R ? n % R : thread() % R;
        const int col = Threads % R ? n / R * 8 : (thread() / R + i * (Threads / R)) * 8;
        if (pieces % Threads && n >= pieces) break;
        float eight[8];
        read_eight(eight, x, row, col);
        uint32_t word[3][4];
#pragma unroll
        for (int p = 0; p < 4; ++p) {
            uint32_t pair[3];
            in_thirds(pair, eight[2 * p], eight[2 * p + 1]);
#pragma unroll
            for (int q = 0; q < 3; ++q) word[q][p] = pair[q];
        }
#pragma unroll
        for (int q = 0; q < 3; ++q)  // in one access, which a copy of unaligned elements would not be
            *reinterpret_cast<uint4*>(third[q].at(row, col)) = uint4{word[q][0], word[q][1], word[q][2], word[q][3]};
    }
}

template <class S> PK_DEVICE const Transposed<const S> turned(const S& x) { return {x}; }
template <class S> PK_DEVICE const S& turned(const Transposed<S>& x) { return x.of; }

/// Sums a b up, step by step: the products of a step are under way while the next step's operands are split.
template <class L, int M, int N, int K> struct SumOfThirds {
    Thirds<M, N, K>& thirds;
    Tile<float, L> under_way = fill<float, L>(0.0f);
    int steps = 0;

    /// acc += a b by thirds, but for this step's products (see `complete`), or `one_by_one`.
    template <class A, class B> PK_DEVICE void add(Tile<float, L>& acc, const A& a, const B& b, bool one_by_one) {
        static_assert(A::rows == L::rows && B::cols == L::cols && A::cols == B::rows, "sizes do not match");
        if (one_by_one) return dot_one_by_one(acc, a, b);
        constexpr int order[6][2] = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};  // smallest first
        auto& now = thirds.step[steps++ % 2];
        split<L::threads>(now.a, turned(a));
        split<L::threads>(now.b, b);
        ptx::fence_async_proxy();
        sync();
        complete(acc);
#pragma unroll
        for (int n = 0; n < 6; ++n) start_dot(under_way, transposed(now.a[order[n][0]]), now.b[order[n][1]], n > 0);
    }

    /// Waits for the products that are under way, and adds them.
    PK_DEVICE void complete(Tile<float, L>& acc) {
        ptx::wgmma_wait<0>();
#pragma unroll
        for (int n = 0; n < L::slots; ++n) acc.v[n] += under_way.v[n];
    }
};

template <class L, int M, int N, int K> PK_DEVICE SumOfThirds<L, M, N, K> sum_of(Thirds<M, N, K>& thirds) { return {thirds}; }

}  // namespace pk
