// Reductions. Along a row, partial results are kept in as many lanes as four vectors have, which hides the latency of
// the operation and bounds the rounding error of sums by the shorter chains.
#pragma once
#include "pk/tile.hpp"

#include <limits>

namespace pk {

struct Sum {
    template <class T>
    static PK_INLINE T identity() { return T(0); }
    template <class V>
    static PK_INLINE V of(V a, V b) { return a + b; }
};
struct Prod {
    template <class T>
    static PK_INLINE T identity() { return T(1); }
    template <class V>
    static PK_INLINE V of(V a, V b) { return a * b; }
};
struct Max {  // hands on NaN
    template <class T>
    static PK_INLINE T identity() {
        using limits = std::numeric_limits<T>;
        return limits::has_infinity ? -limits::infinity() : limits::lowest();
    }
    template <class V>
    static PK_INLINE V of(V a, V b) { return max(a, b); }
};
struct Min {
    template <class T>
    static PK_INLINE T identity() {
        using limits = std::numeric_limits<T>;
        return limits::has_infinity ? limits::infinity() : limits::max();
    }
    template <class V>
    static PK_INLINE V of(V a, V b) { return min(a, b); }
};
struct Any {
    template <class T>
    static PK_INLINE T identity() { return false; }
    static PK_INLINE bool of(bool a, bool b) { return a | b; }
};
struct All {
    template <class T>
    static PK_INLINE T identity() { return true; }
    static PK_INLINE bool of(bool a, bool b) { return a & b; }
};

// Of the `n` elements get(0), get(1), ...
template <class Op, class T, int n, class G>
PK_INLINE T reduce_line(G get) {
    const T identity = Op::template identity<T>();
    constexpr int width = n >= 256 / int(sizeof(T)) ? 256 / int(sizeof(T)) : 1;  // lanes of four vectors of 64 bytes
    T result = identity;
    int i = 0;
    if constexpr (width > 1) {
        alignas(64) T part[width];
        for (int j = 0; j < width; ++j) part[j] = identity;
        for (; i + width <= n; i += width) {
            PK_VECTORISE
            for (int j = 0; j < width; ++j) part[j] = Op::of(part[j], get(i + j));
        }
        for (int half = width / 2; half > 0; half /= 2)
            for (int j = 0; j < half; ++j) part[j] = Op::of(part[j], part[j + half]);
        result = part[0];
    }
    for (; i < n; ++i) result = Op::of(result, get(i));
    return result;
}

// Along each row: one value per row, or a scalar where there is one row.
template <class Op, class X>
PK_INLINE auto reduce_cols(const X& x) {
    using T = typename X::element;
    using L = typename X::layout;
    if constexpr (L::rows == 1) {
        return reduce_line<Op, T, L::cols>([&](int c) { return x.at(0, c); });
    } else {
        Tile<T, RowOf<L>> out;
        for (int r = 0; r < L::rows; ++r)
            out.value[r] = reduce_line<Op, T, L::cols>([&](int c) { return x.at(r, c); });
        return out;
    }
}

// Along each column: one value per column.
template <class Op, class X>
PK_INLINE auto reduce_rows(const X& x) {
    using T = typename X::element;
    using L = typename X::layout;
    Tile<T, ColOf<L>> out;
    if constexpr (L::rows <= 8) {  // a column in a register
        PK_VECTORISE
        for (int c = 0; c < L::cols; ++c) {
            T found = x.at(0, c);
#pragma GCC unroll 8
            for (int r = 1; r < L::rows; ++r) found = Op::of(found, x.at(r, c));
            out.value[c] = found;
        }
        return out;
    }
    PK_VECTORISE
    for (int c = 0; c < L::cols; ++c) out.value[c] = x.at(0, c);
    for (int r = 1; r < L::rows; ++r) {
        PK_VECTORISE
        for (int c = 0; c < L::cols; ++c) out.value[c] = Op::of(out.value[c], x.at(r, c));
    }
    return out;
}

}  // namespace pk
