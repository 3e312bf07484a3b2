// The values of a tile in another layout, through local memory.
#pragma once
#include "pk/gpu/tile.hpp"

namespace pk {

// Writes every element once to place row * Pitch + col.
template <int Pitch, class T, class L>
PK_INLINE void write_out(T* to, const Tile<T, L>& x) {
    if (!owns<L>()) return;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int row = L::row(item(), i), col = L::col(item(), j);
            if (inside<L>(row, col)) to[row * Pitch + col] = x.at(i, j);
        }
}
template <class L, class T>
PK_INLINE Tile<T, L> read_in(const T* from, int row_pitch, int col_pitch) {
    Tile<T, L> y;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int row = L::row(item(), i), col = L::col(item(), j);
            if (inside<L>(row, col)) y.at(i, j) = from[row * row_pitch + col * col_pitch];
        }
    return y;
}

template <class L2, class T, class L>
PK_INLINE Tile<T, L2> relayout(const Tile<T, L>& x) {
    // A vector may go from one value per column of a tile to one per row of another, and back.
    constexpr bool turned = (L::rows == 1 && L2::cols == 1) || (L::cols == 1 && L2::rows == 1);
    static_assert(L2::rows * L2::cols == L::rows * L::cols && (turned || L2::rows == L::rows), "sizes differ");
    if constexpr (__is_same(L2, L)) {
        return x;
    } else {
        static local<T, L::rows * L::cols> between;
        write_out<L::cols>(&between[0], x);
        sync();
        const auto y = read_in<L2>(&between[0], L2::cols, 1);
        sync();  // `between` may be written again
        return y;
    }
}

// Rows are one element longer than the tile's, so that columns are read from different banks.
template <class L2, class T, class L>
PK_INLINE Tile<T, L2> transpose(const Tile<T, L>& x) {
    static_assert(L2::rows == L::cols && L2::cols == L::rows, "sizes differ");
    constexpr int pitch = L::cols + 1;
    static local<T, L::rows * pitch> between;
    write_out<pitch>(&between[0], x);
    sync();
    const auto y = read_in<L2>(&between[0], 1, pitch);
    sync();
    return y;
}

}  // namespace pk
