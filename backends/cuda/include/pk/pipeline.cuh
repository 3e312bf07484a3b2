// A matrix product as a pipeline between warps of different roles on Hopper: a producer keeps slots of shared memory full
// through the copy engine, warpgroups multiply what has arrived.
#pragma once
#include "pk/base.cuh"
#include "pk/ptx_tma.cuh"
#include "pk/ptx_wgmma.cuh"
#include "pk/slots.cuh"

namespace pk {

/// The slots of one block, each of which `Warps` read.
template <class C, int Count, int Warps> struct Pipeline : Slots<C, Count, Warps> {
    using Base = Slots<C, Count, Warps>;
    using Base::Base, Base::advance, Base::slot, Base::empty, Base::neighbours;

    int held = -1;

    // ---- consumers: whole warpgroups

    /// Gives the slot of the step before back once its product is complete; the product (or products) just started goes on.
    template <int Started = 1> PK_DEVICE void release_previous() {
        ptx::wgmma_wait<Started>();
        if (held >= 0) release(held);
        held = slot;
        advance();
    }

    /// The sum is complete, and the last slot is given back.
    PK_DEVICE void finish() {
        ptx::wgmma_wait<0>();
        if (held >= 0) release(held);
        held = -1;
    }

    // Each warp tells every block that writes to this one's slots.
    PK_DEVICE void release(int which) {
        if constexpr (C::blocks == 1) {
            if (lane() == 0) ptx::barrier_arrive(empty + which);
        } else if (lane() < neighbours) {
            const int down = C::rank() % C::down, across = C::rank() / C::down;
            const int other = lane() - C::down;  // the blocks of this one's column, then the others of its row
            const int to = other < 0 ? across * C::down + lane() : (other + (other >= across)) * C::down + down;
            ptx::barrier_arrive_at(empty + which, to);
        }
    }
};

}  // namespace pk
