// Operands of a matrix product in local memory, and the copies that fill them.
#pragma once
#include "pk/gpu/memory.hpp"

namespace pk {

// R x C elements, row by row; `Items` work-items fill it together.
template <class T, int R, int C, int Items>
struct Shared {
    using Element = T;
    static constexpr int rows = R, cols = C, items = Items;
    T v[R * C];
    PK_INLINE T& at(int row, int col) { return v[row * C + col]; }
    PK_INLINE T at(int row, int col) const { return v[row * C + col]; }
};

// The same memory with rows and columns exchanged: an operand stored the other way round.
template <class S>
struct Transposed {
    using Element = typename S::Element;
    static constexpr int rows = S::cols, cols = S::rows;
    S& of;
    PK_INLINE Element& at(int row, int col) { return of.at(col, row); }
    PK_INLINE Element at(int row, int col) const { return of.at(col, row); }
};
template <class S>
PK_INLINE Transposed<S> transposed(S& s) { return {s}; }

// Copies the tile at `origin`, with zeros in rows from `rows_left` and columns from `cols_left` on. Neighbouring items read
// neighbouring addresses whichever way the array lies.
template <class T, int R, int C, int Items>
PK_INLINE void stage(Shared<T, R, C, Items>& to, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left = R,
                     int cols_left = C) {
    const bool down = row_stride == 1;
    for (int n = item(); n < R * C; n += Items) {
        const int row = down ? n % R : n / C, col = down ? n / R : n % C;
        const bool there = row < rows_left && col < cols_left;
        to.at(row, col) = there ? origin[row * row_stride + col * col_stride] : T();
    }
}
// Copies are over when `stage` returns.
PK_INLINE void commit() {}
template <int Groups>
PK_INLINE void wait() {}

// An operand computed in registers.
template <class S, class T, class L>
PK_INLINE void put(S&& to, const Tile<T, L>& x) {
    if (!owns<L>()) return;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int row = L::row(item(), i), col = L::col(item(), j);
            if (inside<L>(row, col)) to.at(row, col) = x.at(i, j);
        }
}

}  // namespace pk
