// What pk/ptx_tcgen05.cuh says in PTX, in the words of the interpreter's tensor memory (tensor_memory.hpp).
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/ptx.cuh"
#include "pk/ptx_tma.cuh"
#include "tensor_memory.hpp"

namespace pk::ptx {

inline uint32_t shared_address(const void* p) {
    const auto offset = static_cast<const unsigned char*>(p) - host::shared_memory[host::current->rank];
    if (offset < 0 || offset >= static_cast<int64_t>(sizeof(host::shared_memory[0])))
        host::fail("the matrix unit is told of an operand that is not in the block's dynamic shared memory");
    return static_cast<uint32_t>(offset);
}

/// Faults that are found outside of threads end the launch; those that a thread makes end it here.
inline void checked() {
    if (host::fault) host::fail(host::fault);
}

template <int Columns> void tcgen05_alloc(uint32_t* address) {
    host::TensorLane lane{host::current, 0, address, nullptr};
    host::collective(
        [](void* const* lanes) {
            auto* to = static_cast<uint32_t*>(static_cast<host::TensorLane*>(lanes[0])->d0);
            host::tensor_alloc(lanes, to, Columns);
        },
        &lane);
}
inline void tcgen05_relinquish() {
    host::TensorLane lane{host::current, 0, nullptr, nullptr};
    host::collective(host::tensor_relinquish, &lane);
}
template <int Columns> void tcgen05_dealloc(uint32_t address) {
    host::TensorLane lane{host::current, address, nullptr, nullptr};
    host::collective([](void* const* lanes) { host::tensor_dealloc(lanes, Columns); }, &lane);
}

template <class T> void tcgen05_load(T* d0, T* d8, uint32_t address) {
    static_assert(sizeof(T) == 4, "tensor memory has 32 bits in each place");
    host::TensorLane lane{host::current, address, d0, d8};
    host::collective(host::tensor_load, &lane);
}
inline void tcgen05_wait_load() {
    host::TensorLane lane{host::current, 0, nullptr, nullptr};
    host::collective(host::tensor_wait_load, &lane);
}
template <class T> void settled(T&) {}

inline void tcgen05_store(const float* d0, const float* d8, uint32_t address) {
    host::TensorLane lane{host::current, address, const_cast<float*>(d0), const_cast<float*>(d8)};
    host::collective(host::tensor_store, &lane);
}
inline void tcgen05_store(const uint32_t* w0, const uint32_t* w8, uint32_t address) {
    host::TensorLane lane{host::current, address, const_cast<uint32_t*>(w0), const_cast<uint32_t*>(w8)};
    host::collective(host::tensor_store_words, &lane);
}
inline void tcgen05_wait_store() {
    host::TensorLane lane{host::current, 0, nullptr, nullptr};
    host::collective(host::tensor_wait_store, &lane);
}

inline void tcgen05_fence_before() { host::tensor_fence_before(); }
inline void tcgen05_fence_after() { host::tensor_fence_after(); }

template <class E> void tcgen05_mma(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, bool keep) {
    using host::Kind;
    const Kind kind = half_width<E> ? Kind::kF16 : same<E, f8e4m3> || same<E, f8e5m2> ? Kind::kF8 : Kind::kI8;
    host::tensor_product(kind, d, a, b, instruction, keep);
    checked();
}

template <class E> void tcgen05_mma_of_weights(uint32_t d, uint32_t a, uint64_t b, uint32_t instruction, bool keep) {
    static_assert(half_width<E>, "weights have 16 bits");
    host::tensor_product_of_weights(d, a, b, instruction, keep);
    checked();
}

inline void arrive_when_complete(uint64_t* b, const host::Committed& all) {
    Barrier& x = barrier(b);
    const auto arrive = [all, &x] {
        --host::arrivals_to_come;
        x.handed.give(all.thread, host::tensor_complete(all));
        checked();
        --x.pending;
        complete(x);
    };
    ++host::arrivals_to_come;
    if (host::early) arrive();
    else x.arrivals.push_back(arrive);
}

inline void tcgen05_commit(uint64_t* b) { arrive_when_complete(b, host::tensor_commit()); }
inline void tcgen05_commit_to(unsigned mask, uint64_t* b) {
    const auto all = host::tensor_commit();
    for (int block = 0; block < host::kMostBlocks; ++block)
        if (mask >> block & 1) arrive_when_complete(in_block(b, block), all);
}

}  // namespace pk::ptx
