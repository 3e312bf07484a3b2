// The processor this process runs on, as a driver: memory is the process's own, launches are calls of C functions, and
// events are readings of the clock. Everything has ended when it returns.
//
// A binary is the path of a shared object, or empty for what is already loaded. A kernel's name is a symbol in it, or an
// address as 0x... A kernel is an extern "C" function that returns nothing; its arguments are passed as the platform's C
// convention passes them: pointers and integers in order, floating-point values in order (see `Caller`).
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "clock/clock.hpp"
#include "drivers/cold_caches.hpp"
#include "drivers/cpu_cache.hpp"
#include "drivers/library.hpp"
#include "drivers/registry.hpp"

#if defined(__linux__)
#include <dlfcn.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace {

using portakern::set_text;

thread_local pk_error failure{};

pk_status fail(pk_status status, const std::string &text) {
    failure = {};
    failure.code = status;
    set_text(failure.text, text);
    return status;
}

// ---- what the system says of the processor

std::string line_of(const std::string &path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::int64_t number_of(const std::string &path) { return std::atoll(line_of(path).c_str()); }

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
    }
    utsname system{};
    return uname(&system) == 0 ? system.machine : "processor";
}

// The processors this process may run on.
std::vector<int> processors() {
    std::vector<int> found;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0) return found;
    for (int i = 0; i < CPU_SETSIZE; ++i) {
        if (CPU_ISSET(i, &set)) found.push_back(i);
    }
    return found;
}

// ---- the device

constexpr std::int64_t unknown_cache = 32 << 20;  // what is flushed twice over where the system does not say

struct Host {
    std::int64_t cache = portakern::last_level_cache_bytes();
    portakern::ColdCaches cold{static_cast<std::size_t>(2 * (cache > 0 ? cache : unknown_cache)), processors()};
    std::int64_t throttle_count = -1;
};

Host *host_of(pk_device_t device) { return reinterpret_cast<Host *>(device); }

void probe(const char *, pk_probe *out) {
    out->present = 1;
    out->device_count = 1;
    utsname system{};
    if (uname(&system) == 0) set_text(out->version, std::string(system.sysname) + " " + system.release);
    set_text(out->path, "this process");
}

pk_status open_host(const char *, int32_t ordinal, pk_device_t *out) {
    if (ordinal != 0) return fail(PK_NO_DEVICE, "the host is one device, number 0");
    *out = reinterpret_cast<pk_device_t>(new (std::nothrow) Host);
    return *out != nullptr ? PK_OK : fail(PK_FAILED, "out of memory");
}

void close_host(pk_device_t device) { delete host_of(device); }

pk_status facts(pk_device_t device, pk_facts *out) {
    const Host &host = *host_of(device);
    set_text(out->name, processor_name());
    utsname system{};
    if (uname(&system) == 0) {
        set_text(out->arch, system.machine);
        set_text(out->version, std::string(system.sysname) + " " + system.release);
    }
    out->units = static_cast<int32_t>(host.cold.cores());
    out->clock_khz = static_cast<int32_t>(number_of("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"));
    out->memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    out->cache_bytes = host.cache;
    out->timer_ns = portakern::clock_resolution_ns();
    out->flush_bytes = static_cast<std::int64_t>(host.cold.bytes());
    out->empty_kernel_ns = 1;  // the call and return of an empty function: a few cycles
    out->blocking = 1;
    out->host_memory = 1;
    return PK_OK;
}

// How often the processor has slowed itself down for heat since it started, -1 where the system does not count.
std::int64_t throttle_count() {
    const std::string count = line_of("/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count");
    return count.empty() ? -1 : std::atoll(count.c_str());
}

pk_status health(pk_device_t device, pk_health *out) {
    Host &host = *host_of(device);
    if (const auto khz = number_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"); khz > 0) {
        out->clock_mhz = static_cast<int32_t>(khz / 1000);
    }
    const std::int64_t count = throttle_count();
    if (count >= 0) {
        out->throttled = host.throttle_count >= 0 && count > host.throttle_count ? 1 : 0;
        if (out->throttled == 1) set_text(out->reason, "package_throttle_count rose");
        host.throttle_count = count;
    }
    return PK_OK;
}

void last_error(pk_device_t, pk_error *out) { *out = failure; }

// ---- memory

pk_status allocate(pk_device_t, size_t bytes, pk_pointer *out) {
    void *memory = nullptr;
    if (posix_memalign(&memory, 4096, std::max<size_t>(bytes, 1)) != 0) return fail(PK_FAILED, "out of memory");
    *out = reinterpret_cast<pk_pointer>(memory);
    return PK_OK;
}

pk_status release(pk_device_t, pk_pointer pointer) {
    std::free(reinterpret_cast<void *>(pointer));
    return PK_OK;
}

pk_status copy_in(pk_device_t, pk_pointer to, const void *from, size_t bytes) {
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    return PK_OK;
}

pk_status copy_out(pk_device_t, void *to, pk_pointer from, size_t bytes) {
    std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
    return PK_OK;
}

pk_status copy(pk_device_t, pk_stream_t, pk_pointer to, pk_pointer from, size_t bytes) {
    std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
    return PK_OK;
}

pk_status fill(pk_device_t, pk_stream_t, pk_pointer to, uint8_t value, size_t bytes) {
    std::memset(reinterpret_cast<void *>(to), value, bytes);
    return PK_OK;
}

// ---- functions

constexpr unsigned most_floats = 8;       // what System V (x86-64) and AAPCS64 pass in registers
constexpr unsigned most_integers = 1024;  // a model in one function has an argument for each of its weights

pk_status load(pk_device_t, const void *binary, size_t bytes, pk_module_t *out) {
    const std::string path(static_cast<const char *>(binary), bytes);
    // Never closed: its threads or exit handlers may outlive the module.
    void *library = dlopen(path.empty() ? nullptr : path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char *message = dlerror();
        return fail(PK_FAILED, message != nullptr ? message : "dlopen failed");
    }
    *out = reinterpret_cast<pk_module_t>(library);
    return PK_OK;
}

pk_status kernel(pk_device_t, pk_module_t module, const char *name, uint32_t, pk_kernel_t *out) {
    void *address = nullptr;
    if (std::strncmp(name, "0x", 2) == 0) {
        address = reinterpret_cast<void *>(std::strtoull(name, nullptr, 16));
    } else {
        address = dlsym(reinterpret_cast<void *>(module), name);
    }
    if (address == nullptr) return fail(PK_INVALID, std::string("no function ") + name);
    *out = reinterpret_cast<pk_kernel_t>(address);
    return PK_OK;
}

#if defined(__x86_64__) || (defined(__aarch64__) && !defined(__APPLE__))

// System V x86-64 and AAPCS64 give integers (and pointers) and floating-point values registers of their own, each in
// order, and pass further integers on the stack in order, 8 bytes each, which the caller clears. So one prototype calls
// every function with at most `most_floats` floating-point values: those in front, the integers behind them.

template <typename Sequence>
struct Caller;

template <std::size_t... I>
struct Caller<std::index_sequence<I...>> {
    template <std::size_t>
    using Integer = std::uint64_t;
    using Function = void (*)(double, double, double, double, double, double, double, double, Integer<I>...);

    static void call(void *function, const double *f, const std::uint64_t *n) {
        reinterpret_cast<Function>(function)(f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], n[I]...);
    }
};

void call_function(void *function, const double *floats, const std::uint64_t *integers, unsigned count) {
    if (count <= 6) return Caller<std::make_index_sequence<6>>::call(function, floats, integers);
    if (count <= 16) return Caller<std::make_index_sequence<16>>::call(function, floats, integers);
    if (count <= 64) return Caller<std::make_index_sequence<64>>::call(function, floats, integers);
    if (count <= 256) return Caller<std::make_index_sequence<256>>::call(function, floats, integers);
    Caller<std::make_index_sequence<most_integers>>::call(function, floats, integers);
}

// An integer in a register of 8 bytes, as clang's callees expect it of their callers.
std::uint64_t extended(const pk_arg &arg) {
    std::uint64_t value = 0;
    std::memcpy(&value, arg.value, arg.size);
    const unsigned unused = 64 - 8 * arg.size;
    if (arg.kind != PK_ARG_SIGNED || unused == 0 || arg.size == 0) return value;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
}

pk_status launch(pk_device_t, pk_stream_t, const pk_launch *launch) {
    const auto one = [](const uint32_t *n) { return n[0] == 1 && n[1] == 1 && n[2] == 1; };
    if (!one(launch->grid) || !one(launch->block)) return fail(PK_INVALID, "a function of the host is called once: grid and block are 1");
    double floats[most_floats] = {};
    std::uint64_t integers[most_integers] = {};
    unsigned float_count = 0, integer_count = 0;
    for (uint32_t i = 0; i < launch->arg_count; ++i) {
        const pk_arg &arg = launch->args[i];
        if (arg.size > 8) return fail(PK_UNSUPPORTED, "a function of the host takes arguments of at most 8 bytes by value");
        const bool is_float = arg.kind == PK_ARG_FLOAT;
        if (is_float ? float_count == most_floats : integer_count == most_integers) {
            return fail(PK_UNSUPPORTED, "a function of the host takes at most 1024 pointers and integers and 8 floating-point values");
        }
        if (is_float) {
            std::memcpy(&floats[float_count++], arg.value, arg.size);  // a float lies in the lower half of the register
        } else {
            integers[integer_count++] = extended(arg);
        }
    }
    try {
        call_function(reinterpret_cast<void *>(launch->kernel), floats, integers, integer_count);
    } catch (const std::exception &error) {
        return fail(PK_FAILED, error.what());
    } catch (...) {
        return fail(PK_FAILED, "the function threw");
    }
    return PK_OK;
}

#else

pk_status launch(pk_device_t, pk_stream_t, const pk_launch *) {
    return fail(PK_UNSUPPORTED, "calling C functions by their arguments is known for x86-64 and AArch64 Linux");
}

#endif

// ---- streams and events

pk_status stream_create(pk_device_t device, pk_stream_t *out) {
    *out = reinterpret_cast<pk_stream_t>(device);  // there is one order, the program's
    return PK_OK;
}

pk_status stream_wrap(pk_device_t device, uint64_t, pk_stream_t *out) { return stream_create(device, out); }
void stream_destroy(pk_device_t, pk_stream_t) {}
uint64_t stream_native(pk_device_t, pk_stream_t) { return 0; }
pk_status synchronize(pk_device_t, pk_stream_t, int64_t) { return PK_OK; }

struct Reading {
    std::int64_t ns = 0;
};

pk_status event_create(pk_device_t, pk_event_t *out) {
    *out = reinterpret_cast<pk_event_t>(new (std::nothrow) Reading);
    return *out != nullptr ? PK_OK : fail(PK_FAILED, "out of memory");
}

void event_destroy(pk_device_t, pk_event_t event) { delete reinterpret_cast<Reading *>(event); }

pk_status event_record(pk_device_t, pk_stream_t, pk_event_t event) {
    reinterpret_cast<Reading *>(event)->ns = portakern::clock_now_ns();
    return PK_OK;
}

pk_status event_elapsed(pk_device_t, pk_event_t begin, pk_event_t end, double *nanoseconds) {
    *nanoseconds = static_cast<double>(reinterpret_cast<Reading *>(end)->ns - reinterpret_cast<Reading *>(begin)->ns);
    return PK_OK;
}

// ---- between samples

pk_status flush(pk_device_t device, pk_stream_t) {
    try {
        host_of(device)->cold.empty();
    } catch (const std::exception &error) {
        return fail(PK_FAILED, error.what());
    }
    return PK_OK;
}

void nothing() {}

// Through the same path as any launch.
pk_status launch_empty(pk_device_t device, pk_stream_t stream) {
    pk_launch empty{};
    empty.kernel = reinterpret_cast<pk_kernel_t>(&nothing);
    std::fill_n(empty.grid, 3, 1);
    std::fill_n(empty.block, 3, 1);
    return launch(device, stream, &empty);
}

constexpr pk_driver make_table() {
    pk_driver t{};
    t.abi = PK_DRIVER_ABI;
    t.struct_size = sizeof(pk_driver);
    t.name = "host";
    t.title = "this processor";
    t.probe = probe;
    t.open = open_host;
    t.close = close_host;
    t.facts = facts;
    t.health = health;
    t.last_error = last_error;
    t.allocate = allocate;
    t.free = release;
    t.copy_in = copy_in;
    t.copy_out = copy_out;
    t.copy = copy;
    t.fill = fill;
    t.load = load;
    t.kernel = kernel;
    t.launch = launch;
    t.stream_create = stream_create;
    t.stream_wrap = stream_wrap;
    t.stream_destroy = stream_destroy;
    t.synchronize = synchronize;
    t.event_create = event_create;
    t.event_destroy = event_destroy;
    t.event_record = event_record;
    t.event_elapsed = event_elapsed;
    t.flush = flush;
    t.launch_empty = launch_empty;
    t.stream_native = stream_native;
    return t;
}

const pk_driver host_driver = make_table();
PK_REGISTER_DRIVER(host_driver);

}  // namespace

#endif
