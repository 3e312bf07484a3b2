// Rows or columns that are pixels: the coordinate of one is that along a merged axis, taken apart.
#pragma once
#include "pk/gather.hpp"
#include "pk/panel.hpp"

namespace pk {

// Row r of a tile lies at Scale * ((first + r) / Div % Mod) + begin; no Mod: the quotient itself.
template <class Whole, int Div, int Mod, int Scale>
struct Part {
    using element = int64_t;
    using layout = Dense<2, 1>;  // a number for each row, of however many
    Whole first, begin;

    PK_INLINE int64_t at(int r, int) const {
        const Whole quotient = (first + r) / Div;
        return int64_t((Mod > 0 ? quotient % (Mod > 0 ? Mod : 1) : quotient) * Scale + begin);
    }
};
template <int Div, int Mod = 0, int Scale = 1>
PK_INLINE Part<int32_t, Div, Mod, Scale> part(int64_t first, int64_t begin = 0) {
    return {int32_t(first), int32_t(begin)};
}
// Where the merged axis has more than 2^31 coordinates.
template <int Div, int Mod = 0, int Scale = 1>
PK_INLINE Part<int64_t, Div, Mod, Scale> wide_part(int64_t first, int64_t begin = 0) {
    return {first, begin};
}

// The coordinates that rows have in a list: row r has the integer that `where` finds for it, none where that is outside.
template <class T, class P>
struct Listed {
    using element = int64_t;
    using layout = Dense<2, 1>;
    const T* list;
    P part;
    int64_t size, stride;

    PK_INLINE int64_t at(int r, int) const {
        const int64_t place = part.at(r, 0);
        return uint64_t(place) < uint64_t(size) ? int64_t(list[place * stride]) : -1;
    }
};
template <class T, class P>
PK_INLINE Listed<T, P> listed(const T* list, Along<P> where) {
    return {list, where.index, where.size, where.stride};
}

// The same of columns: of column c what `P` is of row c.
template <class P>
struct Columns {
    using element = int64_t;
    using layout = Dense<2, 2>;
    P part;

    PK_INLINE int64_t at(int, int c) const { return part.at(c, 0); }
};
template <class P>
PK_INLINE Columns<P> columns(const P& part) {
    return {part};
}

// stage(panel, origin, row_stride, col_stride, rows_left, cols_left, along(index, size, stride)...): as stage, of elements
// that lie further on by what the indices say; zeros where one is outside of its dim.
template <int R, int C, class X, class T, class... I>
PK_INLINE void stage_tile(X& panel, const T* origin, int64_t row_stride, int64_t col_stride, int32_t rows_left,
                          int32_t cols_left, Along<I>... picks) {
    const auto tile = copy(gather<Dense<R, C>>(origin, row_stride, col_stride, rows_left, cols_left, 0.0f, picks...));
    stage(panel, tile.value, C, 1, rows_left, cols_left, false);
}
template <template <class, int, int, bool> class Panel, class T, int R, int C, bool t, class First, class... I>
PK_INLINE void stage(Panel<T, R, C, t>& panel, const T* origin, int64_t row_stride, int64_t col_stride, int32_t rows_left,
                     int32_t cols_left, Along<First> pick, Along<I>... more) {
    stage_tile<R, C>(panel, origin, row_stride, col_stride, rows_left, cols_left, pick, more...);
}
// Lines of a left operand stay where they are.
template <class T, int R, int C, class First, class... I>
PK_INLINE void stage(PanelA<T, R, C, false>& panel, const T* origin, int64_t row_stride, int64_t col_stride, int32_t rows_left,
                     int32_t cols_left, Along<First> pick, Along<I>... more) {
    const int rows = clamp_count(rows_left, R), cols = clamp_count(cols_left, C);
    const auto take = [&](const auto&... picks) {
        panel.pack_lines(rows, cols, col_stride, [&](int r) -> const T* {
            return (picks.exists(r, 0) && ...) ? origin + r * row_stride + (0 + ... + picks.offset(r, 0)) : nullptr;
        });
    };
    if constexpr (picks_rows<Dense<2, 2>, First>(0) && (picks_rows<Dense<2, 2>, I>(0) && ...)) {
        take(pick, more...);
    } else {
        const auto tile = gather<Dense<R, C>>(origin, row_stride, col_stride, rows_left, cols_left, 0.0f, pick, more...);
        panel.pack(tile.value, C, 1, rows, cols, false);
    }
}

// store(tile, origin, row_stride, col_stride, rows_left, cols_left, along(index, size, stride)...): as store, of elements to
// where they lie further on by what the indices say.
template <class X, class T, class First, class... I>
PK_INLINE void store(const X& x, T* origin, int64_t row_stride, int64_t col_stride, int32_t rows_left, int32_t cols_left,
                     Along<First> pick, Along<I>... more) {
    using L = typename X::layout;
    const int rows = clamp_count(rows_left, L::rows), cols = clamp_count(cols_left, L::cols);
    for (int r = 0; r < rows; ++r) {
        T* line = origin + r * row_stride;
        if constexpr (picks_rows<Dense<2, 2>, First>(0) && (picks_rows<Dense<2, 2>, I>(0) && ...)) {
            line += pick.offset(r, 0) + (0 + ... + more.offset(r, 0));
            if (col_stride == 1) {
                PK_VECTORISE
                for (int c = 0; c < cols; ++c) line[c] = x.at(r, c);
            } else {
                for (int c = 0; c < cols; ++c) line[c * col_stride] = x.at(r, c);
            }
        } else {
            for (int c = 0; c < cols; ++c)
                line[c * col_stride + pick.offset(r, c) + (0 + ... + more.offset(r, c))] = x.at(r, c);
        }
    }
}
// store(vector, origin, stride, left, along(...)...)
template <class X, class T, class First, class... I>
PK_INLINE void store(const X& x, T* origin, int64_t stride, int32_t left, Along<First> pick, Along<I>... more) {
    using L = typename X::layout;
    static_assert(L::vector, "a tile has two strides");
    if constexpr (L::cols == 1)
        store(x, origin, stride, 0, left, 1, pick, more...);
    else
        store(x, origin, 0, stride, 1, left, pick, more...);
}

}  // namespace pk
