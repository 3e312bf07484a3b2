// See tensor_memory.hpp. The same for every kernel, and not watched (races.hpp).
#include "tensor_memory.hpp"

#include <deque>
#include <map>

#include "cuda_host.hpp"

namespace host {

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
    Kind kind;
    int rank;
    Order* order;
    uint32_t column, instruction;
    uint64_t a, b;
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

// ---- operands: PTX ISA, "Shared Memory Descriptor", "Canonical Layouts" -----------------------------------------------------

struct Operand {
    int rank, start, leading, stride, bytes;
    bool k_major;

    Operand(const Product& p, uint64_t d, bool k_major)
        : rank(p.rank), start((d & 0x3fff) << 4), leading((d >> 16 & 0x3fff) << 4), stride((d >> 32 & 0x3fff) << 4),
          bytes(p.kind == Kind::kF16 ? 2 : 1), k_major(k_major) {}

    /// Element (i, k), i along rows (columns) of the result: rows of 128 bytes in groups of eight `stride` apart. With k along the
    /// rows; or i within, in panels `leading` apart. Then bits 4 to 6 of the address are flipped by bits 7 to 9.
    const unsigned char* at(int i, int k) const {
        const int row = k_major ? i : k, col = (k_major ? k : i) * bytes;
        int address = start + row / 8 * stride + row % 8 * 128 + (k_major ? col : col / 128 * leading + col % 128);
        address ^= (address >> 7 & 7) << 4;
        return shared_memory[rank] + address;
    }
    /// f(16 bytes) for all of it.
    template <class F> void lines(int count, F f) const {
        const int chunk = 16 / bytes;
        for (int i = 0; i < count; i += k_major ? 1 : chunk)
            for (int k = 0; k < 2 * chunk; k += k_major ? chunk : 1) f(at(i, k));
    }
};

const char* odd(uint64_t d) {
    if ((d >> 46 & 7) != 1) return "bits 46 to 48 of a matrix descriptor of tcgen05 are not 001";
    if (d >> 61 != 2) return "a matrix descriptor of tcgen05 with another swizzle than that of 128 bytes, which alone is interpreted";
    if (d >> 14 & 3 || d >> 30 & 3 || d >> 49 & 0xfff) return "a matrix descriptor of tcgen05 has bits where none are interpreted";
    return nullptr;
}

float from_16(const unsigned char* at, bool bf16) {
    unsigned short bits;
    std::memcpy(&bits, at, 2);
    const uint32_t word = bits << 16;
    float x;
    std::memcpy(&x, &word, 4);
    if (bf16) return x;
    _Float16 half;
    std::memcpy(&half, at, 2);
    return static_cast<float>(half);
}

float from_8(unsigned char bits, int mantissa) {
    const int bias = mantissa == 3 ? 7 : 15, exponent = bits >> mantissa & (1 << (7 - mantissa)) - 1;
    const int whole = (bits & (1 << mantissa) - 1) + (exponent ? 1 << mantissa : 0);
    const float sign = bits & 0x80 ? -1.0f : 1.0f;
    if (mantissa == 3 && (bits & 0x7f) == 0x7f) return NAN;
    if (mantissa == 2 && exponent == 31) return bits & 3 ? NAN : sign * INFINITY;
    return sign * std::ldexp(static_cast<float>(whole), (exponent ? exponent : 1) - bias - mantissa);
}

// ---- instructions: PTX ISA, "Instruction Descriptor" -------------------------------------------------------------------------

struct What {
    Kind kind;
    bool type_a, type_b, turned_a, turned_b;
    int rows, cols;

    What(Kind kind, uint32_t bits)
        : kind(kind), type_a(bits >> 7 & 1), type_b(bits >> 10 & 1), turned_a(bits >> 15 & 1), turned_b(bits >> 16 & 1),
          rows(static_cast<int>(bits >> 24 & 0x1f) * 16), cols(static_cast<int>(bits >> 17 & 0x3f) * 8) {}

    float element(const unsigned char* at, bool type) const {
        return kind == Kind::kF16 ? from_16(at, type) : from_8(*at, type ? 2 : 3);
    }
    int integer(const unsigned char* at, bool is_signed) const { return is_signed ? static_cast<signed char>(*at) : *at; }

    /// The lane of row `i` of the sum: of 64 rows, 16 are in every other 16 lanes.
    int lane(int i) const { return rows == 64 ? i / 16 * 32 + i % 16 : i; }
};

const char* odd(const What& what, uint32_t bits) {
    if ((bits >> 4 & 3) != (what.kind == Kind::kI8 ? 2u : 1u)) return "an instruction descriptor of tcgen05 says another type of sums than f32, or i32 of integers";
    if (bits & 0xe080604fu || bits >> 8 & 3 || bits >> 11 & 3) return "an instruction descriptor of tcgen05 has bits where none are interpreted";
    if (what.rows != 64 && what.rows != 128) return "an instruction descriptor of tcgen05 says neither 64 nor 128 rows";
    const int step = what.rows == 128 || (what.kind == Kind::kI8 && what.cols > 32) ? 16 : 8;
    if (what.cols < step || what.cols > 256 || what.cols % step) return "an instruction descriptor of tcgen05 says a number of columns that no product has";
    return nullptr;
}

template <class T, class Read> void multiply(const Product& p, const What& what, Read read) {
    const int depth = p.kind == Kind::kF16 ? 16 : 32;
    const Operand a(p, p.a, !what.turned_a), b(p, p.b, !what.turned_b);
    std::vector<T> left(what.rows * depth), right(what.cols * depth);
    for (int k = 0; k < depth; ++k) {
        for (int i = 0; i < what.rows; ++i) left[i * depth + k] = read(a.at(i, k), what.type_a);
        for (int j = 0; j < what.cols; ++j) right[j * depth + k] = read(b.at(j, k), what.type_b);
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
    const What what(p.kind, p.instruction);
    if (p.kind == Kind::kI8) multiply<uint32_t>(p, what, [&](const unsigned char* at, bool s) { return static_cast<uint32_t>(what.integer(at, s)); });
    else multiply<float>(p, what, [&](const unsigned char* at, bool type) { return what.element(at, type); });
    ++of.happened;
}

// ---- who may touch what ---------------------------------------------------------------------------------------------------------

bool taken(int rank, uint32_t column, int count) {
    for (uint32_t c = column; c < column + count; ++c)
        if (c >= kColumns || !memories[rank].taken[c]) return false;
    return true;
}

/// What `by` would do to a place that a product changes, or that it loads.
void after_product(const Fiber& by, const Place& place) {
    if (place.thread < 0 || place.thread == by.order.thread) return;
    if (has_fenced(by, place.thread, place.at) && issued[place.thread].happened >= place.product) return;
    if (issued[place.thread].happened < place.product || (*by.order.heard)[place.thread] < place.at)
        return wrong("tensor memory is touched before the barrier was waited for that a commit tells of its products");
    wrong("tensor memory is touched after a barrier was waited for, with no tcgen05.fence::after_thread_sync between");
}

/// `by` would change a place that was loaded.
void after_loads(const Fiber& by, Place& place) {
    for (const int n : place.loads) {
        const Load& load = loads[n];
        if (load.state == Load::kUnderWay) return wrong("tensor memory is changed while a load is under way that nobody has waited for (tcgen05.wait::ld)");
        if (load.state == Load::kWaited) return wrong("tensor memory is changed that was loaded with no tcgen05.fence::before_thread_sync behind it");
        if (has_fenced(by, load.thread, load.fenced)) continue;
        if ((*by.order.heard)[load.thread] < load.fenced) return wrong("tensor memory is changed before those who load it have told that they have");
        return wrong("tensor memory is changed after a barrier was waited for, with no tcgen05.fence::after_thread_sync between");
    }
    place.loads.clear();
}

TensorLane& lane(void* const* lanes, int n) { return *static_cast<TensorLane*>(lanes[n]); }

}  // namespace

// ---- blocks ---------------------------------------------------------------------------------------------------------------------

void begin_tensor_memory() {
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
    for (const Load& load : loads)
        if (load.state == Load::kUnderWay) return "a load from tensor memory is never waited for (tcgen05.wait::ld)";
    for (const Memory& m : memories)
        for (const bool column : m.taken)
            if (column) return "tensor memory is not given back (tcgen05.dealloc) when its block ends";
    return nullptr;
}

// ---- warps ------------------------------------------------------------------------------------------------------------------------

void tensor_alloc(void* const* lanes, uint32_t* to, int columns) {
    const Fiber& f = *lane(lanes, 0).fiber;
    Memory& m = memories[f.rank];
    used = true;
    if (columns < 32 || columns > kColumns || columns & (columns - 1)) return wrong("columns of tensor memory are taken in powers of two from 32 to 512");
    if (m.relinquished) return wrong("tensor memory is taken by a block that has said that it takes no more");
    int first = kColumns - columns;  // the last ones that are free: nobody is promised the first
    while (first >= 0 && std::find(m.taken + first, m.taken + first + columns, true) != m.taken + first + columns) first -= columns;
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
        if (lane(lanes, l).address != first.address) return wrong("the lanes of a warp load from different addresses of tensor memory");
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
        for (int l = 0; l < kLanes; ++l)
            for (int half = 0; half < 2; ++half)
                for (int n = 0; n < 8; ++n) {
                    const uint32_t& from = memories[load.rank].bits[load.lane + l / 4 + 8 * half][load.column + n / 2 * 8 + l % 4 * 2 + n % 2];
                    std::memcpy(static_cast<char*>((half ? load.d8 : load.d0)[l]) + 4 * n, &from, 4);
                }
    }
}

// ---- threads ----------------------------------------------------------------------------------------------------------------------

void tensor_fence_before() {
    for (Load& load : loads)
        if (load.thread == current->order.thread && load.state == Load::kWaited) load.state = Load::kFenced, load.fenced = current->order.now;
}

void tensor_fence_after() { current->fenced = current->order.heard; }

void tensor_product(Kind kind, uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, bool keep) {
    const What what(kind, instruction);
    const int rank = current->rank, depth = kind == Kind::kF16 ? 16 : 32;
    if (const char* why = odd(what, instruction)) return wrong(why);
    for (const uint64_t x : {a, b})
        if (const char* why = odd(x)) return wrong(why);
    if (d >> 16) return wrong("the sum of a product of tcgen05 does not begin in lane 0 of tensor memory");
    if (!taken(rank, d, what.cols)) return wrong("a product of tcgen05 sums in columns of tensor memory that were not taken");
    Issued& of = issued[current->order.thread];
    for (int c = 0; c < what.cols; ++c)
        for (int g = 0; g < kGroups; g += what.rows == 64 ? 2 : 1) {
            Place& place = memories[rank].places[d + c][g];
            after_product(*current, place);
            after_loads(*current, place);
            const bool other = place.thread == current->order.thread && place.instruction != instruction;
            if (other && of.happened < place.product) wrong("a product of tcgen05 follows one of another shape or type in the same place, which no order binds");
            if (fault) return;
            place.thread = current->order.thread, place.product = of.started + 1, place.at = current->order.now, place.instruction = instruction;
        }
    (void)depth;
    const Product p{kind, rank, &current->order, d, instruction, a, b, keep, current->order.now};
    const auto reads = [](const unsigned char* at) { starts_to_read(at, 16); };
    Operand(p, a, !what.turned_a).lines(what.rows, reads);
    Operand(p, b, !what.turned_b).lines(what.cols, reads);
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
        const What what(p.kind, p.instruction);
        const auto over = [&](const unsigned char* at) { happened(at, 16, all.thread); };
        Operand(p, p.a, !what.turned_a).lines(what.rows, over);
        Operand(p, p.b, !what.turned_b).lines(what.cols, over);
        of.seen = p.started;
    }
    return of.seen;
}

}  // namespace host
