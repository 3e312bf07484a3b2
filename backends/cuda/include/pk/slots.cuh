// Slots of shared memory that one thread keeps full through the copy engine, for others to multiply what has arrived. Each has
// two barriers: `full` counts the bytes that arrive, `empty` those who have read them.
#pragma once
#include "pk/base.cuh"
#include "pk/ptx.cuh"
#include "pk/ptx_tma.cuh"
#include "pk/shared.cuh"

namespace pk {

/// Blocks on neighbouring SMs: `Down` below each other, which read the same columns of the right operand, and `Across` side by
/// side, which read the same rows of the left one. Each loads a part of what they share, for all of them.
template <int Down, int Across> struct Cluster {
    static constexpr int down = Down, across = Across, blocks = Down * Across;
    static PK_DEVICE int rank() { return blocks > 1 ? ptx::cluster_rank() : 0; }
    static PK_DEVICE void sync() {
        if constexpr (blocks > 1) ptx::cluster_sync();
        else __syncthreads();
    }
};

/// The tiles that this block computes one after the other, of `rows` x `cols` x `batches`. Clusters take neighbouring tiles at
/// the same time: down a band of `Band` clusters, then the next column of the band, so that what runs at once reads few rows
/// and few columns, which stay in L2.
template <class C, int Band> struct Tiles {
    int rows, cols, count, at, row, col, batch;

    PK_DEVICE Tiles(int64_t rows, int64_t cols, int64_t batches = 1)
        : rows(ceil_div(static_cast<int>(rows), C::down)), cols(ceil_div(static_cast<int>(cols), C::across)),
          count(this->rows * this->cols * static_cast<int>(batches)), at(static_cast<int>(blockIdx.x) / C::blocks) {
        place();
    }
    PK_DEVICE bool inside() const { return at < count; }
    PK_DEVICE void next() {
        at += static_cast<int>(gridDim.x) / C::blocks;
        place();
    }
    PK_DEVICE void place() {
        const int rest = at % (rows * cols), first = rest / (Band * cols) * Band, in_band = rest % (Band * cols);
        const int high = min_of(Band, rows - first), rank = C::rank();
        row = (first + in_band % high) * C::down + rank % C::down;
        col = in_band / high * C::across + rank / C::down;
        batch = at / (rows * cols);
    }
};

/// `Count` slots of one block, each of which `Readers` give back. Every thread has its own copy, and is producer or consumer.
template <class C, int Count, int Readers> struct Slots {
    static constexpr int bytes = 2 * Count * 8;
    static constexpr int neighbours = C::down + C::across - 1;  // blocks that write to this one's slots, itself among them

    uint64_t *full, *empty;  // in shared memory
    int slot = 0, parity = 0;

    /// All threads of the block call this, once.
    PK_DEVICE explicit Slots(void* memory) : full(static_cast<uint64_t*>(memory)), empty(full + Count) {
        if (thread() == 0) {
            for (int i = 0; i < Count; ++i) {
                ptx::barrier_init(full + i, 1);
                ptx::barrier_init(empty + i, neighbours * Readers);
            }
            ptx::barriers_ready();
            ptx::fence_async_proxy();
        }
        C::sync();
    }

    /// No block leaves while others of its cluster may still write to its shared memory.
    PK_DEVICE void close() {
        if constexpr (C::blocks > 1) C::sync();
    }

    /// The blocks that write to this one's slots, a bit each: those of its column and of its row.
    static PK_DEVICE unsigned writers() {
        const int down = C::rank() % C::down, across = C::rank() / C::down;
        unsigned mask = ((1u << C::down) - 1) << (across * C::down);
#pragma unroll
        for (int i = 0; i < C::across; ++i) mask |= 1u << (i * C::down + down);
        return mask;
    }

    PK_DEVICE void advance() {
        if (++slot == Count) slot = 0, parity ^= 1;
    }

    // ---- the producer: one thread

    /// Waits until the next slot has been read by everyone who reads it, and expects `bytes` in it.
    PK_DEVICE int refill(int bytes) {
        ptx::barrier_wait(empty + slot, parity ^ 1);
        ptx::barrier_expect(full + slot, bytes);
        return slot;
    }

    /// Starts copying the tile at (row, col, batch...) to `to`, an operand that blocks side by side (left), or below each
    /// other (right), have in common. Batches are the innermost first.
    template <class T, int R, int K, class... Batch>
    PK_DEVICE void copy_left(Shared<T, R, K>& to, const TensorMap& map, int64_t row, int64_t col, Batch... batch) {
        const int down = C::rank() % C::down;
        unsigned mask = 0;
#pragma unroll
        for (int i = 0; i < C::across; ++i) mask |= 1u << (i * C::down + down);
        copy<C::across>(to, map, C::rank() / C::down, mask, row, col, batch...);
    }
    template <class T, int R, int K, class... Batch>
    PK_DEVICE void copy_right(Shared<T, R, K>& to, const TensorMap& map, int64_t row, int64_t col, Batch... batch) {
        const int across = C::rank() / C::down;
        copy<C::down>(to, map, C::rank() % C::down, ((1u << C::down) - 1) << (across * C::down), row, col, batch...);
    }

    /// Part `part` of `Parts` to all blocks in `mask`: some of the panels, or where these are too few some rows of each.
    template <int Parts, class T, int R, int K, class... Batch>
    PK_DEVICE void copy(Shared<T, R, K>& to, const TensorMap& map, int part, unsigned mask, int64_t row, int64_t col,
                        Batch... batch) {
        using S = Shared<T, R, K>;
        constexpr int panels = K / S::panel;
        constexpr bool by_panels = panels % Parts == 0;
        constexpr int mine = by_panels ? panels / Parts : panels, rows = by_panels ? R : R / Parts;
        static_assert(R % Parts == 0 && rows % 8 == 0 && rows <= 256, "a box has whole groups of eight rows, 256 at most");
        const int first_panel = by_panels ? part * mine : 0, first_row = by_panels ? 0 : part * rows;
#pragma unroll
        for (int i = 0; i < mine; ++i) {
            T* place = to.data + (first_panel + i) * R * S::panel + first_row * S::panel;
            const int x = static_cast<int>(col) + (first_panel + i) * S::panel, y = static_cast<int>(row) + first_row;
            if constexpr (Parts > 1) ptx::copy_box_to(mask, place, map, full + slot, x, y, static_cast<int>(batch)...);
            else ptx::copy_box(place, map, full + slot, x, y, static_cast<int>(batch)...);
        }
    }

    /// Starts copying the rows of a left operand that are pixels: from channel `c` on, beginning with the pixel at `where` (the
    /// innermost spatial dim first, then the image), each moved by the taps, the innermost first (see ptx::copy_pixels).
    template <class T, int R, int K, class... Where>
    PK_DEVICE void copy_pixels(Shared<T, R, K>& to, const TensorMap& map, int64_t c, Where... where) {
        using S = Shared<T, R, K>;
#pragma unroll
        for (int i = 0; i < K / S::panel; ++i)
            ptx::copy_pixels(to.data + i * R * S::panel, map, full + slot, static_cast<int>(c) + i * S::panel,
                             static_cast<int>(where)...);
    }

    // ---- consumers: whole warpgroups

    /// Waits until the next slot is full.
    PK_DEVICE int arrived() {
        ptx::barrier_wait(full + slot, parity);
        return slot;
    }
};

/// Whether this is the one thread that speaks for its warp, all of which calls this. The compiler then knows that it is one, and
/// makes no loop over lanes of the instructions of copy and matrix engines.
PK_DEVICE bool elected() { return ptx::elected(); }

/// The producer's warps hand registers to the consumers'. All four warps of a warpgroup call these.
template <int N> PK_DEVICE void give_registers() { ptx::give_registers<N>(); }
template <int N> PK_DEVICE void take_registers() { ptx::take_registers<N>(); }

}  // namespace pk
