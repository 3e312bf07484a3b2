// Rows that 16 bytes at a time do not fit. Of 16-bit elements that begin anywhere they are put together from the two aligned
// words they lie in, which neighbouring lanes share through the cache.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/memory.cuh"
#include "pk/tile.cuh"

namespace pk {

/// 16 bytes from byte `shift` (even, below 16) of the 32 that `low` and `high` are.
PK_DEVICE uint4 shifted(uint4 low, uint4 high, unsigned shift) {
    uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int step = 2; step >= 1; --step)  // by two words, then by one
        if (shift & 4 * step) {
#pragma unroll
            for (int i = 0; i + step < 8; ++i) w[i] = w[i + step];
        }
    const unsigned bits = shift & 2 ? 16 : 0;
    const auto word = [&](int i) { return static_cast<uint32_t>((uint64_t(w[i + 1]) << 32 | w[i]) >> bits); };
    return {word(0), word(1), word(2), word(3)};
}

/// The vector at `from`, of the two aligned words that it lies in.
template <class T> PK_DEVICE void read_between(T* to, const T* from) {
    const auto address = reinterpret_cast<uint64_t>(from);
    const auto* words = reinterpret_cast<const uint4*>(address & ~uint64_t(15));
    const unsigned shift = address & 15;
    const uint4 word = shifted(words[0], words[shift ? 1 : 0], shift);
    memcpy(to, &word, 16);
}

/// As load<L>, for columns that are contiguous and rows that are not aligned. Reads nothing outside: what lies past a row is
/// the next one, and the last vectors of the last row are read element by element.
template <class L, class T>
PK_DEVICE Tile<T, L> load_shifted(const T* origin, int64_t row_stride, int64_t, int rows_left = kAll, int cols_left = kAll,
                                  T pad = T()) {
    static_assert(sizeof(T) == 2 && L::vector == 8, "vectors of 16 bytes");
    const int rows = min_of(rows_left, L::rows), cols = min_of(cols_left, L::cols);
    Tile<T, L> y;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; j += 8) {
            const int row = L::row(thread(), i), col = L::col(thread(), j);
            const T* from = origin + row * row_stride + col;
            T* to = &y.v[i * L::col_slots + j];
            if (row < rows && col + 8 <= cols && (row + 1 < rows || col + 16 <= cols)) {
                read_between(to, from);
            } else {
#pragma unroll
                for (int e = 0; e < 8; ++e) to[e] = row < rows && col + e < cols ? from[e] : pad;
            }
        }
    return y;
}

/// As store, to rows that begin at multiples of 16 bytes and may end within a vector, whose elements are written one by one.
template <class T, class L>
PK_DEVICE void store_rows(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t, int rows_left = kAll,
                          int cols_left = kAll) {
    using A = Access<T, L>;
    if (!owns<L>(thread())) return;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; j += A::width) {
            const int row = L::row(thread(), i), col = L::col(thread(), j);
            T* to = origin + row * row_stride + col;
            const T* from = &x.v[i * L::col_slots + j];
            if (!within(row, min_of(rows_left, L::rows))) continue;
            if (within(col + A::width - 1, min_of(cols_left, L::cols))) {
                A::write(to, from);
            } else {
#pragma unroll
                for (int e = 0; e < A::width; ++e)
                    if (within(col + e, min_of(cols_left, L::cols))) to[e] = from[e];
            }
        }
}

/// load_between<L>, store_between: as load and store, of 16-bit elements whose columns are contiguous and whose rows begin between
/// multiples of 16 bytes. Nothing is read behind a row, and in front of it no more than the word that it begins in.
template <class L, class T> PK_DEVICE Tile<T, L> load_between(const T* origin, Window<L> w, T pad = T()) {
    static_assert(sizeof(T) == 2 && L::vector == 8, "vectors of 16 bytes");
    const int cols = min_of(w.cols_left, L::cols);
    Tile<T, L> y;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; j += 8) {
            const int row = L::row(thread(), i), col = L::col(thread(), j);
            const T* from = origin + row * w.row_stride + col;
            T* to = &y.v[i * L::col_slots + j];
            const bool there = within(row, w.rows_left);
            if (there && col + 16 <= cols) {
                read_between(to, from);
            } else {
#pragma unroll
                for (int e = 0; e < 8; ++e) to[e] = there && col + e < cols ? from[e] : pad;
            }
        }
    return y;
}
template <class L, class T> PK_DEVICE Tile<T, L> load_between(const T* origin, int64_t stride) {
    return load_between<L>(origin, Window<L>::vector(stride, kAll));
}
template <class L, class T> PK_DEVICE Tile<T, L> load_between(const T* origin, int64_t row_stride, int64_t col_stride) {
    if constexpr (is_vector<L>) return load_between<L>(origin, Window<L>::vector(row_stride, static_cast<int>(col_stride)));
    else return load_between<L>(origin, Window<L>(row_stride, col_stride, kAll, kAll));
}
template <class L, class T, class Pad>
PK_DEVICE Tile<T, L> load_between(const T* origin, int64_t stride, int left, Pad pad) {
    return load_between<L>(origin, Window<L>::vector(stride, left), T(pad));
}
template <class L, class T, class Pad = T>
PK_DEVICE Tile<T, L> load_between(const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left,
                                  Pad pad = Pad()) {
    return load_between<L>(origin, Window<L>(row_stride, col_stride, rows_left, cols_left), T(pad));
}

/// A lane writes the aligned word that begins in its vector and ends in the next lane's; the ends of what a warp has of a row
/// are written element by element.
template <class T, class L> PK_DEVICE void store_between(const Tile<T, L>& x, T* origin, Window<L> w) {
    static_assert(sizeof(T) == 2 && L::vector == 8, "vectors of 16 bytes");
    constexpr int across = min_of(L::row_threads, kWarp);
    const bool first = lane() % across == 0, last = lane() % across == across - 1;
    const int cols = min_of(w.cols_left, L::cols);
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; j += 8) {
            const int row = L::row(thread(), i), col = L::col(thread(), j);
            const T* from = &x.v[i * L::col_slots + j];
            uint4 own;
            memcpy(&own, from, 16);
            const int other = (lane() + 1) % kWarp;
            const uint4 next = {__shfl_sync(~0u, own.x, other), __shfl_sync(~0u, own.y, other),
                                __shfl_sync(~0u, own.z, other), __shfl_sync(~0u, own.w, other)};
            T* to = origin + row * w.row_stride + col;
            if (!owns<L>(thread()) || !within(row, w.rows_left)) continue;
            const int head = (16 - static_cast<int>(reinterpret_cast<uint64_t>(to) & 15)) % 16 / 2;  // in front of the word
            const bool whole = (head == 0 || !last) && col + head + 8 <= cols;
            const bool begun = head == 0 || (!first && col + head <= cols);  // the head belongs to the word before
            if (whole) ptx::store_global(to + head, shifted(own, next, head * 2));
            if (whole && begun) continue;
#pragma unroll
            for (int e = 0; e < 8; ++e)
                if (!(e < head ? begun : whole) && col + e < cols) to[e] = from[e];
        }
}
template <class T, class L> PK_DEVICE void store_between(const Tile<T, L>& x, T* origin, int64_t stride) {
    store_between(x, origin, Window<L>::vector(stride, kAll));
}
template <class T, class L>
PK_DEVICE void store_between(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride) {
    if constexpr (is_vector<L>) store_between(x, origin, Window<L>::vector(row_stride, static_cast<int>(col_stride)));
    else store_between(x, origin, Window<L>(row_stride, col_stride, kAll, kAll));
}
template <class T, class L>
PK_DEVICE void store_between(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride, int rows_left,
                             int cols_left) {
    store_between(x, origin, Window<L>(row_stride, col_stride, rows_left, cols_left));
}

/// The way of fragments to rows that begin anywhere. Eight rows at a time, each warp puts what it holds into shared memory of
/// its own and writes it from there: every row at once, 16 bytes a lane between the first and the last that are aligned.
template <class T, class L> struct RowWriter {
    static constexpr int pitch = L::warp_cols + 8;  // the lanes of a fragment write to different banks
    static_assert(sizeof(T) == 2 && L::warp_cols % 8 == 0 && L::warp_cols <= 8 * kWarp, "a lane has one vector of a row at most");

    T* kept;

    PK_DEVICE explicit RowWriter(void* memory) : kept(static_cast<T*>(memory) + warp() * 8 * pitch) {}

    PK_DEVICE void store(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t, int rows_left = kAll,
                         int cols_left = kAll) const {
        const int first_col = L::warp_col(thread()), cols = min_of(ptx::minus(cols_left, first_col), L::warp_cols);
#pragma unroll
        for (int i = 0; i < L::row_slots; ++i) {
            __syncwarp();  // what was kept before has been read
#pragma unroll
            for (int j = 0; j < L::col_slots; j += 2)
                memcpy(kept + lane() / 4 * pitch + L::col(thread(), j) - first_col, &x.v[i * L::col_slots + j], 4);
            __syncwarp();
            const int first_row = L::row(thread(), i) - lane() / 4;
            T* to = origin + first_row * row_stride + first_col;
#pragma unroll
            for (int r = 0; r < 8; ++r)
                if (within(first_row + r, rows_left)) write(kept + r * pitch, to + r * row_stride, cols);
        }
    }

    // One row of `cols` elements.
    static PK_DEVICE void write(const T* from, T* to, int cols) {
        const int head = min_of(cols, (16 - static_cast<int>(reinterpret_cast<uint64_t>(to) & 15)) % 16 / 2);
        const int vectors = max_of(0, ptx::minus(cols, head)) / 8, rest = head + vectors * 8;  // in front of the end, behind them
        if (lane() < vectors) {
            const int col = head + lane() * 8;
            const auto* words = reinterpret_cast<const uint4*>(from + col / 8 * 8);
            ptx::store_global(to + col, shifted(words[0], words[1], head * 2));
        }
        const int single = lane() < 8 ? lane() : rest + lane() - 8;
        if (lane() < 8 ? lane() < head : lane() < 16 && single < cols) to[single] = from[single];
    }
};

}  // namespace pk
