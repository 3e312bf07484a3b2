// What pk/ptx_tma.cuh says in PTX, as plain C++: barriers that count arrivals and bytes, boxes copied element by element.
#pragma once
#include <unordered_map>

#include "pk/base.cuh"
#include "pk/ptx.cuh"

namespace pk {

/// As the interpreter fills it: dims innermost first, strides in bytes.
struct alignas(64) TensorMap {
    char* start;
    int64_t size[5], stride[5];
    int32_t box[5];
    int16_t lower[3], upper[3];  // of pixels
    uint8_t steps[3];  // 0: not of pixels
    uint8_t rank, element_bytes, swizzle;
};
static_assert(sizeof(TensorMap) == 128, "as large as on the device");

}  // namespace pk

namespace pk::ptx {

struct Box {
    TensorMap map;
    char* shared;
    int at[5];
    int offsets[3] = {};  // of pixels, along spatial dims
    int thread = host::current->order.thread;  // that starts its copy

    int64_t bytes() const {
        int64_t n = map.element_bytes;
        for (int d = 0; d < map.rank; ++d) n *= map.box[d];
        return n;
    }
};

/// One phase after the other: `pending` arrivals and `bytes` are still awaited in the current one, whose parity is `phase`.
struct Barrier {
    int count, pending, phase;
    int64_t bytes;
    std::vector<Box> copies;  // that have been started and not yet happened
    std::vector<std::function<void()>> arrivals;  // of products that have been committed, likewise
    host::Handed handed, whole;  // by threads and copies of this phase, and of those before
};

inline std::unordered_map<uint64_t*, Barrier> barriers;

inline Barrier& barrier(uint64_t* b) {
    const auto found = barriers.find(b);
    if (found == barriers.end()) host::fail("a barrier in shared memory is used and was never initialised");
    return found->second;
}

inline void complete(Barrier& b) {
    if (b.pending < 0) host::fail("more threads arrive at a barrier in shared memory than it counts");
    if (b.pending || b.bytes) return;
    b.whole.give(b.handed);
    b.handed.forget();
    b.pending = b.count;
    b.phase ^= 1;
}

inline void barrier_init(uint64_t* b, int count) { barriers[b] = {count, count, 0, 0, {}, {}, {}, {}}; }
inline void barriers_ready() {}

inline void barrier_arrive(uint64_t* b) {
    barrier(b).handed.give(host::current->order);
    --barrier(b).pending;
    complete(barrier(b));
}

/// What block `block` of the cluster has at the same place of its shared memory.
template <class T> T* in_block(T* p, int block) {
    const auto offset = reinterpret_cast<unsigned char*>(p) - host::shared_memory[host::current->rank];
    return reinterpret_cast<T*>(host::shared_memory[block] + offset);
}

inline void barrier_arrive_at(uint64_t* b, int block) { barrier_arrive(in_block(b, block)); }

inline void barrier_expect(uint64_t* b, int bytes) {
    barrier(b).bytes += bytes;
    barrier_arrive(b);
}

inline void element(const Box& box, int64_t n, int64_t* x) {
    for (int d = 0; d < box.map.rank; n /= box.map.box[d++]) x[d] = box.at[d] + n % box.map.box[d];
}

/// Channels first; then pixels, which go on at the next row of the corners, and at the next image, where one ends.
inline void pixel(const Box& box, int64_t n, int64_t* x) {
    const TensorMap& m = box.map;
    x[0] = box.at[0] + n % m.box[0];
    int64_t carried = n / m.box[0];
    for (int d = 1; d + 1 < m.rank; ++d) {
        const int64_t lower = m.lower[d - 1], step = m.steps[d - 1];
        const int64_t positions = (m.size[d] - 1 + m.upper[d - 1] - lower) / step + 1;
        const int64_t first = box.at[d] - lower;
        if (first < 0 || first % step || first / step >= positions) host::fail("pixels begin outside of the map's corners");
        const int64_t position = first / step + carried;
        x[d] = lower + position % positions * step + box.offsets[d - 1];
        carried = position / positions;
    }
    x[m.rank - 1] = box.at[m.rank - 1] + carried;
}

/// Calls f(element in shared memory, element in the array or nullptr outside) for each element of the box; gives their bytes.
template <class F> int64_t each(const Box& box, F f) {
    const TensorMap& m = box.map;
    const host::Unwatched copies;
    int64_t elements = 1;
    for (int d = 0; d < m.rank; ++d) elements *= m.box[d];
    for (int64_t n = 0; n < elements; ++n) {
        int64_t x[5];
        if (m.steps[0]) pixel(box, n, x);
        else element(box, n, x);
        char* at = m.start;
        bool inside = true;
        for (int d = 0; d < m.rank; ++d) {
            inside &= x[d] >= 0 && x[d] < m.size[d];
            at += x[d] * m.stride[d];
        }
        auto shared = reinterpret_cast<uint64_t>(box.shared) + n * m.element_bytes;
        if (m.swizzle == 128) shared ^= (shared >> 7 & 7) << 4;
        f(reinterpret_cast<char*>(shared), inside ? at : nullptr);
    }
    return elements * m.element_bytes;
}

/// Copies the box to shared memory, with zeros for what lies outside the array.
inline void happen(const Box& box, Barrier& b) {
    b.bytes -= each(box, [&](char* to, const char* from) {
        if (from) std::memcpy(to, from, box.map.element_bytes);
        else std::memset(to, 0, box.map.element_bytes);
    });
    b.handed.give(box.thread, host::happened(box.shared, box.bytes(), box.thread));
}

inline void barrier_wait(uint64_t* b, int parity) {
    Barrier& x = barrier(b);
    while (x.phase == parity) {
        if (!x.copies.empty()) {
            for (const Box& box : x.copies) happen(box, x);
            x.copies.clear();
            complete(x);
        } else if (!x.arrivals.empty()) {
            const auto arrive = std::move(x.arrivals.front());
            x.arrivals.erase(x.arrivals.begin());
            arrive();
        } else {
            host::block_on(host::State::kPoll);
        }
    }
    ++host::waits_done;
    x.whole.take(host::current->order);
}

inline void prefetch(const TensorMap&) {}

inline void start(const Box& box, uint64_t* b) {
    if (reinterpret_cast<uint64_t>(box.shared) % 128) host::fail("a box is copied to an address that is no multiple of 128 bytes");
    host::starts_to_write(box.shared, box.bytes());
    if (!host::early) return barrier(b).copies.push_back(box);
    happen(box, barrier(b));
    complete(barrier(b));
}

template <class... At> void copy_box(void* to, const TensorMap& map, uint64_t* b, At... at) {
    if (sizeof...(At) != static_cast<std::size_t>(map.rank)) host::fail("as many coordinates as the tensor map has dims");
    start({map, static_cast<char*>(to), {at...}}, b);
}

template <class... At> void copy_box_to(unsigned mask, void* to, const TensorMap& map, uint64_t* b, At... at) {
    for (int block = 0; block < host::kMostBlocks; ++block)
        if (mask >> block & 1) start({map, in_block(static_cast<char*>(to), block), {at...}}, in_block(b, block));
}

inline void copy_pixels(void* to, const TensorMap& map, uint64_t* b, int c, int w, int n, int tap_w) {
    if (map.rank != 3 || !map.steps[0]) host::fail("the tensor map is of no images with one spatial dim");
    start({map, static_cast<char*>(to), {c, w, n}, {tap_w}}, b);
}
inline void copy_pixels(void* to, const TensorMap& map, uint64_t* b, int c, int w, int h, int n, int tap_w, int tap_h) {
    if (map.rank != 4 || !map.steps[0]) host::fail("the tensor map is of no images with two spatial dims");
    start({map, static_cast<char*>(to), {c, w, h, n}, {tap_w, tap_h}}, b);
}
inline void copy_pixels(void* to, const TensorMap& map, uint64_t* b, int c, int w, int h, int d, int n, int tap_w, int tap_h,
                        int tap_d) {
    if (map.rank != 5 || !map.steps[0]) host::fail("the tensor map is of no images with three spatial dims");
    start({map, static_cast<char*>(to), {c, w, h, d, n}, {tap_w, tap_h, tap_d}}, b);
}

// Boxes go to memory when they are waited for.
template <class... At> void store_box(const TensorMap& map, const void* from, At... at) {
    const Box box{map, const_cast<char*>(static_cast<const char*>(from)), {at...}};
    host::starts_to_read(box.shared, box.bytes());
    host::current->open_boxes.push_back([box] {
        host::over(box.shared, box.bytes(), host::current->order);
        each(box, [&](const char* from, char* to) {
            if (to) std::memcpy(to, from, box.map.element_bytes);
        });
    });
}

template <class... At> void store_pixels(const TensorMap& map, const void* from, At... at) {
    if (sizeof...(At) != static_cast<std::size_t>(map.rank) || !map.steps[0]) host::fail("the tensor map is of no such images");
    store_box(map, from, at...);
}

inline void store_commit() {
    host::current->boxes.push_back(std::move(host::current->open_boxes));
    host::current->open_boxes.clear();
}

template <int Pending> void store_wait_read() {
    auto& groups = host::current->boxes;
    while (groups.size() > Pending) {
        for (const auto& box : groups.front()) box();
        groups.erase(groups.begin());
    }
}

inline void warpgroup_sync() { host::block_on(host::State::kWarpgroup); }
inline bool elected() {
    __syncwarp();
    return threadIdx.x % 32 == 0;
}
inline int cluster_rank() { return host::current->rank; }
inline void cluster_sync() { host::block_on(host::State::kCluster); }
template <int> inline void give_registers() {}
template <int> inline void take_registers() {}

}  // namespace pk::ptx
