// See cuda_host.hpp: whose turn it is. The same for every kernel, and not watched (races.hpp).
#include "cuda_host.hpp"

#include <chrono>

#include "tensor_memory.hpp"

namespace host {

namespace {

void* scheduler_stack;
const std::function<void()>* body;

// Swaps stacks, keeping the registers that the System V ABI asks a callee to keep.
extern "C" void host_switch(void** save, void* to);
asm(R"(
.text
.globl host_switch
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

}  // namespace

void yield() { host_switch(&current->stack_pointer, scheduler_stack); }

void fail(const char* what) {
    fault = what;
    for (;;) yield();
}

void block_on(State state) {
    look_again();
    current->state = state;
    yield();
}

void meet_lanes(void* const* lanes) {
    std::vector<Order*> orders;
    for (int i = 0; i < kLanes; ++i) orders.push_back(static_cast<Order*>(lanes[i]));
    meet(orders);
}

namespace {

void enter() {
    (*body)();
    current->state = State::kDone;
    yield();
}

void start(Fiber& f) {
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
    f.fenced.reset();
}

/// Does the warp-wide instruction that all lanes have met; false while some of them still wait for something else.
bool finish_warp(std::vector<Fiber>& fibers, int first) {
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
bool run_warp(std::vector<Fiber>& fibers, int first, bool backwards) {
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
bool open_barrier(std::vector<Fiber>& fibers, int first, int end, State at) {
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
void run_cluster(std::vector<Fiber>& fibers, int threads, bool backwards) {
    const int n = static_cast<int>(fibers.size());
    std::vector<Order*> orders;
    for (Fiber& f : fibers) start(f), orders.push_back(&f.order);
    begin_block(orders);
    begin_tensor_memory();
    for (auto& of_block : numbered_barriers)
        for (Numbered& barrier : of_block) barrier = {};
    for (;;) {
        bool progress = false;
        for (int k = 0; k < n / kLanes; ++k) {
            progress |= run_warp(fibers, (backwards ? n / kLanes - 1 - k : k) * kLanes, backwards);
            if (fault) return;
        }
        for (int block = 0; block < n; block += threads)
            for (int first = block, end; first < block + threads; first = end) {
                end = first + 128 < block + threads ? first + 128 : block + threads;
                progress |= open_barrier(fibers, first, end, State::kWarpgroup);
            }
        for (int first = 0; first < n; first += threads)
            progress |= open_barrier(fibers, first, first + threads, State::kBarrier);
        progress |= open_barrier(fibers, 0, n, State::kCluster);
        if (fault) return;
        int done = 0;
        for (Fiber& f : fibers) done += f.state == State::kDone;
        if (done == n) fault = left_in_tensor_memory();
        if (done == n) return;
        if (!progress) fault = "threads wait for what never comes";
        if (fault) return;
    }
}

}  // namespace

const char* launch(dim3 grid, dim3 block, unsigned cluster, bool backwards, const std::function<void()>& kernel) {
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
    using Clock = std::chrono::steady_clock;
    const auto begun = Clock::now();
    const std::uint64_t across = grid.x / cluster, all = across * grid.y * grid.z, count = some.places ? some.count : all;
    for (ran = 0; ran < count; ++ran) {
        if (some.places && std::chrono::duration<double>(Clock::now() - begun).count() > some.seconds) break;
        const std::uint64_t place = some.places ? some.places[ran] : ran;
        const auto x = static_cast<unsigned>(place % across * cluster), y = static_cast<unsigned>(place / across % grid.y);
        const auto z = static_cast<unsigned>(place / across / grid.y);
        for (Fiber& f : fibers) f.block = {x + static_cast<unsigned>(f.rank), y, z};
        for (unsigned i = 0; i < cluster; ++i) std::memset(shared_memory[i], 0xff, dynamic_bytes);  // NaN
        run_cluster(fibers, static_cast<int>(threads), backwards);
        if (fault) return fault;
    }
    return nullptr;
}

}  // namespace host

/// Of the launches from now on; `places` is null for all clusters of them.
extern "C" void host_some(const std::uint64_t* places, std::uint64_t count, double seconds) {
    host::some = {places, count, seconds};
}

/// How many clusters the last launch ran.
extern "C" std::uint64_t host_ran() { return host::ran; }
