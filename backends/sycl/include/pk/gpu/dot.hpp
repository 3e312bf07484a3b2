// The matrix product: DPAS on bf16 and f16, multiply-adds on other types.
#pragma once
#include "pk/gpu/shared.hpp"

// The systolic array's instruction for sub-groups of 16, as cl_intel_subgroup_matrix_multiply_accumulate names it: with
// A 8 x 16, lane l holds A[i][l] in a[i]; with B 16 x 16, B[2i][l] and B[2i + 1][l] in the halves of b[i]; with C and the
// result 8 x 16, C[i][l] in c[i]. joint_matrix says the same, in SPIR-V that compilers before 2024 refuse.
using pk_short8 = pk::vec<int16_t, 8>;
#ifdef PK_WITHOUT_DPAS
template <class E>
PK_INLINE pk::float8 pk_matrix_mad(pk_short8 a, pk::int8 b, pk::float8 c) {
    const auto lanes = pk::this_item().get_sub_group();
    for (int i = 0; i < 8; ++i)
        for (int k = 0; k < 16; ++k) {
            const int16_t left = sycl::select_from_group(lanes, static_cast<int16_t>(a[i]), k);
            const int16_t right = static_cast<int16_t>(k % 2 ? b[k / 2] >> 16 : b[k / 2]);
            c[i] = pk::fma(float(pk::bits<E>(left)), float(pk::bits<E>(right)), c[i]);
        }
    return c;
}
#else
SYCL_EXTERNAL pk::float8 intel_sub_group_bf16_bf16_matrix_mad_k16(pk_short8 a, pk::int8 b, pk::float8 c);
SYCL_EXTERNAL pk::float8 intel_sub_group_f16_f16_matrix_mad_k16(pk_short8 a, pk::int8 b, pk::float8 c);
template <class E>
PK_INLINE pk::float8 pk_matrix_mad(pk_short8 a, pk::int8 b, pk::float8 c) {
    if constexpr (__is_same(E, pk::bf16)) return intel_sub_group_bf16_bf16_matrix_mad_k16(a, b, c);
    else return intel_sub_group_f16_f16_matrix_mad_k16(a, b, c);
}
#endif

namespace pk {

template <class E>
constexpr bool has_dpas = __is_same(E, bf16) || __is_same(E, f16);

template <class S>
PK_INLINE pk_short8 left_fragment(const S& a, int row, int k) {
    pk_short8 x;
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = bits<int16_t>(a.at(row + i, k + lane()));
    return x;
}
template <class S>
PK_INLINE int8 right_fragment(const S& b, int k, int col) {
    int8 x;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const uint32_t low = bits<uint16_t>(b.at(k + 2 * i, col + lane()));
        const uint32_t high = bits<uint16_t>(b.at(k + 2 * i + 1, col + lane()));
        x[i] = static_cast<int32_t>(low | high << 16);
    }
    return x;
}

// acc += a b, both operands in local memory, whichever way they lie.
template <class T, class L, class A, class B>
PK_INLINE void dot(Tile<T, L>& acc, const A& a, const B& b) {
    using E = typename A::Element;
    static_assert(A::rows == L::rows && B::cols == L::cols && A::cols == B::rows, "m x k times k x n");
    const int row = L::first_row(item()), col = L::first_col(item());
    if constexpr (has_dpas<E>) {
        static_assert(A::cols % 16 == 0, "the depth is a multiple of the instruction's");
        for (int k = 0; k < A::cols; k += 16) {
            int8 right[L::col_slots];
#pragma unroll
            for (int j = 0; j < L::col_slots; ++j) right[j] = right_fragment(b, k, col + 16 * j);
#pragma unroll
            for (int i = 0; i < L::row_slots; i += 8) {
                const pk_short8 left = left_fragment(a, row + i, k);
#pragma unroll
                for (int j = 0; j < L::col_slots; ++j) {
                    float8 c;
#pragma unroll
                    for (int r = 0; r < 8; ++r) c[r] = acc.at(i + r, j);
                    c = pk_matrix_mad<E>(left, right[j], c);
#pragma unroll
                    for (int r = 0; r < 8; ++r) acc.at(i + r, j) = c[r];
                }
            }
        }
    } else {
        for (int k = 0; k < A::cols; ++k) {
            T right[L::col_slots];
#pragma unroll
            for (int j = 0; j < L::col_slots; ++j) right[j] = T(b.at(k, col + 16 * j + lane()));
#pragma unroll
            for (int i = 0; i < L::row_slots; ++i) {
                const T left = T(a.at(row + i, k));
#pragma unroll
                for (int j = 0; j < L::col_slots; ++j) {
                    if constexpr (is_float<T>) acc.at(i, j) = pk::fma(left, right[j], acc.at(i, j));
                    else acc.at(i, j) += left * right[j];
                }
            }
        }
    }
}

}  // namespace pk
