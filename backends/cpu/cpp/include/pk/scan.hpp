// Running sums (products, extremes) along rows. A long row is cut into parts that are run over side by side, which hides the
// latency of the operation and bounds the rounding error of sums by the shorter chains; what stands before each is put to it
// afterwards.
#pragma once
#include "pk/reduce.hpp"

namespace pk {

// get(0), get(1), ... get(n - 1) after `carry`, to put(0, .), put(1, .), ...; `carry` takes the value at the end.
template <class Op, bool exclusive, int n, class T, class G, class P>
PK_INLINE void scan_line(G get, P put, T& carry) {
    constexpr int parts = n >= 256 ? 8 : 1, length = n / parts;
    const T identity = Op::template identity<T>();
    T running[parts], line[parts * length];
    for (int p = 0; p < parts; ++p) running[p] = identity;
    for (int i = 0; i < length; ++i)
        for (int p = 0; p < parts; ++p) {
            const T next = Op::of(running[p], get(p * length + i));
            line[p * length + i] = exclusive ? running[p] : next;
            running[p] = next;
        }
    for (int p = 0; p < parts; ++p) {
        const T before = carry;
        PK_VECTORISE
        for (int i = 0; i < length; ++i) put(p * length + i, Op::of(before, line[p * length + i]));
        carry = Op::of(carry, running[p]);
    }
    for (int i = parts * length; i < n; ++i) {
        const T next = Op::of(carry, get(i));
        put(i, exclusive ? carry : next);
        carry = next;
    }
}

// The running values along each row of `x`, from its end where `reverse`, after `carry`: a scalar where there is one row,
// else one per row.
template <class Op, bool exclusive = false, bool reverse = false, class X, class C>
PK_INLINE auto scan_cols(const X& x, C& carry) {
    using T = typename X::element;
    using L = typename X::layout;
    const auto place = [](int i) { return reverse ? L::cols - 1 - i : i; };
    Tile<T, L> out;
    for (int r = 0; r < L::rows; ++r) {
        const auto get = [&](int i) { return x.at(r, place(i)); };
        const auto put = [&](int i, T v) { out.value[r * L::cols + place(i)] = v; };
        if constexpr (L::rows == 1)
            scan_line<Op, exclusive, L::cols>(get, put, carry);
        else
            scan_line<Op, exclusive, L::cols>(get, put, carry.value[r]);
    }
    return out;
}
template <class Op, bool exclusive = false, bool reverse = false, class X>
PK_INLINE auto scan_cols(const X& x) {
    using T = typename X::element;
    using L = typename X::layout;
    if constexpr (L::rows == 1) {
        T carry = Op::template identity<T>();
        return scan_cols<Op, exclusive, reverse>(x, carry);
    } else {
        auto carry = fill<T, RowOf<L>>(Op::template identity<T>());
        return scan_cols<Op, exclusive, reverse>(x, carry);
    }
}

}  // namespace pk
