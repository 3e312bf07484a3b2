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

// Adds up the sums of a block's warps, and then of the blocks of a cluster. Warp w has L::cols / Across of the columns, those of
// w % Across, row by row from `partial` + w * Apart on, `Pitch` apart. `whole`: room for the sums of a block.
template <class L, int Parts, int M, int Across, int Apart, int Pitch>
PK_DEVICE Tile<float, L> sum_of_warps(const float* partial, float* whole) {
    constexpr int down = L::threads / kWarp / Across, columns = L::cols / Across;
    const int col = L::col(thread(), 0);
    Tile<float, L> total;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) {
        const int row = L::row(thread(), i);
        total.v[i] = 0;
        if (row < M && owns<L>(thread())) {  // what other threads would have is never stored
#pragma unroll
            for (int w = 0; w < down; ++w)
                total.v[i] += partial[(w * Across + col / columns) * Apart + row * Pitch + col % columns];
        }
    }
    if constexpr (Parts > 1) {
#pragma unroll
        for (int i = 0; i < L::row_slots; ++i) whole[i * L::threads + thread()] = total.v[i];
        Cluster<1, Parts>::sync();
        if (Cluster<1, Parts>::rank() == 0) {
#pragma unroll
            for (int part = 1; part < Parts; ++part)
#pragma unroll
                for (int i = 0; i < L::row_slots; ++i) total.v[i] += *ptx::in_block(&whole[i * L::threads + thread()], part);
        }
        Cluster<1, Parts>::sync();  // no block leaves while its sums are being read
    }
    return total;
}

/// Sums over k of a[m, k] b[k, n] for the columns of L from `col` on and the first `M` rows, in the first block of each cluster
/// of `Parts`. The matrix is stored row by row, in boxes of `Lines` rows of 64 columns, or column by column, in boxes of
/// `Lines` columns of 64 of k; both swizzled. Rows of `a` are contiguous and begin at multiples of four bytes.
template <class L, int Parts, int M, bool ByRows, int Lines, int Slots, class T, class... Batch>
PK_DEVICE Tile<float, L> few_rows(void* memory, const T* a, int64_t row_stride, const TensorMap& b, int64_t depth, int64_t col,
                                  Batch... batch) {
    constexpr int warps = L::threads / kWarp, wide = 64, groups = ceil_div(M, 8);
    constexpr int columns = ByRows ? wide : Lines, deep = ByRows ? Lines : wide, across = L::cols / columns, down = warps / across;
    static_assert(L::cols % columns == 0 && warps % across == 0 && Lines % 16 == 0, "warps take the same number of columns");
    using Box = Shared<T, Lines, wide>;
    using Boxes = WarpBoxes<T, Lines * wide, Slots, warps>;
    Boxes boxes(memory);
    const int64_t first = col + warp() % across * columns, step = int64_t(Parts) * down * deep;
    const auto ask = [&](int slot, int64_t k) {
        if (k >= depth) return;
        if constexpr (ByRows) boxes.ask(slot, b, first, k, batch...);
        else boxes.ask(slot, b, k, first, batch...);
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
    return sum_of_warps<L, Parts, M, across, apart, pitch>(partial, whole);
}

}  // namespace pk
