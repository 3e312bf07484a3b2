// The order of the elements of a row by their keys, which are integers; equal ones stay in theirs.
#pragma once
#include "pk/tile.hpp"

#include <type_traits>
#include <utility>

namespace pk {

// One pass of a radix sort: `from` to `to` in the order of `width` bits of their keys, those of a sign turned round.
template <int shift, int width, bool sign, class K>
PK_INLINE void by_digit(const K* keys, const int32_t* from, int32_t* to, int n) {
    constexpr int digits = 1 << width;
    const auto digit = [&](int32_t i) {
        return static_cast<int>(keys[i] >> shift & (digits - 1)) ^ (sign ? digits / 2 : 0);
    };
    int32_t places[digits + 1] = {};
    for (int i = 0; i < n; ++i) ++places[digit(i) + 1];
    for (int d = 0; d < digits; ++d) places[d + 1] += places[d];
    for (int i = 0; i < n; ++i) to[places[digit(from[i])]++] = from[i];
}
// The passes from `shift` up; a digit that all keys share, with none of the bits that `vary`, orders nothing.
template <int width, int shift = 0, class K>
PK_INLINE void by_digits(const K* keys, K vary, int32_t*& order, int32_t*& other, int n) {
    constexpr int bits = 8 * sizeof(K);
    if constexpr (shift < bits) {
        if (vary >> shift & ((1 << width) - 1)) {
            by_digit<shift, width, shift + width >= bits>(keys, order, other, n);
            std::swap(order, other);
        }
        by_digits<width, shift + width>(keys, vary, order, other, n);
    }
}

// Which element of the row comes to each of the places in `To`; with `count` only the first so many are asked for, which are
// found by putting each element to its place among the smallest so far.
template <class To, int count = 0, class X>
PK_INLINE auto sorted_order(const X& keys) {
    using L = typename X::layout;
    using K = typename X::element;
    static_assert(L::rows == 1, "one row is sorted at a time");
    constexpr int n = L::cols;
    Tile<int32_t, To> out;
    K line[n];
    for (int i = 0; i < n; ++i) line[i] = keys.at(0, i);
    if constexpr (0 < count && count <= 64) {
        int held = 0;
        for (int i = 0; i < n; ++i) {
            if (held == count && line[i] >= line[out.value[count - 1]]) continue;
            int at = held < count ? held++ : count - 1;
            for (; at > 0 && line[out.value[at - 1]] > line[i]; --at) out.value[at] = out.value[at - 1];
            out.value[at] = i;
        }
        for (int i = held; i < To::cols; ++i) out.value[i] = 0;
    } else {
        int32_t here[n], there[n], *order = here, *other = there;
        for (int i = 0; i < n; ++i) order[i] = i;
        K vary = 0;
        for (int i = 0; i < n; ++i) vary |= line[i] ^ line[0];
        constexpr int width = n < 1 << 12 ? 8 : n < 1 << 16 ? 11 : 14;  // fewer passes, while counters are few beside elements
        by_digits<width>(line, vary, order, other, n);
        for (int i = 0; i < To::cols; ++i) out.value[i] = i < n ? order[i] : 0;
    }
    return out;
}

// The elements of a row in that order.
template <class X, class To>
PK_INLINE auto in_order(const X& x, const Tile<int32_t, To>& order) {
    Tile<typename X::element, To> out;
    for (int i = 0; i < To::cols; ++i) out.value[i] = x.at(0, order.value[i]);
    return out;
}

}  // namespace pk
