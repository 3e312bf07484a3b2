// Runs CUDA C++ kernels of the tile library on the CPU: the same source and headers, save pk/ptx.cuh, compiled for the host.
//
// The threads of a block are fibers that take turns: one runs until it meets a barrier or a warp-wide instruction and
// goes on when all threads (lanes) have met it. Only one block exists at a time, so `__shared__` is `static`. Copies
// started by cp.async happen at the latest moment the program allows, when the thread waits for them, so that a wait
// too few shows. What it cannot show: races that need two threads to run at once, and timing.
#pragma once
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n)
#define __shared__ static

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

alignas(1024) inline unsigned char dynamic_shared_memory[228 << 10];

namespace host {

constexpr int kLanes = 32;

struct Copy {
    void* to;
    const void* from;
    int bytes;
};

using Collective = void (*)(void* const* lanes);

enum class State { kReady, kBarrier, kWarp, kDone };

/// What a kernel did that no GPU can do, once it has; the launch ends then.
inline const char* fault;

struct Fiber {
    State state = State::kReady;
    dim3 index;
    Collective collective = nullptr;
    void* argument = nullptr;
    std::vector<std::vector<Copy>> groups;  // committed, oldest first
    std::vector<Copy> open;
    void* stack_pointer = nullptr;
    std::unique_ptr<char[]> stack;
};

inline Fiber* current;
inline dim3 block_index, block_size, grid_size;
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
}

inline void finish_warp(std::vector<Fiber>& fibers, int first) {
    void* arguments[kLanes];
    for (int i = 0; i < kLanes; ++i) {
        Fiber& f = fibers[first + i];
        if (f.state != State::kWarp) fault = "not all lanes of a warp reach a warp-wide instruction";
        else if (f.collective != fibers[first].collective) fault = "the lanes of a warp are at different instructions";
        if (fault) return;
        arguments[i] = f.argument;
    }
    fibers[first].collective(arguments);
    for (int i = 0; i < kLanes; ++i) fibers[first + i].state = State::kReady;
}

inline void run_block(std::vector<Fiber>& fibers, bool backwards) {
    const int n = static_cast<int>(fibers.size());
    for (Fiber& f : fibers) start(f);
    for (;;) {
        for (int k = 0; k < n / kLanes; ++k) {
            const int first = (backwards ? n / kLanes - 1 - k : k) * kLanes;
            for (bool again = true; again;) {
                again = false;
                for (int i = 0; i < kLanes; ++i) {
                    Fiber& f = fibers[first + (backwards ? kLanes - 1 - i : i)];
                    if (f.state != State::kReady) continue;
                    current = &f;
                    host_switch(&scheduler_stack, f.stack_pointer);
                    if (fault) return;
                }
                for (int i = 0; i < kLanes; ++i) again |= fibers[first + i].state == State::kWarp;
                if (again) finish_warp(fibers, first);
                if (fault) return;
            }
        }
        int done = 0;
        for (Fiber& f : fibers) done += f.state == State::kDone;
        if (done == n) return;
        if (done != 0) fault = "a barrier is not met by all threads of the block";
        if (fault) return;
        for (Fiber& f : fibers) f.state = State::kReady;
    }
}

/// Runs every block in turn; what went wrong, or nullptr. `backwards` runs threads and warps from the last to the first.
inline const char* launch(dim3 grid, dim3 block, bool backwards, const std::function<void()>& kernel) {
    const unsigned threads = block.x * block.y * block.z;
    if (threads % kLanes) return "a block of threads that do not fill their warps";
    static std::vector<Fiber> fibers;  // stacks are kept between launches
    fibers.resize(threads);
    for (unsigned i = 0; i < threads; ++i) fibers[i].index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
    body = &kernel;
    grid_size = grid;
    block_size = block;
    fault = nullptr;
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                block_index = {x, y, z};
                std::memset(dynamic_shared_memory, 0xff, dynamic_bytes);  // NaN
                run_block(fibers, backwards);
                if (fault) return fault;
            }
    return nullptr;
}

}  // namespace host

#define threadIdx (host::current->index)
#define blockIdx (host::block_index)
#define blockDim (host::block_size)
#define gridDim (host::grid_size)

inline void __syncthreads() { host::block_on(host::State::kBarrier); }

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
