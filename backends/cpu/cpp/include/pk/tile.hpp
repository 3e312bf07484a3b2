// Tiles on a CPU: dense arrays on the stack of the core that works on a block, small enough for its caches.
#pragma once
#include "pk/math.hpp"

namespace pk {

// Rows x Cols values, row after row. A vector has one row or one column.
template <int R, int C>
struct Dense {
    static constexpr int rows = R, cols = C, size = R * C;
    static constexpr bool vector = R == 1 || C == 1;
};
template <class L>
using RowOf = Dense<L::rows, 1>;  // one value per row
template <class L>
using ColOf = Dense<1, L::cols>;  // one value per column

// Everything that can be read element by element has `element`, `layout` and `at(r, c)`, the element that stands at
// (r, c) of a tile it is broadcast to. There are five such things: tiles, views, lazy maps, and row and column numbers.
template <class T, class L>
struct alignas(64) Tile {
    using element = T;
    using layout = L;
    T value[L::size];

    PK_INLINE T at(int r, int c) const { return value[(L::rows == 1 ? 0 : r) * L::cols + (L::cols == 1 ? 0 : c)]; }
};

// A tile that is read where it lies in memory; nothing writes there while a kernel runs.
template <class T, class L>
struct View {
    using element = T;
    using layout = L;
    const T* origin;
    int64_t row_stride, col_stride;

    PK_INLINE T at(int r, int c) const {
        return origin[(L::rows == 1 ? 0 : r * row_stride) + (L::cols == 1 ? 0 : c * col_stride)];
    }
};

template <class L>
struct RowIndex {
    using element = int32_t;
    using layout = RowOf<L>;
    PK_INLINE int32_t at(int r, int) const { return r; }
};
template <class L>
struct ColIndex {
    using element = int32_t;
    using layout = ColOf<L>;
    PK_INLINE int32_t at(int, int c) const { return c; }
};
template <class L>
PK_INLINE RowIndex<L> row_index() {
    return {};
}
template <class L>
PK_INLINE ColIndex<L> col_index() {
    return {};
}

// ---- elementwise

// Calls f(r, c) for every element; the inner loop, along the longer side, is the one that vectorises.
template <class L, class F>
PK_INLINE void each(F f) {
    if constexpr (L::cols == 1) {
        PK_VECTORISE
        for (int r = 0; r < L::rows; ++r) f(r, 0);
    } else {
        for (int r = 0; r < L::rows; ++r) {
            PK_VECTORISE
            for (int c = 0; c < L::cols; ++c) f(r, c);
        }
    }
}

// `f` on each element of `tiles`; vectors are broadcast.
template <class L, class F, class... X>
PK_INLINE auto map(F f, const X&... tiles) {
    Tile<decltype(f(tiles.at(0, 0)...)), L> out;
    each<L>([&](int r, int c) { out.value[r * L::cols + c] = f(tiles.at(r, c)...); });
    return out;
}

// A map that is computed where it is read, for results that are read once, by the next statement.
template <class L, class T, class G>
struct Lazy {
    using element = T;
    using layout = L;
    G get;
    PK_INLINE T at(int r, int c) const { return get(r, c); }
};
template <class X>
struct Reference {
    const X* tile;
    PK_INLINE typename X::element at(int r, int c) const { return tile->at(r, c); }
};
template <class T, class L>
PK_INLINE Reference<Tile<T, L>> kept(const Tile<T, L>& x) {
    return {&x};
}
template <class X>
PK_INLINE X kept(const X& x) {
    return x;
}
template <class L, class F, class... X>
PK_INLINE auto lazy_map(F f, X... tiles) {
    auto get = [=](int r, int c) { return f(tiles.at(r, c)...); };
    return Lazy<L, decltype(get(0, 0)), decltype(get)>{get};
}
template <class L, class F, class... X>
PK_INLINE auto lazy(F f, const X&... tiles) {
    return lazy_map<L>(f, kept(tiles)...);
}

template <class T, class L>
PK_INLINE Tile<T, L> fill(T value) {
    Tile<T, L> out;
    for (int i = 0; i < L::size; ++i) out.value[i] = value;
    return out;
}

// A tile of its own, with the values of `x`.
template <class X>
PK_INLINE auto copy(const X& x) {
    return map<typename X::layout>([](typename X::element e) { return e; }, x);
}

// The same values under another name of the layout.
template <class L2, class X>
PK_INLINE auto relayout(const X& x) {
    using L = typename X::layout;
    static_assert(L::size == L2::size, "layouts of different size");
    Tile<typename X::element, L2> out;
    each<L>([&](int r, int c) { out.value[r * L::cols + c] = x.at(r, c); });
    return out;
}

// In squares, so that both sides stay in the first-level cache; row by row, since rows of an array may lie a power of two
// apart and then share the cache's sets.
template <class L2, class X>
PK_INLINE auto transpose(const X& x) {
    using L = typename X::layout;
    static_assert(L::rows == L2::cols && L::cols == L2::rows, "not the transposed layout");
    Tile<typename X::element, L2> out;
    constexpr int side = 16;
    for (int r0 = 0; r0 < L::rows; r0 += side)
        for (int c0 = 0; c0 < L::cols; c0 += side)
            for (int r = r0; r < r0 + side && r < L::rows; ++r)
                for (int c = c0; c < c0 + side && c < L::cols; ++c) out.value[c * L::rows + r] = x.at(r, c);
    return out;
}

// ---- memory

PK_INLINE int clamp_count(int32_t left, int size) { return left < size ? left : size; }

// load<V>(origin, stride): in place.
template <class L, class T>
PK_INLINE View<T, L> load_vector(const T* origin, int64_t stride) {
    return {origin, stride, stride};
}
// load<V>(origin, stride, left[, pad])
template <class L, class T, class P = float>
PK_INLINE Tile<T, L> load_vector(const T* origin, int64_t stride, int32_t left, P pad = P(0)) {
    Tile<T, L> out;
    const int n = clamp_count(left, L::size);
    if (stride == 1) {
        PK_VECTORISE
        for (int i = 0; i < n; ++i) out.value[i] = origin[i];
    } else {
        for (int i = 0; i < n; ++i) out.value[i] = origin[i * stride];
    }
    for (int i = n; i < L::size; ++i) out.value[i] = T(pad);
    return out;
}
// load<L>(origin, row_stride, col_stride): in place.
template <class L, class T>
PK_INLINE View<T, L> load_tile(const T* origin, int64_t row_stride, int64_t col_stride) {
    return {origin, row_stride, col_stride};
}
// load<L>(origin, row_stride, col_stride, rows_left, cols_left[, pad])
template <class L, class T, class P = float>
PK_INLINE Tile<T, L> load_tile(const T* origin, int64_t row_stride, int64_t col_stride, int32_t rows_left,
                               int32_t cols_left, P pad = P(0)) {
    Tile<T, L> out;
    const int rows = clamp_count(rows_left, L::rows), cols = clamp_count(cols_left, L::cols);
    for (int r = 0; r < rows; ++r) {
        T* to = out.value + r * L::cols;
        const T* from = origin + r * row_stride;
        if (col_stride == 1) {
            PK_VECTORISE
            for (int c = 0; c < cols; ++c) to[c] = from[c];
        } else {
            for (int c = 0; c < cols; ++c) to[c] = from[c * col_stride];
        }
        for (int c = cols; c < L::cols; ++c) to[c] = T(pad);
    }
    for (int i = rows * L::cols; i < L::size; ++i) out.value[i] = T(pad);
    return out;
}
template <class L, class T, class... A>
PK_INLINE auto load(const T* origin, A... where) {
    if constexpr (L::vector)
        return load_vector<L>(origin, where...);
    else
        return load_tile<L>(origin, where...);
}

// Calls f(r, c, place) for every element inside, with its place in memory.
template <class L, class T, class F>
PK_INLINE void each_inside(F f, T* origin, int64_t stride, int32_t left = L::size) {
    const int n = clamp_count(left, L::size);
    constexpr bool upright = L::cols == 1;
    if (stride == 1) {
        PK_VECTORISE
        for (int i = 0; i < n; ++i) f(upright ? i : 0, upright ? 0 : i, origin + i);
    } else {
        for (int i = 0; i < n; ++i) f(upright ? i : 0, upright ? 0 : i, origin + i * stride);
    }
}
template <class L, class T, class F>
PK_INLINE void each_inside(F f, T* origin, int64_t row_stride, int64_t col_stride, int32_t rows_left, int32_t cols_left) {
    const int rows = clamp_count(rows_left, L::rows), cols = clamp_count(cols_left, L::cols);
    for (int r = 0; r < rows; ++r) {
        T* line = origin + r * row_stride;
        if (col_stride == 1) {
            PK_VECTORISE
            for (int c = 0; c < cols; ++c) f(r, c, line + c);
        } else {
            for (int c = 0; c < cols; ++c) f(r, c, line + c * col_stride);
        }
    }
}

// store(tile, origin, row_stride, col_stride[, rows_left, cols_left]), store(vector, origin, stride[, left]),
// store(scalar, origin)
template <class X, class T, class... A, class = decltype((int64_t(0) + ... + int64_t(A())))>  // strides and counts, no more
PK_INLINE void store(const X& x, T* origin, A... where) {
    if constexpr (sizeof...(A) == 0) {
        *origin = T(x);
    } else {
        using L = typename X::layout;
        const auto write = [&](int r, int c, T* place) { *place = x.at(r, c); };
        if constexpr (!L::vector && sizeof...(A) == 2)
            each_inside<L>(write, origin, where..., L::rows, L::cols);
        else
            each_inside<L>(write, origin, where...);
    }
}

// ---- stores that add to (or raise) what is there, while other cores do the same

template <class T, class F>
PK_INLINE void update(T* where, F f) {
    T old;
    __atomic_load(where, &old, __ATOMIC_RELAXED);
    T next = f(old);
    while (!__atomic_compare_exchange(where, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) next = f(old);
}
#define PK_UPDATING_STORE(name, combine)                                                                       \
    template <class X, class T, class... A>                                                                    \
    PK_INLINE void name(const X& x, T* origin, A... where) {                                                   \
        using L = typename X::layout;                                                                          \
        const auto combine_into = [&](int r, int c, T* place) {                                                \
            update(place, [b = x.at(r, c)](T a) { return T(combine); });                                       \
        };                                                                                                     \
        if constexpr (!L::vector && sizeof...(A) == 2)                                                         \
            each_inside<L>(combine_into, origin, where..., L::rows, L::cols);                                  \
        else                                                                                                   \
            each_inside<L>(combine_into, origin, where...);                                                    \
    }                                                                                                          \
    template <class T>                                                                                         \
    PK_INLINE void name(T b, T* origin) {                                                                      \
        update(origin, [b](T a) { return T(combine); });                                                       \
    }
PK_UPDATING_STORE(store_add, a + b)
PK_UPDATING_STORE(store_max, max(a, b))
#undef PK_UPDATING_STORE

}  // namespace pk
