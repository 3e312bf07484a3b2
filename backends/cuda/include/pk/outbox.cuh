// The way of a result to memory past the threads that computed it, on Hopper: they put it into shared memory, the copy engine
// writes it while they compute the next tile.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/ptx.cuh"
#include "pk/ptx_tma.cuh"
#include "pk/shared.cuh"
#include "pk/tile.cuh"

namespace pk {

/// `Panels` panels of `L::panel_rows` x 64 elements for each warpgroup, used in turn. L is the layout of a product by
/// warpgroups or in tensor memory, T has 16 bits. Each consumer has its own copy of this; what is sent is in memory when the
/// kernel ends, if all called `finish`.
template <class T, class L, int Panels> struct Outbox {
    using Panel = Shared<T, L::panel_rows, 64>;
    static_assert(sizeof(T) == 2 && L::warp_cols % 64 == 0, "whole panels of 16-bit elements");

    Panel* panels;
    int turn = 0;

    PK_DEVICE explicit Outbox(void* memory) : panels(static_cast<Panel*>(memory) + warp() / 4 * Panels) {}

    /// Sends the tile to (row, col, batch...) of the array, where it is cut off at the array's end. Batches are the innermost
    /// first.
    template <class... Batch>
    PK_DEVICE void send(const Tile<T, L>& x, const TensorMap& map, int64_t row, int64_t col, Batch... batch) {
        each_panel(x, [&](const Panel& panel, int down, int across) {
            ptx::store_box(map, &panel, static_cast<int>(col) + across, static_cast<int>(row) + down, static_cast<int>(batch)...);
        });
    }

    /// Sends the rows of the tile, which are pixels from the `row`-th on, to images of so many pixels, the innermost dim first.
    template <class... Sizes>
    PK_DEVICE void send_pixels(const Tile<T, L>& x, const TensorMap& map, int64_t row, int64_t col, Sizes... sizes) {
        each_panel(x, [&](const Panel& panel, int down, int across) {
            store(map, panel, static_cast<int>(col) + across, static_cast<int>(row) + down, sizes...);
        });
    }

    // The panel's first pixel, taken apart.
    static PK_DEVICE void store(const TensorMap& map, const Panel& panel, int col, int row, int w) {
        ptx::store_pixels(map, &panel, col, row % w, row / w);
    }
    static PK_DEVICE void store(const TensorMap& map, const Panel& panel, int col, int row, int w, int h) {
        ptx::store_pixels(map, &panel, col, row % w, row / w % h, row / w / h);
    }
    static PK_DEVICE void store(const TensorMap& map, const Panel& panel, int col, int row, int w, int h, int d) {
        ptx::store_pixels(map, &panel, col, row % w, row / w % h, row / w / h % d, row / w / h / d);
    }

    // Fills one panel after the other and starts its way.
    template <class F> PK_DEVICE void each_panel(const Tile<T, L>& x, F start) {
        const int first_row = L::warp_row(thread()) / L::panel_rows * L::panel_rows, first_col = L::warp_col(thread());
        constexpr int across = L::warp_cols / 64;
#pragma unroll
        for (int p = 0; p < L::repeats * across; ++p) {
            if (speaks()) ptx::store_wait_read<Panels - 1>();  // the engine has read what this panel held before
            ptx::warpgroup_sync();
            fill(panels[turn], x, p / across * 2, p % across * 16);
            ptx::fence_async_proxy();
            ptx::warpgroup_sync();
            if (speaks()) {
                start(panels[turn], first_row + p / across * L::high, first_col + p % across * 64);
                ptx::store_commit();
            }
            turn = turn + 1 == Panels ? 0 : turn + 1;
        }
    }

    /// Shared memory is left alone until everything has been read from it.
    PK_DEVICE void finish() {
        if (speaks()) ptx::store_wait_read<0>();
    }

    // One thread of the warpgroup talks to the engine.
    static PK_DEVICE bool speaks() { return thread() % 128 == 0; }

    // Row slots from `above` on, column slots `slot` to slot + 15 of the tile: a fragment of 16 x 16 at a time.
    static PK_DEVICE void fill(Panel& panel, const Tile<T, L>& x, int above, int slot) {
        constexpr int rows = L::panel_rows / 4;  // of a warp
        const int first = warp() % 4 * rows + (lane() & 15), col = lane() / 16 * 8;
#pragma unroll
        for (int row = 0; row < rows; row += 16)
#pragma unroll
            for (int j = 0; j < 16; j += 4) {
                uint32_t words[4];
#pragma unroll
                for (int n = 0; n < 4; ++n)
                    memcpy(&words[n], &x.v[(above + row / 8 + n % 2) * L::col_slots + slot + j + n / 2 * 2], 4);
                ptx::store_matrix_4(panel.at(first + row, j * 4 + col), words);
            }
    }
};

}  // namespace pk
