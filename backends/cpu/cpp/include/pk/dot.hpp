// The product of two panels, added to a tile. The innermost kernel keeps a block of sums in vector registers.
#pragma once
#include "pk/panel.hpp"

namespace pk {

// Sums before the first product, which sets them.
template <class S, class L>
struct Sums : Tile<S, L> {
    bool none = true;
};
template <class S, class L>
PK_INLINE Sums<S, L> sums() {
    return {};
}
template <class S, class L>
PK_INLINE Reference<Tile<S, L>> kept(const Sums<S, L>& x) {
    return {&x};
}

// Here the compiler may fuse, which it may nowhere else: vectors have no function for it.
#if defined(__clang__)
#define PK_FUSING
#else
#define PK_FUSING __attribute__((optimize("fp-contract=fast")))
#endif

// One word of the left operand in every lane. It is kept in a register: read from memory by each multiplication, there would
// be more loads than a cycle has.
template <class S>
PK_INLINE typename Vector<S>::type spread(const S* a) {
    return *a - typename Vector<S>::type{};  // less zero, which -0 stays
}
template <class V>
PK_INLINE void multiply_add(V& sum, const V& a, const V& b) {
#if defined(__clang__)
#pragma clang fp contract(fast)
#endif
    sum += a * b;
}
#if defined(__AVX512BF16__)
// Pairs of bf16: each of sixteen sums takes two products.
typedef Vector<int32_t>::type Pairs;
PK_INLINE Pairs spread(const bf16* a) {
    int32_t pair;
    __builtin_memcpy(&pair, a, sizeof pair);
    return pair - Pairs{};
}
PK_INLINE void multiply_add(Vector<float>::type& sum, const Pairs& a, const Pairs& b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}
#endif

// rows x (width vectors) sums at `acc`, from what is there or from zero, over `steps` steps along k: words of each line of the left operand lie `k_step` apart,
// rows of the right one's strip `strip_step`.
template <int rows, int width, int64_t k_step, class S, class P>
__attribute__((noinline)) PK_FUSING void multiply_block(S* acc, int acc_stride, bool from_zero, const P* const* line,
                                                        const P* strip, int64_t strip_step, int steps) {
    using V = typename Vector<S>::type;
    using U = typename Vector<S>::unaligned;
    using W = decltype(spread(strip));
    typedef W Unaligned __attribute__((aligned(sizeof(P)), may_alias));
    constexpr int lanes = Vector<S>::lanes;
    V sum[rows][width];
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int w = 0; w < width; ++w) sum[i][w] = from_zero ? V{} : V(*(const U*)(acc + i * acc_stride + w * lanes));
    const P* left[rows];
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) left[i] = line[i];
    for (int64_t k = 0; k < steps * k_step; k += k_step, strip += strip_step) {
        W right[width];
#pragma GCC unroll 4
        for (int w = 0; w < width; ++w) right[w] = ((const Unaligned*)strip)[w];
#pragma GCC unroll 16
        for (int i = 0; i < rows; ++i) {
            const W word = spread(left[i] + k);
#pragma GCC unroll 4
            for (int w = 0; w < width; ++w) multiply_add(sum[i][w], word, right[w]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int w = 0; w < width; ++w) *(U*)(acc + i * acc_stride + w * lanes) = sum[i][w];
}

// All rows of the left operand with one strip: blocks of `rows`, then smaller ones for those that are left.
template <int rows, int width, class S, class A, class P>
PK_INLINE void multiply_strip(S* acc, int acc_stride, bool from_zero, const A& a, int row, const P* strip, int64_t strip_step,
                              int steps) {
    for (; row + rows <= a.rows; row += rows)
        multiply_block<rows, width, A::k_step>(acc + row * acc_stride, acc_stride, from_zero, a.line + row, strip,
                                               strip_step, steps);
    if constexpr (rows > 1) multiply_strip<rows / 2, width>(acc, acc_stride, from_zero, a, row, strip, strip_step, steps);
}

// acc += a * b, as far as the operands go. A strip of b stays in the first-level cache while the rows of a pass by.
template <class S, class L, class A, class B>
PK_INLINE void dot(Tile<S, L>& acc, const A& a, const B& b, bool from_zero = false) {
    static_assert(A::m == L::rows && B::n == L::cols && A::k == B::k, "the shapes do not fit");
    static_assert(__is_same(S, typename B::Sum), "products of these operands are summed in another type");
    constexpr int lanes = Vector<S>::lanes;
    const int steps = a.steps < b.steps ? a.steps : b.steps;  // beyond the end of either there is nothing to add
    for (int col = 0; col < b.cols; col += B::width) {
        const typename B::P* strip = b.origin + col / B::width * b.strip;
        const int width = b.cols - col > lanes ? ways : 1;
        if (col + width * lanes > L::cols) {  // sticks out of the tile, and goes through a copy
            Tile<S, Dense<L::rows, B::width>> copy;
            const int cols = L::cols - col;
            for (int i = 0; i < a.rows; ++i)
                for (int j = 0; j < cols; ++j) copy.value[i * B::width + j] = acc.value[i * L::cols + col + j];
            multiply_strip<block_rows, ways>(copy.value, B::width, from_zero, a, 0, strip, b.k_step, steps);
            for (int i = 0; i < a.rows; ++i)
                for (int j = 0; j < cols; ++j) acc.value[i * L::cols + col + j] = copy.value[i * B::width + j];
        } else if (width == ways) {
            multiply_strip<block_rows, ways>(acc.value + col, L::cols, from_zero, a, 0, strip, b.k_step, steps);
        } else {
            multiply_strip<block_rows, 1>(acc.value + col, L::cols, from_zero, a, 0, strip, b.k_step, steps);
        }
    }
}
template <class S, class L, class A, class B>
PK_INLINE void dot(Sums<S, L>& acc, const A& a, const B& b) {
    Tile<S, L>& tile = acc;
    dot(tile, a, b, acc.none);
    acc.none = false;
}

}  // namespace pk
