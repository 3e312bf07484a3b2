// See tensor_memory.hpp. The same for every kernel, and not watched (races.hpp).
#include "tensor_memory.hpp"

#include <algorithm>
#include <deque>
#include <map>

#include "cuda_host.hpp"
#include "tensor_descriptors.hpp"

namespace host {

long arrivals_to_come;

namespace {

constexpr int kColumns = 512, kTensorLanes = 128, kGroup = 16, kGroups = kTensorLanes / kGroup;

/// A warp's load, for which its first lane speaks.
struct Load {
    enum { kUnderWay, kWaited, kFenced } state;
    int thread;
    Clock fenced;  // when the lane put its fence behind it
    int rank, lane, column;
    void *d0[kLanes], *d8[kLanes];
};

/// What was last done with 16 lanes of a column: by product number `product` of a thread, and by loads after it.
struct Place {
    int thread = -1;
    long product = 0;
    Clock at = 0;
    uint32_t instruction = 0;
    std::vector<int> loads;
};

struct Memory {
    bool taken[kColumns] = {}, relinquished = false;
    uint32_t bits[kTensorLanes][kColumns];
    Place places[kColumns][kGroups];
};

struct Product {
    What what;
    int rank;
    uint32_t column;
    Operand a, b;
    bool keep;
    Clock started;
};

/// Of one thread, the oldest first: those that have not happened, and how many have.
struct Issued {
    std::deque<Product> waiting;
    long started = 0, committed = 0, happened = 0;
    Clock seen = 0;
};

std::vector<Memory> memories(kMostBlocks);
std::vector<Load> loads;
std::map<int, Issued> issued;
bool used;

void wrong(const char* what) {
    if (!fault) fault = what;
}

bool has_fenced(const Fiber& f, int thread, Clock at) {
    return f.order.thread == thread || (f.fenced && (*f.fenced)[thread] >= at);
}

// ---- products ---------------------------------------------------------------------------------------------------------

template <class T, class Read> void multiply(const Product& p, Read read) {
    const What& what = p.what;
    const int depth = what.depth();
    std::vector<T> left(what.rows * depth), right(what.cols * depth);
    for (int k = 0; k < depth; ++k) {
        for (int i = 0; i < what.rows; ++i) left[i * depth + k] = read(p.a.at(i, k), what.type_a);
        for (int j = 0; j < what.cols; ++j) right[j * depth + k] = read(p.b.at(j, k), what.type_b);
    }
    for (int i = 0; i < what.rows; ++i)
        for (int j = 0; j < what.cols; ++j) {
            uint32_t& place = memories[p.rank].bits[what.lane(i)][p.column + j];
            T sum = 0;
            if (p.keep) std::memcpy(&sum, &place, 4);
            for (int k = 0; k < depth; ++k) sum += left[i * depth + k] * right[j * depth + k];
            std::memcpy(&place, &sum, 4);
        }
}

void happen(const Product& p, Issued& of) {
    const auto integer = [](const unsigned char* at, bool type) { return static_cast<uint32_t>(What::integer(at, type)); };
    const auto real = [&](const unsigned char* at, bool type) { return p.what.real(at, type); };
    if (p.what.kind == Kind::kI8) multiply<uint32_t>(p, integer);
    else multiply<float>(p, real);
    ++of.happened;
}

/// f(16 bytes) for all that `p` reads.
template <class F> void operands(const Product& p, F f) {
    p.a.lines(p.what.rows, f);
    p.b.lines(p.what.cols, f);
}

// ---- who may touch what -----------------------------------------------------------------------------------------------

bool taken(int rank, uint32_t column, int count) {
    for (uint32_t c = column; c < column + count; ++c)
        if (c >= kColumns || !memories[rank].taken[c]) return false;
    return true;
}

constexpr const char* kUnfenced = "tensor memory is touched after a barrier, with no tcgen05.fence::after_thread_sync between";

/// `by` would touch what a product changes.
void after_product(const Fiber& by, const Place& place) {
    if (place.thread < 0 || place.thread == by.order.thread) return;
    const bool over = issued[place.thread].happened >= place.product;
    if (over && has_fenced(by, place.thread, place.at)) return;
    const bool heard = over && (*by.order.heard)[place.thread] >= place.at;
    wrong(heard ? kUnfenced : "tensor memory is touched before the barrier was waited for that a commit tells of its products");
}

/// `by` would change what was loaded.
void after_loads(const Fiber& by, Place& place) {
    for (const int n : place.loads) {
        const Load& load = loads[n];
        if (load.state == Load::kUnderWay)
            return wrong("tensor memory is changed while a load is under way that nobody has waited for (tcgen05.wait::ld)");
        if (load.state == Load::kWaited)
            return wrong("tensor memory is changed that was loaded with no tcgen05.fence::before_thread_sync behind it");
        if (has_fenced(by, load.thread, load.fenced)) continue;
        const bool heard = (*by.order.heard)[load.thread] >= load.fenced;
        return wrong(heard ? kUnfenced : "tensor memory is changed before those who load it have told that they have");
    }
    place.loads.clear();
}

TensorLane& lane(void* const* lanes, int n) { return *static_cast<TensorLane*>(lanes[n]); }

}  // namespace

// ---- blocks -----------------------------------------------------------------------------------------------------------

void begin_tensor_memory() {
    arrivals_to_come = 0;
    if (!used) return;
    for (Memory& m : memories) {
        m = {};
        std::memset(m.bits, 0xff, sizeof m.bits);  // NaN
    }
    loads.clear();
    issued.clear();
    used = false;
}

const char* left_in_tensor_memory() {
    for (const auto& [thread, of] : issued) {
        if (of.committed < of.started) return "products of tcgen05 were started that no commit tells of";
        if (of.happened < of.started) return "products of tcgen05 are under way when their block ends";
    }
    if (arrivals_to_come) return "commits of tcgen05 are on their way to barriers when their block ends";
    for (const Load& load : loads)
        if (load.state == Load::kUnderWay) return "a load from tensor memory is never waited for (tcgen05.wait::ld)";
    for (const Memory& m : memories)
        for (const bool column : m.taken)
            if (column) return "tensor memory is not given back (tcgen05.dealloc) when its block ends";
    return nullptr;
}

// ---- warps ------------------------------------------------------------------------------------------------------------

void tensor_alloc(void* const* lanes, uint32_t* to, int columns) {
    const Fiber& f = *lane(lanes, 0).fiber;
    Memory& m = memories[f.rank];
    used = true;
    if (columns < 32 || columns > kColumns || columns & (columns - 1))
        return wrong("columns of tensor memory are taken in powers of two from 32 to 512");
    if (m.relinquished) return wrong("tensor memory is taken by a block that has said that it takes no more");
    int first = kColumns - columns;  // the last ones that are free: nobody is promised the first
    while (first >= 0 && std::count(m.taken + first, m.taken + first + columns, true)) first -= columns;
    if (first < 0) return wrong("a block takes more tensor memory than there is");
    std::fill(m.taken + first, m.taken + first + columns, true);
    running = &lane(lanes, 0).fiber->order;
    writes(to, 4);
    running = nullptr;
    *to = static_cast<uint32_t>(first);
}

void tensor_relinquish(void* const* lanes) { memories[lane(lanes, 0).fiber->rank].relinquished = true; }

void tensor_dealloc(void* const* lanes, int columns) {
    const Fiber& f = *lane(lanes, 0).fiber;
    Memory& m = memories[f.rank];
    const uint32_t first = lane(lanes, 0).address;
    if (!taken(f.rank, first, columns)) return wrong("tensor memory is given back that was not taken");
    for (int c = 0; c < columns; ++c) {
        for (Place& place : m.places[first + c]) {
            after_product(f, place);
            after_loads(f, place);
            if (fault) return;
        }
        m.taken[first + c] = false;
    }
}

void tensor_load(void* const* lanes) {
    constexpr int columns = 32;
    const TensorLane& first = lane(lanes, 0);
    const int at = static_cast<int>(first.address >> 16), warp = static_cast<int>(first.fiber->index.x) / kLanes;
    const uint32_t column = first.address & 0xffff;
    if (at % kGroup || at / 32 != warp % 4) return wrong("a warp loads from lanes of tensor memory that it does not reach");
    if (!taken(first.fiber->rank, column, columns)) return wrong("columns of tensor memory are loaded that were not taken");
    Load load{Load::kUnderWay, first.fiber->order.thread, 0, first.fiber->rank, at, static_cast<int>(column), {}, {}};
    for (int l = 0; l < kLanes; ++l) {
        if (lane(lanes, l).address != first.address)
            return wrong("the lanes of a warp load from different addresses of tensor memory");
        load.d0[l] = lane(lanes, l).d0, load.d8[l] = lane(lanes, l).d8;
        std::memset(load.d0[l], 0xff, 32);
        std::memset(load.d8[l], 0xff, 32);
    }
    for (int c = 0; c < columns; ++c) {
        Place& place = memories[load.rank].places[column + c][at / kGroup];
        for (int l = 0; l < kLanes && !fault; ++l) after_product(*lane(lanes, l).fiber, place);
        place.loads.push_back(static_cast<int>(loads.size()));
    }
    loads.push_back(load);
}

void tensor_wait_load(void* const* lanes) {
    for (Load& load : loads) {
        if (load.thread != lane(lanes, 0).fiber->order.thread || load.state != Load::kUnderWay) continue;
        load.state = Load::kWaited;
        const auto& bits = memories[load.rank].bits;
        for (int l = 0; l < kLanes; ++l)
            for (int n = 0; n < 8; ++n) {
                const int row = load.lane + l / 4, col = load.column + n / 2 * 8 + l % 4 * 2 + n % 2;
                std::memcpy(static_cast<char*>(load.d0[l]) + 4 * n, &bits[row][col], 4);
                std::memcpy(static_cast<char*>(load.d8[l]) + 4 * n, &bits[row + 8][col], 4);
            }
    }
}

// ---- threads ----------------------------------------------------------------------------------------------------------

void tensor_fence_before() {
    for (Load& load : loads)
        if (load.thread == current->order.thread && load.state == Load::kWaited)
            load.state = Load::kFenced, load.fenced = current->order.now;
}

void tensor_fence_after() { current->fenced = current->order.heard; }

void tensor_product(Kind kind, uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, bool keep) {
    const What what(kind, instruction);
    const int rank = current->rank, thread = current->order.thread;
    for (const char* why : {what.odd(instruction), Operand::odd(a), Operand::odd(b)})
        if (why) return wrong(why);
    if (d >> 16) return wrong("the sum of a product of tcgen05 does not begin in lane 0 of tensor memory");
    if (!taken(rank, d, what.cols)) return wrong("a product of tcgen05 sums in columns of tensor memory that were not taken");
    Issued& of = issued[thread];
    for (int c = 0; c < what.cols; ++c)
        for (int g = 0; g < kGroups; g += what.rows == 64 ? 2 : 1) {
            Place& place = memories[rank].places[d + c][g];
            after_product(*current, place);
            after_loads(*current, place);
            if (place.thread == thread && place.instruction != instruction && of.happened < place.product)
                wrong("a product of tcgen05 follows one of another size or type in the same place, which nothing orders");
            if (fault) return;
            place.thread = thread, place.product = of.started + 1;
            place.at = current->order.now, place.instruction = instruction;
        }
    unsigned char* shared = shared_memory[rank];
    const Operand left(shared, kind, a, !what.turned_a), right(shared, kind, b, !what.turned_b);
    const Product p{what, rank, d, left, right, keep, current->order.now};
    operands(p, [](const unsigned char* at) { starts_to_read(at, 16); });
    ++of.started;
    if (early) happen(p, of);
    of.waiting.push_back(p);
}

Committed tensor_commit() {
    Issued& of = issued[current->order.thread];
    of.committed = of.started;
    tensor_fence_before();
    return {current->order.thread, of.started};
}

Clock tensor_complete(const Committed& all) {
    Issued& of = issued[all.thread];
    while (!of.waiting.empty() && of.started - static_cast<long>(of.waiting.size()) < all.products) {
        const Product p = of.waiting.front();
        of.waiting.pop_front();
        if (!early) happen(p, of);
        operands(p, [&](const unsigned char* at) { happened(at, 16, all.thread); });
        of.seen = p.started;
    }
    return of.seen;
}

}  // namespace host
