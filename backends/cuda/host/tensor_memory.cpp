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

/// A warp's load or store, for which its first lane speaks.
struct Move {
    enum { kUnderWay, kWaited, kFenced } state;
    bool stores;
    int thread;
    Clock fenced;  // when the lane put its fence behind it
    int rank, lane, column;
    void *d0[kLanes], *d8[kLanes];                       // of a load
    std::vector<std::pair<uint32_t*, uint32_t>> values;  // of a store: to where, and what
};

/// Product number `number` of a thread, started at `at`; thread -1: none.
struct Done {
    int thread = -1;
    long number = 0;
    Clock at = 0;
};

/// What was last done with 16 lanes of a column: a product that summed there, one that read its left operand there, and loads and
/// stores after them.
struct Place {
    Done summed, read;
    uint32_t instruction = 0;
    std::vector<int> moves;
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
    bool left_here;  // the left operand is in tensor memory, from column `left` on
    uint32_t left;
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
std::vector<Move> moves;
std::map<int, std::vector<int>> open;  // of each lane that speaks: its moves behind which it has put no fence
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
    const auto in_memory = [&](int i, int k) {  // two of 16 bits in each place
        return reinterpret_cast<const unsigned char*>(&memories[p.rank].bits[what.lane(i)][p.left + k / 2]) + k % 2 * 2;
    };
    for (int k = 0; k < depth; ++k) {
        for (int i = 0; i < what.rows; ++i) left[i * depth + k] = read(p.left_here ? in_memory(i, k) : p.a.at(i, k), what.type_a);
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
    if (!p.left_here) p.a.lines(p.what.rows, f);
    p.b.lines(p.what.cols, f);
}

// ---- who may touch what -----------------------------------------------------------------------------------------------

bool taken(int rank, uint32_t column, int count) {
    for (uint32_t c = column; c < column + count; ++c)
        if (c >= kColumns || !memories[rank].taken[c]) return false;
    return true;
}

constexpr const char* kUnfenced = "tensor memory is touched after a barrier, with no tcgen05.fence::after_thread_sync between";

/// `by` would touch what `done` does; `own` says what is wrong where that is a product of its own that may not be over.
void after_product(const Fiber& by, const Done& done, const char* own = nullptr) {
    if (done.thread < 0) return;
    const bool over = issued[done.thread].happened >= done.number;
    if (done.thread == by.order.thread) {
        if (own && !over) wrong(own);
        return;
    }
    if (over && has_fenced(by, done.thread, done.at)) return;
    const bool heard = over && (*by.order.heard)[done.thread] >= done.at;
    wrong(heard ? kUnfenced : "tensor memory is touched before the barrier was waited for that a commit tells of its products");
}

/// `by` would touch what was loaded (which only a change minds) or stored.
void after_moves(const Fiber& by, Place& place, bool changes) {
    for (const int n : place.moves) {
        const Move& move = moves[n];
        if (!move.stores && !changes) continue;
        if (move.state == Move::kUnderWay)
            return wrong(move.stores
                             ? "tensor memory is touched while a store is under way that nobody has waited for (tcgen05.wait::st)"
                             : "tensor memory is changed while a load is under way that nobody has waited for (tcgen05.wait::ld)");
        if (move.thread == by.order.thread) continue;
        if (move.state == Move::kWaited)
            return wrong(move.stores
                             ? "tensor memory is touched that was stored with no tcgen05.fence::before_thread_sync behind it"
                             : "tensor memory is changed that was loaded with no tcgen05.fence::before_thread_sync behind it");
        if (has_fenced(by, move.thread, move.fenced)) continue;
        const bool heard = (*by.order.heard)[move.thread] >= move.fenced;
        return wrong(heard         ? kUnfenced
                     : move.stores ? "tensor memory is touched before those who store to it have told that they have"
                                   : "tensor memory is changed before those who load it have told that they have");
    }
    if (changes) place.moves.clear();
}

/// `by` would change the place.
void before_change(const Fiber& by, Place& place) {
    after_product(by, place.summed);
    after_product(by, place.read, "tensor memory is changed that a product of tcgen05 may not have read yet, which nothing orders");
    after_moves(by, place, true);
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
    moves.clear();
    open.clear();
    issued.clear();
    used = false;
}

const char* left_in_tensor_memory() {
    for (const auto& [thread, of] : issued) {
        if (of.committed < of.started) return "products of tcgen05 were started that no commit tells of";
        if (of.happened < of.started) return "products of tcgen05 are under way when their block ends";
    }
    if (arrivals_to_come) return "commits of tcgen05 are on their way to barriers when their block ends";
    for (const Move& move : moves)
        if (move.state == Move::kUnderWay)
            return move.stores ? "a store to tensor memory is never waited for (tcgen05.wait::st)"
                               : "a load from tensor memory is never waited for (tcgen05.wait::ld)";
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
            before_change(f, place);
            if (fault) return;
        }
        m.taken[first + c] = false;
    }
}

namespace {

/// A warp's move of `columns` of 16 lanes, whose places `check` looks at, or one in which nothing is right.
template <class Check> Move begun(void* const* lanes, int columns, bool stores, Check check) {
    const TensorLane& first = lane(lanes, 0);
    const int at = static_cast<int>(first.address >> 16), warp = static_cast<int>(first.fiber->index.x) / kLanes;
    const uint32_t column = first.address & 0xffff;
    Move move{Move::kUnderWay, stores, first.fiber->order.thread, 0, first.fiber->rank, at, static_cast<int>(column), {}, {}, {}};
    if (at % kGroup || at / 32 != warp % 4)
        wrong(stores ? "a warp stores to lanes of tensor memory that it does not reach"
                     : "a warp loads from lanes of tensor memory that it does not reach");
    else if (!taken(first.fiber->rank, column, columns))
        wrong(stores ? "columns of tensor memory are stored to that were not taken"
                     : "columns of tensor memory are loaded that were not taken");
    for (int l = 0; l < kLanes; ++l) {
        if (lane(lanes, l).address != first.address) wrong("the lanes of a warp move at different addresses of tensor memory");
        move.d0[l] = lane(lanes, l).d0, move.d8[l] = lane(lanes, l).d8;
    }
    for (int c = 0; c < columns && !fault; ++c) {
        Place& place = memories[move.rank].places[column + c][at / kGroup];
        for (int l = 0; l < kLanes && !fault; ++l) check(*lane(lanes, l).fiber, place, l == 0);
        place.moves.push_back(static_cast<int>(moves.size()));
    }
    return move;
}

void begin(Move move) {
    open[move.thread].push_back(static_cast<int>(moves.size()));
    moves.push_back(std::move(move));
}

/// f(move) for the stores, or the loads, of the warp that are under way.
template <class F> void wait(void* const* lanes, bool stores, F f) {
    for (const int n : open[lane(lanes, 0).fiber->order.thread]) {
        Move& move = moves[n];
        if (move.stores != stores || move.state != Move::kUnderWay) continue;
        move.state = Move::kWaited;
        f(move);
    }
}

/// Stores `words` registers of each lane (d0) and as many 8 rows below (d8), those of four lanes `together` side by side at a time.
void store(void* const* lanes, int words, int together) {
    Move move = begun(lanes, words * 4, true, [](const Fiber& by, Place& place, bool speaks) {
        if (speaks) before_change(by, place);
        else after_product(by, place.summed), after_product(by, place.read);
    });
    if (fault) return;
    auto& bits = memories[move.rank].bits;
    for (int l = 0; l < kLanes; ++l)
        for (int n = 0; n < words; ++n) {
            const int row = move.lane + l / 4, col = move.column + (n / together * 4 + l % 4) * together + n % together;
            uint32_t above, below;
            std::memcpy(&above, static_cast<const char*>(move.d0[l]) + 4 * n, 4);
            std::memcpy(&below, static_cast<const char*>(move.d8[l]) + 4 * n, 4);
            move.values.emplace_back(&bits[row][col], above);
            move.values.emplace_back(&bits[row + 8][col], below);
        }
    for (const auto& [to, value] : move.values) *to = early ? value : 0xffffffff;  // NaN until it is waited for
    begin(std::move(move));
}

}  // namespace

void tensor_load(void* const* lanes) {
    const Move move = begun(lanes, 32, false, [](const Fiber& by, Place& place, bool speaks) {
        after_product(by, place.summed);
        if (speaks) after_moves(by, place, false);
    });
    if (fault) return;
    for (int l = 0; l < kLanes; ++l) {
        std::memset(move.d0[l], 0xff, 32);
        std::memset(move.d8[l], 0xff, 32);
    }
    begin(move);
}

void tensor_store(void* const* lanes) { store(lanes, 8, 2); }
void tensor_store_words(void* const* lanes) { store(lanes, 8, 1); }

void tensor_wait_load(void* const* lanes) {
    wait(lanes, false, [](const Move& move) {
        const auto& bits = memories[move.rank].bits;
        for (int l = 0; l < kLanes; ++l)
            for (int n = 0; n < 8; ++n) {
                const int row = move.lane + l / 4, col = move.column + n / 2 * 8 + l % 4 * 2 + n % 2;
                std::memcpy(static_cast<char*>(move.d0[l]) + 4 * n, &bits[row][col], 4);
                std::memcpy(static_cast<char*>(move.d8[l]) + 4 * n, &bits[row + 8][col], 4);
            }
    });
}

void tensor_wait_store(void* const* lanes) {
    wait(lanes, true, [](Move& move) {
        for (const auto& [to, value] : move.values) *to = value;
        std::vector<std::pair<uint32_t*, uint32_t>>().swap(move.values);
    });
}

// ---- threads ----------------------------------------------------------------------------------------------------------

void tensor_fence_before() {
    const auto mine = open.find(current->order.thread);
    if (mine == open.end()) return;
    const auto fence = [](int n) {
        Move& move = moves[n];
        if (move.state != Move::kWaited) return false;
        move.state = Move::kFenced, move.fenced = current->order.now;
        return true;
    };
    auto& all = mine->second;
    all.erase(std::remove_if(all.begin(), all.end(), fence), all.end());
}

void tensor_fence_after() { current->fenced = current->order.heard; }

namespace {

void start(const Product& p, uint32_t instruction) {
    const int rank = p.rank, thread = current->order.thread;
    const uint32_t d = p.column;
    if (!taken(rank, d, p.what.cols)) return wrong("a product of tcgen05 sums in columns of tensor memory that were not taken");
    Issued& of = issued[thread];
    const Done done{thread, of.started + 1, current->order.now};
    const int step = p.what.rows == 64 ? 2 : 1, words = p.left_here ? p.what.depth() / 2 : 0;
    for (int c = 0; c < p.what.cols; ++c)
        for (int g = 0; g < kGroups; g += step) {
            Place& place = memories[rank].places[d + c][g];
            before_change(*current, place);
            if (place.summed.thread == thread && place.instruction != instruction && of.happened < place.summed.number)
                wrong("a product of tcgen05 follows one of another size or type in the same place, which nothing orders");
            if (fault) return;
            place.summed = done, place.instruction = instruction;
        }
    for (int c = 0; c < words; ++c)
        for (int g = 0; g < kGroups; g += step) {
            Place& place = memories[rank].places[p.left + c][g];
            after_product(*current, place.summed, "a product of tcgen05 reads what another one sums, which nothing orders");
            after_moves(*current, place, false);
            if (fault) return;
            place.read = done;
        }
    operands(p, [](const unsigned char* at) { starts_to_read(at, 16); });
    ++of.started;
    if (early) happen(p, of);
    of.waiting.push_back(p);
}

}  // namespace

void tensor_product(Kind kind, uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, bool keep) {
    const What what(kind, instruction);
    for (const char* why : {what.odd(instruction), Operand::odd(a), Operand::odd(b)})
        if (why) return wrong(why);
    if (d >> 16) return wrong("the sum of a product of tcgen05 does not begin in lane 0 of tensor memory");
    unsigned char* shared = shared_memory[current->rank];
    const Operand left(shared, kind, a, !what.turned_a), right(shared, kind, b, !what.turned_b);
    start({what, current->rank, d, left, right, false, 0, keep, current->order.now}, instruction);
}

void tensor_product_of_weights(uint32_t d, uint32_t a, uint64_t b, uint32_t instruction, bool keep) {
    const What what(Kind::kF16, instruction);
    for (const char* why : {what.odd(instruction), Operand::odd(b)})
        if (why) return wrong(why);
    if (d >> 16 || a >> 16) return wrong("a product of tcgen05 does not begin in lane 0 of tensor memory");
    if (what.turned_a || what.rows != 128)
        return wrong("a left operand in tensor memory has 128 rows, along which k runs, as far as it is interpreted");
    if (!taken(current->rank, a, what.depth() / 2))
        return wrong("a product of tcgen05 reads columns of tensor memory that were not taken");
    unsigned char* shared = shared_memory[current->rank];
    const Operand right(shared, Kind::kF16, b, !what.turned_b);
    start({what, current->rank, d, right, right, true, a, keep, current->order.now}, instruction);
}

Committed tensor_commit() {
    Issued& of = issued[current->order.thread];
    of.committed = of.started;
    tensor_fence_before();
    go_on(current->order);  // products after this one are not told of
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
