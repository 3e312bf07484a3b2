// Tiles from and to global memory: 16 bytes at a time where the addresses allow it, element by element where not.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/ptx.cuh"
#include "pk/tile.cuh"

namespace pk {

template <int Bytes> struct Word;
template <> struct Word<1> { using Type = unsigned char; };
template <> struct Word<2> { using Type = unsigned short; };
template <> struct Word<4> { using Type = unsigned int; };
template <> struct Word<8> { using Type = uint2; };
template <> struct Word<16> { using Type = uint4; };

/// What is known of an access when it is compiled. Unknown: nothing, so it is looked at when it runs. Aligned: every row of
/// the tile begins at a multiple of 16 bytes, its columns are contiguous, and 16 bytes lie inside the buffer or outside. Kept:
/// aligned, and L2 shall give its lines up last.
struct Unknown { static constexpr bool aligned = false, kept = false; };
struct Aligned { static constexpr bool aligned = true, kept = false; };
struct Kept { static constexpr bool aligned = true, kept = true; };

/// How the vectors of L are moved for elements of type T: `width` elements at a time.
template <class T, class L> struct Access {
    static constexpr int width = min_of(L::vector, 16 / static_cast<int>(sizeof(T)));
    static constexpr int bytes = width * static_cast<int>(sizeof(T));
    using Type = typename Word<bytes>::Type;

    /// Whether the tile can be moved in vectors that are aligned and either inside or outside as a whole: the same answer
    /// for every thread of the block, so no warp diverges.
    static PK_DEVICE bool whole(const T* origin, int64_t row_stride, int64_t col_stride, int cols_left) {
        if (width == 1) return false;
        const uint64_t bits = reinterpret_cast<uint64_t>(origin) | static_cast<uint64_t>(row_stride) * sizeof(T);
        return col_stride == 1 && bits % bytes == 0 && (cols_left % width == 0 || cols_left >= L::cols);
    }
    /// What is at `from`, where it is `there`: elements that stay whole words until they are used.
    template <class Fact = Unknown> static PK_DEVICE void read(T* to, const T* from, bool there, const T (&pads)[width]) {
        Type word;
        memcpy(&word, pads, bytes);
        if (there) {
            if constexpr (Fact::kept && bytes > 1) ptx::load_kept(from, word);
            else word = *reinterpret_cast<const Type*>(from);
        }
        memcpy(to, &word, bytes);
    }
    template <class Fact = Unknown> static PK_DEVICE void write(T* to, const T* from) {
        Type word;
        memcpy(&word, from, bytes);
        if constexpr (bytes == 1) *reinterpret_cast<Type*>(to) = word;
        else if constexpr (Fact::kept) ptx::store_kept(to, word);
        else ptx::store_global(to, word);
    }
};

constexpr int kAll = 0x7fffffff;  // left of what is known to be inside: then no check remains

PK_DEVICE bool within(int coordinate, int left) { return left == kAll || coordinate < left; }

// The tile at `origin`: `pad` in rows from `rows_left` and columns from `cols_left` on. Strides are in elements.
template <class L, class Fact, class T>
PK_DEVICE Tile<T, L> load_vectors(const T* origin, int64_t row_stride, int rows_left, int cols_left, T pad) {
    using A = Access<T, L>;
    Tile<T, L> y;
    T pads[A::width];
#pragma unroll
    for (int e = 0; e < A::width; ++e) pads[e] = pad;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; j += A::width) {
            const int row = L::row(thread(), i), col = L::col(thread(), j);
            const bool there = within(row, rows_left) && within(col, cols_left);
            A::template read<Fact>(&y.v[i * L::col_slots + j], origin + row * row_stride + col, there, pads);
        }
    return y;
}

template <class L, class T>
PK_DEVICE Tile<T, L> load_elements(const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left,
                                   T pad) {
    Tile<T, L> y;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int row = L::row(thread(), i), col = L::col(thread(), j);
            y.at(i, j) = within(row, rows_left) && within(col, cols_left) ? origin[row * row_stride + col * col_stride] : pad;
        }
    return y;
}

template <class Fact, class T, class L>
PK_DEVICE void store_vectors(const Tile<T, L>& x, T* origin, int64_t row_stride, int rows_left, int cols_left) {
    using A = Access<T, L>;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; j += A::width) {
            const int row = L::row(thread(), i), col = L::col(thread(), j);
            if (within(row, rows_left) && within(col, cols_left))
                A::template write<Fact>(origin + row * row_stride + col, &x.v[i * L::col_slots + j]);
        }
}

template <class T, class L>
PK_DEVICE void store_elements(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride, int rows_left,
                              int cols_left) {
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int row = L::row(thread(), i), col = L::col(thread(), j);
            if (within(row, rows_left) && within(col, cols_left)) origin[row * row_stride + col * col_stride] = x.at(i, j);
        }
}

// Fragments hold two neighbours of a row; four lanes hold 8 of them, and four such groups 16 bytes each. So the lanes of a
// quad transpose 4 x 4 words among them, and each stores 16 bytes.
template <class T, class L> struct InQuads { static constexpr bool value = false; };
template <class T, int R, int C, int Warps, class E, int Down> struct InQuads<T, Accumulator<R, C, Warps, E, Down>> {
    using L = Accumulator<R, C, Warps, E, Down>;
    static constexpr bool value = L::fragments && sizeof(T) == 2 && L::warp_cols % 32 == 0;
};
template <class T, class L> constexpr bool in_quads = InQuads<T, L>::value;

PK_DEVICE uint4 transpose_in_quad(const uint32_t (&w)[4]) {
    const bool odd = lane() & 1, high = lane() & 2;
    const uint32_t s0 = __shfl_xor_sync(~0u, odd ? w[0] : w[1], 1), s1 = __shfl_xor_sync(~0u, odd ? w[2] : w[3], 1);
    const uint32_t a0 = odd ? s0 : w[0], a1 = odd ? w[1] : s0, a2 = odd ? s1 : w[2], a3 = odd ? w[3] : s1;
    const uint32_t t0 = __shfl_xor_sync(~0u, high ? a0 : a2, 2), t1 = __shfl_xor_sync(~0u, high ? a1 : a3, 2);
    return high ? uint4{t0, t1, a2, a3} : uint4{a0, a1, t0, t1};
}

template <class T, class L>
PK_DEVICE void store_quads(const Tile<T, L>& x, T* origin, int64_t row_stride, int rows_left, int cols_left) {
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; j += 8) {
            uint32_t words[4];
            memcpy(words, &x.v[i * L::col_slots + j], 16);
            const uint4 word = transpose_in_quad(words);
            const int row = L::row(thread(), i), col = L::warp_col(thread()) + j * 4 + thread() % 4 * 8;
            if (within(row, rows_left) && within(col, cols_left))
                ptx::store_global(origin + row * row_stride + col, word);
        }
}

/// Strides and ends of an access. A vector has one of each, along its rows or along its columns.
template <class L> struct Window {
    int64_t row_stride, col_stride;
    int rows_left, cols_left;

    // What the layout counts beyond the tile (see Rows) is never inside.
    PK_DEVICE Window(int64_t row_stride, int64_t col_stride, int rows_left, int cols_left)
        : row_stride(row_stride), col_stride(col_stride),
          rows_left(L::full_rows ? rows_left : min_of(rows_left, L::rows)),
          cols_left(L::full_cols ? cols_left : min_of(cols_left, L::cols)) {}
    static PK_DEVICE Window vector(int64_t stride, int left) {
        return is_column<L> ? Window(stride, 0, left, 1) : Window(0, stride, 1, left);
    }
};

/// load<L>(origin, row_stride, col_stride): every element is known to be inside its buffer.
/// load<L>(origin, row_stride, col_stride, rows_left, cols_left[, pad]): `pad` outside.
/// load<V>(origin, stride[, left[, pad]]) for a vector. load<L, Aligned>: see there.
template <class L, class Fact = Unknown, class T> PK_DEVICE Tile<T, L> load(const T* origin, Window<L> w, T pad = T()) {
    if constexpr (Fact::aligned) return load_vectors<L, Fact>(origin, w.row_stride, w.rows_left, w.cols_left, pad);
    else if (Access<T, L>::whole(origin, w.row_stride, w.col_stride, w.cols_left))
        return load_vectors<L, Fact>(origin, w.row_stride, w.rows_left, w.cols_left, pad);
    else return load_elements<L>(origin, w.row_stride, w.col_stride, w.rows_left, w.cols_left, pad);
}
template <class L, class Fact = Unknown, class T> PK_DEVICE Tile<T, L> load(const T* origin, int64_t stride) {
    return load<L, Fact>(origin, Window<L>::vector(stride, kAll));
}
template <class L, class Fact = Unknown, class T>
PK_DEVICE Tile<T, L> load(const T* origin, int64_t row_stride, int64_t col_stride) {
    if constexpr (is_vector<L>) return load<L, Fact>(origin, Window<L>::vector(row_stride, static_cast<int>(col_stride)));
    else return load<L, Fact>(origin, Window<L>(row_stride, col_stride, kAll, kAll));
}
template <class L, class Fact = Unknown, class T, class Pad>
PK_DEVICE Tile<T, L> load(const T* origin, int64_t stride, int left, Pad pad) {
    static_assert(is_vector<L>, "a tile with two dims has two strides");
    return load<L, Fact>(origin, Window<L>::vector(stride, left), T(pad));
}
template <class L, class Fact = Unknown, class T>
PK_DEVICE Tile<T, L> load(const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left) {
    return load<L, Fact>(origin, Window<L>(row_stride, col_stride, rows_left, cols_left));
}
template <class L, class Fact = Unknown, class T, class Pad>
PK_DEVICE Tile<T, L> load(const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left, Pad pad) {
    return load<L, Fact>(origin, Window<L>(row_stride, col_stride, rows_left, cols_left), T(pad));
}

/// store(tile, origin, row_stride, col_stride[, rows_left, cols_left]), store(vector, origin, stride[, left]): writes what
/// is inside, each element once though several threads may hold it.
template <class Fact = Unknown, class T, class L> PK_DEVICE void store(const Tile<T, L>& x, T* origin, Window<L> w) {
    if (!owns<L>(thread())) return;
    if constexpr (Fact::aligned && in_quads<T, L>) store_quads(x, origin, w.row_stride, w.rows_left, w.cols_left);
    else if constexpr (Fact::aligned) store_vectors<Fact>(x, origin, w.row_stride, w.rows_left, w.cols_left);
    else if (Access<T, L>::whole(origin, w.row_stride, w.col_stride, w.cols_left))
        store_vectors<Fact>(x, origin, w.row_stride, w.rows_left, w.cols_left);
    else store_elements(x, origin, w.row_stride, w.col_stride, w.rows_left, w.cols_left);
}
template <class Fact = Unknown, class T, class L> PK_DEVICE void store(const Tile<T, L>& x, T* origin, int64_t stride) {
    store<Fact>(x, origin, Window<L>::vector(stride, kAll));
}
template <class Fact = Unknown, class T, class L>
PK_DEVICE void store(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride) {
    if constexpr (is_vector<L>) store<Fact>(x, origin, Window<L>::vector(row_stride, static_cast<int>(col_stride)));
    else store<Fact>(x, origin, Window<L>(row_stride, col_stride, kAll, kAll));
}
template <class Fact = Unknown, class T, class L>
PK_DEVICE void store(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left) {
    store<Fact>(x, origin, Window<L>(row_stride, col_stride, rows_left, cols_left));
}

/// A scalar of the block, which every thread holds.
template <class T> PK_DEVICE void store(T x, T* origin) {
    if (thread() == 0) *origin = x;
}

}  // namespace pk
