// What pk/ptx_wgmma.cuh says in PTX, as plain C++: each lane computes its own elements from the operands' descriptors.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/ptx.cuh"

namespace pk::ptx {

inline void fence_async_proxy() {}
inline void wgmma_fence() {}

// Products happen when they are waited for, those of all lanes of a warp before any of them goes on.
inline void wgmma_commit() {
    host::current->products.push_back(std::move(host::current->open_products));
    host::current->open_products.clear();
}

template <int Pending> inline void wgmma_wait() {
    host::collective(
        [](void* const* lanes) {
            for (int lane = 0; lane < host::kLanes; ++lane) {
                auto& groups = static_cast<host::Fiber*>(lanes[lane])->products;
                while (groups.size() > Pending) {
                    for (const auto& product : groups.front()) product();
                    groups.erase(groups.begin());
                }
            }
        },
        host::current);
}

/// The same fields as on the device, with a whole address: its low 48 bits, distances in units of 16 bytes above.
struct Descriptor {
    const char* start;
    int leading, stride;
};

inline uint64_t wgmma_descriptor(const void* start, int leading, int stride) {
    static Descriptor kept[1 << 16];
    static unsigned next = 0;
    kept[++next & 0xffff] = {static_cast<const char*>(start), leading, stride};
    return next & 0xffff | reinterpret_cast<uint64_t>(&kept[0]) << 16;
}

/// The 16-bit element at (i, k) of an operand, i along rows (columns) of the result. PTX ISA, "Canonical Layouts": rows of 128
/// bytes in groups of eight `stride` apart; K-major has i along the rows and k within, MN-major k along the rows, i within and
/// panels of 64 of i `leading` apart. Then the swizzle: address bits 4 to 6 are flipped by bits 7 to 9.
inline unsigned short wgmma_element(uint64_t descriptor, bool k_major, int i, int k) {
    const Descriptor& d = reinterpret_cast<const Descriptor*>(descriptor >> 16)[descriptor & 0xffff];
    const int row = k_major ? i : k, col = k_major ? k : i;
    uint64_t address = reinterpret_cast<uint64_t>(d.start) + row / 8 * d.stride + row % 8 * 128;
    address += k_major ? col * 2 : col / 64 * d.leading + col % 64 * 2;
    address ^= (address >> 7 & 7) << 4;
    unsigned short bits;
    std::memcpy(&bits, reinterpret_cast<const void*>(address), 2);
    return bits;
}

template <class E, int TurnA, int TurnB, int N> void multiply(int thread, float* d0, float* d8, uint64_t a, uint64_t b, int keep) {
    const int lane = thread % 32, warp = thread / 32 % 4;
    const auto value = [](unsigned short bits) {
        E x;
        x.bits = bits;
        return static_cast<float>(x);
    };
    for (int half = 0; half < 2; ++half)
        for (int j = 0; j < N / 4; ++j) {
            const int row = warp * 16 + lane / 4 + half * 8, col = j / 2 * 8 + lane % 4 * 2 + j % 2;
            float& d = (half ? d8 : d0)[j];
            if (!keep) d = 0;
            for (int k = 0; k < 16; ++k)
                d += value(wgmma_element(a, !TurnA, row, k)) * value(wgmma_element(b, !TurnB, col, k));
        }
}

template <class E, int TurnA, int TurnB, int N> void wgmma(float* d0, float* d8, uint64_t a, uint64_t b, int keep) {
    const int thread = threadIdx.x;
    host::current->open_products.push_back([=] { multiply<E, TurnA, TurnB, N>(thread, d0, d8, a, b, keep); });
}

template <class E, int TurnA, int TurnB> void wgmma_64(float* d0, float* d8, uint64_t a, uint64_t b, int keep = 1) {
    wgmma<E, TurnA, TurnB, 64>(d0, d8, a, b, keep);
}
template <class E, int TurnA, int TurnB> void wgmma_128(float* d0, float* d8, uint64_t a, uint64_t b, int keep = 1) {
    wgmma<E, TurnA, TurnB, 128>(d0, d8, a, b, keep);
}
template <class E, int TurnA, int TurnB> void wgmma_192(float* d0, float* d8, uint64_t a, uint64_t b, int keep = 1) {
    wgmma<E, TurnA, TurnB, 192>(d0, d8, a, b, keep);
}
template <class E, int TurnA, int TurnB> void wgmma_256(float* d0, float* d8, uint64_t a, uint64_t b, int keep = 1) {
    wgmma<E, TurnA, TurnB, 256>(d0, d8, a, b, keep);
}

}  // namespace pk::ptx
