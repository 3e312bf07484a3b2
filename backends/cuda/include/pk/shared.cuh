// Operands of a matrix product in shared memory, and the copies that fill them.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/memory.cuh"
#include "pk/ptx.cuh"
#include "pk/tile.cuh"

namespace pk {

/// R x C elements in shared memory: panels of up to 128 bytes of a row, each panel row by row, in chunks of 16 bytes whose
/// places are permuted ("swizzled") within a row: chunk c of row r lies at c ^ s(r), so that eight rows read at one column,
/// as ldmatrix does, meet 32 different banks. For 16-bit elements this is what the PTX ISA calls the 128-byte (64-byte,
/// 32-byte) swizzling mode, so wgmma reads the same tile.
template <class T, int R, int C> struct Shared {
    using Element = T;
    static constexpr int rows = R, cols = C;
    static constexpr int chunk = 16 / static_cast<int>(sizeof(T));  // elements of a chunk
    static constexpr int chunks = C / chunk;                        // of a row
    static constexpr int bytes = R * C * static_cast<int>(sizeof(T));
    static_assert(C % chunk == 0, "a row must be a multiple of 16 bytes");
    static constexpr int group = min_of(8, power_of_two_in(chunks));  // chunks among which places are exchanged
    static constexpr int step = 8 / group;                            // rows that fill the 128 bytes of all banks
    static constexpr int panel = chunks % 8 ? C : 8 * chunk;          // columns of a panel

    alignas(bytes % 1024 ? 128 : 1024) T data[R * C];

    static PK_CONSTEXPR int swizzle(int row) {
        // Wider elements are also read at every fourth row (one lane holds four neighbours, see Accumulator).
        const int r = row / step;
        return (sizeof(T) >= 4 ? r ^ (r >> 2) : r) & (group - 1);
    }
    static PK_CONSTEXPR int offset(int row, int col) {
        const int in_panel = col % panel;
        return col / panel * R * panel + row * panel + (in_panel / chunk ^ swizzle(row)) * chunk + in_panel % chunk;
    }
    PK_DEVICE T* at(int row, int col) { return data + offset(row, col); }
    PK_DEVICE const T* at(int row, int col) const { return data + offset(row, col); }
};

/// R x C elements in shared memory, row by row, with `Pad` elements between rows: for operands of which every lane reads elements
/// at places known to the compiler. With 16 bytes between them elements down a column meet 8 different banks.
template <class T, int R, int C, int Pad = 16 / static_cast<int>(sizeof(T))> struct Lines {
    using Element = T;
    static constexpr int rows = R, cols = C;
    static constexpr int chunk = 16 / static_cast<int>(sizeof(T));
    static constexpr int chunks = C / chunk, stride = C + Pad;
    static_assert(C % chunk == 0, "a row must be a multiple of 16 bytes");

    alignas(128) T data[R * stride];

    PK_DEVICE T* at(int row, int col) { return data + row * stride + col; }
    PK_DEVICE const T* at(int row, int col) const { return data + row * stride + col; }
};

/// The same memory with rows and columns exchanged: an operand stored the other way round.
template <class S> struct Transposed {
    using Element = typename S::Element;
    static constexpr int rows = S::cols, cols = S::rows;
    S& of;
};
template <class S> PK_DEVICE Transposed<S> transposed(S& s) { return {s}; }

/// f(row, down, col) for every one of `Rows` x `Cols` things, (row + down, col), shared out to the threads along rows. `row` and
/// `col` are a thread's own, `down` is known to the compiler, and so are the distances between addresses.
template <int Rows, int Cols, int Threads, class F> PK_DEVICE void share_out(F f) {
    constexpr int turns = Rows * Cols / Threads, rest = Rows * Cols % Threads;
    const int row = thread() / Cols, col = thread() % Cols;
#pragma unroll
    for (int i = 0; i < turns; ++i) {
        if constexpr (Threads % Cols == 0) f(row, i * (Threads / Cols), col);
        else f((thread() + i * Threads) / Cols, 0, (thread() + i * Threads) % Cols);
    }
    if constexpr (rest > 0) {
        const int n = thread() + turns * Threads;
        if (n < Rows * Cols) f(n / Cols, 0, n % Cols);
    }
}

// 16 bytes at a time, asynchronously: the copies of this thread belong to its open group.
template <int Threads, class T, class S>
PK_DEVICE void copy_chunks(S& to, const T* origin, int64_t row_stride, int rows_left, int cols_left) {
    share_out<S::rows, S::chunks, Threads>([&](int row, int down, int chunk) {
        const int col = chunk * S::chunk;
        const int cols = cols_left == kAll ? S::chunk : max_of(0, min_of(S::chunk, ptx::minus(cols_left, col)));
        const int there = within(row + down, rows_left) ? cols : 0;
        const T* from = there > 0 ? origin + (row * row_stride + col) + down * row_stride : origin;
        ptx::copy_async_16(to.at(row + down, col), from, there * static_cast<int>(sizeof(T)));
    });
}

constexpr int kFewChunks = 8;  // of a thread, whose addresses lie at distances that the compiler knows

template <int Threads, class T, int R, int C>
PK_DEVICE void stage_vectors(Shared<T, R, C>& to, const T* origin, int64_t row_stride, int rows_left, int cols_left) {
    using S = Shared<T, R, C>;
    if constexpr (R * S::chunks % Threads == 0 && Threads % (8 * S::chunks) == 0 && R * S::chunks <= kFewChunks * Threads) {
        copy_chunks<Threads>(to, origin, row_stride, rows_left, cols_left);  // at the same swizzled column of rows 8 apart
    } else {
#pragma unroll
        for (int n = thread(); n < R * S::chunks; n += Threads) {  // a loop: products on tensor cores need the registers
            const int row = n / S::chunks, col = n % S::chunks * S::chunk;
            const int cols = cols_left == kAll ? S::chunk : max_of(0, min_of(S::chunk, ptx::minus(cols_left, col)));
            const int there = within(row, rows_left) ? cols : 0;
            const T* from = there > 0 ? origin + row * row_stride + col : origin;
            ptx::copy_async_16(to.at(row, col), from, there * static_cast<int>(sizeof(T)));
        }
    }
}

// Through registers.
template <int Threads, class T, int R, int C>
PK_DEVICE void stage_elements(Shared<T, R, C>& to, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left,
                              int cols_left) {
    using S = Shared<T, R, C>;
    const bool down = row_stride == 1;  // neighbouring lanes read neighbouring addresses
#pragma unroll 1
    for (int n = thread(); n < R * S::chunks; n += Threads) {
        const int row = down ? n % R : n / S::chunks;
        const int col = (down ? n / R : n % S::chunks) * S::chunk;
        const T* from = origin + row * row_stride + col * col_stride;
        T values[S::chunk];
#pragma unroll
        for (int e = 0; e < S::chunk; ++e) values[e] = row < rows_left && col + e < cols_left ? from[e * col_stride] : T{};
        uint4 word;
        memcpy(&word, values, 16);
        *reinterpret_cast<uint4*>(to.at(row, col)) = word;
    }
}

// Element by element; neighbouring lanes take neighbours along what is contiguous in memory, usually the source's columns.
template <int Threads, bool Turned, class T, int R, int C, int P>
PK_DEVICE void stage_lines(Lines<T, R, C, P>& to, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left,
                           int cols_left) {
    static_assert(sizeof(T) == 4, "copied in words");
    share_out<Turned ? C : R, Turned ? R : C, Threads>([&](int row, int down, int col) {
        const bool there = within(row + down, rows_left) && within(col, cols_left);
        const T* from = there ? origin + (row * row_stride + col * col_stride) + down * row_stride : origin;
        ptx::copy_async_4(Turned ? to.at(col, row + down) : to.at(row + down, col), from, there ? 4 : 0);
    });
}

/// Starts copying the tile at `origin` to shared memory, with zeros in rows from `rows_left` and columns from
/// `cols_left` on. Ends with `commit`; the data may be read after `wait` and `sync`. A source that is not aligned to 16
/// bytes goes through registers and is there after `sync`.
template <int Threads, class Fact = Unknown, class T, int R, int C>
PK_DEVICE void stage(Shared<T, R, C>& to, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left,
                     int cols_left) {
    const uint64_t bits = reinterpret_cast<uint64_t>(origin) | static_cast<uint64_t>(row_stride) * sizeof(T);
    if constexpr (Fact::aligned) stage_vectors<Threads>(to, origin, row_stride, rows_left, cols_left);
    else if (col_stride == 1 && bits % 16 == 0) stage_vectors<Threads>(to, origin, row_stride, rows_left, cols_left);
    else stage_elements<Threads>(to, origin, row_stride, col_stride, rows_left, cols_left);
}

template <int Threads, class Fact = Unknown, class T, int R, int C>
PK_DEVICE void stage(Shared<T, R, C>& to, const T* origin, int64_t row_stride, int64_t col_stride) {
    if constexpr (Fact::aligned) stage_vectors<Threads>(to, origin, row_stride, kAll, kAll);
    else stage<Threads, Fact>(to, origin, row_stride, col_stride, R, C);
}

/// The same for Lines, which may be the other way round: then, or where 16 bytes at a time are not possible, element by
/// element, still asynchronously.
template <int Threads, class Fact = Unknown, class T, int R, int C, int P>
PK_DEVICE void stage(Lines<T, R, C, P>& to, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left = kAll,
                     int cols_left = kAll) {
    const uint64_t bits = reinterpret_cast<uint64_t>(origin) | static_cast<uint64_t>(row_stride) * sizeof(T);
    if (Fact::aligned || (col_stride == 1 && bits % 16 == 0)) {
        copy_chunks<Threads>(to, origin, row_stride, rows_left, cols_left);
    } else {
        stage_lines<Threads, false>(to, origin, row_stride, col_stride, rows_left, cols_left);
    }
}
template <int Threads, class Fact = Unknown, class T, int R, int C, int P>
PK_DEVICE void stage(Transposed<Lines<T, R, C, P>> to, const T* origin, int64_t row_stride, int64_t col_stride,
                     int rows_left = kAll, int cols_left = kAll) {
    stage_lines<Threads, true>(to.of, origin, row_stride, col_stride, rows_left, cols_left);
}

/// Closes the group of copies started since the last `commit`.
PK_DEVICE void commit() { ptx::copy_async_commit(); }

/// Who reads an operand: the threads (by ldmatrix), or the matrix unit of a warpgroup by a path of its own (the
/// "asynchronous proxy"), to which the threads' writes must be made known.
struct ByThreads {
    static PK_DEVICE void announce() {}
};

/// Waits until at most `Pending` groups of this thread are under way.
template <int Pending, class Reader = ByThreads> PK_DEVICE void wait() {
    ptx::copy_async_wait<Pending>();
    Reader::announce();
}

/// Barrier of the block: what any thread wrote to shared memory before is seen by all after.
PK_DEVICE void sync() { __syncthreads(); }

/// An operand computed in registers to shared memory.
template <class Reader = ByThreads, class T, int R, int C, class L>
PK_DEVICE void put(Shared<T, R, C>& to, const Tile<T, L>& x) {
    static_assert(L::rows == R && L::cols == C, "sizes differ");
    constexpr int width = min_of(L::vector, 16 / static_cast<int>(sizeof(T)));
    using Type = typename Word<width * sizeof(T)>::Type;
    if (owns<L>(thread())) {
#pragma unroll
        for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
            for (int j = 0; j < L::col_slots; j += width) {
                const int row = L::row(thread(), i), col = L::col(thread(), j);
                if (!inside<L>(row, col)) continue;
                Type word;
                memcpy(&word, &x.v[i * L::col_slots + j], sizeof(word));
                *reinterpret_cast<Type*>(to.at(row, col)) = word;
            }
    }
    Reader::announce();
}

template <class Reader = ByThreads, class T, int R, int C, class L>
PK_DEVICE void put(const Transposed<Shared<T, R, C>>& to, const Tile<T, L>& x) {
    static_assert(L::rows == C && L::cols == R, "sizes differ");
    if (owns<L>(thread())) {
#pragma unroll
        for (int i = 0; i < L::row_slots; ++i)
#pragma unroll
            for (int j = 0; j < L::col_slots; ++j) {
                const int row = L::row(thread(), i), col = L::col(thread(), j);
                if (inside<L>(row, col)) *to.of.at(col, row) = x.at(i, j);
            }
    }
    Reader::announce();
}

}  // namespace pk
