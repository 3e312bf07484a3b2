// Runs CUDA C++ kernels of the tile library on the CPU: the same source and headers, save pk/ptx.cuh, compiled for the host.
//
// The threads of a block are fibers that take turns: one runs until it meets a barrier or a warp-wide instruction and
// goes on when all threads (lanes) have met it. Only one block (or cluster of blocks, whose shared memory is dynamic) exists
// at a time, so `__shared__` is a variable of the thread of the CPU that runs it. Copies started by cp.async happen at the latest moment the program allows, when the
// thread waits for them, so that a wait too few shows; those of the copy engine then, or, in a backwards run, at once, so that
// a slot given back too early shows; products of warpgroups always at the latest. Accesses to shared memory with no barrier between are found whether they go
// wrong or not (races.hpp). What it cannot show: timing, and races in memory that blocks share.
#pragma once
#include <ucontext.h>

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
inline void* scheduler_stack;
inline const std::function<void()>* body;
inline std::size_t dynamic_bytes;  // of shared memory, that the launch asks for

// Swaps stacks, keeping the registers that the System V ABI asks a callee to keep.
extern "C" void host_switch(void** save, void* to);
asm(R"(
.text
.weak host_switch
.type host_switch,@function
host_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

__attribute__((noinline)) inline void yield() { host_switch(&current->stack_pointer, scheduler_stack); }

inline void enter() {
    (*body)();
    current->state = State::kDone;
    yield();
}

/// Called by a thread: it never runs on.
inline void fail(const char* what) {
    fault = what;
    for (;;) yield();
}

inline void block_on(State state) {
    look_again();
    current->state = state;
    yield();
}

/// A warp-wide instruction: `f` gets the arguments of all lanes once all have arrived.
inline void collective(Collective f, void* argument) {
    current->collective = f;
    current->argument = argument;
    block_on(State::kWarp);
}

inline void start(Fiber& f) {
    constexpr std::size_t kStack = 256 << 10;
    if (!f.stack) f.stack.reset(new char[kStack]);
    auto top = reinterpret_cast<std::uintptr_t>(f.stack.get() + kStack) & ~std::uintptr_t{63};
    auto* sp = reinterpret_cast<void**>(top);
    *--sp = nullptr;  // as after a call: the stack is 8 past a multiple of 16
    *--sp = reinterpret_cast<void*>(&enter);
    for (int i = 0; i < 6; ++i) *--sp = nullptr;
    f.stack_pointer = sp;
    f.state = State::kReady;
    f.groups.clear();
    f.open.clear();
    f.products.clear();
    f.open_products.clear();
    f.boxes.clear();
    f.open_boxes.clear();
}

/// Does the warp-wide instruction that all lanes have met; false while some of them still wait for something else.
inline bool finish_warp(std::vector<Fiber>& fibers, int first) {
    void* arguments[kLanes];
    for (int i = 0; i < kLanes; ++i)
        if (fibers[first + i].state == State::kPoll) return false;
    for (int i = 0; i < kLanes; ++i) {
        Fiber& f = fibers[first + i];
        if (f.state != State::kWarp) fault = "not all lanes of a warp reach a warp-wide instruction";
        else if (f.collective != fibers[first].collective) fault = "the lanes of a warp are at different instructions";
        if (fault) return false;
        arguments[i] = f.argument;
    }
    fibers[first].collective(arguments);
    for (int i = 0; i < kLanes; ++i) fibers[first + i].state = State::kReady;
    return true;
}

/// Lets the lanes of a warp run as far as they get; whether any got on.
inline bool run_warp(std::vector<Fiber>& fibers, int first, bool backwards) {
    bool progress = false;
    for (int i = 0; i < kLanes; ++i)  // who polls does so once in each turn
        if (fibers[first + i].state == State::kPoll) fibers[first + i].state = State::kReady;
        else progress |= fibers[first + i].state == State::kReady;
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < kLanes; ++i) {
            Fiber& f = fibers[first + (backwards ? kLanes - 1 - i : i)];
            if (f.state != State::kReady) continue;
            const long before = waits_done;
            current = &f;
            running = &f.order;
            host_switch(&scheduler_stack, f.stack_pointer);
            running = nullptr;
            if (fault) return true;
            progress |= f.state != State::kPoll || waits_done != before;
        }
        for (int i = 0; i < kLanes; ++i) again |= fibers[first + i].state == State::kWarp;
        if (again) again = finish_warp(fibers, first);
        if (fault) return true;
        progress |= again;
    }
    return progress;
}

/// Lets the threads [first, end) pass a barrier that all of them have met.
inline bool open_barrier(std::vector<Fiber>& fibers, int first, int end, State at) {
    int met = 0, done = 0;
    for (int i = first; i < end; ++i) met += fibers[i].state == at, done += fibers[i].state == State::kDone;
    if (met && done && met + done == end - first) fault = "a barrier is not met by all threads of the block";
    if (fault || met != end - first) return false;
    std::vector<Order*> orders;
    for (int i = first; i < end; ++i) fibers[i].state = State::kReady, orders.push_back(&fibers[i].order);
    meet(orders);
    return true;
}

/// Runs the threads of all blocks of a cluster.
inline void run_cluster(std::vector<Fiber>& fibers, int threads, bool backwards) {
    const int n = static_cast<int>(fibers.size());
    std::vector<Order*> orders;
    for (Fiber& f : fibers) start(f), orders.push_back(&f.order);
    begin_block(orders);
    for (auto& of_block : numbered_barriers)
        for (Numbered& barrier : of_block) barrier = {};
    for (;;) {
        bool progress = false;
        for (int k = 0; k < n / kLanes; ++k) {
            progress |= run_warp(fibers, (backwards ? n / kLanes - 1 - k : k) * kLanes, backwards);
            if (fault) return;
        }
        for (int first = 0; first < n; first += 128)
            progress |= open_barrier(fibers, first, first + 128 < n ? first + 128 : n, State::kWarpgroup);
        for (int first = 0; first < n; first += threads)
            progress |= open_barrier(fibers, first, first + threads, State::kBarrier);
        progress |= open_barrier(fibers, 0, n, State::kCluster);
        if (fault) return;
        int done = 0;
        for (Fiber& f : fibers) done += f.state == State::kDone;
        if (done == n) return;
        if (!progress) fault = "threads wait for what never comes";
        if (fault) return;
    }
}

/// Runs every block, or cluster of `cluster` blocks along x, in turn; what went wrong, or nullptr. `backwards` runs threads and
/// warps from the last to the first.
inline const char* launch(dim3 grid, dim3 block, unsigned cluster, bool backwards, const std::function<void()>& kernel) {
    const unsigned threads = block.x * block.y * block.z;
    if (threads % kLanes) return "a block of threads that do not fill their warps";
    if (grid.x % cluster || cluster > kMostBlocks) return "a grid that is no multiple of the cluster, or too large a cluster";
    static std::vector<Fiber> fibers;  // stacks are kept between launches
    fibers.resize(threads * cluster);
    for (unsigned i = 0; i < fibers.size(); ++i) {
        const unsigned t = i % threads;
        fibers[i].index = {t % block.x, t / block.x % block.y, t / (block.x * block.y)};
        fibers[i].rank = static_cast<int>(i / threads);
    }
    body = &kernel;
    grid_size = grid;
    block_size = block;
    fault = nullptr;
    early = backwards;
    watch(shared_memory, sizeof(shared_memory), fail);
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; x += cluster) {
                for (Fiber& f : fibers) f.block = {x + static_cast<unsigned>(f.rank), y, z};
                for (unsigned i = 0; i < cluster; ++i) std::memset(shared_memory[i], 0xff, dynamic_bytes);  // NaN
                run_cluster(fibers, static_cast<int>(threads), backwards);
                if (fault) return fault;
            }
    return nullptr;
}

}  // namespace host

#define threadIdx (host::current->index)
#define blockIdx (host::current->block)
#define blockDim (host::block_size)
#define gridDim (host::grid_size)
#define dynamic_shared_memory (host::shared_memory[host::current->rank])

inline void __syncthreads() { host::block_on(host::State::kBarrier); }

inline void __syncwarp() {
    host::collective(
        [](void* const* lanes) {
            std::vector<host::Order*> orders;
            for (int i = 0; i < host::kLanes; ++i) orders.push_back(static_cast<host::Order*>(lanes[i]));
            host::meet(orders);
        },
        &host::current->order);
}

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
