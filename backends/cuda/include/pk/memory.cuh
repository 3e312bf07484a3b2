// Tiles from and to global memory: 16 bytes at a time where the addresses allow it, element by element where not.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/tile.cuh"

namespace pk {

template <int Bytes> struct Word;
template <> struct Word<1> { using Type = unsigned char; };
template <> struct Word<2> { using Type = unsigned short; };
template <> struct Word<4> { using Type = unsigned int; };
template <> struct Word<8> { using Type = uint2; };
template <> struct Word<16> { using Type = uint4; };

/// How the vectors of L are moved for elements of type T: `count` accesses of `width` elements each.
template <class T, class L> struct Access {
    static constexpr int width = min_of(L::vector, 16 / static_cast<int>(sizeof(T)));
    static constexpr int bytes = width * static_cast<int>(sizeof(T));
    static constexpr int groups = L::col_slots / width;
    using Type = typename Word<bytes>::Type;

    /// Whether all vectors of a tile are aligned: the same for every thread of the block, so no warp diverges.
    static PK_DEVICE bool aligned(const T* origin, int64_t row_stride, int64_t col_stride) {
        if (width == 1) return false;
        const uint64_t bits = reinterpret_cast<uint64_t>(origin) | static_cast<uint64_t>(row_stride) * sizeof(T);
        return col_stride == 1 && bits % bytes == 0;
    }
    static PK_DEVICE void read(T* to, const T* from) {
        const Type word = *reinterpret_cast<const Type*>(from);
        memcpy(to, &word, bytes);
    }
    static PK_DEVICE void write(T* to, const T* from) {
        Type word;
        memcpy(&word, from, bytes);
        *reinterpret_cast<Type*>(to) = word;
    }
};

/// The tile at `origin`, `pad` in rows from `rows_left` and columns from `cols_left` on. Strides are in elements.
template <class L, class T>
PK_DEVICE Tile<T, L> load(const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left, T pad) {
    using A = Access<T, L>;
    Tile<T, L> y;
    const bool aligned = A::aligned(origin, row_stride, col_stride);
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) {
        const int row = L::row(thread(), i);
        const T* from = origin + row * row_stride;
#pragma unroll
        for (int g = 0; g < A::groups; ++g) {
            const int j = g * A::width, col = L::col(thread(), j);
            T* to = &y.v[i * L::col_slots + j];
            if (aligned && row < rows_left && col + A::width <= cols_left && inside<L>(row, col)) {
                A::read(to, from + col);
            } else {
#pragma unroll
                for (int e = 0; e < A::width; ++e) {
                    const bool there = row < rows_left && col + e < cols_left && inside<L>(row, col);
                    to[e] = there ? from[(col + e) * col_stride] : pad;
                }
            }
        }
    }
    return y;
}

/// The tile at `origin`, every element of which is known to be inside its buffer.
template <class L, class T> PK_DEVICE Tile<T, L> load(const T* origin, int64_t row_stride, int64_t col_stride) {
    return load<L>(origin, row_stride, col_stride, L::rows, L::cols, T{});
}

/// Writes rows below `rows_left` and columns below `cols_left`.
template <class T, class L>
PK_DEVICE void store(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left) {
    using A = Access<T, L>;
    if (!owns<L>(thread())) return;
    const bool aligned = A::aligned(origin, row_stride, col_stride);
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) {
        const int row = L::row(thread(), i);
        T* to = origin + row * row_stride;
#pragma unroll
        for (int g = 0; g < A::groups; ++g) {
            const int j = g * A::width, col = L::col(thread(), j);
            const T* from = &x.v[i * L::col_slots + j];
            if (aligned && row < rows_left && col + A::width <= cols_left && inside<L>(row, col)) {
                A::write(to + col, from);
            } else {
#pragma unroll
                for (int e = 0; e < A::width; ++e)
                    if (row < rows_left && col + e < cols_left && inside<L>(row, col))
                        to[(col + e) * col_stride] = from[e];
            }
        }
    }
}

template <class T, class L> PK_DEVICE void store(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride) {
    store(x, origin, row_stride, col_stride, L::rows, L::cols);
}

/// A scalar of the block, which every thread holds.
template <class T> PK_DEVICE void store_scalar(T x, T* origin) {
    if (thread() == 0) *origin = x;
}

}  // namespace pk
