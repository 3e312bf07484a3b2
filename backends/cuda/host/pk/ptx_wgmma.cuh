// What pk/ptx_wgmma.cuh says in PTX, as plain C++: each lane computes its own elements from the operands' descriptors.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/ptx.cuh"

namespace pk::ptx {

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
            host::Handed read;  // the whole warp has waited for what its first lane tells
            read.give(static_cast<host::Fiber*>(lanes[0])->order);
            for (int lane = 1; lane < host::kLanes; ++lane) read.take(static_cast<host::Fiber*>(lanes[lane])->order);
        },
        host::current);
}

/// The same fields as on the device, with a whole address: its low 48 bits, distances in units of 16 bytes above.
struct Descriptor {
    const char* start;
    int leading, stride;
};

inline uint64_t wgmma_descriptor(const void* tile, int offset, int leading, int stride) {
    static Descriptor kept[1 << 16];
    static unsigned next = 0;
    kept[++next & 0xffff] = {static_cast<const char*>(tile) + offset, leading, stride};
    return next & 0xffff | reinterpret_cast<uint64_t>(&kept[0]) << 16;
}

/// Where the element of `Bytes` at (i, k) of an operand lies, i along rows (columns) of the result. PTX ISA, "Canonical Layouts": rows of 128
/// bytes in groups of eight `stride` apart; K-major has i along the rows and k within, MN-major (16-bit elements only) k along the rows, i
/// within and panels of 64 of i `leading` apart. Then the swizzle: address bits 4 to 6 are flipped by bits 7 to 9.
template <int Bytes> const char* wgmma_address(uint64_t descriptor, bool k_major, int i, int k) {
    const Descriptor& d = reinterpret_cast<const Descriptor*>(descriptor >> 16)[descriptor & 0xffff];
    const int row = k_major ? i : k, col = k_major ? k : i;
    uint64_t address = reinterpret_cast<uint64_t>(d.start) + row / 8 * d.stride + row % 8 * 128;
    address += k_major ? col * Bytes : col / 64 * d.leading + col % 64 * Bytes;
    address ^= (address >> 7 & 7) << 4;
    return reinterpret_cast<const char*>(address);
}

template <class E> auto wgmma_element(uint64_t descriptor, bool k_major, int i, int k) {
    E x;
    std::memcpy(&x, wgmma_address<sizeof(E)>(descriptor, k_major, i, k), sizeof(E));
    return static_cast<typename SumOf<E>::Type>(x);
}

/// Calls f(16 bytes) for the lines of 32 bytes of k and `Count` rows (columns) of the result, from `first` on.
template <int Count, int Bytes, class F> void wgmma_lines(uint64_t descriptor, bool k_major, int first, F f) {
    constexpr int chunk = 16 / Bytes;
    for (int i = 0; i < Count; i += k_major ? 1 : chunk)
        for (int k = 0; k < 2 * chunk; k += k_major ? chunk : 1) f(wgmma_address<Bytes>(descriptor, k_major, first + i, k), 16);
}

/// What the matrix unit reads for a warp, until the product is waited for; told by the warp's first lane.
template <int Count, int Bytes> void wgmma_reads(uint64_t descriptor, bool k_major, int first) {
    if (threadIdx.x % 32) return;
    wgmma_lines<Count, Bytes>(descriptor, k_major, first, host::starts_to_read);
    host::current->open_products.push_back([=, order = &host::current->order] {
        wgmma_lines<Count, Bytes>(descriptor, k_major, first, [&](const char* at, int bytes) { host::over(at, bytes, *order); });
    });
}

template <class E, int TurnA, int TurnB, int N, class T> void multiply(int thread, T* d0, T* d8, uint64_t a, uint64_t b, int keep) {
    const int lane = thread % 32, warp = thread / 32 % 4;
    for (int half = 0; half < 2; ++half)
        for (int j = 0; j < N / 4; ++j) {
            const int row = warp * 16 + lane / 4 + half * 8, col = j / 2 * 8 + lane % 4 * 2 + j % 2;
            T& d = (half ? d8 : d0)[j];
            if (!keep) d = 0;
            for (int k = 0; k < 32 / static_cast<int>(sizeof(E)); ++k)
                d += wgmma_element<E>(a, !TurnA, row, k) * wgmma_element<E>(b, !TurnB, col, k);
        }
}

template <class E, int TurnA, int TurnB, int N, class T> void wgmma(T* d0, T* d8, uint64_t a, uint64_t b, int keep) {
    static_assert(sizeof(E) == 2 || (!TurnA && !TurnB), "8-bit operands have k along their rows");
    const int thread = threadIdx.x;
    wgmma_reads<16, sizeof(E)>(a, !TurnA, thread / 32 % 4 * 16);
    wgmma_reads<N, sizeof(E)>(b, !TurnB, 0);
    host::current->open_products.push_back([=] { multiply<E, TurnA, TurnB, N>(thread, d0, d8, a, b, keep); });
}

template <class E, int TurnA, int TurnB, class T> void wgmma_64(T* d0, T* d8, uint64_t a, uint64_t b, int keep = 1) {
    wgmma<E, TurnA, TurnB, 64>(d0, d8, a, b, keep);
}
template <class E, int TurnA, int TurnB, class T> void wgmma_128(T* d0, T* d8, uint64_t a, uint64_t b, int keep = 1) {
    wgmma<E, TurnA, TurnB, 128>(d0, d8, a, b, keep);
}
template <class E, int TurnA, int TurnB, class T> void wgmma_192(T* d0, T* d8, uint64_t a, uint64_t b, int keep = 1) {
    wgmma<E, TurnA, TurnB, 192>(d0, d8, a, b, keep);
}
template <class E, int TurnA, int TurnB, class T> void wgmma_256(T* d0, T* d8, uint64_t a, uint64_t b, int keep = 1) {
    wgmma<E, TurnA, TurnB, 256>(d0, d8, a, b, keep);
}

}  // namespace pk::ptx
