// A row times a matrix: a matter of reading the matrix once, as fast as memory gives it. Warps read 16 bytes a lane with many
// loads under way; the contracted axis is shared out to the warps of a block and to the blocks of a cluster, which hand their
// sums over through each other's shared memory (Hopper and later).
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/layout.cuh"
#include "pk/memory.cuh"
#include "pk/pipeline.cuh"
#include "pk/tile.cuh"

namespace pk {

/// The first of R rows of C columns, a column to a thread; the other rows are outside of every array.
template <int R, int C, int Threads> struct OneRow {
    static_assert(C <= Threads, "a thread has one column at most");
    static constexpr int rows = R, cols = C, threads = Threads;
    static constexpr int row_slots = 1, col_slots = 1, slots = 1, vector = 1;
    static constexpr int col_bits = C - 1, row_bits = 0;
    static constexpr bool full_rows = true, full_cols = true;
    static PK_CONSTEXPR int row(int, int) { return 0; }
    static PK_CONSTEXPR int col(int thread, int) { return thread % C; }
};

/// 16 bytes of 16-bit elements as floats.
template <class T> PK_DEVICE void widen(float (&to)[8], uint4 word) {
    T values[8];
    memcpy(values, &word, 16);
#pragma unroll
    for (int e = 0; e < 8; ++e) to[e] = float(values[e]);
}

/// N of `a` from k on, `Step` apart, zeros from `depth` on.
template <int Step, int N, class T>
PK_DEVICE void read_some(float (&to)[N], const T* a, int64_t stride, int64_t k, int64_t depth) {
#pragma unroll
    for (int u = 0; u < N; ++u) to[u] = k + u * Step < depth ? float(a[(k + u * Step) * stride]) : 0.0f;
}

/// sum += left[u] times the 8 columns at `from`, `stride` apart, for N of u: all loads are started before the first is used.
template <int N, class T> PK_DEVICE void add_rows(float (&sum)[8], const float (&left)[N], const T* from, int64_t stride) {
    uint4 word[N];
#pragma unroll
    for (int u = 0; u < N; ++u) word[u] = *reinterpret_cast<const uint4*>(from + u * stride);
#pragma unroll
    for (int u = 0; u < N; ++u) {
        float right[8];
        widen<T>(right, word[u]);
#pragma unroll
        for (int e = 0; e < 8; ++e) sum[e] += left[u] * right[e];
    }
}

// Adds up what the warps of a block and then the blocks of a cluster have found for each column, in this order.
template <class L, int Parts> PK_DEVICE Tile<float, L> sum_of_parts(float* partial) {
    constexpr int warps = L::threads / kWarp;
    float* whole = partial + warps * L::cols;
    const int col = L::col(thread(), 0);
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w) sum += partial[w * L::cols + col];
    if (thread() == col) whole[col] = sum;
    Cluster<1, Parts>::sync();
    Tile<float, L> total;
    total.v[0] = sum;
    if (Cluster<1, Parts>::rank() == 0) {
#pragma unroll
        for (int part = 1; part < Parts; ++part) total.v[0] += *ptx::in_block(&whole[col], part);
    }
    Cluster<1, Parts>::sync();  // no block leaves while its sums are being read
    return total;
}

/// Sums over k of a[k] b[k, n] for the columns n of L that are left, with the matrix stored row by row (`row_stride` apart, columns
/// contiguous), in the first block of each cluster of `Parts`. `memory`: 4 (warps + 1) bytes a column, of each block.
template <class L, int Parts, int Loads = 8, class T>
PK_DEVICE Tile<float, L> row_times_rows(void* memory, const T* a, int64_t stride, const T* b, int64_t row_stride, int64_t depth,
                                        int cols_left = kAll) {
    constexpr int warps = L::threads / kWarp, lanes = L::cols / 8, at_once = kWarp / lanes, rows = at_once * Loads;
    static_assert(at_once >= 1, "a warp reads whole rows");
    auto* partial = static_cast<float*>(memory);  // warps x columns, then the block's sums
    const int col = lane() % lanes * 8, rank = Cluster<1, Parts>::rank();
    b += within(col, cols_left) ? col : 0;  // sums of columns outside are never stored
    float sum[8] = {};
    // A lane takes every `at_once`th of the rows that its warp reads at a time.
    for (int64_t k = (int64_t(rank) * warps + warp()) * rows + lane() / lanes; k < depth; k += Parts * warps * rows) {
        float left[Loads];
        read_some<at_once>(left, a, stride, k, depth);
        if (k + (Loads - 1) * at_once < depth) {
            add_rows(sum, left, b + k * row_stride, at_once * row_stride);
        } else {
#pragma unroll
            for (int u = 0; u < Loads; ++u)
                if (k + u * at_once < depth) add_rows<1>(sum, {left[u]}, b + (k + u * at_once) * row_stride, row_stride);
        }
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
#pragma unroll
        for (int mask = lanes; mask < kWarp; mask *= 2) sum[e] += __shfl_xor_sync(~0u, sum[e], mask);
        if (lane() < lanes) partial[warp() * L::cols + col + e] = sum[e];
    }
    return sum_of_parts<L, Parts>(partial);
}

/// The same with the matrix stored column by column (`col_stride` apart, k contiguous).
template <class L, int Parts, int Loads = 8, class T>
PK_DEVICE Tile<float, L> row_times_columns(void* memory, const T* a, int64_t stride, const T* b, int64_t col_stride,
                                           int64_t depth, int cols_left = kAll) {
    constexpr int warps = L::threads / kWarp, kStep = 8 * kWarp;
    static_assert(L::cols / warps % Loads == 0, "a warp takes whole groups of its own columns");
    auto* partial = static_cast<float*>(memory);
    const int rank = Cluster<1, Parts>::rank();
    for (int i = thread(); i < warps * L::cols; i += L::threads) partial[i] = 0.0f;  // each warp has columns of its own
    __syncthreads();
    for (int first = warp() * (L::cols / warps); first < (warp() + 1) * (L::cols / warps); first += Loads) {
        float sum[Loads] = {};
        for (int64_t k = int64_t(rank) * kStep + lane() * 8; k < depth; k += Parts * kStep) {
            uint4 word[Loads];
            float left[8];
#pragma unroll
            for (int c = 0; c < Loads; ++c)
                word[c] = *reinterpret_cast<const uint4*>(b + (within(first + c, cols_left) ? first + c : 0) * col_stride + k);
            read_some<1>(left, a, stride, k, depth);
#pragma unroll
            for (int c = 0; c < Loads; ++c) {
                float right[8];
                widen<T>(right, word[c]);
#pragma unroll
                for (int e = 0; e < 8; ++e) sum[c] += left[e] * right[e];
            }
        }
#pragma unroll
        for (int c = 0; c < Loads; ++c) {
#pragma unroll
            for (int mask = 1; mask < kWarp; mask *= 2) sum[c] += __shfl_xor_sync(~0u, sum[c], mask);
            if (lane() == 0) partial[warp() * L::cols + first + c] = sum[c];
        }
    }
    return sum_of_parts<L, Parts>(partial);
}

}  // namespace pk
