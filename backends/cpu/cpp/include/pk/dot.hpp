// Matrix products. Operands are packed into panels; the innermost kernel keeps a block of the accumulator in vector
// registers. bf16 is multiplied in pairs by AVX-512 BF16 where the machine has it; else 16-bit floats are widened to f32
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

template <class To, class From>
PK_INLINE To widen(From x) {
    return To(x);
}
template <>
PK_INLINE bf16 widen<bf16, bf16>(bf16 x) {
    return x;
}

constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }

// The register block: `block_rows` rows of `ways` vectors of accumulators.
#if defined(__AVX512F__)
constexpr int block_rows = 8, ways = 2;
#else
constexpr int block_rows = 4, ways = 2;
#endif
template <class S>
constexpr int block_cols = ways * Vector<S>::lanes;

// Sums of T's products are kept in this type.
template <class T>
struct SumOf {
    using type = typename Packed<T>::type;
};
template <>
struct SumOf<bf16> {
    using type = float;
};

// Left operand, m x k: rows of k, a few elements apart from a power of two so that rows do not share cache sets.
template <class T, int Rows, int Cols, bool stored_transposed>
struct PanelA {
    using P = typename Packed<T>::type;
    static constexpr int m = stored_transposed ? Cols : Rows, k = stored_transposed ? Rows : Cols;
    static constexpr int rows = round_up(m, block_rows), depth = round_up(k, Packed<T>::pack);
    static constexpr int stride = depth + 64 / int(sizeof(P));
    alignas(64) P value[rows * stride];

    // Packs from elements (i, j) at from[i * si + j * sj]; those beyond the counts are zero.
    PK_INLINE void pack(const T* from, int64_t si, int64_t sj, int i_count, int j_count) {
        for (int i = 0; i < rows; ++i) {
            P* to = value + i * stride;
            const int n = i < i_count ? j_count : 0;
            if (sj == 1) {
                PK_VECTORISE
                for (int j = 0; j < n; ++j) to[j] = widen<P>(from[i * si + j]);
            } else {
                for (int j = 0; j < n; ++j) to[j] = widen<P>(from[i * si + j * sj]);
            }
            for (int j = n; j < depth; ++j) to[j] = P(0.0f);
        }
    }
};

// Right operand, k x n: strips of `block_cols` columns, each strip row after row.
template <class T, int Rows, int Cols, bool stored_transposed>
struct PanelB {
    using P = typename Packed<T>::type;
    static constexpr int k = stored_transposed ? Cols : Rows, n = stored_transposed ? Rows : Cols;
    static constexpr int pack_k = Packed<T>::pack;
    using Sum = typename SumOf<T>::type;
    static constexpr int width = block_cols<Sum>, depth = round_up(k, pack_k);
    static constexpr int strips = round_up(n, width) / width;
    alignas(64) P value[strips * depth * width];

    // Element (i, j) goes to row i / pack_k of strip j / width, `pack_k` consecutive i side by side.
    PK_INLINE void pack(const T* from, int64_t si, int64_t sj, int i_count, int j_count) {
        for (int s = 0; s < strips; ++s) {
            P* strip = value + s * depth * width;
            const T* source = from + s * width * sj;
            const int count = j_count - s * width < width ? j_count - s * width : width;
            for (int i = 0; i < depth; i += pack_k) {
                P* to = strip + i * width;
                if (count == width && i + pack_k <= i_count && sj == 1) {
                    PK_VECTORISE
                    for (int j = 0; j < width; ++j)
                        for (int q = 0; q < pack_k; ++q) to[j * pack_k + q] = widen<P>(source[(i + q) * si + j]);
                } else if (count == width && i + pack_k <= i_count) {
                    for (int j = 0; j < width; ++j)
                        for (int q = 0; q < pack_k; ++q) to[j * pack_k + q] = widen<P>(source[(i + q) * si + j * sj]);
                } else {
                    for (int j = 0; j < width; ++j)
                        for (int q = 0; q < pack_k; ++q) {
                            const bool inside = j < count && i + q < i_count;
                            to[j * pack_k + q] = inside ? widen<P>(source[(i + q) * si + j * sj]) : P(0.0f);
                        }
                }
            }
        }
    }
};

// ---- filling panels

template <template <class, int, int, bool> class Panel, class T, int R, int C, bool t>
PK_INLINE void stage(Panel<T, R, C, t>& panel, const T* origin, int64_t row_stride, int64_t col_stride,
                     int32_t rows_left = R, int32_t cols_left = C) {
    const int rows = clamp_count(rows_left, R), cols = clamp_count(cols_left, C);
    if (t)
        panel.pack(origin, col_stride, row_stride, cols, rows);
    else
        panel.pack(origin, row_stride, col_stride, rows, cols);
}
template <template <class, int, int, bool> class Panel, class T, int R, int C, bool t>
PK_INLINE void put(Panel<T, R, C, t>& panel, const Tile<T, Dense<R, C>>& x) {
    stage(panel, x.value, C, 1);
}
template <template <class, int, int, bool> class Panel, class T, int R, int C, bool t>
PK_INLINE void put(Panel<T, R, C, t>& panel, const View<T, Dense<R, C>>& x) {
    stage(panel, x.origin, x.row_stride, x.col_stride);
}
// Packing has already turned the operand round.
template <class Panel>
PK_INLINE const Panel& transposed(const Panel& panel) {
    return panel;
}

// ---- the product

// Here the compiler may fuse, which it may nowhere else: vectors have no function for it.
#if defined(__clang__)
#define PK_FUSING
#else
#define PK_FUSING __attribute__((optimize("fp-contract=fast")))
#endif

template <class V, class S>
PK_INLINE void multiply_add(V& acc, const S* a, const V& b) {
#if defined(__clang__)
#pragma clang fp contract(fast)
#endif
    acc += *a * b;
}
#if defined(__AVX512BF16__)
// Sixteen sums of two products each: a is one pair, for every lane the same.
PK_INLINE void multiply_add(Vector<float>::type& acc, const bf16* a, const Vector<float>::type& b) {
    struct Pair { bf16 x, y; };
    asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(b), "m"(*reinterpret_cast<const Pair*>(a)));
}
#endif

// One register block of the accumulator over the whole depth.
template <class S, class A, class B>
__attribute__((noinline)) PK_FUSING void multiply_block(S* acc, int acc_stride, const A& a, int row, const typename B::P* strip) {
    using V = typename Vector<S>::type;
    using U = typename Vector<S>::unaligned;
    constexpr int lanes = Vector<S>::lanes, step = B::pack_k, row_size = ways * lanes * step;
    V sum[block_rows][ways];
#pragma GCC unroll 16
    for (int i = 0; i < block_rows; ++i)
#pragma GCC unroll 4
        for (int w = 0; w < ways; ++w) sum[i][w] = V(*(const U*)(acc + i * acc_stride + w * lanes));
    const typename A::P* left = a.value + row * A::stride;
    for (int k = 0; k < A::depth; k += step, strip += row_size) {
        V right[ways];
#pragma GCC unroll 4
        for (int w = 0; w < ways; ++w) right[w] = V(*(const U*)(strip + w * lanes * step));
#pragma GCC unroll 16
        for (int i = 0; i < block_rows; ++i)
#pragma GCC unroll 4
            for (int w = 0; w < ways; ++w) multiply_add(sum[i][w], left + i * A::stride + k, right[w]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < block_rows; ++i)
#pragma GCC unroll 4
        for (int w = 0; w < ways; ++w) *(U*)(acc + i * acc_stride + w * lanes) = sum[i][w];
}

// acc += a * b. A strip of b stays in the first-level cache while the rows of a pass by.
template <class S, class L, class A, class B>
PK_INLINE void dot(Tile<S, L>& acc, const A& a, const B& b) {
    static_assert(A::m == L::rows && B::n == L::cols && A::k == B::k, "the shapes do not fit");
    static_assert(__is_same(S, typename B::Sum), "products of these operands are summed in another type");
    for (int s = 0; s < B::strips; ++s) {
        const typename B::P* strip = b.value + s * B::depth * B::width;
        const int col = s * B::width;
        for (int row = 0; row < A::rows; row += block_rows) {
            if (row + block_rows <= L::rows && col + B::width <= L::cols) {
                multiply_block<S, A, B>(acc.value + row * L::cols + col, L::cols, a, row, strip);
                continue;
            }
            // A block that sticks out of the tile goes through a copy.
            alignas(64) S copy[block_rows * B::width] = {};
            const int rows = clamp_count(L::rows - row, block_rows), cols = clamp_count(L::cols - col, B::width);
            for (int i = 0; i < rows; ++i)
                for (int j = 0; j < cols; ++j) copy[i * B::width + j] = acc.value[(row + i) * L::cols + col + j];
            multiply_block<S, A, B>(copy, B::width, a, row, strip);
            for (int i = 0; i < rows; ++i)
                for (int j = 0; j < cols; ++j) acc.value[(row + i) * L::cols + col + j] = copy[i * B::width + j];
        }
    }
}

}  // namespace pk
