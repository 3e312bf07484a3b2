// What walks along keys have in common, on Hopper (pk/walk.cuh) and on Blackwell (pk/tensor_walk.cuh): the rows that a block of
// threads takes, the rings through which the copy engine brings operands, and weights of 16 bits.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/layout.cuh"
#include "pk/ptx.cuh"
#include "pk/ptx_tma.cuh"
#include "pk/reduce.cuh"
#include "pk/shared.cuh"
#include "pk/slots.cuh"
#include "pk/tile.cuh"

namespace pk {

/// The blocks of rows that a block of threads takes one after the other, of `rows` in each of `heads`. `Group` heads at a time, so
/// that what they read stays in L2.
template <int Group, bool Last> struct RowBlocks {
    int rows, heads, at, row, head;

    PK_DEVICE RowBlocks(int64_t rows, int64_t heads)
        : rows(static_cast<int>(rows)), heads(static_cast<int>(heads)), at(static_cast<int>(blockIdx.x)) {
        place();
    }
    PK_DEVICE bool inside() const { return at < rows * heads; }
    PK_DEVICE void next() {
        at += static_cast<int>(gridDim.x);
        place();
    }
    PK_DEVICE void place() {
        const int first = at / (rows * Group) * Group, rest = at - first * rows, wide = max_of(1, min_of(Group, heads - first));
        row = rest / wide;
        head = first + rest % wide;
    }
};

/// The same where later rows walk farther. All blocks of threads shall be done at the same time. So they take pairs, a row from the
/// end of a head and the one as far from its beginning, which are as long as any other pair; of an odd number of rows the last is
/// alone. The rows of the last heads, two for each block of threads, are taken one by one, the longest first, which evens out what
/// is left over. Turns go forth and back over the blocks of threads. Neighbours have pairs of one head, whatever the `Group`, so what
/// is read at a time are twice as many rows of keys as there are blocks of threads.
template <int Group> struct RowBlocks<Group, true> {
    int rows, heads, paired, turn = 0, at, row, head, second;  // `second`: the row to take next, -1: none

    PK_DEVICE RowBlocks(int64_t rows, int64_t heads) : rows(static_cast<int>(rows)), heads(static_cast<int>(heads)) {
        paired = max_of(0, this->heads - ceil_div(2 * static_cast<int>(gridDim.x), max_of(1, this->rows)));
        place();
    }
    PK_DEVICE bool inside() const { return at < pairs() + (heads - paired) * rows; }
    PK_DEVICE void next() {
        if (second >= 0) {
            row = second;
            second = -1;
        } else {
            ++turn;
            place();
        }
    }
    PK_DEVICE int half() const { return max_of(1, (rows + 1) / 2); }
    PK_DEVICE int pairs() const { return paired * half(); }
    PK_DEVICE void place() {
        const int blocks = static_cast<int>(gridDim.x), mine = static_cast<int>(blockIdx.x), alone = max_of(1, heads - paired);
        at = turn * blocks + (turn % 2 ? blocks - 1 - mine : mine);
        const bool pair = at < pairs();
        const int short_row = pair ? at % half() : (at - pairs()) / alone;
        row = rows - 1 - short_row;
        head = pair ? at / half() : paired + (at - pairs()) % alone;
        second = pair ? short_row - rows % 2 : -1;
    }
};

/// Of keys in pages of `Height` rows: `entries` integers from `first` on, `step` apart, each the number of a page of `among`.
template <int Height, class I> struct PageTable {
    const I* first;
    int64_t entries, step, among;

    /// The page that holds row `row` of the sequence; -1, which lies outside of every array, where there is none.
    PK_DEVICE int page_of(int64_t row) const {
        const int64_t entry = row / Height;
        if (entry >= entries) return -1;
        const int64_t page = static_cast<int64_t>(first[entry * step]);
        return page >= 0 && page < among ? static_cast<int>(page) : -1;
    }
};
template <int Height, class I> PK_DEVICE PageTable<Height, I> page_table(const I* first, int64_t entries, int64_t step, int64_t among) {
    return {first, entries, step, among};
}

/// Slots of shared memory through which one operand S comes. Each has two barriers: `full` counts the bytes that have arrived,
/// `empty` the `Readers` that have read them. Every thread has its own copy and is either producer or consumer.
template <class S, int Slots, int Readers> struct Ring {
    using Slot = S;
    static constexpr int barriers = 2 * Slots * 8;  // bytes

    S* slots;
    uint64_t *full, *empty;
    int slot = 0, parity = 0;
    bool held = false;

    /// All threads of the block make all rings, then call `ready`.
    PK_DEVICE Ring(void* memory, void* barriers)
        : slots(static_cast<S*>(memory)), full(static_cast<uint64_t*>(barriers)), empty(full + Slots) {
        if (thread() == 0)
            for (int i = 0; i < Slots; ++i) {
                ptx::barrier_init(full + i, 1);
                ptx::barrier_init(empty + i, Readers);
            }
    }
    PK_DEVICE void advance() {
        if (++slot == Slots) slot = 0, parity ^= 1;
    }

    /// The producer, one thread: starts copying the tile at (row, col, batch...) once the next slot has been read by everyone.
    template <class... Batch> PK_DEVICE void fetch(const TensorMap& map, int64_t row, int64_t col, Batch... batch) {
        ptx::barrier_wait(empty + slot, parity ^ 1);
        ptx::barrier_expect(full + slot, S::bytes);
#pragma unroll
        for (int c = 0; c < S::cols; c += S::panel)
            ptx::copy_box(slots[slot].data + c * S::rows, map, full + slot, static_cast<int>(col) + c, static_cast<int>(row),
                          static_cast<int>(batch)...);
        advance();
    }

    /// The same of rows in pages, by a whole warp: a box for each page, or for the part of one that a tile covers, of which every
    /// lane looks one up and starts it, since one thread would be slower than memory.
    template <int Height, class I, class... Batch>
    PK_DEVICE void fetch_pages(const TensorMap& map, const PageTable<Height, I>& table, int64_t row, int64_t col, Batch... batch) {
        constexpr int rows = min_of(Height, S::rows), panels = S::cols / S::panel, boxes = S::rows / rows * panels;
        constexpr int turns = (boxes + kWarp - 1) / kWarp;
        int pages[turns];
#pragma unroll
        for (int t = 0; t < turns; ++t) pages[t] = table.page_of(row + (lane() + t * kWarp) / panels * rows);
        if (lane() == 0) {
            ptx::barrier_wait(empty + slot, parity ^ 1);
            ptx::barrier_expect(full + slot, S::bytes);
        }
        __syncwarp();
#pragma unroll
        for (int t = 0; t < turns; ++t) {
            const int box = lane() + t * kWarp, first = box / panels * rows, c = box % panels * S::panel;
            if (box < boxes)
                ptx::copy_box(slots[slot].data + c * S::rows + first * S::panel, map, full + slot, static_cast<int>(col) + c,
                              static_cast<int>(row % Height), static_cast<int>(batch)..., pages[t]);
        }
        advance();
    }

    /// The producer's last word: waits until all slots have come back.
    PK_DEVICE void drain() {
        for (int i = 0; i < Slots; ++i, advance()) ptx::barrier_wait(empty + slot, parity ^ 1);
    }

    /// Consumers: waits for the next tile, and keeps it until `release`.
    PK_DEVICE S& next() {
        ptx::barrier_wait(full + slot, parity);
        held = true;
        return slots[slot];
    }
    PK_DEVICE void release() {
        if (!held) return;
        if (lane() == 0) ptx::barrier_arrive(empty + slot);
        advance();
        held = false;
    }
};

PK_DEVICE void ready() {
    if (thread() == 0) {
        ptx::barriers_ready();
        ptx::fence_async_proxy();
    }
    __syncthreads();
}

/// A tile of 16-bit elements, two neighbours in a word: a left operand in registers.
template <class E, class L> struct Packed {
    uint32_t words[L::slots / 2];
};

/// Two neighbours in one word, each to nearest, ties to even.
template <class E> PK_DEVICE uint32_t to_pair(float low, float high) {
    if constexpr (same<E, bf16>) return ptx::to_bf16_pair(low, high);
    else return ptx::to_f16_pair(low, high);
}

template <class E, class L> PK_DEVICE Packed<E, L> pack(const Tile<float, L>& x) {
    static_assert(half_width<E> && L::vector == 2, "pairs of neighbours");
    Packed<E, L> y;
#pragma unroll
    for (int i = 0; i < L::slots / 2; ++i) y.words[i] = to_pair<E>(x.v[2 * i], x.v[2 * i + 1]);
    return y;
}

/// Each thread of a row has the sum of its own columns, and takes that of all. Rows lie in warps.
template <class L> PK_DEVICE void join_sums(Tile<float, RowOf<L>>& x) {
    static_assert((L::col_bits & ~(kWarp - 1)) == 0, "a row lies in one warp");
    join_threads<Sum, L::col_bits, L::threads>(x.v);
}

}  // namespace pk
