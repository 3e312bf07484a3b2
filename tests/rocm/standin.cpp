// A stand-in for libamdhip64: keeps a journal of what is called, with memory of the host. Work is done as it is queued, but
// while a stream waits for a word in memory nothing behind it counts as finished, and a stream that is being captured
// only keeps what is queued. The one kernel it can run is `shift` (y = x + s). OLD leaves out what came after ROCm 5.2.
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

std::recursive_mutex mutex;
std::string journal, failing;
int failure = 0;
std::map<int, int> attributes = {{5, 2100000}, {19, 4 << 20}, {59, 8192}, {60, 1300000}, {63, 304}, {74, 65536},
                                 {10013, 1}, {10017, 100000}};
bool signals = true, compiles = true, hangs = false;
thread_local int current = 0;

struct Wait { const volatile std::uint32_t *word; std::uint32_t value; };
std::map<void *, Wait> waits;                                         // by stream
std::map<void *, std::vector<std::function<void()>>> captured;        // by stream
std::map<std::uintptr_t, std::vector<std::function<void()>>> graphs;  // by handle
std::map<void *, std::int64_t> events;
std::map<void *, std::size_t> large;  // allocations that are not worth touching
std::uintptr_t next = 0x1000;

#define LOCKED const std::lock_guard<std::recursive_mutex> locked(mutex)

void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void note(const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    LOCKED;
    journal += std::string(line) + "\n";
}

int answer(const char *function) {
    LOCKED;
    if (failing != function) return 0;
    failing.clear();
    return failure;
}
#define ANSWER if (const int status = answer(__func__)) return status

bool waiting(void *stream) {
    LOCKED;
    const auto found = waits.find(stream);
    return hangs || (found != waits.end() && *found->second.word < found->second.value);
}

bool anything_waiting() {
    LOCKED;
    for (const auto &[stream, wait] : waits) {
        if (*wait.word < wait.value) return true;
    }
    return hangs;
}

void queued(void *stream, std::function<void()> work) {
    LOCKED;
    const auto found = captured.find(stream);
    found != captured.end() ? found->second.push_back(work) : work();
}

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

void run(const std::string &kernel, unsigned threads, void **args) {
    if (kernel != "shift") return;
    const float *x = *static_cast<const float **>(args[0]);
    const float s = *static_cast<float *>(args[1]);
    float *y = *static_cast<float **>(args[2]);
    const std::int64_t n = *static_cast<std::int64_t *>(args[3]);
    for (std::int64_t i = 0; i < threads && i < n; ++i) y[i] = x[i] + s;
}

struct Function { std::string name; };
std::map<std::string, Function> functions = {{"shift", {"shift"}}, {"pk_read", {"pk_read"}}, {"pk_empty", {"pk_empty"}}};

// Arguments are copied at the call, as HIP does.
void launched(const char *how, void *f, const unsigned *grid, const unsigned *block, unsigned shared, void *stream, void **args) {
    const std::string name = static_cast<Function *>(f)->name;
    note("%s %s grid %u %u %u block %u %u %u shared %u stream %p", how, name.c_str(), grid[0], grid[1], grid[2], block[0],
         block[1], block[2], shared, stream);
    std::vector<std::uint64_t> values;
    if (name == "shift") {
        for (int i = 0; i < 4; ++i) {
            std::uint64_t value = 0;
            std::memcpy(&value, args[i], i == 1 ? 4 : 8);
            values.push_back(value);
        }
    }
    const unsigned threads = grid[0] * block[0];
    queued(stream, [name, values, threads]() mutable {
        void *places[4] = {};
        for (std::size_t i = 0; i < values.size(); ++i) places[i] = &values[i];
        run(name, threads, places);
    });
}

}  // namespace

extern "C" {

// ---- for the tests

const char *standin_journal() {
    static std::string given;
    LOCKED;
    given.swap(journal);
    journal.clear();
    return given.c_str();
}
void standin_fail(const char *function, int code) { LOCKED; failing = function; failure = code; }
void standin_attribute(int which, int value) { LOCKED; attributes[which] = value; }
void standin_options(int has_signals, int has_compiler, int does_hang) {
    LOCKED;
    signals = has_signals, compiles = has_compiler, hangs = does_hang;
}
int standin_current() { return current; }
void standin_set_current(int device) { current = device; }

// ---- HIP

int hipInit(unsigned) { ANSWER; return 0; }
int hipGetDeviceCount(int *n) { ANSWER; *n = 2; return 0; }
int hipGetDevice(int *n) { *n = current; return 0; }
int hipSetDevice(int n) { note("hipSetDevice %d", n); current = n; return 0; }
int hipRuntimeGetVersion(int *v) { *v = 60342134; return 0; }
int hipDeviceGetName(char *name, int size, int) { snprintf(name, size, "AMD Instinct MI300X"); return 0; }
int hipDeviceGetPCIBusId(char *text, int size, int n) { snprintf(text, size, "0000:C%d:00.0", n); return 0; }
int hipDeviceGetUuid(unsigned char *bytes, int) { for (int i = 0; i < 16; ++i) bytes[i] = i; return 0; }
int hipDeviceTotalMem(size_t *bytes, int) { *bytes = size_t{192} << 30; return 0; }
int hipDeviceGetAttribute(int *value, int which, int) {
    LOCKED;
    const auto found = attributes.find(which);
    if (found == attributes.end()) return 1;
    *value = found->second;
    return 0;
}
const char *hipGetErrorName(int e) { return e == 700 ? "hipErrorIllegalAddress" : e == 209 ? "hipErrorNoBinaryForGpu" : "hipErrorOther"; }
const char *hipGetErrorString(int e) { return e == 209 ? "no kernel image" : e == 700 ? "illegal address" : "something else"; }

static int properties(char *p, int place) {
    memset(p, 7, 1400);
    strcpy(p + place, "gfx942:sramecc+:xnack-");
    return 0;
}
#ifdef OLD
int hipGetDeviceProperties(char *p, int) { return properties(p, 640); }
#else
int hipGetDevicePropertiesR0600(char *p, int) { return properties(p, 1160); }
int hipGetDeviceProperties(char *, int) { return 1; }
#endif

int hipMalloc(void **p, size_t n) {
    ANSWER;
    note("hipMalloc %zu", n);
    *p = malloc(n);
    LOCKED;
    if (n > (64u << 20)) large[*p] = n;
    return 0;
}
int hipFree(void *p) {
    note("hipFree");
    LOCKED;
    large.erase(p);
    for (auto wait = waits.begin(); wait != waits.end();) wait = wait->second.word == p ? waits.erase(wait) : std::next(wait);
    free(p);
    return 0;
}
int hipMemcpy(void *to, const void *from, size_t n, int kind) { ANSWER; note("hipMemcpy %d", kind); memcpy(to, from, n); return 0; }
int hipMemcpyAsync(void *to, const void *from, size_t n, int kind, void *stream) {
    note("hipMemcpyAsync %d", kind);
    queued(stream, [=] { memcpy(to, from, n); });
    return 0;
}
int hipMemsetAsync(void *to, int value, size_t n, void *stream) {
    note("hipMemsetAsync %d %zu", value, n);
    LOCKED;
    if (!large.count(to)) queued(stream, [=] { memset(to, value, n); });
    return 0;
}

int hipModuleLoadData(void **m, const void *image) {
    ANSWER;
    note("hipModuleLoadData");
    if (memcmp(image, "\x7f" "ELF", 4)) return 209;
    *m = reinterpret_cast<void *>(next += 16);
    return 0;
}
int hipModuleUnload(void *) { note("hipModuleUnload"); return 0; }
int hipModuleGetFunction(void **f, void *, const char *name) {
    const auto found = functions.find(name);
    if (found == functions.end()) return 500;
    *f = &found->second;
    return 0;
}
int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **args, void **extra) {
    ANSWER;
    if (extra != nullptr) return 1;
    const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    launched("launch", f, grid, block, shared, stream, args);
    return 0;
}

int hipStreamCreateWithFlags(void **s, unsigned flags) { note("hipStreamCreateWithFlags %u", flags); *s = reinterpret_cast<void *>(next += 16); return 0; }
int hipStreamDestroy(void *) { note("hipStreamDestroy"); return 0; }
int hipStreamQuery(void *stream) { ANSWER; return waiting(stream) ? 600 : 0; }
int hipStreamSynchronize(void *stream) {
    while (waiting(stream)) std::this_thread::yield();
    return 0;
}
int hipDeviceSynchronize() {
    while (anything_waiting()) std::this_thread::yield();
    return 0;
}

int hipEventCreateWithFlags(void **e, unsigned flags) { *e = reinterpret_cast<void *>(next += 16); return flags != 0; }
int hipEventDestroy(void *) { return 0; }
int hipEventRecord(void *e, void *stream) { note("hipEventRecord stream %p", stream); LOCKED; events[e] = now(); return 0; }
int hipEventElapsedTime(float *ms, void *a, void *b) {
    ANSWER;
    note("hipEventElapsedTime");
    LOCKED;
    *ms = static_cast<float>(events.at(b) - events.at(a)) / 1e6f;
    return 0;
}

int hipStreamWaitValue32(void *stream, void *word, std::uint32_t value, unsigned flags, std::uint32_t mask) {
    note("hipStreamWaitValue32 stream %p value %u flags %u mask %x", stream, value, flags, mask);
    LOCKED;
    waits[stream] = {static_cast<const volatile std::uint32_t *>(word), value};
    return 0;
}
int hipExtMallocWithFlags(void **p, size_t n, unsigned flags) {
    note("hipExtMallocWithFlags %zu %u", n, flags);
    if (!signals || n != 8 || flags != 2) return 1;
    *p = calloc(1, n);
    return 0;
}
int hipHostMalloc(void **p, size_t n, unsigned flags) { note("hipHostMalloc %zu %x", n, flags); *p = calloc(1, n); return 0; }
int hipHostFree(void *p) { note("hipHostFree"); free(p); return 0; }
int hipHostGetDevicePointer(void **device, void *host, unsigned) { *device = host; return 0; }

#ifndef OLD
int hipModuleLaunchCooperativeKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                     unsigned shared, void *stream, void **args) {
    const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    launched("cooperative", f, grid, block, shared, stream, args);
    return 0;
}
int hipStreamBeginCapture(void *stream, int mode) { note("hipStreamBeginCapture mode %d", mode); LOCKED; captured[stream]; return 0; }
int hipStreamEndCapture(void *stream, void **graph) {
    note("hipStreamEndCapture");
    LOCKED;
    graphs[next += 16] = captured[stream];
    captured.erase(stream);
    *graph = reinterpret_cast<void *>(next);
    return 0;
}
int hipGraphInstantiate(void **exec, void *graph, void *, char *, size_t) { note("hipGraphInstantiate"); *exec = graph; return 0; }
int hipGraphLaunch(void *exec, void *stream) {
    note("hipGraphLaunch stream %p", stream);
    LOCKED;
    for (const auto &work : graphs.at(reinterpret_cast<std::uintptr_t>(exec))) work();
    return 0;
}
int hipGraphExecDestroy(void *) { note("hipGraphExecDestroy"); return 0; }
int hipGraphDestroy(void *) { note("hipGraphDestroy"); return 0; }

// ---- the run-time compiler

int hiprtcCreateProgram(void **p, const char *, const char *, int, const char **, const char **) { *p = &journal; return 0; }
int hiprtcCompileProgram(void *, int count, const char **options) {
    note("hiprtcCompileProgram %s", count == 1 ? options[0] : "?");
    return compiles ? 0 : 6;
}
int hiprtcGetCodeSize(void *, size_t *n) { *n = 8; return 0; }
int hiprtcGetCode(void *, char *code) { memcpy(code, "\x7f" "ELF own", 8); return 0; }
int hiprtcDestroyProgram(void **) { return 0; }
#endif
}
