// Runs CUDA C++ kernels of the tile library on the CPU: the same source and headers, save pk/ptx.cuh, compiled for the host.
//
// The threads of a block are fibers that take turns: one runs until it meets a barrier or a warp-wide instruction and
// goes on when all threads (lanes) have met it. Only one block (or cluster of blocks, whose shared memory is dynamic) exists
// at a time, so `__shared__` is a variable of the thread of the CPU that runs it. Copies started by cp.async happen at the latest moment the program allows, when the
// thread waits for them, so that a wait too few shows; those of the copy engine then, or, in a backwards run, at once, so that
// a slot given back too early shows; products of warpgroups always at the latest. Accesses to shared memory with no barrier between are found whether they go
// wrong or not (races.hpp). What it cannot show: timing, and races in memory that blocks share.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "races.hpp"

#define __device__
#define __host__
#define __global__ __attribute__((noinline))
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n)
#define __shared__ static thread_local

struct uint2 {
    alignas(8) unsigned x;
    unsigned y;
};
struct uint4 {
    alignas(16) unsigned x;
    unsigned y, z, w;
};
struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

namespace host {

constexpr int kLanes = 32, kMostBlocks = 8;

/// The dynamic shared memory of each block of a cluster.
alignas(1024) inline unsigned char shared_memory[kMostBlocks][228 << 10];

struct Copy {
    void* to;
    const void* from;
    int bytes, size;  // read, and written with zeros behind
};

using Collective = void (*)(void* const* lanes);

enum class State { kReady, kBarrier, kWarp, kWarpgroup, kPoll, kCluster, kDone };

/// What a kernel did that no GPU can do, once it has; the launch ends then.
inline const char* fault;

struct Fiber {
    State state = State::kReady;
    dim3 index, block;
    int rank = 0;  // of its block in the cluster
    Order order;
    Collective collective = nullptr;
    void* argument = nullptr;
    std::vector<std::vector<Copy>> groups;  // committed, oldest first
    std::vector<Copy> open;
    std::vector<std::vector<std::function<void()>>> products;  // of the matrix unit, likewise
    std::vector<std::function<void()>> open_products;
    std::vector<std::vector<std::function<void()>>> boxes;  // on their way to memory, likewise
    std::vector<std::function<void()>> open_boxes;
    std::shared_ptr<const Clocks> fenced;  // what it had heard of at its last tcgen05.fence::after_thread_sync
    void* stack_pointer = nullptr;
    std::unique_ptr<char[]> stack;
};

/// A barrier by number: threads that wait at it, or only arrive, count alike.
struct Numbered {
    int arrived = 0, phase = 0;
    Handed handed, whole;  // in this phase, and in those before
    void arrive(int threads, Order& by) {
        handed.give(by);
        if (++arrived < threads) return;
        arrived = 0, ++phase;
        whole.give(handed);
        handed.forget();
    }
};
inline Numbered numbered_barriers[kMostBlocks][16];

inline Fiber* current;
inline dim3 block_size, grid_size;
inline bool early;       // copies of the copy engine happen at once
inline long waits_done;  // how often a thread found what it waited for
inline std::size_t dynamic_bytes;  // of shared memory, that the launch asks for

/// Called by a thread: it never runs on.
void fail(const char* what);
/// Other threads run until it goes on.
void block_on(State state);
/// The threads whose orders these are, the lanes of a warp, have heard of each other.
void meet_lanes(void* const* lanes);

/// A warp-wide instruction: `f` gets the arguments of all lanes once all have arrived.
inline void collective(Collective f, void* argument) {
    current->collective = f;
    current->argument = argument;
    block_on(State::kWarp);
}

/// Runs every block, or cluster of `cluster` blocks along x, in turn; what went wrong, or nullptr. `backwards` runs threads and
/// warps from the last to the first.
const char* launch(dim3 grid, dim3 block, unsigned cluster, bool backwards, const std::function<void()>& kernel);

/// Some clusters of a grid, by their places: the first of them run, until `seconds` have passed. Where there are no places, all do.
struct Some {
    const std::uint64_t* places;
    std::uint64_t count;
    double seconds;
};
inline Some some{};
inline std::uint64_t ran;  // how many the last launch ran

}  // namespace host

#define threadIdx (host::current->index)
#define blockIdx (host::current->block)
#define blockDim (host::block_size)
#define gridDim (host::grid_size)
#define dynamic_shared_memory (host::shared_memory[host::current->rank])

inline void __syncthreads() { host::block_on(host::State::kBarrier); }

inline int __syncthreads_or(int x) {
    static int any[host::kMostBlocks];
    int& found = any[host::current->rank];
    __syncthreads();
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    if (x) found = 1;
    __syncthreads();
    return found;
}

inline void __syncwarp() { host::collective(host::meet_lanes, &host::current->order); }

template <class T> T __shfl_xor_sync(unsigned, T x, int mask) {
    struct Argument {
        T value, result;
        int mask;
    } argument{x, x, mask};
    host::collective(
        [](void* const* lanes) {
            for (int i = 0; i < host::kLanes; ++i) {
                auto* a = static_cast<Argument*>(lanes[i]);
                a->result = static_cast<Argument*>(lanes[i ^ a->mask])->value;
            }
        },
        &argument);
    return argument.result;
}

template <class T> T __shfl_sync(unsigned, T x, int from) {
    struct Argument {
        T value, result;
        int from;
    } argument{x, x, from};
    host::collective(
        [](void* const* lanes) {
            for (int i = 0; i < host::kLanes; ++i) {
                auto* a = static_cast<Argument*>(lanes[i]);
                a->result = static_cast<Argument*>(lanes[static_cast<unsigned>(a->from) % host::kLanes])->value;
            }
        },
        &argument);
    return argument.result;
}

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }

#include "builtins.hpp"
