// Blocks of a grid over the cores of the machine, on plain POSIX threads (not every C++ compiler brings OpenMP).
//
// The calling thread works too. Helpers sleep between calls and end after a second without work, so that a process with
// many compiled kernels does not gather threads. PORTAKERN_THREADS limits how many threads take part.
#pragma once
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

namespace pk {

struct Pool {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t work = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
    void (*run)(const void*, int64_t) = nullptr;  // the job: block number `next` of `count`, nullptr between jobs
    const void* job = nullptr;
    int64_t next = 0, count = 0, grain = 1;
    uint64_t number = 0;
    int helpers = 0, active = 0;
    bool busy = false;
    pid_t owner = 0;

    static int cores() {
        if (const char* asked = getenv("PORTAKERN_THREADS")) return atoi(asked) > 1 ? atoi(asked) : 1;
        cpu_set_t set;
        return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    }

    // Takes blocks until none is left.
    static void take(Pool& p, void (*run)(const void*, int64_t), const void* job, int64_t count, int64_t grain) {
        for (;;) {
            const int64_t first = __atomic_fetch_add(&p.next, grain, __ATOMIC_RELAXED);
            if (first >= count) return;
            const int64_t last = first + grain < count ? first + grain : count;
            for (int64_t block = first; block < last; ++block) run(job, block);
        }
    }

    static void* help(void* self) {
        Pool& p = *static_cast<Pool*>(self);
        uint64_t seen = 0;
        pthread_mutex_lock(&p.lock);
        for (;;) {
            while (p.run == nullptr || p.number == seen) {
                timespec until;
                clock_gettime(CLOCK_REALTIME, &until);
                until.tv_sec += 1;
                if (pthread_cond_timedwait(&p.work, &p.lock, &until) != 0 && (p.run == nullptr || p.number == seen)) {
                    --p.helpers;
                    pthread_mutex_unlock(&p.lock);
                    return nullptr;
                }
            }
            seen = p.number;
            ++p.active;
            const auto run = p.run;
            const void* job = p.job;
            const int64_t count = p.count, grain = p.grain;
            pthread_mutex_unlock(&p.lock);
            take(p, run, job, count, grain);
            pthread_mutex_lock(&p.lock);
            if (--p.active == 0) pthread_cond_signal(&p.done);
        }
    }

    // Whether this thread may start a job: not while another one does, and not with helpers lost in a fork.
    bool begin(void (*f)(const void*, int64_t), const void* context, int64_t blocks, int threads) {
        if (owner != getpid()) {
            lock = PTHREAD_MUTEX_INITIALIZER;
            work = done = PTHREAD_COND_INITIALIZER;
            run = nullptr;
            helpers = active = 0;
            busy = false;
            owner = getpid();
        }
        pthread_mutex_lock(&lock);
        if (busy) {
            pthread_mutex_unlock(&lock);
            return false;
        }
        busy = true;
        run = f, job = context, count = blocks, next = 0, ++number;
        grain = blocks / (int64_t(threads) * 16) + 1;
        for (; helpers < threads - 1; ++helpers) {
            pthread_t thread;
            if (pthread_create(&thread, nullptr, help, this) != 0) break;
            pthread_detach(thread);
        }
        pthread_mutex_unlock(&lock);
        pthread_cond_broadcast(&work);
        return true;
    }

    void end() {
        pthread_mutex_lock(&lock);
        run = nullptr;  // helpers that wake from now on go back to sleep
        while (active > 0) pthread_cond_wait(&done, &lock);
        busy = false;
        pthread_mutex_unlock(&lock);
    }
};

inline Pool& pool() {
    static Pool one;
    return one;
}

// f(block) for every block from 0 below `count`, in no order.
template <class F>
void parallel(int64_t count, const F& f) {
    const auto run = [](const void* job, int64_t block) { (*static_cast<const F*>(job))(block); };
    const int cores = count > 1 ? Pool::cores() : 1;
    const int threads = cores < count ? cores : int(count);
    if (threads > 1 && pool().begin(run, &f, count, threads)) {
        Pool::take(pool(), run, &f, count, pool().grain);
        pool().end();
    } else {
        for (int64_t block = 0; block < count; ++block) f(block);
    }
}

// A temporary array, filled with `init` where one is given; aligned to a cache line.
template <class T>
struct Buffer {
    T* data;

    explicit Buffer(int64_t count) {
        if (posix_memalign(reinterpret_cast<void**>(&data), 64, size_t(count > 0 ? count : 1) * sizeof(T)) != 0) abort();
    }
    Buffer(int64_t count, T init) : Buffer(count) { fill_array(data, count, init); }
    Buffer(const Buffer&) = delete;
    ~Buffer() { free(data); }

    void trade(Buffer& other) {  // places
        T* mine = data;
        data = other.data;
        other.data = mine;
    }

    static void fill_array(T* to, int64_t count, T value) {
        for (int64_t i = 0; i < count; ++i) to[i] = value;
    }
};

}  // namespace pk
