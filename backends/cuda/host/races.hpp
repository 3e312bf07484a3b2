// Accesses to shared memory that nothing orders: who touched each byte, and whether a barrier lies between.
//
// Order is kept as vector clocks. A thread counts up wherever it hands on what it has done: at a barrier of the block, the
// warpgroup or the cluster, at __syncwarp, at a barrier in shared memory or by number. What a thread did up to its n-th count is
// seen by those that have heard of n. Of two accesses to a byte, one of which writes, the second must have heard of the first.
// Threads that write what is there already do no harm: replicated layouts do that.
//
// Copies under way (cp.async, boxes of the copy engine, operands that the matrix unit reads) are over when they are waited for:
// nobody may touch their bytes before, nor may the thread that started them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace host {

using Clock = uint32_t;
using Clocks = std::vector<Clock>;

/// What a thread has done, and what it has heard of each. `calls` is where the functions were called that it is in, of which the
/// kernel is number `kernel`.
struct Order {
    int thread = 0;
    Clock now = 0;
    std::shared_ptr<const Clocks> heard;
    std::vector<const void*> calls;
    std::size_t kernel = 0;
};

/// What threads have handed on, for others to take.
class Handed {
public:
    void give(Order& from);
    void give(int thread, Clock until);
    void give(const Handed& more);
    void take(Order& to) const;
    void forget() { clocks.reset(); }

private:
    void add(const Clocks& more);
    std::shared_ptr<const Clocks> clocks;
};

/// What the thread does next is not part of what it hands on now.
void go_on(Order& order);

/// Threads that have met at a barrier have all heard of each other.
void meet(const std::vector<Order*>& orders);

/// Before a launch: where dynamic shared memory lies, and what to call with a description of a race.
void watch(const void* dynamic, std::size_t bytes, void (*on_race)(const char*));
/// Before a block, or a cluster of them, whose threads these are; nothing is left of those before.
void begin_block(const std::vector<Order*>& orders);

/// Whose accesses the following ones are; nullptr: nobody's.
extern Order* running;

/// The running thread calls the kernel next.
inline void enters_kernel() { running->kernel = running->calls.size(); }

/// Accesses that the compiler does not see: by this thread, or by a copy that it starts.
void reads(const void* at, std::size_t bytes);
void writes(const void* at, std::size_t bytes);
void starts_to_read(const void* at, std::size_t bytes);
void starts_to_write(const void* at, std::size_t bytes);
/// `by` has waited for what it started; the clock of the start, for others who wait.
Clock over(const void* at, std::size_t bytes, const Order& by);
/// A copy of the engine has happened: whoever hears of the clock knows of it.
Clock happened(const void* at, std::size_t bytes, int thread);

/// Two threads have written to one place: whether they wrote the same is seen afterwards.
void look_again();

/// While it lives nothing is watched.
struct Unwatched {
    Order* was = running;
    Unwatched() { running = nullptr; }
    ~Unwatched() { running = was; }
};

}  // namespace host
