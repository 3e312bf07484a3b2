// What pk/ptx_walk.cuh says in PTX, as plain C++.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/ptx_wgmma.cuh"

namespace pk::ptx {

inline host::Numbered& numbered(int number) { return host::numbered_barriers[host::current->rank][number]; }

inline void numbered_arrive(int number, int threads) { numbered(number).arrive(threads, host::current->order); }

inline void numbered_wait(int number, int threads) {
    const int phase = numbered(number).phase;
    numbered(number).arrive(threads, host::current->order);
    while (numbered(number).phase == phase) host::block_on(host::State::kPoll);
    numbered(number).whole.take(host::current->order);
    ++host::waits_done;
}

template <class X> void settle(X&) {}
inline void computed_here(float) {}

/// Where the lanes of a quad, which hold the same rows of A, have their words.
struct Quad {
    const uint32_t* mine[4];
    const uint32_t* of[4][4];
};

/// The 16-bit element of A in column `k` of this lane's row, or of the one 8 below.
template <class E> float quad_element(const Quad& q, int half, int k) {
    E x;
    x.bits = static_cast<unsigned short>(*q.of[k % 8 / 2][half + k / 8 * 2] >> 16 * (k % 2));
    return static_cast<float>(x);
}

// A is read when the product happens, so that registers written too early show.
template <class E, int N, int TurnB>
void wgmma_of_registers(float* d0, float* d8, const uint32_t& a0, const uint32_t& a1, const uint32_t& a2, const uint32_t& a3,
                        uint64_t b) {
    static_assert(N == 64 || N == 128 || N == 256, "columns that a product has here");
    Quad quad{{&a0, &a1, &a2, &a3}, {}};
    host::collective(
        [](void* const* lanes) {
            for (int lane = 0; lane < host::kLanes; ++lane)
                for (int n = 0; n < 16; ++n)
                    static_cast<Quad*>(lanes[lane])->of[n / 4][n % 4] = static_cast<Quad*>(lanes[lane / 4 * 4 + n / 4])->mine[n % 4];
        },
        &quad);
    const int lane = threadIdx.x % 32;
    wgmma_reads<N, 2>(b, !TurnB, 0);
    host::current->open_products.push_back([=] {
        for (int half = 0; half < 2; ++half)
            for (int j = 0; j < N / 4; ++j) {
                const int col = j / 2 * 8 + lane % 4 * 2 + j % 2;
                float& d = (half ? d8 : d0)[j];
                for (int k = 0; k < 16; ++k) {
                    d += quad_element<E>(quad, half, k) * wgmma_element<E>(b, !TurnB, col, k);
                }
            }
    });
}

}  // namespace pk::ptx
