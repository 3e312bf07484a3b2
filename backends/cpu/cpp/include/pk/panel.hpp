// Operands of matrix products, packed into panels in the order in which the product reads them, or left where they lie if
// they lie well. bf16 is multiplied in pairs by AVX-512 BF16 where the machine has it; else 16-bit floats are widened to f32
// as they are packed.
#pragma once
#include "pk/tile.hpp"

namespace pk {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

template <class T>
struct Vector {
    static constexpr int lanes = vector_bytes / int(sizeof(T));
    typedef T type __attribute__((vector_size(vector_bytes)));
    typedef T unaligned __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
};

// What a panel of T holds, how many consecutive products of k one stored word forms (`pack`).
template <class T>
struct Packed {  // integers; what is lost of wider ones is lost of their sums as well
    using type = int32_t;
    static constexpr int pack = 1;
};
template <>
struct Packed<float> {
    using type = float;
    static constexpr int pack = 1;
};
template <>
struct Packed<double> {
    using type = double;
    static constexpr int pack = 1;
};
template <>
struct Packed<f16> : Packed<float> {};
template <>
struct Packed<bf16> {
#if defined(__AVX512BF16__)
    using type = bf16;
    static constexpr int pack = 2;
#else
    using type = float;
    static constexpr int pack = 1;
#endif
};

// Sums of T's products are kept in this type.
template <class T>
struct SumOf {
    using type = typename Packed<T>::type;
};
template <>
struct SumOf<bf16> {
    using type = float;
};

template <class To, class From>
PK_INLINE To widen(From x) {
    return To(x);
}
template <>
PK_INLINE bf16 widen<bf16, bf16>(bf16 x) {
    return x;
}

constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }

// The register block of a product: `block_rows` rows of `ways` vectors of sums. No sum waits for its last addition, and an
// element of the left operand is used `ways` times, so that there are fewer loads than multiplications.
#if defined(__AVX512F__)
constexpr int block_rows = 8, ways = 2;
#else
constexpr int block_rows = 4, ways = 2;
#endif
template <class S>
constexpr int block_cols = ways * Vector<S>::lanes;

// ---- squares of words, turned round in registers

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define PK_SHUFFLES
#endif
#endif

#if defined(PK_SHUFFLES)
template <int... I>
struct Lanes {};
template <int n, int... I>
struct LanesBelow : LanesBelow<n - 1, n - 1, I...> {};
template <int... I>
struct LanesBelow<0, I...> {
    using type = Lanes<I...>;
};

// In each square of 2h x 2h, the lanes of the upper right quarter change places with those of the lower left one.
template <int h, class V, int... I>
PK_INLINE void trade(V& a, V& b, Lanes<I...>) {
    constexpr int n = sizeof...(I);
    const V upper = __builtin_shufflevector(a, b, (I & h ? I - h + n : I)...);
    b = __builtin_shufflevector(a, b, (I & h ? I + n : I + h)...);
    a = upper;
}
template <int h, class V, int n>
PK_INLINE void turn(V (&row)[n]) {
    if constexpr (h > 0) {
#pragma GCC unroll 16
        for (int i = 0; i < n; ++i)
            if ((i & h) == 0) trade<h>(row[i], row[i + h], typename LanesBelow<n>::type());
        turn<h / 2>(row);
    }
}
// Rows of 32-bit words lie `next` bytes apart in `from`, columns then `step` bytes apart in `to`.
PK_INLINE void turn_square(void* to, int64_t step, const void* from, int64_t next) {
    using Word = Vector<float>;
    typename Word::type row[Word::lanes];
#pragma GCC unroll 16
    for (int i = 0; i < Word::lanes; ++i)
        row[i] = *reinterpret_cast<const Word::unaligned*>(static_cast<const char*>(from) + i * next);
    turn<Word::lanes / 2>(row);
#pragma GCC unroll 16
    for (int i = 0; i < Word::lanes; ++i) *reinterpret_cast<Word::unaligned*>(static_cast<char*>(to) + i * step) = row[i];
}
#endif

// ---- strips: `width` columns of a k x n matrix, row after row; `pack` rows side by side

// One row of a strip, of which `count` columns and `there` of the rows side by side exist; the rest is zero.
template <int width, class P, class T>
PK_INLINE void pack_row(P* to, const T* from, int64_t si, int64_t sj, int there, int count) {
    constexpr int pack = Packed<T>::pack;
    if (count == width && there == pack && sj == 1) {
        PK_VECTORISE
        for (int j = 0; j < width; ++j)
            for (int q = 0; q < pack; ++q) to[j * pack + q] = widen<P>(from[q * si + j]);
    } else {
        for (int j = 0; j < width; ++j)
            for (int q = 0; q < pack; ++q)
                to[j * pack + q] = j < count && q < there ? widen<P>(from[q * si + j * sj]) : P(0.0f);
    }
}

// Packs elements (i, j) at from[i * si + j * sj] for i below `depth`, j below `columns`. All strips of a row come before the
// next row, so that memory is read in order; where columns are contiguous, squares are turned round.
template <int width, class P, class T>
PK_INLINE void pack_strips(P* to, int64_t strip, const T* from, int64_t si, int64_t sj, int depth, int columns) {
    constexpr int pack = Packed<T>::pack;
    int turned = 0;  // so many rows are done
#if defined(PK_SHUFFLES)
    constexpr int side = Vector<float>::lanes, deep = side * pack;
    if constexpr (__is_same(P, T) && sizeof(P) * pack == 4 && width % side == 0)
        if (si == 1) {
            turned = depth / deep * deep;
            for (int j = 0; j < columns; j += side)
                for (int i = 0; i < turned; i += deep) {
                    P* square = to + j / width * strip + i * width + j % width * pack;
                    if (j + side <= columns) {
                        turn_square(square, width * pack * sizeof(P), from + i + j * sj, sj * sizeof(P));
                    } else {
                        alignas(64) P some[side * deep] = {};
                        for (int c = 0; c < columns - j; ++c)
                            for (int q = 0; q < deep; ++q) some[c * deep + q] = from[i + q + (j + c) * sj];
                        turn_square(square, width * pack * sizeof(P), some, deep * sizeof(P));
                    }
                }
        }
#endif
    for (int i = turned; i < depth; i += pack)
        for (int j = 0; j < columns; j += width)
            pack_row<width>(to + j / width * strip + i * width, from + i * si + j * sj, si, sj, clamp_count(depth - i, pack),
                            clamp_count(columns - j, width));
}

// ---- panels

// Left operand, m x k: lines of k, one for each row, or strips of `block_rows` rows if it is stored transposed.
template <class T, int Rows, int Cols, bool stored_transposed>
struct PanelA {
    using P = typename Packed<T>::type;
    static constexpr int m = stored_transposed ? Cols : Rows, k = stored_transposed ? Rows : Cols;
    static constexpr int pack_k = Packed<T>::pack, depth = round_up(k, pack_k);
    static constexpr int apart = 64 / int(sizeof(P));  // a line more than a power of two, so that rows share no cache sets
    static constexpr int stride = depth + apart, strip = block_rows * depth + apart;
    static constexpr int64_t k_step = stored_transposed ? block_rows * pack_k : pack_k;
    alignas(64) P value[stored_transposed ? round_up(m, block_rows) / block_rows * strip : m * stride];
    const P* line[m];         // where each row begins: here, or in memory
    int rows = 0, steps = 0;  // that hold something, steps along k

    // Takes elements (i, j) at from[i * si + j * sj], which stay where they are if they `may_stay` and lie well.
    PK_INLINE void pack(const T* from, int64_t si, int64_t sj, int i_count, int j_count, bool may_stay = true) {
        if constexpr (stored_transposed) {
            rows = i_count, steps = round_up(j_count, pack_k) / pack_k;
            pack_strips<block_rows>(value, strip, from, sj, si, j_count, i_count);
            for (int i = 0; i < rows; ++i) line[i] = value + i / block_rows * strip + i % block_rows * pack_k;
        } else {
            pack_lines(i_count, j_count, sj, [=](int i) { return from + i * si; }, may_stay);
        }
    }

    // Row i begins at begin(i), its elements lie sj apart; nullptr: a row of zeros.
    template <class F>
    PK_INLINE void pack_lines(int i_count, int j_count, int64_t sj, F begin, bool may_stay = true) {
        rows = i_count, steps = round_up(j_count, pack_k) / pack_k;
        if constexpr (__is_same(P, T)) {
            if (may_stay && sj == 1 && j_count % pack_k == 0) {
                for (int j = 0; j < j_count; ++j) value[j] = P(0.0f);
                for (int i = 0; i < rows; ++i) {
                    const T* from = begin(i);
                    line[i] = from != nullptr ? from : value;
                }
                return;
            }
        }
        for (int i = 0; i < rows; ++i) {
            P* to = value + i * stride;
            const T* from = begin(i);
            const int count = from != nullptr ? j_count : 0;
            if (sj == 1) {
                PK_VECTORISE
                for (int j = 0; j < count; ++j) to[j] = widen<P>(from[j]);
            } else {
                for (int j = 0; j < count; ++j) to[j] = widen<P>(from[j * sj]);
            }
            for (int j = count; j < steps * pack_k; ++j) to[j] = P(0.0f);
            line[i] = to;
        }
    }
};

// Right operand, k x n: strips of `width` columns.
template <class T, int Rows, int Cols, bool stored_transposed>
struct PanelB {
    using P = typename Packed<T>::type;
    using Sum = typename SumOf<T>::type;
    static constexpr int k = stored_transposed ? Cols : Rows, n = stored_transposed ? Rows : Cols;
    static constexpr int pack_k = Packed<T>::pack, depth = round_up(k, pack_k);
    static constexpr int width = block_cols<Sum>, packed = depth * width + 64 / int(sizeof(P));
    static constexpr int64_t nearest = 2 * width;  // rows further apart share too few sets of the first-level cache
    alignas(64) P value[round_up(n, width) / width * packed];
    const P* origin = value;
    int64_t strip = packed, k_step = width * pack_k;
    int cols = 0, steps = 0;

    // Takes elements (i, j) at from[i * si + j * sj], which stay where they are if they `may_stay` and lie well.
    PK_INLINE void pack(const T* from, int64_t si, int64_t sj, int i_count, int j_count, bool may_stay = true) {
        cols = j_count, steps = round_up(i_count, pack_k) / pack_k;
        if constexpr (__is_same(P, T) && pack_k == 1) {
            const bool stays = may_stay && sj == 1 && j_count % width == 0 && si <= nearest;
            origin = stays ? from : value;
            strip = stays ? width : packed, k_step = stays ? si : width;
            if (stays) return;
        }
        pack_strips<width>(value, packed, from, si, sj, i_count, j_count);
    }

    // row(i) says what writes row i: elements from column j on, as many as a vector of words has, by write(to, step, j),
    // `step` apart.
    template <class F>
    PK_INLINE void pack_rows(int i_count, int j_count, F row) {
        constexpr int lanes = Vector<int32_t>::lanes;
        static_assert(width % lanes == 0, "a strip has whole vectors");
        cols = j_count, steps = round_up(i_count, pack_k) / pack_k;
        origin = value, strip = packed, k_step = width * pack_k;
        for (int i = 0; i < steps * pack_k; ++i) {
            const auto write = row(i);
            for (int j = 0; j < round_up(j_count, width); j += lanes) {
                P* to = value + j / width * packed + i / pack_k * k_step + j % width * pack_k + i % pack_k;
                if (i < i_count && j < j_count)
                    write(to, pack_k, j);
                else
                    for (int c = 0; c < lanes; ++c) to[c * pack_k] = P(0.0f);
            }
        }
    }
};

// ---- filling panels

template <template <class, int, int, bool> class Panel, class T, int R, int C, bool t>
PK_INLINE void stage(Panel<T, R, C, t>& panel, const T* origin, int64_t row_stride, int64_t col_stride,
                     int32_t rows_left = R, int32_t cols_left = C, bool may_stay = true) {
    const int rows = clamp_count(rows_left, R), cols = clamp_count(cols_left, C);
    if (t)
        panel.pack(origin, col_stride, row_stride, cols, rows, may_stay);
    else
        panel.pack(origin, row_stride, col_stride, rows, cols, may_stay);
}
// A tile may change before the panel is read, memory does not.
template <template <class, int, int, bool> class Panel, class T, int R, int C, bool t>
PK_INLINE void put(Panel<T, R, C, t>& panel, const Tile<T, Dense<R, C>>& x) {
    stage(panel, x.value, C, 1, R, C, false);
}
template <template <class, int, int, bool> class Panel, class T, int R, int C, bool t>
PK_INLINE void put(Panel<T, R, C, t>& panel, const View<T, Dense<R, C>>& x) {
    stage(panel, x.origin, x.row_stride, x.col_stride);
}
template <template <class, int, int, bool> class Panel, class T, int R, int C, bool t, class X>
PK_INLINE void put(Panel<T, R, C, t>& panel, const X& x) {
    put(panel, copy(x));
}
// Packing has already turned the operand round.
template <class Panel>
PK_INLINE const Panel& transposed(const Panel& panel) {
    return panel;
}

}  // namespace pk
