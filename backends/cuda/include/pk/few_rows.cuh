// A few rows, or one, times a matrix: a matter of reading the matrix once, as fast as memory gives it. Each warp has boxes of it
// on their way, as in vector_product.cuh, and multiplies them by the matrix unit with the operands exchanged, 16 columns of
// the matrix by 8 rows: eight rows take as many instructions as one, and few enough to keep out of memory's way.
#pragma once
#include "pk/base.cuh"
#include "pk/dot.cuh"
#include "pk/layout.cuh"
#include "pk/shared.cuh"
#include "pk/tile.cuh"
#include "pk/vector_product.cuh"

namespace pk {

/// R rows of C columns, neighbouring columns in neighbouring threads.
template <int R, int C, int Threads> struct FewRows {
    static_assert(is_power_of_two(C) && is_power_of_two(R) && Threads % C == 0, "all threads have as many columns");
    static constexpr int rows = R, cols = C, threads = Threads;
    static constexpr int at_once = min_of(R, Threads / C);
    static constexpr int row_slots = R / at_once, col_slots = 1, slots = row_slots, vector = 1;
    static constexpr int col_bits = C - 1, row_bits = (at_once - 1) * C;
    static constexpr bool full_rows = true, full_cols = true;
    static PK_CONSTEXPR int row(int thread, int i) { return i * at_once + thread / C % at_once; }
    static PK_CONSTEXPR int col(int thread, int) { return thread % C; }
};

/// The right operand of mma.sync, 16 of k by 8 rows from `row` on, from memory: lane / 4 is the row. Zeros outside.
template <class T>
PK_DEVICE void read_rows(uint32_t (&to)[2], const T* a, int64_t row_stride, int row, int rows, int64_t k, int64_t depth) {
    row += lane() / 4, k += lane() % 4 * 2;
    const T* from = a + row * row_stride + k;
#pragma unroll
    for (int half = 0; half < 2; ++half)
        to[half] = row < rows && k + half * 8 < depth ? *reinterpret_cast<const uint32_t*>(from + half * 8) : 0;
}

/// A box with 16 columns of the matrix and 16 of k as the left operand of mma.sync.
template <bool ByRows, class Box> PK_DEVICE void read_columns(uint32_t (&to)[4], Box& box, int column, int k) {
    if constexpr (ByRows) load_a(to, transposed(box), column, k);
    else load_a(to, box, column, k);
}

// Adds up the sums of a block's warps, and then of the blocks of a cluster, for each of N products. Warp w has columns of one
// of them, L::cols N / Across of those that lie side by side, from w % Across on, row by row from `partial` + w * Apart on, `Pitch`
// apart. `whole`: room for the sums of a block.
template <class L, int Parts, int N, int M, int Across, int Apart, int Pitch>
PK_DEVICE Sums<L, N> sums_of_warps(const float* partial, float* whole) {
    constexpr int down = L::threads / kWarp / Across, columns = N * L::cols / Across;
    Sums<L, N> total;
    __syncthreads();
#pragma unroll
    for (int p = 0; p < N; ++p) {
        const int col = p * L::cols + L::col(thread(), 0);
#pragma unroll
        for (int i = 0; i < L::row_slots; ++i) {
            const int row = L::row(thread(), i);
            float sum = 0;
            if (row < M && owns<L>(thread())) {  // what other threads would have is never stored
#pragma unroll
                for (int w = 0; w < down; ++w) sum += partial[(w * Across + col / columns) * Apart + row * Pitch + col % columns];
            }
            total.of[p].v[i] = sum;
        }
    }
    if constexpr (Parts > 1) {
        float* mine = whole + thread();
#pragma unroll
        for (int p = 0; p < N; ++p)
#pragma unroll
            for (int i = 0; i < L::row_slots; ++i) mine[(p * L::row_slots + i) * L::threads] = total.of[p].v[i];
        Cluster<1, Parts>::sync();
        if (Cluster<1, Parts>::rank() == 0) {
#pragma unroll
            for (int part = 1; part < Parts; ++part)
#pragma unroll
                for (int p = 0; p < N; ++p)
#pragma unroll
                    for (int i = 0; i < L::row_slots; ++i)
                        total.of[p].v[i] += *ptx::in_block(mine + (p * L::row_slots + i) * L::threads, part);
        }
        Cluster<1, Parts>::sync();  // no block leaves while its sums are being read
    }
    return total;
}

/// Sums over k of a[m, k] b[k, n] for the columns of L from `col` on and the first `M` rows, in the first block of each cluster
/// of `Parts`, with each of some matrices of as many columns. These are stored row by row, in boxes of `Lines` rows of 64
/// columns, or column by column, in boxes of `Lines` columns of 64 of k; both swizzled. Rows of `a` are contiguous and begin at
/// multiples of four bytes.
template <class L, int Parts, int M, bool ByRows, int Lines, int Slots, class T, class... Matrices>
PK_DEVICE Sums<L, sizeof...(Matrices)> few_rows_of(void* memory, const T* a, int64_t row_stride, int64_t depth, int64_t col,
                                                   const Matrices&... b) {
    constexpr int warps = L::threads / kWarp, wide = 64, groups = ceil_div(M, 8), products = sizeof...(Matrices);
    constexpr int columns = ByRows ? wide : Lines, deep = ByRows ? Lines : wide;
    constexpr int each = L::cols / columns, across = products * each, down = warps / across;
    static_assert(L::cols % columns == 0 && warps % across == 0 && Lines % 16 == 0, "warps take the same number of columns");
    using Box = Shared<T, Lines, wide>;
    using Boxes = WarpBoxes<T, Lines * wide, Slots, warps>;
    Boxes boxes(memory);
    const int mine = warp() % across;
    const int64_t first = col + mine % each * columns, step = int64_t(Parts) * down * deep;
    const auto ask = [&](int slot, int64_t k) {
        if (k >= depth) return;
        if constexpr (ByRows) ask_one(mine / each, boxes, slot, first, k, b...);
        else ask_one(mine / each, boxes, slot, k, first, b...);
    };
    int64_t k = int64_t(Cluster<1, Parts>::rank() * down + warp() / across) * deep;
    for (int i = 0; i < Slots; ++i) ask(i, k + i * step);
    float sum[columns / 16][groups][4] = {};
    for (; k < depth; k += step) {
        uint32_t left[deep / 16][groups][2];
#pragma unroll
        for (int s = 0; s < deep / 16; ++s)
#pragma unroll
            for (int g = 0; g < groups; ++g) read_rows(left[s][g], a, row_stride, g * 8, M, k + s * 16, depth);
        auto& box = *reinterpret_cast<Box*>(boxes.arrived());
#pragma unroll
        for (int s = 0; s < deep / 16; ++s)
#pragma unroll
            for (int n = 0; n < columns / 16; ++n) {
                uint32_t right[4];
                read_columns<ByRows>(right, box, n * 16, s * 16);
#pragma unroll
                for (int g = 0; g < groups; ++g) mma(sum[n][g], right, left[s][g][0], left[s][g][1], T{});
            }
        const int free = boxes.done();
        ask(free, k + Slots * step);
    }
    // Each warp's sums, row by row, where its own boxes were: none is on its way any more.
    constexpr int pitch = columns + 4;  // the lanes of a fragment write to different banks
    constexpr int apart = Slots * Lines * wide * static_cast<int>(sizeof(T)) / 4;
    static_assert(M * pitch <= apart, "sums fit where boxes were");
    auto* partial = static_cast<float*>(memory);
#pragma unroll
    for (int n = 0; n < columns / 16; ++n)
#pragma unroll
        for (int g = 0; g < groups; ++g)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int m = g * 8 + lane() % 4 * 2 + i % 2;
                if (m < M) partial[warp() * apart + m * pitch + n * 16 + i / 2 * 8 + lane() / 4] = sum[n][g][i];
            }
    auto* whole = reinterpret_cast<float*>(static_cast<unsigned char*>(memory) + Boxes::bytes);
    return sums_of_warps<L, Parts, products, M, across, apart, pitch>(partial, whole);
}

/// The same with one matrix. Batches are the innermost first.
template <class L, int Parts, int M, bool ByRows, int Lines, int Slots, class T, class... Batch>
PK_DEVICE Tile<float, L> few_rows(void* memory, const T* a, int64_t row_stride, const TensorMap& b, int64_t depth, int64_t col,
                                  Batch... batch) {
    return few_rows_of<L, Parts, M, ByRows, Lines, Slots>(memory, a, row_stride, depth, col, brought(b, batch...)).of[0];
}

}  // namespace pk
