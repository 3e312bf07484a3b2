// See races.hpp. Kernels are compiled with a call at every load and store (-fsanitize=thread, of which only the compiler's part is
// used: the functions that it calls are at the end); this file is not.
#include "races.hpp"

#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace host {

Order* running;

namespace {

constexpr int kKept = 10, kWord = 4;

/// `bytes` of the word, a bit each. `under_way`: a copy that nobody has waited for yet. `place` is in the program, `called` where
/// the kernel called what it is in.
struct Access {
    Clock at;  // 0: none
    uint32_t place, called;
    uint16_t thread;
    uint8_t bytes;
    bool write : 1, under_way : 1;
};

/// The last accesses to a word; where there were more, some are forgotten.
struct Word {
    Access kept[kKept];
};

struct Region {
    const char* start;
    std::size_t size, room;
    Word* words;

    void become(const void* from, std::size_t bytes) {
        start = static_cast<const char*>(from), size = bytes;
        if (bytes <= room) return;
        std::free(words);
        words = static_cast<Word*>(std::calloc(bytes / kWord + 2, sizeof(Word)));
        room = bytes;
    }
    bool has(const char* at) const { return at >= start && at < start + size; }
    Word& word(const char* at) { return words[(at - start) / kWord]; }
};

Region regions[2];           // dynamic shared memory of all blocks of a cluster, and what kernels declare: on a CPU those are
thread_local char declared;  // variables of the one thread that runs all fibers, and so is this
uint64_t program_start;
void (*tell)(const char*);
char description[200];
Clock latest = 1, block_began = 0;
std::size_t threads;

Clock counted(Order& order) {
    const Clock mine = order.now++;
    if (order.now > latest) latest = order.now;
    return mine;
}

bool knows(const Order& order, const Access& of) {
    return of.at <= block_began || of.thread == order.thread || of.at <= (*order.heard)[of.thread];
}

bool under_way(const Access& access) { return access.under_way && access.at > block_began; }

void report(const Access& before, const Access& now) {
    const auto text = [](const Access& access) {
        return access.under_way ? access.write ? "copy to" : "copy from" : access.write ? "write" : "read";
    };
    std::snprintf(description, sizeof description, "race|%s|%d|%x|%x|%s|%d|%x|%x", text(before), before.thread, before.place,
                  before.called, text(now), now.thread, now.place, now.called);
    running = nullptr;
    tell(description);
}

// The second one of two unordered writes.
struct Twice {
    const char* at;
    char was[kWord];
    bool set;
    Access before, now;
} twice;

void check(const Access& old, const Access& now, const Order& by, const char* at) {
    if (!(old.bytes & now.bytes) || !(old.write || now.write)) return;
    if (under_way(old)) return report(old, now);
    if (knows(by, old)) return;
    if (!old.write || !now.write || now.under_way) return report(old, now);
    if (twice.set) return;
    twice = {at - reinterpret_cast<uint64_t>(at) % kWord, {}, true, old, now};
    std::memcpy(twice.was, twice.at, kWord);
}

/// Whether `old` need not be kept beside `now`.
bool replaces(const Access& now, const Access& old, const Order& by) {
    if (!old.at) return true;
    if (under_way(old)) return now.under_way && old.thread == now.thread && old.write == now.write && !(old.bytes & ~now.bytes);
    if (old.bytes & ~now.bytes || (old.write && !now.write)) return false;
    return knows(by, old) || (!now.write && !now.under_way && old.thread / 32 == now.thread / 32);
}

void touch(Word& word, const Access& now, const Order& by, const char* at) {
    for (const Access& old : word.kept) {
        const bool same = old.at == now.at && old.thread == now.thread && old.write == now.write && old.bytes == now.bytes;
        if (same && !under_way(old) && !now.under_way) return;
    }
    Access* place = nullptr;
    for (Access& old : word.kept) {
        if (old.at) check(old, now, by, at);
        if (!replaces(now, old, by)) continue;
        if (place) old.at = 0;
        else place = &old;
    }
    *(place ? place : &word.kept[(now.thread / 32 + now.write) % kKept]) = now;
}

void touch(const void* address, std::size_t size, bool write, bool copied, const void* caller) {
    const auto* at = static_cast<const char*>(address);
    for (Region& region : regions) {
        if (!region.has(at)) continue;
        if (twice.set) look_again();
        if (!running) return;
        const auto place = [](const void* at) { return static_cast<uint32_t>(reinterpret_cast<uint64_t>(at) - program_start); };
        const auto& calls = running->calls;
        const void* called = running->kernel + 1 < calls.size() ? calls[running->kernel + 1] : caller;
        for (const auto* end = at + size; at < end;) {
            const auto first = static_cast<unsigned>((at - region.start) % kWord);
            const auto rest = static_cast<std::size_t>(end - at);
            const unsigned count = rest < kWord - first ? static_cast<unsigned>(rest) : kWord - first;
            const auto bytes = static_cast<uint8_t>(((1u << count) - 1) << first);
            touch(region.word(at), {running->now, place(caller), place(called), static_cast<uint16_t>(running->thread), bytes, write, copied}, *running, at);
            if (!running) return;
            at += count;
        }
        return;
    }
}

template <class F> void each_copy(const void* address, std::size_t size, int thread, F f) {
    const auto* at = static_cast<const char*>(address);
    for (Region& region : regions)
        for (const auto* end = at + size; at < end && region.has(at); at += kWord)
            for (Access& access : region.word(at).kept)
                if (under_way(access) && access.thread == thread) f(access);
}

}  // namespace

// ---- order -------------------------------------------------------------------------------------------------------------------

void Handed::add(const Clocks& more) {
    auto joined = std::make_shared<Clocks>(more);
    for (std::size_t i = 0; clocks && i < more.size(); ++i)
        if ((*clocks)[i] > more[i]) (*joined)[i] = (*clocks)[i];
    clocks = std::move(joined);
}

void go_on(Order& order) { counted(order); }

void Handed::give(Order& from) {
    Clocks mine = *from.heard;
    mine[from.thread] = counted(from);
    add(mine);
}

void Handed::give(int thread, Clock until) {
    auto more = std::make_shared<Clocks>(clocks ? *clocks : Clocks(threads));
    if ((*more)[thread] < until) (*more)[thread] = until;
    clocks = std::move(more);
}

void Handed::give(const Handed& more) {
    if (more.clocks) add(*more.clocks);
}

void Handed::take(Order& to) const {
    if (!clocks || clocks == to.heard) return;
    Handed all = *this;
    all.add(*to.heard);
    to.heard = std::move(all.clocks);
}

void meet(const std::vector<Order*>& orders) {
    auto joined = std::make_shared<Clocks>(*orders[0]->heard);
    const Clocks* last = orders[0]->heard.get();
    for (const Order* order : orders) {
        if (order->heard.get() == last) continue;
        last = order->heard.get();
        for (std::size_t i = 0; i < joined->size(); ++i)
            if ((*last)[i] > (*joined)[i]) (*joined)[i] = (*last)[i];
    }
    for (Order* order : orders) (*joined)[order->thread] = counted(*order);
    for (Order* order : orders) order->heard = joined;
}

void begin_block(const std::vector<Order*>& orders) {
    twice.set = false;
    block_began = latest, threads = orders.size();
    std::memset(const_cast<char*>(regions[1].start), 0xff, regions[1].size);  // NaN
    const auto heard = std::make_shared<const Clocks>(orders.size(), latest);
    for (std::size_t i = 0; i < orders.size(); ++i) *orders[i] = {static_cast<int>(i), latest + 1, heard, {}, 0};
    ++latest;
}

void watch(const void* dynamic, std::size_t bytes, void (*on_race)(const char*)) {
    declared = 0;  // from here on this thread has its variables
    tell = on_race;
    running = nullptr;
    regions[0].become(dynamic, bytes);
    dl_iterate_phdr(
        [](dl_phdr_info* module, std::size_t, void*) {
            const auto* start = static_cast<const char*>(module->dlpi_tls_data);
            for (int i = 0; start && i < module->dlpi_phnum; ++i) {
                const auto& part = module->dlpi_phdr[i];
                if (part.p_type != PT_TLS || &declared < start || &declared >= start + part.p_memsz) continue;
                program_start = module->dlpi_addr;
                regions[1].become(start, part.p_memsz);
                return 1;
            }
            return 0;
        },
        nullptr);
}

// ---- accesses ------------------------------------------------------------------------------------------------------------------

void look_again() {
    const bool changed = twice.set && std::memcmp(twice.was, twice.at, kWord) != 0;
    twice.set = false;
    if (changed) report(twice.before, twice.now);
}

#define CALLER __builtin_return_address(0)
void reads(const void* at, std::size_t bytes) { touch(at, bytes, false, false, CALLER); }
void writes(const void* at, std::size_t bytes) { touch(at, bytes, true, false, CALLER); }
void starts_to_read(const void* at, std::size_t bytes) { touch(at, bytes, false, true, CALLER); }
void starts_to_write(const void* at, std::size_t bytes) { touch(at, bytes, true, true, CALLER); }

Clock over(const void* at, std::size_t bytes, const Order& by) {
    each_copy(at, bytes, by.thread, [&](Access& access) { access.under_way = false, access.at = by.now; });
    return by.now;
}

Clock happened(const void* at, std::size_t bytes, int thread) {
    Clock when = 0;
    each_copy(at, bytes, thread, [&](Access& access) { access.under_way = false, when = access.at; });
    return when;
}

}  // namespace host

// ---- what the compiler calls ---------------------------------------------------------------------------------------------------

extern "C" {
#define TOUCH(name, size, write) \
    void __tsan_##name(void* at) { host::touch(at, size, write, false, CALLER); }
#define TOUCHES(size) \
    TOUCH(read##size, size, false) TOUCH(write##size, size, true) \
    TOUCH(unaligned_read##size, size, false) TOUCH(unaligned_write##size, size, true)
TOUCHES(1)
TOUCHES(2)
TOUCHES(4)
TOUCHES(8)
TOUCHES(16)
void __tsan_read_range(void* at, std::size_t size) { host::touch(at, size, false, false, CALLER); }
void __tsan_write_range(void* at, std::size_t size) { host::touch(at, size, true, false, CALLER); }
void* __tsan_memcpy(void* to, const void* from, std::size_t size) {
    host::touch(from, size, false, false, CALLER);
    host::touch(to, size, true, false, CALLER);
    return std::memcpy(to, from, size);
}
void* __tsan_memmove(void* to, const void* from, std::size_t size) { return std::memmove(to, from, size); }
void* __tsan_memset(void* to, int value, std::size_t size) { return std::memset(to, value, size); }
// Of counted pointers and the like, which only the interpreter has: it runs one thread at a time.
#define ATOMIC(bits, T)                                                                              \
    T __tsan_atomic##bits##_load(const T* at, int) { return *at; }                                   \
    void __tsan_atomic##bits##_store(T* at, T x, int) { *at = x; }                                   \
    T __tsan_atomic##bits##_fetch_add(T* at, T x, int) { return (*at += x) - x; }                     \
    T __tsan_atomic##bits##_fetch_sub(T* at, T x, int) { return (*at -= x) + x; }
ATOMIC(8, int8_t)
ATOMIC(32, int32_t)
ATOMIC(64, int64_t)
void __tsan_func_entry(const void* caller) {
    if (host::running) host::running->calls.push_back(caller);
}
void __tsan_func_exit() {
    if (host::running && !host::running->calls.empty()) host::running->calls.pop_back();
}
void __tsan_init() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
}
