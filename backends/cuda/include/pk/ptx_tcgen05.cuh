// PTX of Blackwell's matrix unit, tcgen05: one thread starts products of operands in shared memory, whose sums are in tensor
// memory (PTX ISA, "TensorCore 5th Generation Family Instructions"). Only sm_100a and its relatives have it.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/ptx.cuh"

namespace pk::ptx {

// ---- tensor memory -------------------------------------------------------------------------------------------------
// 128 lanes of 512 columns of 32 bits on each SM. An address is lane << 16 | column.

/// Takes columns (a power of two, 32 to 512), as soon as there are as many; their address is written to shared memory. Whole
/// warps take, and give back what their block has taken before it ends.
template <int Columns> PK_DEVICE void tcgen05_alloc(uint32_t* address) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_address(address)),
                 "n"(Columns)
                 : "memory");
}
/// This block takes no more, so that another one may.
PK_DEVICE void tcgen05_relinquish() { asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"); }
template <int Columns> PK_DEVICE void tcgen05_dealloc(uint32_t address) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(Columns) : "memory");
}

/// Stands between accesses to tensor memory and the barrier by which another thread is told of them; and there behind it.
PK_DEVICE void tcgen05_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
PK_DEVICE void tcgen05_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

/// 16 lanes of 32 columns from `address` on, to the registers of a warp. Its lane l gets row l / 4 (in d0) and 8 below (in d8),
/// of each 8 columns the two from 2 (l % 4) on. Warp w of a warpgroup reaches lanes 32 w to 32 w + 31.
#define PK_D(C, n) C(d0[2 * (n)]), C(d0[2 * (n) + 1]), C(d8[2 * (n)]), C(d8[2 * (n) + 1])
#define PK_LOAD(C)                                                                                                       \
    asm volatile("tcgen05.ld.sync.aligned.16x256b.x4.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "    \
                 "%14, %15}, [%16];"                                                                                      \
                 : PK_D(C, 0), PK_D(C, 1), PK_D(C, 2), PK_D(C, 3)                                                         \
                 : "r"(address)                                                                                           \
                 : "memory")
PK_DEVICE void tcgen05_load(float* d0, float* d8, uint32_t address) { PK_LOAD("=f"); }
PK_DEVICE void tcgen05_load(int32_t* d0, int32_t* d8, uint32_t address) { PK_LOAD("=r"); }
#undef PK_LOAD
#undef PK_D

/// Registers hold what was loaded from here on: each is `settled` behind it, so that the compiler reads none before.
PK_DEVICE void tcgen05_wait_load() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
PK_DEVICE void settled(float& x) { asm volatile("" : "+f"(x)); }
PK_DEVICE void settled(int32_t& x) { asm volatile("" : "+r"(x)); }

/// The way back of what tcgen05_load loads.
#define PK_D(n) "f"(d0[2 * (n)]), "f"(d0[2 * (n) + 1]), "f"(d8[2 * (n)]), "f"(d8[2 * (n) + 1])
PK_DEVICE void tcgen05_store(const float* d0, const float* d8, uint32_t address) {
    asm volatile("tcgen05.st.sync.aligned.16x256b.x4.b32 [%16], {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
                 "%14, %15};" ::PK_D(0), PK_D(1), PK_D(2), PK_D(3), "r"(address)
                 : "memory");
}
#undef PK_D

/// Words to 16 lanes of 32 columns from `address` on: lane l of the warp has those of row l / 4 (w0) and 8 below (w8), one of each
/// four from l % 4 on. Two 16-bit neighbours in a word, they are fragments of a left operand.
#define PK_W(n) "r"(w0[n]), "r"(w8[n])
PK_DEVICE void tcgen05_store(const uint32_t* w0, const uint32_t* w8, uint32_t address) {
    asm volatile("tcgen05.st.sync.aligned.16x128b.x8.b32 [%16], {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
                 "%14, %15};" ::PK_W(0), PK_W(1), PK_W(2), PK_W(3), PK_W(4), PK_W(5), PK_W(6), PK_W(7), "r"(address)
                 : "memory");
}
#undef PK_W

/// What was stored is there: for later loads of the warp, and, told across a barrier, for products.
PK_DEVICE void tcgen05_wait_store() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

// ---- products ------------------------------------------------------------------------------------------------------

/// D = A B, or D += A B with `keep`, of 32 bytes along k: `a` and `b` describe operands in shared memory, `instruction` what is
/// done (see pk/tensor_memory.cuh). Products of one thread and one size are done in order.
#define PK_MMA(KIND)                                                                                                     \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::" KIND " [%0], %1, %2, %3, p;}" ::  \
                     "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(static_cast<int>(keep))                                \
                 : "memory")
template <class E> PK_DEVICE void tcgen05_mma(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, bool keep) {
    if constexpr (half_width<E>) PK_MMA("f16");
    else if constexpr (same<E, f8e4m3> || same<E, f8e5m2>) PK_MMA("f8f6f4");
    else PK_MMA("i8");
}
#undef PK_MMA

/// The same of 16-bit elements with A in tensor memory, in the lanes of its rows, two neighbours along k in each column.
template <class E> PK_DEVICE void tcgen05_mma_of_weights(uint32_t d, uint32_t a, uint64_t b, uint32_t instruction, bool keep) {
    static_assert(half_width<E>, "weights have 16 bits");
    asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;}" ::"r"(d),
                 "r"(a), "l"(b), "r"(instruction), "r"(static_cast<int>(keep))
                 : "memory");
}

/// Arrives at the barrier once everything that this thread has started is complete; has `fence_before` in it.
PK_DEVICE void tcgen05_commit(uint64_t* b) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(shared_address(b))
                 : "memory");
}

/// The same at the barriers that the blocks of `mask` in the cluster have at the same place.
PK_DEVICE void tcgen05_commit_to(unsigned mask, uint64_t* b) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(
                     shared_address(b)),
                 "h"(static_cast<unsigned short>(mask))
                 : "memory");
}

}  // namespace pk::ptx
