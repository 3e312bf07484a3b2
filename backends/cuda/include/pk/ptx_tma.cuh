// PTX of Hopper's copy engine (TMA), of the barriers in shared memory that count its bytes (mbarrier), and of clusters: blocks
// on neighbouring SMs that see each other's shared memory (PTX ISA, "Asynchronous Data Movement", "Parallel Synchronization").
#pragma once
#include "pk/base.cuh"
#include "pk/ptx.cuh"

namespace pk {

/// Describes an array to the copy engine: sizes, strides, the box that is copied at a time, and how it is swizzled. The host
/// makes it (cuTensorMapEncodeTiled) and passes it by value.
struct alignas(64) TensorMap {
    uint64_t opaque[16];
};

}  // namespace pk

namespace pk::ptx {

// ---- barriers in shared memory -------------------------------------------------------------------------------------
// A phase of a barrier completes when `count` threads have arrived and as many bytes have been copied as were expected.
// Waiting for a phase is by its parity: 0 for the first, 1 for the second, 0 again.

PK_DEVICE void barrier_init(uint64_t* b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}

/// Makes initialised barriers known to the copy engine and to the other blocks of the cluster (which then synchronise).
PK_DEVICE void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

PK_DEVICE void barrier_arrive(uint64_t* b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}

/// Arrives at the barrier that block `block` of the cluster has at the same place as this one has `b`.
PK_DEVICE void barrier_arrive_at(uint64_t* b, int block) {
    asm volatile(
        "{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
        "mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(shared_address(b)), "r"(block)
        : "memory");
}

PK_DEVICE void barrier_expect(uint64_t* b, int bytes) {  // arrives, too
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}

PK_DEVICE void barrier_wait(uint64_t* b, int parity) {
    uint32_t done;
    do {  // try_wait suspends the thread for a while by itself
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done)
                     : "r"(shared_address(b)), "r"(parity)
                     : "memory");
    } while (!done);
}

// ---- copies of boxes -----------------------------------------------------------------------------------------------
// Coordinates are the innermost first. `b` counts the bytes when they have arrived. With a mask the box goes to the same
// place in each block of the cluster whose bit is set, and is counted by that block's barrier.

PK_DEVICE void prefetch(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

#define PK_COPY "cp.async.bulk.tensor."
#define PK_COPY_END ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"
#define PK_COPY_BOX(rank, at, ...)                                                                                     \
    asm volatile(PK_COPY rank PK_COPY_END " [%0], [%1, {" at "}], [%2];" ::"r"(shared_address(to)), "l"(&map),         \
                 "r"(shared_address(b)), __VA_ARGS__                                                                   \
                 : "memory")
#define PK_COPY_BOX_TO(rank, at, ...)                                                                                  \
    asm volatile(PK_COPY rank PK_COPY_END ".multicast::cluster [%0], [%1, {" at "}], [%2], %3;" ::"r"(                 \
                     shared_address(to)),                                                                              \
                 "l"(&map), "r"(shared_address(b)), "h"(static_cast<unsigned short>(mask)), __VA_ARGS__                \
                 : "memory")

PK_DEVICE void copy_box(void* to, const TensorMap& map, uint64_t* b, int x, int y) {
    PK_COPY_BOX("2d", "%3, %4", "r"(x), "r"(y));
}
PK_DEVICE void copy_box(void* to, const TensorMap& map, uint64_t* b, int x, int y, int z) {
    PK_COPY_BOX("3d", "%3, %4, %5", "r"(x), "r"(y), "r"(z));
}
PK_DEVICE void copy_box(void* to, const TensorMap& map, uint64_t* b, int x, int y, int z, int v) {
    PK_COPY_BOX("4d", "%3, %4, %5, %6", "r"(x), "r"(y), "r"(z), "r"(v));
}
PK_DEVICE void copy_box(void* to, const TensorMap& map, uint64_t* b, int x, int y, int z, int v, int w) {
    PK_COPY_BOX("5d", "%3, %4, %5, %6, %7", "r"(x), "r"(y), "r"(z), "r"(v), "r"(w));
}
PK_DEVICE void copy_box_to(unsigned mask, void* to, const TensorMap& map, uint64_t* b, int x, int y) {
    PK_COPY_BOX_TO("2d", "%4, %5", "r"(x), "r"(y));
}
PK_DEVICE void copy_box_to(unsigned mask, void* to, const TensorMap& map, uint64_t* b, int x, int y, int z) {
    PK_COPY_BOX_TO("3d", "%4, %5, %6", "r"(x), "r"(y), "r"(z));
}
PK_DEVICE void copy_box_to(unsigned mask, void* to, const TensorMap& map, uint64_t* b, int x, int y, int z, int v) {
    PK_COPY_BOX_TO("4d", "%4, %5, %6, %7", "r"(x), "r"(y), "r"(z), "r"(v));
}
PK_DEVICE void copy_box_to(unsigned mask, void* to, const TensorMap& map, uint64_t* b, int x, int y, int z, int v, int w) {
    PK_COPY_BOX_TO("5d", "%4, %5, %6, %7, %8", "r"(x), "r"(y), "r"(z), "r"(v), "r"(w));
}

// Pixels of images with one, two or three spatial dims: from channel `c` of the one at (w, h, d, n) on, which goes on within the
// map's corners, each moved by where the tap lies in its window (im2col mode).
#define PK_COPY_PIXELS(rank, at, taps, ...)                                                                            \
    asm volatile(PK_COPY rank ".shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {" at            \
                              "}], [%2], {" taps "};" ::"r"(shared_address(to)),                                       \
                 "l"(&map), "r"(shared_address(b)), __VA_ARGS__                                                        \
                 : "memory")
PK_DEVICE unsigned short tap(int x) { return static_cast<unsigned short>(x); }

PK_DEVICE void copy_pixels(void* to, const TensorMap& map, uint64_t* b, int c, int w, int n, int tap_w) {
    PK_COPY_PIXELS("3d", "%3, %4, %5", "%6", "r"(c), "r"(w), "r"(n), "h"(tap(tap_w)));
}
PK_DEVICE void copy_pixels(void* to, const TensorMap& map, uint64_t* b, int c, int w, int h, int n, int tap_w, int tap_h) {
    PK_COPY_PIXELS("4d", "%3, %4, %5, %6", "%7, %8", "r"(c), "r"(w), "r"(h), "r"(n), "h"(tap(tap_w)), "h"(tap(tap_h)));
}
PK_DEVICE void copy_pixels(void* to, const TensorMap& map, uint64_t* b, int c, int w, int h, int d, int n, int tap_w,
                           int tap_h, int tap_d) {
    PK_COPY_PIXELS("5d", "%3, %4, %5, %6, %7", "%8, %9, %10", "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "h"(tap(tap_w)),
                   "h"(tap(tap_h)), "h"(tap(tap_d)));
}

// The other way: the box is clipped at the array's end. Groups of these copies are waited for by the thread that started them.
#define PK_STORE_BOX(rank, at, ...)                                                                                    \
    asm volatile(PK_COPY rank ".global.shared::cta.tile.bulk_group [%0, {" at "}], [%1];" ::"l"(&map),                 \
                 "r"(shared_address(from)), __VA_ARGS__                                                                \
                 : "memory")

PK_DEVICE void store_box(const TensorMap& map, const void* from, int x, int y) {
    PK_STORE_BOX("2d", "%2, %3", "r"(x), "r"(y));
}
PK_DEVICE void store_box(const TensorMap& map, const void* from, int x, int y, int z) {
    PK_STORE_BOX("3d", "%2, %3, %4", "r"(x), "r"(y), "r"(z));
}
PK_DEVICE void store_box(const TensorMap& map, const void* from, int x, int y, int z, int v) {
    PK_STORE_BOX("4d", "%2, %3, %4, %5", "r"(x), "r"(y), "r"(z), "r"(v));
}
PK_DEVICE void store_box(const TensorMap& map, const void* from, int x, int y, int z, int v, int w) {
    PK_STORE_BOX("5d", "%2, %3, %4, %5, %6", "r"(x), "r"(y), "r"(z), "r"(v), "r"(w));
}

// To the pixels of images, from channel `c` of the one at (w, h, d, n) on, which go on within the map's corners.
#define PK_STORE_PIXELS(rank, at, ...)                                                                                 \
    asm volatile(PK_COPY rank ".global.shared::cta.im2col_no_offs.bulk_group [%0, {" at "}], [%1];" ::"l"(&map),       \
                 "r"(shared_address(from)), __VA_ARGS__                                                                \
                 : "memory")

PK_DEVICE void store_pixels(const TensorMap& map, const void* from, int c, int w, int n) {
    PK_STORE_PIXELS("3d", "%2, %3, %4", "r"(c), "r"(w), "r"(n));
}
PK_DEVICE void store_pixels(const TensorMap& map, const void* from, int c, int w, int h, int n) {
    PK_STORE_PIXELS("4d", "%2, %3, %4, %5", "r"(c), "r"(w), "r"(h), "r"(n));
}
PK_DEVICE void store_pixels(const TensorMap& map, const void* from, int c, int w, int h, int d, int n) {
    PK_STORE_PIXELS("5d", "%2, %3, %4, %5, %6", "r"(c), "r"(w), "r"(h), "r"(d), "r"(n));
}

PK_DEVICE void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/// Until at most `Pending` groups have not been read from shared memory yet.
template <int Pending> PK_DEVICE void store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

#undef PK_STORE_BOX
#undef PK_STORE_PIXELS
#undef PK_COPY
#undef PK_COPY_END
#undef PK_COPY_BOX
#undef PK_COPY_BOX_TO
#undef PK_COPY_PIXELS

// ---- threads, clusters and registers ----------------------------------------------------------------------------------------

PK_DEVICE bool elected() {
    uint32_t one;
    asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(one));
    return one;
}

PK_DEVICE int cluster_rank() {
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/// What block `block` of the cluster has at the same place of its shared memory.
template <class T> PK_DEVICE T* in_block(T* p, int block) {
    T* there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(block));
    return there;
}

/// Barrier of all threads of the cluster.
PK_DEVICE void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Barrier of the warpgroup's four warps (barrier 0 is __syncthreads).
PK_DEVICE void warpgroup_sync() { asm volatile("bar.sync %0, 128;" ::"r"(1 + warp() / 4) : "memory"); }

/// This warpgroup needs no more than `N` registers a thread; or takes as many, once others have given theirs.
template <int N> PK_DEVICE void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> PK_DEVICE void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }

}  // namespace pk::ptx
