// Stores that join what is in memory: store_add and store_max, each element once.
#pragma once
#include "pk/atomic.hpp"
#include "pk/gpu/memory.hpp"

namespace pk {

template <class T, class L, class F>
PK_INLINE void store_joined(const Tile<T, L>& x, T* origin, Window<L> w, F join) {
    if (!owns<L>()) return;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) {
            const int row = L::row(item(), i), col = L::col(item(), j);
            if (w.holds(row, col)) join(origin + w.offset(row, col), x.at(i, j));
        }
}
#define PK_STORE_JOINED(name, atomic)                                                                         \
    template <class T>                                                                                        \
    PK_INLINE void name(T x, T* origin) {                                                                     \
        if (item() == 0) atomic(origin, x);                                                                   \
    }                                                                                                         \
    template <class T, class L>                                                                               \
    PK_INLINE void name(const Tile<T, L>& x, T* origin, int64_t stride) {                                     \
        store_joined(x, origin, Window<L>::line(stride), [](T* p, T v) { atomic(p, v); });                    \
    }                                                                                                         \
    template <class T, class L>                                                                               \
    PK_INLINE void name(const Tile<T, L>& x, T* origin, int64_t a, int64_t b) {                               \
        const auto w = is_line<L> ? Window<L>::line(a, static_cast<int>(b)) : Window<L>(a, b);                \
        store_joined(x, origin, w, [](T* p, T v) { atomic(p, v); });                                          \
    }                                                                                                         \
    template <class T, class L>                                                                               \
    PK_INLINE void name(const Tile<T, L>& x, T* origin, int64_t a, int64_t b, int rows_left, int cols_left) { \
        store_joined(x, origin, Window<L>(a, b, rows_left, cols_left), [](T* p, T v) { atomic(p, v); });      \
    }
PK_STORE_JOINED(store_add, atomic_add)
PK_STORE_JOINED(store_max, atomic_max)
#undef PK_STORE_JOINED

}  // namespace pk
