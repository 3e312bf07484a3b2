// A stand-in for libcuda: keeps a journal of what is called, with memory of the host. Work is done as it is queued, but
// while a stream waits for a word in memory nothing behind it counts as finished. OLD leaves out what came after CUDA 11.4.
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

std::recursive_mutex mutex;
std::string journal;
std::string failing;
int failure = 0;
std::map<std::string, std::vector<size_t>> parameters;
std::map<void *, std::pair<volatile uint32_t *, uint32_t>> waits;  // by stream
thread_local void *current = nullptr;
bool hangs = false;

void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void note(const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    journal += std::string(line) + "\n";
}

// What the function is told to answer; once.
int answer(const char *function) {
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    if (failing != function) return 0;
    failing.clear();
    return failure;
}

#define ANSWER(function) \
    if (const int status = answer(function)) return status

#define NEEDS_CONTEXT \
    if (current == nullptr) { note("NO CONTEXT in %s", __func__); return 201; }

bool waiting(void *stream) {
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    const auto found = waits.find(stream);
    if (hangs) return true;
    if (found == waits.end()) return false;
    return static_cast<int32_t>(*found->second.first - found->second.second) < 0;
}

bool anything_waiting() {
    for (const auto &[stream, wait] : waits) {
        if (waiting(stream)) return true;
    }
    return hangs;
}

int init(unsigned) { ANSWER("cuInit"); return 0; }
int driver_version(int *v) { *v = 13000; return 0; }
int error_name(int code, const char **name) {
    *name = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == 801 ? "CUDA_ERROR_NOT_SUPPORTED" : "CUDA_ERROR_SOMETHING";
    return 0;
}
int error_string(int, const char **text) { *text = "words of the driver"; return 0; }

struct Described { const char *name; int major, minor, units, l2; };
const Described described[] = {{"NVIDIA H100 PCIe", 9, 0, 114, 50 << 20}, {"NVIDIA H200", 9, 0, 132, 60 << 20},
                               {"NVIDIA GeForce RTX 3090", 8, 6, 82, 6 << 20}};

int device_get(int *device, int ordinal) { *device = 100 + ordinal; return 0; }
int device_count(int *n) { *n = 3; return 0; }
int device_name(char *name, int n, int device) { snprintf(name, n, "%s", described[device - 100].name); return 0; }
int device_attribute(int *v, int which, int device) {
    const Described &d = described[device - 100];
    switch (which) {
        case 13: *v = 1980000; return 0;
        case 16: *v = d.units; return 0;
        case 36: *v = 3201000; return 0;
        case 37: *v = 6144; return 0;
        case 38: *v = d.l2; return 0;
        case 75: *v = d.major; return 0;
        case 76: *v = d.minor; return 0;
        case 97: *v = 232448; return 0;
        case 108: *v = 40 << 20; return 0;
    }
    note("unknown attribute %d", which);
    return 1;
}
int total_mem(size_t *n, int) { *n = size_t{140} << 30; return 0; }
int uuid(unsigned char *out, int device) { for (int i = 0; i < 16; ++i) out[i] = i + device - 100; return 0; }
int bus_id(char *out, int n, int) { snprintf(out, n, "0000:ff:1f.0"); return 0; }

int ctx_retain(void **ctx, int device) { ANSWER("cuDevicePrimaryCtxRetain"); note("retain %d", device); *ctx = reinterpret_cast<void *>(0xc000 + device); return 0; }
int ctx_get(void **ctx) { *ctx = current; return 0; }
int ctx_set(void *ctx) { note("current %lx", reinterpret_cast<unsigned long>(ctx)); current = ctx; return 0; }
int ctx_synchronize() {
    NEEDS_CONTEXT;
    note("cuCtxSynchronize");
    while (anything_waiting()) std::this_thread::yield();
    ANSWER("cuCtxSynchronize");
    return 0;
}
int ctx_reset_persisting() { NEEDS_CONTEXT; note("cuCtxResetPersistingL2Cache"); return 0; }
int ctx_record(void *, void *event) { NEEDS_CONTEXT; note("cuCtxRecordEvent"); (void)event; return 0; }

struct Named { std::string name; };
int load_data(void **module, const void *image) {
    NEEDS_CONTEXT;
    ANSWER("cuModuleLoadData");
    const std::string text(static_cast<const char *>(image));
    note("cuModuleLoadData %s", text.find("pk_empty") != std::string::npos ? "helpers" : text.substr(0, 40).c_str());
    *module = new Named{"module"};
    return 0;
}
int unload(void *) { NEEDS_CONTEXT; note("cuModuleUnload"); return 0; }
int get_function(void **function, void *, const char *name) {
    NEEDS_CONTEXT;
    ANSWER("cuModuleGetFunction");
    *function = new Named{name};
    return 0;
}
const char *name_of(void *function) { return static_cast<Named *>(function)->name.c_str(); }
int func_attribute(int *v, int which, void *f) { NEEDS_CONTEXT; note("cuFuncGetAttribute %d %s", which, name_of(f)); *v = 32; return 0; }
int func_set(void *f, int which, int v) { NEEDS_CONTEXT; ANSWER("cuFuncSetAttribute"); note("cuFuncSetAttribute %d %d %s", which, v, name_of(f)); return 0; }
int func_load(void *f) { NEEDS_CONTEXT; note("cuFuncLoad %s", name_of(f)); return 0; }
int param_info(void *f, size_t n, size_t *offset, size_t *size) {
    const auto found = parameters.find(name_of(f));
    if (found == parameters.end()) return 801;
    if (n >= found->second.size()) return 1;
    *offset = 0;
    *size = found->second[n];
    return 0;
}

int mem_alloc(uint64_t *p, size_t n) {
    NEEDS_CONTEXT;
    ANSWER("cuMemAlloc");
    *p = reinterpret_cast<uint64_t>(n > (8 << 20) ? malloc(64) : calloc(n, 1));  // a flush's memory is never looked at
    note("cuMemAlloc %zu", n);
    return 0;
}
int mem_free(uint64_t p) { NEEDS_CONTEXT; free(reinterpret_cast<void *>(p)); note("cuMemFree"); return 0; }
int host_alloc(void **p, size_t n, unsigned flags) { NEEDS_CONTEXT; note("cuMemHostAlloc %zu flags %u", n, flags); *p = calloc(1, n); return 0; }
int host_free(void *p) {
    NEEDS_CONTEXT;
    note("cuMemFreeHost");
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    for (auto x = waits.begin(); x != waits.end();) x = x->second.first == p ? waits.erase(x) : std::next(x);
    free(p);
    return 0;
}
int host_pointer(uint64_t *out, void *p, unsigned) { *out = reinterpret_cast<uint64_t>(p); return 0; }
int htod(uint64_t to, const void *from, size_t n) { NEEDS_CONTEXT; ANSWER("cuMemcpyHtoD"); memcpy(reinterpret_cast<void *>(to), from, n); note("cuMemcpyHtoD %zu", n); return 0; }
int dtoh(void *to, uint64_t from, size_t n) { NEEDS_CONTEXT; ANSWER("cuMemcpyDtoH"); memcpy(to, reinterpret_cast<void *>(from), n); note("cuMemcpyDtoH %zu", n); return 0; }
int dtod(uint64_t to, uint64_t from, size_t n, void *s) { NEEDS_CONTEXT; memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), n); note("cuMemcpyDtoDAsync %zu stream %lx", n, reinterpret_cast<unsigned long>(s)); return 0; }
int memset8(uint64_t to, unsigned char v, size_t n, void *s) {
    NEEDS_CONTEXT;
    if (n <= (8 << 20)) memset(reinterpret_cast<void *>(to), v, n);
    note("cuMemsetD8Async %d %zu stream %lx", v, n, reinterpret_cast<unsigned long>(s));
    return 0;
}

// A graph is what was launched while its stream was captured; a node is its number in it, counted from 1.
struct Recorded { std::string head, args; void *function; };
std::map<void *, std::vector<Recorded> *> captures;  // by stream

std::string values_of(void *f, void **args) {
    std::string text;
    const auto found = parameters.find(name_of(f));
    for (size_t i = 0; found != parameters.end() && i < found->second.size(); ++i) {
        uint64_t value = 0;
        memcpy(&value, args[i], found->second[i] < 8 ? found->second[i] : 8);
        char buffer[32];
        snprintf(buffer, sizeof buffer, " %lx", static_cast<unsigned long>(value));
        text += buffer;
    }
    return text;
}

void note_launch(const char *how, void *f, const unsigned *x, unsigned shared, void *stream, void **args, const std::string &more) {
    char head[512];
    snprintf(head, sizeof head, "%s %s grid %u %u %u block %u %u %u shared %u", how, name_of(f), x[0], x[1], x[2], x[3], x[4], x[5], shared);
    const std::string values = values_of(f, args);
    if (const auto captured = captures.find(stream); captured != captures.end()) {
        captured->second->push_back({name_of(f) + more, values, f});
        return;
    }
    note("%s stream %lx%s args%s", head, reinterpret_cast<unsigned long>(stream), more.c_str(), values.c_str());
}
int launch(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned shared, void *stream, void **args, void **) {
    NEEDS_CONTEXT;
    ANSWER("cuLaunchKernel");
    const unsigned sizes[] = {a, b, c, d, e, g};
    note_launch("cuLaunchKernel", f, sizes, shared, stream, args, "");
    return 0;
}
struct Attribute { int id; char pad[4]; union { char bytes[64]; int flag; unsigned cluster[3]; } value; };
struct Config { unsigned sizes[6]; unsigned shared; void *stream; Attribute *attributes; unsigned count; };
int launch_ex(const Config *config, void *f, void **args, void **) {
    NEEDS_CONTEXT;
    ANSWER("cuLaunchKernelEx");
    std::string more;
    for (unsigned i = 0; i < config->count; ++i) {
        const Attribute &x = config->attributes[i];
        char text[64];
        if (x.id == 4) snprintf(text, sizeof text, " cluster %u %u %u", x.value.cluster[0], x.value.cluster[1], x.value.cluster[2]);
        else snprintf(text, sizeof text, " attribute %d = %d", x.id, x.value.flag);
        more += text;
    }
    note_launch("cuLaunchKernelEx", f, config->sizes, config->shared, config->stream, args, more);
    return 0;
}

int stream_create(void **s, unsigned flags) { NEEDS_CONTEXT; note("cuStreamCreate %u", flags); *s = malloc(1); return 0; }
int stream_destroy(void *) { NEEDS_CONTEXT; note("cuStreamDestroy"); return 0; }
int stream_query(void *s) { NEEDS_CONTEXT; ANSWER("cuStreamQuery"); return waiting(s) ? 600 : 0; }
int stream_synchronize(void *s) { NEEDS_CONTEXT; note("cuStreamSynchronize %lx", reinterpret_cast<unsigned long>(s)); while (waiting(s)) std::this_thread::yield(); return 0; }
int wait_value(void *s, uint64_t address, uint32_t value, unsigned flags) {
    NEEDS_CONTEXT;
    ANSWER("cuStreamWaitValue32");
    note("cuStreamWaitValue32 %u flags %u", value, flags);
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    waits[s] = {reinterpret_cast<volatile uint32_t *>(address), value};
    return 0;
}
using Graph = std::vector<Recorded>;
int begin_capture(void *stream, int mode) { NEEDS_CONTEXT; note("cuStreamBeginCapture %d", mode); captures[stream] = new Graph; return 0; }
int end_capture(void *stream, void **graph) {
    NEEDS_CONTEXT;
    *graph = nullptr;
    Graph *made = captures[stream];
    captures.erase(stream);
    ANSWER("cuStreamEndCapture");
    note("cuStreamEndCapture");
    *graph = made;
    return 0;
}
int is_capturing(void *stream, int *status) { NEEDS_CONTEXT; *status = captures.count(stream) ? 1 : 0; return 0; }
int exchange_mode(int *) { return 0; }
int root_nodes(void *graph, void **nodes, size_t *count) {
    *count = static_cast<Graph *>(graph)->empty() ? 0 : 1;
    *nodes = static_cast<Graph *>(graph)->data();
    return 0;
}
int dependents(void *node, void **nodes, size_t *count) { *nodes = static_cast<Recorded *>(node) + 1; *count = 1; return 0; }
struct NodeParams { void *function; unsigned sizes[6]; unsigned shared; void **args; void **extra; void *kernel; void *context; };
int set_params(void *exec, void *node, const NodeParams *params) {
    NEEDS_CONTEXT;
    ANSWER("cuGraphExecKernelNodeSetParams");
    Graph &graph = **static_cast<Graph **>(exec);
    for (Recorded &x : graph) {
        if (&x == node && x.function == params->function) {
            x.args = values_of(params->function, params->args);
            return 0;
        }
    }
    return 1;
}
int instantiate(void **exec, void *graph, unsigned long long flags) {
    NEEDS_CONTEXT;
    ANSWER("cuGraphInstantiateWithFlags");
    note("cuGraphInstantiateWithFlags %llu", flags);
    *exec = new Graph *(static_cast<Graph *>(graph));  // shares the nodes, which outlive both here
    return 0;
}
int upload(void *, void *) { NEEDS_CONTEXT; note("cuGraphUpload"); return 0; }
int graph_launch(void *exec, void *stream) {
    NEEDS_CONTEXT;
    ANSWER("cuGraphLaunch");
    std::string text;
    for (const Recorded &x : **static_cast<Graph **>(exec)) text += " | " + x.head + " args" + x.args;
    note("cuGraphLaunch stream %lx%s", reinterpret_cast<unsigned long>(stream), text.c_str());
    return captures.count(stream) ? 900 : 0;
}
int exec_destroy(void *) { NEEDS_CONTEXT; note("cuGraphExecDestroy"); return 0; }
int graph_destroy(void *) { NEEDS_CONTEXT; note("cuGraphDestroy"); return 0; }

int encode_map(void *map, int dtype, uint32_t rank, void *address, const uint64_t *shape, const uint64_t *strides, const uint32_t *box,
               const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
    if (reinterpret_cast<uintptr_t>(map) % 64 != 0) return 1;
    std::string dims;
    for (uint32_t i = 0; i < rank; ++i) dims += " " + std::to_string(shape[i]) + ":" + std::to_string(box[i]) + ":" + std::to_string(steps[i]);
    for (uint32_t i = 0; i + 1 < rank; ++i) dims += " +" + std::to_string(strides[i]);
    note("cuTensorMapEncodeTiled %d %lx%s enums %d %d %d %d", dtype, reinterpret_cast<unsigned long>(address), dims.c_str(), interleave, swizzle, promotion, fill);
    ANSWER("cuTensorMapEncodeTiled");
    memset(map, 0x5A, 128);
    return 0;
}

int encode_images(void *map, int dtype, uint32_t rank, void *address, const uint64_t *shape, const uint64_t *strides, const int *lower,
                  const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *steps, int interleave, int swizzle, int promotion,
                  int fill) {
    if (reinterpret_cast<uintptr_t>(map) % 64 != 0) return 1;
    std::string dims;
    for (uint32_t i = 0; i < rank; ++i) dims += " " + std::to_string(shape[i]) + ":" + std::to_string(steps[i]);
    for (uint32_t i = 0; i + 1 < rank; ++i) dims += " +" + std::to_string(strides[i]);
    for (uint32_t i = 0; i + 2 < rank; ++i) dims += " " + std::to_string(lower[i]) + ".." + std::to_string(upper[i]);
    note("cuTensorMapEncodeIm2col %d %lx%s of %u x %u enums %d %d %d %d", dtype, reinterpret_cast<unsigned long>(address), dims.c_str(), pixels,
         channels, interleave, swizzle, promotion, fill);
    ANSWER("cuTensorMapEncodeIm2col");
    memset(map, 0x5A, 128);
    return 0;
}

int event_create(void **e, unsigned flags) { NEEDS_CONTEXT; note("cuEventCreate %u", flags); *e = malloc(1); return 0; }
int event_destroy(void *) { NEEDS_CONTEXT; note("cuEventDestroy"); return 0; }
int event_query(void *) { NEEDS_CONTEXT; ANSWER("cuEventQuery"); return anything_waiting() ? 600 : 0; }
int event_record(void *, void *s) { NEEDS_CONTEXT; note("cuEventRecord stream %lx", reinterpret_cast<unsigned long>(s)); return 0; }
int elapsed(float *ms, void *, void *) { NEEDS_CONTEXT; *ms = 0.0125f; return 0; }

// With the version that brought the signature implemented above; one asked for by an earlier version is another function.
struct Entry { const char *name; int version; void *function; };
#define E(name, version, function) {name, version, reinterpret_cast<void *>(&function)}
const Entry entries[] = {
    E("cuInit", 2000, init), E("cuDriverGetVersion", 2020, driver_version), E("cuGetErrorName", 6000, error_name),
    E("cuGetErrorString", 6000, error_string), E("cuDeviceGet", 2000, device_get), E("cuDeviceGetCount", 2000, device_count),
    E("cuDeviceGetName", 2000, device_name), E("cuDeviceGetAttribute", 2000, device_attribute), E("cuDeviceTotalMem", 3020, total_mem),
    E("cuDeviceGetUuid", 11040, uuid), E("cuDeviceGetPCIBusId", 4010, bus_id), E("cuDevicePrimaryCtxRetain", 7000, ctx_retain),
    E("cuCtxGetCurrent", 4000, ctx_get), E("cuCtxSetCurrent", 4000, ctx_set), E("cuCtxSynchronize", 2000, ctx_synchronize),
    E("cuCtxResetPersistingL2Cache", 11000, ctx_reset_persisting), E("cuModuleLoadData", 2000, load_data), E("cuModuleUnload", 2000, unload),
    E("cuModuleGetFunction", 2000, get_function), E("cuFuncGetAttribute", 2020, func_attribute), E("cuFuncSetAttribute", 9000, func_set),
    E("cuMemAlloc", 3020, mem_alloc), E("cuMemFree", 3020, mem_free), E("cuMemHostAlloc", 2020, host_alloc), E("cuMemFreeHost", 2000, host_free),
    E("cuMemHostGetDevicePointer", 3020, host_pointer), E("cuMemcpyHtoD", 3020, htod), E("cuMemcpyDtoH", 3020, dtoh),
    E("cuMemcpyDtoDAsync", 3020, dtod), E("cuMemsetD8Async", 3020, memset8), E("cuLaunchKernel", 4000, launch),
    E("cuStreamCreate", 2000, stream_create), E("cuStreamDestroy", 4000, stream_destroy), E("cuStreamQuery", 2000, stream_query),
    E("cuStreamSynchronize", 2000, stream_synchronize), E("cuStreamBeginCapture", 10010, begin_capture), E("cuStreamEndCapture", 10000, end_capture),
    E("cuStreamIsCapturing", 10000, is_capturing), E("cuThreadExchangeStreamCaptureMode", 10010, exchange_mode),
    E("cuGraphGetRootNodes", 10000, root_nodes), E("cuGraphNodeGetDependentNodes", 10000, dependents),
    E("cuGraphInstantiateWithFlags", 11040, instantiate), E("cuGraphUpload", 11010, upload), E("cuGraphLaunch", 10000, graph_launch),
    E("cuGraphExecDestroy", 10000, exec_destroy), E("cuGraphDestroy", 10000, graph_destroy), E("cuEventCreate", 2000, event_create),
    E("cuEventDestroy", 4000, event_destroy), E("cuEventQuery", 2000, event_query), E("cuEventRecord", 2000, event_record),
    E("cuEventElapsedTime", 2000, elapsed),
#ifndef OLD
    E("cuTensorMapEncodeTiled", 12000, encode_map), E("cuTensorMapEncodeIm2col", 12000, encode_images), E("cuCtxRecordEvent", 12050, ctx_record), E("cuFuncLoad", 12040, func_load), E("cuFuncGetParamInfo", 12040, param_info),
    E("cuGraphExecKernelNodeSetParams", 12000, set_params), E("cuLaunchKernelEx", 11060, launch_ex), E("cuStreamWaitValue32", 11070, wait_value),
#endif
};

int find(const char *name, void **out, int version) {
    for (const Entry &x : entries) {
        if (std::string(name) == x.name && version >= x.version) {
            *out = x.function;
            return 0;
        }
    }
    *out = nullptr;
    return 500;
}

}  // namespace

extern "C" {

#ifdef OLD
int cuGetProcAddress(const char *name, void **out, int version, uint64_t) { return find(name, out, version); }
#else
int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t, int *) { return find(name, out, version); }
#endif
int cuInit(unsigned flags) { return init(flags); }
int cuDriverGetVersion(int *v) { return driver_version(v); }
int cuDeviceGetCount(int *n) { return device_count(n); }

// For the tests.
const char *standin_journal() {
    static std::string given;
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    given = journal;
    journal.clear();
    return given.c_str();
}
void standin_fail(const char *function, int code) { failing = function; failure = code; }
void standin_parameters(const char *kernel, const size_t *sizes, int count) { parameters[kernel].assign(sizes, sizes + count); }
void standin_hang(int on) { hangs = on != 0; }
void *standin_current() { return current; }
void standin_set_current(void *context) { current = context; }
}
