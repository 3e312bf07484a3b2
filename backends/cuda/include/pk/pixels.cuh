// Rows that are pixels: the coordinate of a row is that along a merged axis, taken apart.
#pragma once
#include "pk/gather.cuh"
#include "pk/shared.cuh"

namespace pk {

/// Row i of a tile lies at Scale * ((first + i) / Div % Mod) + begin; no Mod: the quotient itself.
template <class Whole, int Div, int Mod, int Scale> struct Part {
    Whole first, begin;
    PK_DEVICE int64_t at(int row) const {
        const Whole quotient = (first + row) / Div;
        return static_cast<int64_t>((Mod > 0 ? quotient % max_of(Mod, 1) : quotient) * Scale + begin);
    }
};
template <int Div, int Mod = 0, int Scale = 1> PK_DEVICE Part<int, Div, Mod, Scale> part(int64_t first, int64_t begin = 0) {
    return {static_cast<int>(first), static_cast<int>(begin)};
}
/// Where the merged axis has more than 2^31 coordinates.
template <int Div, int Mod = 0, int Scale = 1>
PK_DEVICE Part<int64_t, Div, Mod, Scale> wide_part(int64_t first, int64_t begin = 0) {
    return {first, begin};
}

template <class L, class Whole, int Div, int Mod, int Scale> struct Element<L, Part<Whole, Div, Mod, Scale>> {
    static PK_DEVICE int64_t get(const Part<Whole, Div, Mod, Scale>& x, int i, int) { return x.at(L::row(thread(), i)); }
};

// The coordinate that an index has in row `row`.
template <class I> PK_DEVICE int64_t at_row(const I& index, int) { return static_cast<int64_t>(index); }
template <class Whole, int Div, int Mod, int Scale> PK_DEVICE int64_t at_row(const Part<Whole, Div, Mod, Scale>& index, int row) {
    return index.at(row);
}

/// stage(to, origin, row_stride, col_stride, rows_left, cols_left, along(index, size, stride)...): as stage, of rows that lie
/// further on by what the indices say; zeros where one is outside of its dim.
template <int Threads, class Fact = Unknown, class T, int R, int C, class... I>
PK_DEVICE void stage(Shared<T, R, C>& to, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left,
                     const Along<I>&... picks) {
    using S = Shared<T, R, C>;
    const int64_t strides = (row_stride | ... | picks.stride) * static_cast<int64_t>(sizeof(T));
    const bool whole = Fact::aligned || (col_stride == 1 && (reinterpret_cast<uint64_t>(origin) | strides) % 16 == 0);
#pragma unroll
    for (int n = thread(); n < R * S::chunks; n += Threads) {
        const int row = n / S::chunks, col = n % S::chunks * S::chunk;
        const bool inside = row < rows_left && (exists(at_row(picks.index, row), picks.size) && ...);
        const int there = inside ? max_of(0, min_of(S::chunk, cols_left - col)) : 0;
        const T* from = origin;
        if (there > 0) {
            from += row * row_stride + col * col_stride;
            from += (0 + ... + (at_row(picks.index, row) * picks.stride));
        }
        if (whole) {
            ptx::copy_async_16(to.at(row, col), from, there * static_cast<int>(sizeof(T)));
        } else {
            T values[S::chunk];
#pragma unroll
            for (int e = 0; e < S::chunk; ++e) values[e] = e < there ? from[e * col_stride] : T{};
            memcpy(to.at(row, col), values, 16);
        }
    }
}

/// store(tile, origin, row_stride, col_stride, rows_left, cols_left, along(index, size, stride)...): as store, to rows that lie
/// further on by what the indices say.
template <class Fact = Unknown, class T, class L, class... I>
PK_DEVICE void store(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left,
                     const Along<I>&... picks) {
    using A = Access<T, L>;
    const auto line = [&](int row) {
        return origin + row * row_stride + (0 + ... + (at_row(picks.index, row) * picks.stride));
    };
    const int64_t strides = (row_stride | ... | picks.stride);
    const bool whole = Fact::aligned || A::whole(origin, strides, col_stride, cols_left);
    if (!owns<L>(thread())) return;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) {
        const int row = L::row(thread(), i);
        if (!within(row, min_of(rows_left, L::rows))) continue;
        T* to = line(row);
        if (whole) {
#pragma unroll
            for (int j = 0; j < L::col_slots; j += A::width)
                if (within(L::col(thread(), j), cols_left))
                    A::template write<Fact>(to + L::col(thread(), j), &x.v[i * L::col_slots + j]);
        } else {
#pragma unroll
            for (int j = 0; j < L::col_slots; ++j)
                if (within(L::col(thread(), j), min_of(cols_left, L::cols))) to[L::col(thread(), j) * col_stride] = x.at(i, j);
        }
    }
}

}  // namespace pk
