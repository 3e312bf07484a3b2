// A row times a matrix: a matter of reading the matrix once, as fast as memory gives it. The contracted axis is shared out to
// the warps of a block and to the blocks of a cluster, which hand their sums over through each other's shared memory (Hopper
// and later). Each warp keeps much of the matrix on its way: in boxes that the copy engine brings to shared memory, or where it
// cannot, in loads of 16 bytes a lane.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/layout.cuh"
#include "pk/math.cuh"
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
        for (int e = 0; e < 8; ++e) sum[e] = fma(left[u], right[e], sum[e]);
    }
}

/// The sums of N products, a tile of each.
template <class L, int N> struct Sums {
    Tile<float, L> of[N];
};

/// A matrix that the copy engine brings, and the coordinates of its batches, the innermost first.
template <int N> struct Brought {
    const TensorMap& map;
    int batch[N + 1];

    /// Asks for the box at these coordinates.
    template <class Boxes, class... At> PK_DEVICE void ask(Boxes& boxes, int slot, At... at) const {
        static_assert(N <= 3, "the copy engine knows five dims");
        if constexpr (N == 0) boxes.ask(slot, map, at...);
        else if constexpr (N == 1) boxes.ask(slot, map, at..., batch[0]);
        else if constexpr (N == 2) boxes.ask(slot, map, at..., batch[0], batch[1]);
        else boxes.ask(slot, map, at..., batch[0], batch[1], batch[2]);
    }
};
template <class... Batch> PK_DEVICE Brought<sizeof...(Batch)> brought(const TensorMap& map, Batch... batch) {
    return {map, {static_cast<int>(batch)..., 0}};
}

/// Asks for a box of the matrix of this number.
template <class Boxes, class... At> PK_DEVICE void ask_one(int, Boxes&, int, At...) {}
template <class Boxes, int N, class... Others, class... At>
PK_DEVICE void ask_one(int number, Boxes& boxes, int slot, int64_t inner, int64_t outer, const Brought<N>& b,
                       const Others&... others) {
    if (number == 0) b.ask(boxes, slot, inner, outer);
    else if constexpr (sizeof...(Others) > 0) ask_one(number - 1, boxes, slot, inner, outer, others...);
}

// Adds up what the warps of a block and then the blocks of a cluster have found for each column of each of N products, in this
// order. `partial`: warps x columns of all products, then the block's sums.
template <class L, int Parts, int N = 1> PK_DEVICE Sums<L, N> sums_of_parts(float* partial) {
    constexpr int warps = L::threads / kWarp, cols = N * L::cols;
    float* whole = partial + warps * cols;
    const int col = L::col(thread(), 0);
    __syncthreads();
    Sums<L, N> total;
#pragma unroll
    for (int p = 0; p < N; ++p) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < warps; ++w) sum += partial[w * cols + p * L::cols + col];
        total.of[p].v[0] = sum;
    }
    if constexpr (Parts > 1) {
#pragma unroll
        for (int p = 0; p < N; ++p)
            if (thread() == col) whole[p * L::cols + col] = total.of[p].v[0];
        Cluster<1, Parts>::sync();
        if (Cluster<1, Parts>::rank() == 0) {
#pragma unroll
            for (int part = 1; part < Parts; ++part)
#pragma unroll
                for (int p = 0; p < N; ++p) total.of[p].v[0] += *ptx::in_block(&whole[p * L::cols + col], part);
        }
        Cluster<1, Parts>::sync();  // no block leaves while its sums are being read
    }
    return total;
}

// The same from what the lanes of each warp have found: lane l for columns 8 l to 8 l + 7, modulo the columns there are.
template <class L, int Parts> PK_DEVICE Tile<float, L> sum_of_lanes(float* partial, float (&sum)[8]) {
    constexpr int lanes = L::cols / 8;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
#pragma unroll
        for (int mask = lanes; mask < kWarp; mask *= 2) sum[e] += __shfl_xor_sync(~0u, sum[e], mask);
        if (lane() < lanes) partial[warp() * L::cols + lane() * 8 + e] = sum[e];
    }
    return sums_of_parts<L, Parts>(partial).of[0];
}

// Adds up what the lanes of a warp have for each of N columns from `first` on, of `cols`.
template <int N> PK_DEVICE void store_sums(float* partial, float (&sum)[N], int first, int cols) {
#pragma unroll
    for (int c = 0; c < N; ++c) {
#pragma unroll
        for (int mask = 1; mask < kWarp; mask *= 2) sum[c] += __shfl_xor_sync(~0u, sum[c], mask);
        if (lane() == 0) partial[warp() * cols + first + c] = sum[c];
    }
}

/// What one of `Warps` warps has on its way: `Slots` boxes of `Elements` elements in shared memory, which the copy engine fills
/// and this warp reads. It asks for the next one as soon as it has read one, and waits for no other warp.
template <class T, int Elements, int Slots, int Warps> struct WarpBoxes {
    static constexpr int barriers_at = Warps * Slots * Elements * static_cast<int>(sizeof(T));
    static constexpr int bytes = barriers_at + Warps * Slots * 8;

    T* data;
    uint64_t* full;
    int slot = 0, parity = 0;

    PK_DEVICE explicit WarpBoxes(void* memory)
        : data(static_cast<T*>(memory) + warp() * Slots * Elements),
          full(reinterpret_cast<uint64_t*>(static_cast<unsigned char*>(memory) + barriers_at) + warp() * Slots) {
        if (lane() == 0) {
            for (int i = 0; i < Slots; ++i) ptx::barrier_init(full + i, 1);
            ptx::barriers_ready();
            ptx::fence_async_proxy();
        }
        __syncwarp();
    }

    /// Asks for the box at these coordinates (the innermost first) in slot `which`.
    template <class... At> PK_DEVICE void ask(int which, const TensorMap& map, At... at) {
        if (lane() != 0) return;
        ptx::barrier_expect(full + which, Elements * static_cast<int>(sizeof(T)));
        ptx::copy_box(data + which * Elements, map, full + which, static_cast<int>(at)...);
    }
    PK_DEVICE T* arrived() {
        ptx::barrier_wait(full + slot, parity);
        return data + slot * Elements;
    }
    /// All lanes have read the box that arrived; its slot, which is free again.
    PK_DEVICE int done() {
        __syncwarp();
        const int free = slot;
        if (++slot == Slots) slot = 0, parity ^= 1;
        return free;
    }
};

/// Sums over k of a[k] b[k, n] for the columns of L from `col` on, in the first block of each cluster of `Parts`, with the
/// matrix stored row by row: boxes have `Rows` rows. Batches are the innermost first.
template <class L, int Parts, int Rows, int Slots, class T, class... Batch>
PK_DEVICE Tile<float, L> row_times_rows(void* memory, const T* a, int64_t stride, const TensorMap& b, int64_t depth,
                                        int64_t col, Batch... batch) {
    constexpr int warps = L::threads / kWarp, lanes = L::cols / 8, at_once = kWarp / lanes;
    static_assert(at_once >= 1 && Rows <= kWarp && Rows % at_once == 0, "a warp reads whole rows, a lane has one of `a`");
    using Boxes = WarpBoxes<T, Rows * L::cols, Slots, warps>;
    Boxes boxes(memory);
    const int64_t step = int64_t(Parts) * warps * Rows;
    int64_t k = int64_t(Cluster<1, Parts>::rank() * warps + warp()) * Rows;
    for (int i = 0; i < Slots; ++i)
        if (k + i * step < depth) boxes.ask(i, b, col, k + i * step, batch...);
    float sum[8] = {};
    for (; k < depth; k += step) {
        const float left = lane() < Rows && k + lane() < depth ? float(a[(k + lane()) * stride]) : 0.0f;
        const T* box = boxes.arrived();
#pragma unroll
        for (int r = 0; r < Rows; r += at_once) {  // lanes run on into the next row
            float right[8];
            widen<T>(right, *reinterpret_cast<const uint4*>(box + r * L::cols + lane() * 8));
            const float x = __shfl_sync(~0u, left, r + lane() / lanes);
#pragma unroll
            for (int e = 0; e < 8; ++e) sum[e] = fma(x, right[e], sum[e]);
        }
        const int free = boxes.done();
        if (k + Slots * step < depth) boxes.ask(free, b, col, k + Slots * step, batch...);
    }
    return sum_of_lanes<L, Parts>(reinterpret_cast<float*>(static_cast<unsigned char*>(memory) + Boxes::bytes), sum);
}

/// The same with matrices stored column by column, each with as many columns and sums of its own: boxes have 256 of k for
/// `Columns` columns of one of them, which a warp keeps to.
template <class L, int Parts, int Columns, int Slots, class T, class... Matrices>
PK_DEVICE Sums<L, sizeof...(Matrices)> row_times_columns_of(void* memory, const T* a, int64_t stride, int64_t depth,
                                                            int64_t col, const Matrices&... b) {
    constexpr int warps = L::threads / kWarp, deep = 8 * kWarp, each = L::cols / Columns;
    constexpr int products = sizeof...(Matrices), across = products * each, down = warps / across;
    static_assert(L::cols % Columns == 0 && warps % across == 0, "warps take the same number of columns");
    using Boxes = WarpBoxes<T, Columns * deep, Slots, warps>;
    Boxes boxes(memory);
    const int mine = warp() % across, product = mine / each, first = mine % each * Columns;
    const int64_t step = int64_t(Parts) * down * deep;
    int64_t k = int64_t(Cluster<1, Parts>::rank() * down + warp() / across) * deep;
    for (int i = 0; i < Slots; ++i)
        if (k + i * step < depth) ask_one(product, boxes, i, k + i * step, col + first, b...);
    float sum[Columns] = {};
    for (; k < depth; k += step) {
        float left[8];
        read_some<1>(left, a, stride, k + lane() * 8, depth);
        const T* box = boxes.arrived();
#pragma unroll
        for (int c = 0; c < Columns; ++c) {
            float right[8];
            widen<T>(right, *reinterpret_cast<const uint4*>(box + c * deep + lane() * 8));
#pragma unroll
            for (int e = 0; e < 8; ++e) sum[c] = fma(left[e], right[e], sum[c]);
        }
        const int free = boxes.done();
        if (k + Slots * step < depth) ask_one(product, boxes, free, k + Slots * step, col + first, b...);
    }
    constexpr int cols = products * L::cols;
    auto* partial = reinterpret_cast<float*>(static_cast<unsigned char*>(memory) + Boxes::bytes);
    for (int i = lane(); i < cols; i += kWarp) partial[warp() * cols + i] = 0.0f;  // columns of other warps
    __syncwarp();
    store_sums(partial, sum, mine * Columns, cols);
    return sums_of_parts<L, Parts, products>(partial);
}

/// The same with one matrix.
template <class L, int Parts, int Columns, int Slots, class T, class... Batch>
PK_DEVICE Tile<float, L> row_times_columns(void* memory, const T* a, int64_t stride, const TensorMap& b, int64_t depth,
                                           int64_t col, Batch... batch) {
    return row_times_columns_of<L, Parts, Columns, Slots>(memory, a, stride, depth, col, brought(b, batch...)).of[0];
}

/// The same with loads, for the columns that are left of a matrix stored row by row (`row_stride` apart, columns contiguous).
/// `memory`: 4 (warps + 1) bytes a column, of each block.
template <class L, int Parts, int Loads = 8, class T>
PK_DEVICE Tile<float, L> row_times_rows(void* memory, const T* a, int64_t stride, const T* b, int64_t row_stride, int64_t depth,
                                        int cols_left = kAll) {
    constexpr int warps = L::threads / kWarp, lanes = L::cols / 8, at_once = kWarp / lanes, rows = at_once * Loads;
    static_assert(at_once >= 1, "a warp reads whole rows");
    auto* partial = static_cast<float*>(memory);
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
    return sum_of_lanes<L, Parts>(partial, sum);
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
                for (int e = 0; e < 8; ++e) sum[c] = fma(left[e], right[e], sum[c]);
            }
        }
        store_sums(partial, sum, first, L::cols);
    }
    return sums_of_parts<L, Parts>(partial).of[0];
}

}  // namespace pk
