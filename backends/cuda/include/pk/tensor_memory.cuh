// Matrix products on Blackwell as a pipeline between warps: one thread feeds slots of shared memory through the copy engine,
// one starts products, whose sums are in tensor memory, and warpgroups read those of a tile while the next tile's are made.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/layout.cuh"
#include "pk/ptx_tcgen05.cuh"
#include "pk/ptx_tma.cuh"
#include "pk/shared.cuh"
#include "pk/slots.cuh"
#include "pk/tile.cuh"

namespace pk {

/// Sums of tcgen05 once they are in registers: fragments like those of mma.sync. Each warp of a warpgroup has a quarter of the
/// rows, in the lanes of tensor memory that it reaches; warpgroups have columns side by side.
template <int R, int C, int Warps, class E> struct TensorAccumulator : Accumulator<R, C, Warps, E, 4> {
    using Base = Accumulator<R, C, Warps, E, 4>;
    static_assert(multiplied_whole<E>, "tcgen05 multiplies 16- and 8-bit operands here");
    static_assert((R == 64 || R == 128) && C <= 256, "one product has 64 or 128 rows and up to 256 columns");
    static_assert(Base::side * 4 == Warps, "warpgroups do not cover the tile exactly");
    static_assert(Base::warp_cols % 32 == 0, "columns of a warp are loaded 32 at a time");
    static constexpr int panel_rows = R, high = R, repeats = 1;  // see Outbox
};

template <class T, int R, int C, int Warps, class E>
struct InQuads<T, TensorAccumulator<R, C, Warps, E>> : InQuads<T, typename TensorAccumulator<R, C, Warps, E>::Base> {};

// ---- descriptors: PTX ISA, tables "Shared memory descriptor layout" and "Instruction descriptor format" -----------------

/// An operand from `start` on, in swizzled panels of 128 bytes a row. `leading` is the distance in bytes between panels where
/// these run along rows (columns) of the result, 16 where they run along k; `stride` that between groups of eight rows.
PK_DEVICE uint64_t described(const void* start, int leading, int stride) {
    constexpr uint64_t swizzle_128 = 2ull << 61, of_tcgen05 = 1ull << 46;
    return swizzle_128 | of_tcgen05 | static_cast<uint64_t>(stride >> 4) << 32 | static_cast<uint64_t>(leading >> 4) << 16 |
           (ptx::shared_address(start) & 0x3ffff) >> 4;
}

template <class T, int R, int C> PK_DEVICE uint64_t described(const Shared<T, R, C>& s, int row, int col, bool k_major) {
    using S = Shared<T, R, C>;
    static_assert(S::panel * sizeof(T) == 128 && R % 8 == 0, "panels of 128 bytes, rows in groups of eight");
    const T* start = s.data + col / S::panel * R * S::panel + row * S::panel + (k_major ? col % S::panel : 0);
    return described(start, k_major ? 16 : R * 128, 8 * 128);
}

/// From k on, all rows of a left operand or all columns of a right one. `turned`: k runs along the rows in which it is stored.
template <class S> struct Operand {
    static constexpr bool turned_left = false, turned_right = true;
    static PK_DEVICE uint64_t left(const S& s, int k) { return described(s, 0, k, true); }
    static PK_DEVICE uint64_t right(const S& s, int k) { return described(s, k, 0, false); }
};
template <class S> struct Operand<Transposed<S>> {
    static constexpr bool turned_left = true, turned_right = false;
    static PK_DEVICE uint64_t left(const Transposed<S>& s, int k) { return described(s.of, k, 0, false); }
    static PK_DEVICE uint64_t right(const Transposed<S>& s, int k) { return described(s.of, 0, k, true); }
};

/// What a product is: types of operands and sum, how operands are stored, and its size.
template <class E> PK_CONSTEXPR uint32_t instruction(int rows, int cols, bool turned_left, bool turned_right) {
    constexpr bool floats = !same<E, int8_t> && !same<E, uint8_t>;
    constexpr uint32_t sum = floats ? 1 : 2, type = same<E, bf16> || same<E, f8e5m2> || same<E, int8_t> ? 1 : 0;
    const uint32_t turned = static_cast<uint32_t>(turned_left) << 15 | static_cast<uint32_t>(turned_right) << 16;
    const uint32_t size = static_cast<uint32_t>(cols) >> 3 << 17 | static_cast<uint32_t>(rows) >> 4 << 24;
    return sum << 4 | type << 7 | type << 10 | turned | size;
}

// ---- tensor memory and registers -------------------------------------------------------------------------------------------

/// What the warps of a warpgroup have of `x` in columns from `from` on, in registers: 32 lanes of a warp, the 16 of two row slots
/// at a time.
template <class T, class L> PK_DEVICE void take_from(Tile<T, L>& x, uint32_t from) {
    from += warp() % 4 << 21;  // lanes 32 w and on
#pragma unroll
    for (int i = 0; i < L::row_slots; i += 2)
#pragma unroll
        for (int j = 0; j < L::col_slots; j += 8) {
            T* d0 = &x.v[i * L::col_slots + j];
            ptx::tcgen05_load(d0, d0 + L::col_slots, from + j * 4 + (i << 19));
        }
    ptx::tcgen05_wait_load();
#pragma unroll
    for (int i = 0; i < L::slots; ++i) ptx::settled(x.v[i]);
}

// ---- the pipeline ---------------------------------------------------------------------------------------------------

/// The slots of one block, each of which goes back when the products that read it are complete; and two sums in
/// tensor memory, used in turn, with two barriers each: `complete` and, counting warps, `taken`. Every thread has its own copy
/// and is producer, issuer or consumer. A sum is taken in `Parts` of the layout L, side by side.
template <class C, int Count, class L, int Parts = 1> struct TensorPipeline : Slots<C, Count, 1> {
    using Base = Slots<C, Count, 1>;
    using E = typename L::Operand;
    using Sum = typename SumOf<E>::Type;
    static constexpr int rows = L::rows, cols = L::cols * Parts, warps = L::threads / kWarp;
    static constexpr int columns = max_of(32, power_of_two_from(2 * cols));
    static_assert(cols <= 256, "one product has up to 256 columns");

    uint64_t *complete, *taken;  // in shared memory
    uint32_t memory;             // address of the sums
    int sum = 0, round = 0;
    bool keep = false;

    /// All threads of the block call this, once.
    PK_DEVICE explicit TensorPipeline(void* place) : Base(place), complete(Base::empty + Count), taken(complete + 2) {
        auto* address = reinterpret_cast<uint32_t*>(taken + 2);
        if (warp() == 0) {
            ptx::tcgen05_alloc<columns>(address);
            ptx::tcgen05_relinquish();
        }
        if (thread() == 0) {
            for (int i = 0; i < 2; ++i) {
                ptx::barrier_init(complete + i, 1);
                ptx::barrier_init(taken + i, warps);
            }
            ptx::barriers_ready();
        }
        ptx::tcgen05_fence_before();
        C::sync();
        ptx::tcgen05_fence_after();
        memory = *address;
    }

    /// All threads of the block call this at the end.
    PK_DEVICE void close() {
        __syncwarp();  // in the producer's and the issuer's warp one thread has worked alone
        ptx::tcgen05_fence_before();
        C::sync();
        ptx::tcgen05_fence_after();
        if (warp() == 0) ptx::tcgen05_dealloc<columns>(memory);
    }

    PK_DEVICE void next_sum() {
        if (++sum == 2) sum = 0, round ^= 1;
    }

    /// The producer's last word: all slots have come back, so no commit is on its way to this block's barriers when it ends.
    PK_DEVICE void drain() {
        for (int i = 0; i < Count; ++i, Base::advance()) ptx::barrier_wait(Base::empty + Base::slot, Base::parity ^ 1);
    }

    // ---- the issuer: one thread

    /// Waits until the sum that was here has been taken; the next product begins a new one.
    PK_DEVICE void begin() {
        ptx::barrier_wait(taken + sum, round ^ 1);
        ptx::tcgen05_fence_after();
        keep = false;
    }

    /// Waits until the next slot is full.
    PK_DEVICE int arrived() {
        const int slot = Base::arrived();
        ptx::tcgen05_fence_after();
        return slot;
    }

    /// Starts sum += a b; the slot goes back when that is complete. With `Deep`, only the first so many of k take part.
    template <int Deep = 0, class A, class B> PK_DEVICE void multiply(const A& a, const B& b) {
        constexpr int step = 32 / static_cast<int>(sizeof(E)), deep = Deep ? Deep : A::cols;
        static_assert(A::rows == rows && B::cols == cols && A::cols == B::rows, "sizes do not match");
        static_assert(deep % step == 0 && deep <= A::cols, "a product takes 32 bytes of k");
        constexpr uint32_t what = instruction<E>(rows, cols, Operand<A>::turned_left, Operand<B>::turned_right);
#pragma unroll
        for (int k = 0; k < deep; k += step) {
            ptx::tcgen05_mma<E>(memory + sum * cols, Operand<A>::left(a, k), Operand<B>::right(b, k), what, keep);
            keep = true;
        }
        if constexpr (C::blocks == 1) ptx::tcgen05_commit(Base::empty + Base::slot);
        else ptx::tcgen05_commit_to(Base::writers(), Base::empty + Base::slot);
        Base::advance();
    }

    /// The sum is told to be complete when it is.
    PK_DEVICE void commit() {
        ptx::tcgen05_commit(complete + sum);
        next_sum();
    }

    // ---- consumers: whole warpgroups

    /// A part of the next sum once it is complete; after the last one the issuer may begin another sum in its place. Without `any`
    /// product it is zero.
    PK_DEVICE Tile<Sum, L> take(int part = 0, bool any = true) {
        ptx::barrier_wait(complete + sum, round);
        ptx::tcgen05_fence_after();
        Tile<Sum, L> x;
        take_from(x, memory + sum * cols + part * L::cols + L::warp_col(thread()));
        if (part + 1 == Parts) {
            ptx::tcgen05_fence_before();
            __syncwarp();
            if (lane() == 0) ptx::barrier_arrive(taken + sum);
            next_sum();
        }
        if (!any) {
#pragma unroll
            for (int i = 0; i < L::slots; ++i) x.v[i] = 0;
        }
        return x;
    }
};

}  // namespace pk
