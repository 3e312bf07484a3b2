#include "faults/watch.hpp"

#ifdef __linux__
#include <signal.h>
#endif

namespace portakern {

namespace {

struct Watched {
    std::uintptr_t memory = 0;
    std::size_t bytes = 0;
    std::uint64_t *report = nullptr;
} watched;

}  // namespace

#ifdef __linux__

namespace {

constexpr int signals[] = {SIGSEGV, SIGBUS};
struct sigaction before[2];

// Only what a signal handler may do.  The access is tried again under what was done before, which ends the process.
void note(int number, siginfo_t *info, void *) {
    const auto place = reinterpret_cast<std::uintptr_t>(info->si_addr) - watched.memory;
    if (place < watched.bytes && *watched.report == 0) *watched.report = place + 1;
    sigaction(number, &before[number == signals[0] ? 0 : 1], nullptr);
}

}  // namespace

void watch_faults(std::uintptr_t memory, std::size_t bytes, std::uint64_t *report) {
    static bool begun = false;
    watched = {memory, bytes, report};
    if (begun) return;
    begun = true;
    struct sigaction action = {};
    action.sa_sigaction = note;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < 2; ++i) sigaction(signals[i], &action, &before[i]);
}

#else

void watch_faults(std::uintptr_t memory, std::size_t bytes, std::uint64_t *report) { watched = {memory, bytes, report}; }

#endif

}  // namespace portakern
