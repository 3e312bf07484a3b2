// Matrix products: mma.sync on the tensor cores for bf16, f16, 8-bit numbers and tf32; for float and double, which no matrix
// instruction multiplies exactly, fused multiply-adds on a register tile.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/layout.cuh"
#include "pk/math.cuh"
#include "pk/ptx.cuh"
#include "pk/shared.cuh"
#include "pk/tile.cuh"

namespace pk {

// ---- fragments of 16- and 8-bit operands: 16 rows by 32 bytes from (row, col) of the operand, whichever way it is stored ----

/// Elements of a chunk of 16 bytes, of which the operands of an instruction have two along k.
template <class T> constexpr int kChunk = 16 / static_cast<int>(sizeof(T));

/// Four bytes down a column, in one register: ldmatrix exchanges rows and columns of 16-bit elements alone.
template <class T, int R, int C> PK_DEVICE uint32_t four_down(const Shared<T, R, C>& s, int row, int col) {
    uint32_t word = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        unsigned char byte;
        memcpy(&byte, s.at(row + e, col), 1);
        word |= static_cast<uint32_t>(byte) << 8 * e;
    }
    return word;
}

template <class T, int R, int C> PK_DEVICE void load_a(uint32_t (&a)[4], const Shared<T, R, C>& s, int m, int k) {
    ptx::load_matrix_4(a, s.at(m + (lane() & 15), k + lane() / 16 * kChunk<T>));
}
template <class T, int R, int C>
PK_DEVICE void load_a(uint32_t (&a)[4], const Transposed<Shared<T, R, C>>& s, int m, int k) {
    if constexpr (byte_wide<T>) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = four_down(s.of, k + lane() % 4 * 4 + i / 2 * 16, m + lane() / 4 + i % 2 * 8);
    } else {
        ptx::load_matrix_4_transposed(a, s.of.at(k + (lane() & 7) + lane() / 16 * 8, m + (lane() & 8)));
    }
}

/// b[0], b[1]: the fragment of columns n to n + 7; b[2], b[3]: of the eight after `next` columns (0: the same again).
template <class T, int R, int C>
PK_DEVICE void load_b(uint32_t (&b)[4], const Shared<T, R, C>& s, int k, int n, int next) {
    if constexpr (byte_wide<T>) {
#pragma unroll
        for (int i = 0; i < 4; ++i) b[i] = four_down(s, k + lane() % 4 * 4 + i % 2 * 16, n + lane() / 4 + i / 2 * next);
    } else {
        ptx::load_matrix_4_transposed(b, s.at(k + (lane() & 15), n + lane() / 16 * next));
    }
}
template <class T, int R, int C>
PK_DEVICE void load_b(uint32_t (&b)[4], const Transposed<Shared<T, R, C>>& s, int k, int n, int next) {
    ptx::load_matrix_4(b, s.of.at(n + (lane() & 7) + lane() / 16 * next, k + (lane() & 8) / 8 * kChunk<T>));
}

/// Two neighbouring elements of a row in the register that mma.sync takes them from.
template <class T> PK_DEVICE uint32_t pack(T low, T high) {
    return static_cast<uint32_t>(low.bits) | static_cast<uint32_t>(high.bits) << 16;
}

/// The left operand as a product has left it in registers: the accumulator's fragments are those of A, column by column.
template <class T, class L> PK_DEVICE void load_a(uint32_t (&a)[4], const Tile<T, L>& p, int i, int k) {
    const int j = k / 4;  // 16 columns are two fragments of the accumulator, four slots of a lane
    a[0] = pack(p.at(i, j), p.at(i, j + 1));
    a[1] = pack(p.at(i + 1, j), p.at(i + 1, j + 1));
    a[2] = pack(p.at(i, j + 2), p.at(i, j + 3));
    a[3] = pack(p.at(i + 1, j + 2), p.at(i + 1, j + 3));
}

PK_DEVICE void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bf16) { ptx::mma_bf16(c, a, b0, b1); }
PK_DEVICE void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, f16) { ptx::mma_f16(c, a, b0, b1); }
PK_DEVICE void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, f8e4m3) { ptx::mma_e4m3(c, a, b0, b1); }
PK_DEVICE void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, f8e5m2) { ptx::mma_e5m2(c, a, b0, b1); }
PK_DEVICE void mma(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, int8_t) { ptx::mma_s8(c, a, b0, b1); }
PK_DEVICE void mma(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, uint8_t) { ptx::mma_u8(c, a, b0, b1); }

/// One step of 32 bytes along k on the matrix unit; `load(a, i)` gives the fragment of A for the row slots i and i + 1.
template <class T, class S, class L, class B, class LoadA>
PK_DEVICE void mma_step(Tile<S, L>& acc, const B& b, int k, LoadA load) {
    constexpr int pairs = ceil_div(L::col_slots, 4);  // two fragments of 8 columns at a time
    uint32_t right[pairs][4];
#pragma unroll
    for (int p = 0; p < pairs; ++p)
        load_b(right[p], b, k, L::warp_col(thread()) + p * 16, p * 4 + 2 < L::col_slots ? 8 : 0);
#pragma unroll
    for (int i = 0; i < L::row_slots; i += 2) {
        uint32_t left[4];
        load(left, i);
#pragma unroll
        for (int j = 0; j < L::col_slots; j += 2) {
            S c[4] = {acc.at(i, j), acc.at(i, j + 1), acc.at(i + 1, j), acc.at(i + 1, j + 1)};
            mma(c, left, right[j / 4][j % 4], right[j / 4][j % 4 + 1], T{});
            acc.at(i, j) = c[0], acc.at(i, j + 1) = c[1], acc.at(i + 1, j) = c[2], acc.at(i + 1, j + 1) = c[3];
        }
    }
}

// ---- single elements and short vectors of wider operands -----------------------------------------------------------

template <class T, int R, int C> PK_DEVICE T element(const Shared<T, R, C>& s, int row, int col) { return *s.at(row, col); }
template <class T, int R, int C, int P> PK_DEVICE T element(const Lines<T, R, C, P>& s, int row, int col) {
    return *s.at(row, col);
}
template <class S> PK_DEVICE typename S::Element element(const Transposed<S>& s, int row, int col) { return *s.of.at(col, row); }

/// `N` elements of a stored row, in one access where they lie in one chunk.
template <int N, class T, class S> PK_DEVICE void read_row(T (&to)[N], const S& s, int row, int col) {
    constexpr int width = min_of(N, 16 / static_cast<int>(sizeof(T)));
    using Type = typename Word<width * sizeof(T)>::Type;
#pragma unroll
    for (int n = 0; n < N; n += width) {
        const Type word = *reinterpret_cast<const Type*>(s.at(row, col + n));
        memcpy(&to[n], &word, sizeof(word));
    }
}

/// Rows `row`.. by columns `col`.. of an operand: `Tall` x `Wide` elements, read along whatever is contiguous.
template <int Tall, int Wide, class T, int R, int C>
PK_DEVICE void read_block(T (&to)[Tall][Wide], const Shared<T, R, C>& s, int row, int col) {
#pragma unroll
    for (int i = 0; i < Tall; ++i) read_row(to[i], s, row + i, col);
}
template <int Tall, int Wide, class T, int R, int C>
PK_DEVICE void read_block(T (&to)[Tall][Wide], const Transposed<Shared<T, R, C>>& s, int row, int col) {
#pragma unroll
    for (int j = 0; j < Wide; ++j) {
        T column[Tall];
        read_row(column, s.of, col + j, row);
#pragma unroll
        for (int i = 0; i < Tall; ++i) to[i][j] = column[i];
    }
}

/// acc += a b by fused multiply-adds: each lane multiplies its rows of a with its columns of b, four of k at a time.
template <class T, class L, class A, class B> PK_DEVICE void dot_simt(Tile<T, L>& acc, const A& a, const B& b) {
    constexpr int kStep = 4, tall = L::row_block, wide = L::col_block;
    static_assert(A::cols % kStep == 0, "the contracted tile must be a multiple of 4");
#pragma unroll 1
    for (int k = 0; k < A::cols; k += kStep) {
        typename A::Element left[L::row_slots / tall][tall][kStep], right[L::col_slots / wide][kStep][wide];
#pragma unroll
        for (int i = 0; i < L::row_slots; i += tall) read_block(left[i / tall], a, L::row(thread(), i), k);
#pragma unroll
        for (int j = 0; j < L::col_slots; j += wide) read_block(right[j / wide], b, k, L::col(thread(), j));
#pragma unroll
        for (int q = 0; q < kStep; ++q)
#pragma unroll
            for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
                for (int j = 0; j < L::col_slots; ++j)
                    acc.at(i, j) = fma(T(left[i / tall][i % tall][q]), T(right[j / wide][q][j % wide]), acc.at(i, j));
    }
}

/// acc += a b by fused multiply-adds of operands that lie in Lines along k: each lane multiplies its rows of a with its columns
/// of b, while those of the next k are on their way from shared memory.
template <class T, class L, class A, class B> PK_DEVICE void dot_lines(Tile<T, L>& acc, const A& a, const B& b) {
    constexpr int tall = L::row_block, wide = L::col_block;
    T left[2][L::row_slots / tall][tall], right[2][L::col_slots / wide][wide];
    auto read = [&](int k) {
#pragma unroll
        for (int i = 0; i < L::row_slots; i += tall) read_row(left[k % 2][i / tall], a, k, L::row(thread(), i));
#pragma unroll
        for (int j = 0; j < L::col_slots; j += wide) read_row(right[k % 2][j / wide], b, k, L::col(thread(), j));
    };
    read(0);
#pragma unroll
    for (int k = 0; k < A::rows; ++k) {
        if (k + 1 < A::rows) read(k + 1);
#pragma unroll
        for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
            for (int j = 0; j < L::col_slots; ++j)
                acc.at(i, j) = fma(left[k % 2][i / tall][i % tall], right[k % 2][j / wide][j % wide], acc.at(i, j));
    }
}

/// acc += a b on the matrix unit with operands rounded to TF32, m16n8k8.
template <class L, class A, class B> PK_DEVICE void dot_tf32(Tile<float, L>& acc, const A& a, const B& b) {
    static_assert(A::cols % 8 == 0, "the contracted tile must be a multiple of 8");
    const int g = lane() / 4, t = lane() % 4;
#pragma unroll
    for (int k = 0; k < A::cols; k += 8) {
        uint32_t right[L::col_slots / 2][2];
#pragma unroll
        for (int j = 0; j < L::col_slots / 2; ++j) {
            const int n = L::warp_col(thread()) + j * 8 + g;
            right[j][0] = ptx::to_tf32(element(b, k + t, n));
            right[j][1] = ptx::to_tf32(element(b, k + t + 4, n));
        }
#pragma unroll
        for (int i = 0; i < L::row_slots; i += 2) {
            const int m = L::warp_row(thread()) + i * 8 + g;
            const uint32_t left[4] = {ptx::to_tf32(element(a, m, k + t)), ptx::to_tf32(element(a, m + 8, k + t)),
                                      ptx::to_tf32(element(a, m, k + t + 4)), ptx::to_tf32(element(a, m + 8, k + t + 4))};
#pragma unroll
            for (int j = 0; j < L::col_slots; j += 2) {
                float c[4] = {acc.at(i, j), acc.at(i, j + 1), acc.at(i + 1, j), acc.at(i + 1, j + 1)};
                ptx::mma_tf32(c, left, right[j / 2][0], right[j / 2][1]);
                acc.at(i, j) = c[0], acc.at(i, j + 1) = c[1], acc.at(i + 1, j) = c[2], acc.at(i + 1, j + 1) = c[3];
            }
        }
    }
}

// ---- the product ---------------------------------------------------------------------------------------------------

/// acc += a b with both operands in shared memory, a of m x k and b of k x n, either of them stored transposed.
template <class T, class L, class A, class B> PK_DEVICE void dot(Tile<T, L>& acc, const A& a, const B& b) {
    using E = typename A::Element;
    static_assert(same<E, typename B::Element>, "operand types differ");
    static_assert(A::rows == L::rows && B::cols == L::cols && A::cols == B::rows, "sizes do not match");
    if constexpr (multiplied_whole<E>) {
        static_assert(A::cols % (2 * kChunk<E>) == 0, "the contracted tile must be a multiple of 32 bytes");
#pragma unroll
        for (int k = 0; k < A::cols; k += 2 * kChunk<E>)
            mma_step<E>(acc, b, k,
                        [&](uint32_t(&left)[4], int i) { load_a(left, a, L::warp_row(thread()) + i * 8, k); });
    } else if constexpr (same<typename L::Operand, tf32>) {
        dot_tf32(acc, a, b);
    } else {
        dot_simt(acc, a, b);
    }
}

template <class T, class L, int M, int N, int K>
PK_DEVICE void dot(Tile<T, L>& acc, const Transposed<Lines<T, K, M>>& a, const Lines<T, K, N>& b) {
    static_assert(M == L::rows && N == L::cols, "sizes do not match");
    dot_lines(acc, a.of, b);
}

/// acc += p b where p was computed in registers from another product. Its fragments are taken as they are where it lies in
/// fragments (sums of products of floats do not) and every warp holds whole rows of p, the same as of acc; else p goes
/// through shared memory.
template <class T, class E, class P, class L, class B>
PK_DEVICE void dot(Tile<T, L>& acc, const Tile<E, P>& p, const B& b) {
    static_assert(P::rows == L::rows && P::cols == B::rows && B::cols == L::cols, "sizes do not match");
    if constexpr (half_width<E> && P::fragments && P::side == 1 && P::down == L::down) {
        static_assert(P::cols % 16 == 0, "the contracted tile must be a multiple of 16");
#pragma unroll
        for (int k = 0; k < P::cols; k += 16)
            mma_step<E>(acc, b, k, [&](uint32_t(&left)[4], int i) { load_a(left, p, i, k); });
    } else {
        __shared__ Shared<E, P::rows, P::cols> between;
        sync();  // its last use is over
        put(between, p);
        sync();
        dot(acc, between, b);
    }
}

}  // namespace pk
