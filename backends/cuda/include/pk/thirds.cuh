// Products of float on the matrix unit, no less exact than fused multiply-adds ("bf16x6").
//
// A float of 24 bits is the sum of three bf16 of 8: each is what the ones before leave, rounded to nearest. Of the nine
// products of such thirds the six largest are taken; those left out are below 2^-24 of the whole. The matrix unit truncates
// what it adds, so it sums 16 products only, the smallest first, and these sums are added as floats are.
//
// Where an operand is infinite its thirds are no numbers, and neither is the sum: such tiles are done again, one by one.
#pragma once
#include "pk/base.cuh"
#include "pk/dot.cuh"
#include "pk/layout.cuh"
#include "pk/ptx.cuh"
#include "pk/tile.cuh"

namespace pk {

/// Thirds of two neighbours, each pair as mma.sync takes it.
PK_DEVICE void in_thirds(uint32_t (&third)[3], float low, float high) {
#pragma unroll
    for (int p = 0; p < 3; ++p) {
        third[p] = ptx::to_bf16_pair(low, high);
        low -= bitcast<float>(third[p] << 16);
        high -= bitcast<float>(third[p] & 0xffff0000u);
    }
}

/// acc += a b by thirds. Of 16 along k a lane takes every fourth where mma.sync numbers them in twos, since the order of a sum is
/// free: with operands in Lines, 4 elements apart along k or 8 across it, the lanes of a warp meet 32 banks.
template <class L, class A, class B> PK_DEVICE void dot_thirds(Tile<float, L>& acc, const A& a, const B& b) {
    static_assert(A::cols % 16 == 0, "the contracted tile must be a multiple of 16");
    constexpr int fragments = L::col_slots / 2, beside = min_of(4, power_of_two_in(fragments));
    constexpr int order[6][2] = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};  // thirds of a and b, smallest first
    const int g = lane() / 4, t = lane() % 4;
#pragma unroll
    for (int k = 0; k < A::cols; k += 16) {
        uint32_t right[fragments][2][3];
#pragma unroll
        for (int j = 0; j < fragments; ++j) {
            const int n = L::warp_col(thread()) + j * 8 + g;
            in_thirds(right[j][0], element(b, k + t, n), element(b, k + t + 4, n));
            in_thirds(right[j][1], element(b, k + t + 8, n), element(b, k + t + 12, n));
        }
#pragma unroll
        for (int i = 0; i < L::row_slots; i += 2) {
            const int m = L::warp_row(thread()) + i * 8 + g;
            uint32_t left[4][3];
            in_thirds(left[0], element(a, m, k + t), element(a, m, k + t + 4));
            in_thirds(left[1], element(a, m + 8, k + t), element(a, m + 8, k + t + 4));
            in_thirds(left[2], element(a, m, k + t + 8), element(a, m, k + t + 12));
            in_thirds(left[3], element(a, m + 8, k + t + 8), element(a, m + 8, k + t + 12));
#pragma unroll
            for (int j = 0; j < fragments; j += beside) {
                float sum[beside][4] = {};
#pragma unroll
                for (int n = 0; n < 6; ++n) {
                    const int p = order[n][0], q = order[n][1];
                    const uint32_t of_a[4] = {left[0][p], left[1][p], left[2][p], left[3][p]};
#pragma unroll
                    for (int c = 0; c < beside; ++c) ptx::mma_bf16(sum[c], of_a, right[j + c][0][q], right[j + c][1][q]);
                }
#pragma unroll
                for (int c = 0; c < beside; ++c) {
                    acc.at(i, 2 * (j + c)) += sum[c][0], acc.at(i, 2 * (j + c) + 1) += sum[c][1];
                    acc.at(i + 1, 2 * (j + c)) += sum[c][2], acc.at(i + 1, 2 * (j + c) + 1) += sum[c][3];
                }
            }
        }
    }
}

/// acc += a b by fused multiply-adds in the same layout: slow, and seldom needed, so that it must not cost registers elsewhere.
template <class L, class A, class B> PK_DEVICE void dot_one_by_one(Tile<float, L>& acc, const A& a, const B& b) {
    const int own = ptx::opaque(thread());  // what follows from it is computed here, not before the loops around
#pragma unroll 1
    for (int k = 0; k < A::cols; ++k) {
        float right[L::col_slots];
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) right[j] = element(b, k, L::col(own, j));
#pragma unroll
        for (int i = 0; i < L::row_slots; ++i) {
            const float left = element(a, L::row(own, i), k);
#pragma unroll
            for (int j = 0; j < L::col_slots; ++j) acc.at(i, j) = fma(left, right[j], acc.at(i, j));
        }
    }
}

/// acc += a b by thirds, or `one_by_one`.
template <class L, class A, class B>
PK_DEVICE void dot(Tile<float, L>& acc, const A& a, const B& b, bool one_by_one) {
    static_assert(A::rows == L::rows && B::cols == L::cols && A::cols == B::rows, "sizes do not match");
    if (one_by_one) dot_one_by_one(acc, a, b);
    else dot_thirds(acc, a, b);
}

/// Whether the tile has neither an infinity nor NaN, in any thread; a barrier of the block.
template <class L> PK_DEVICE bool all_finite(const Tile<float, L>& x) {
    bool finite = true;
#pragma unroll
    for (int n = 0; n < L::slots; ++n) finite = finite && fabsf(x.v[n]) < INFINITY;
    return !__syncthreads_or(!finite);
}

}  // namespace pk
