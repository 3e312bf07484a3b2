// Matrix products of operands that lie turned round in their arrays, as they did in memory: a as [k, m], b as [n, k].
#pragma once
#include "pk/cpu.hpp"

namespace pk {

// Rows of 16 words become columns: rows and those eight below are interleaved, four times.
template <class V>
PK_INLINE void turn(V (&row)[16]) {
    V next[16];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            next[2 * i].even = row[i].lo;
            next[2 * i].odd = row[i + 8].lo;
            next[2 * i + 1].even = row[i].hi;
            next[2 * i + 1].odd = row[i + 8].hi;
        }
#pragma unroll
        for (int i = 0; i < 16; ++i) row[i] = next[i];
    }
}

// `count` words of 16 W rows that lie `pitch` words apart, to a strip: word after word, W vectors each.
template <int W, class V, class S>
PK_INLINE void turn_into_strip(V* strip, const S* rows, int pitch, int count) {
    for (int k = 0; k < count; k += 16)
        for (int w = 0; w < W; ++w) {
            V row[16];
            for (int t = 0; t < 16; ++t) row[t] = reinterpret_cast<const loose<S, 16>*>(rows + (16 * w + t) * pitch + k)->v;
            turn(row);
            for (int t = 0; t < 16; ++t) strip[(k + t) * W + w] = row[t];
        }
}

// M rows of a: element k of row r lies at a[r * a_row + k * a_step]. Of b: at b[k * b_pitch].
template <int M, int W, class S>
PK_INLINE void product_rows(S* c, int c_pitch, const S* a, int a_row, int a_step, const S* b, int b_pitch, int depth) {
    using V = vec<S, 16>;
    V sum[M][W];
#pragma unroll
    for (int r = 0; r < M; ++r)
#pragma unroll
        for (int w = 0; w < W; ++w) sum[r][w] = load<16>(c + r * c_pitch + w * 16);
    for (int k = 0; k < depth; ++k) {
        V right[W];
#pragma unroll
        for (int w = 0; w < W; ++w) right[w] = load<16>(b + k * b_pitch + w * 16);
#pragma unroll
        for (int r = 0; r < M; ++r) {
            const V left = a[r * a_row + k * a_step];
#pragma unroll
            for (int w = 0; w < W; ++w) sum[r][w] = pk::fma(left, right[w], sum[r][w]);
        }
    }
#pragma unroll
    for (int r = 0; r < M; ++r)
#pragma unroll
        for (int w = 0; w < W; ++w) store(sum[r][w], c + r * c_pitch + w * 16);
}

// c += a b for packed tiles of rows x depth and depth x columns.
template <int M, int N, int W, int most, bool turned_a, bool turned_b, class S>
PK_INLINE void product(S* c, int c_pitch, const S* a, int a_pitch, const S* b, int b_pitch, int rows, int columns, int depth) {
    static_assert(N == 16 && sizeof(S) == 4, "floats are turned round");
    vec<S, 16> strip[turned_b ? (most + 15) / 16 * 16 * W : 1];
    const int row = turned_a ? 1 : a_pitch, step = turned_a ? a_pitch : 1;
    for (int j = 0; j < columns; j += 16 * W) {
        const S* right = b + j;
        int right_pitch = b_pitch;
        if constexpr (turned_b) {
            turn_into_strip<W>(strip, b + j * b_pitch, b_pitch, depth);
            right = reinterpret_cast<const S*>(strip), right_pitch = 16 * W;
        }
        int i = 0;
        for (; i + M <= rows; i += M)
            product_rows<M, W>(c + i * c_pitch + j, c_pitch, a + i * row, row, step, right, right_pitch, depth);
        for (; i < rows; ++i)
            product_rows<1, W>(c + i * c_pitch + j, c_pitch, a + i * row, row, step, right, right_pitch, depth);
    }
}

}  // namespace pk
