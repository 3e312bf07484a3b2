// A device made of arithmetic: its time is a number that launches move on, so that a measurement of it can be foretold.
//
// A launch's first argument is its duration in nanoseconds (negative: it never ends). What is queued behind a closed gate
// happens when the gate opens. Everything that happens is logged. Settings are read by name.
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "portakern/driver.h"

namespace {

std::mutex mutex;
std::condition_variable opened;
std::string events;
std::map<std::string, double> settings;
double now = 0;
bool closed = false, recording = false, hung = false, side = false;
int launches = 0, healths = 0;
uint64_t noise = 1;

struct Item {
    char kind;  // e: event, w: work
    double ns;
    double *event;
};
std::vector<Item> pending, recorded;

double setting(const char *name, double otherwise = 0) {
    const auto found = settings.find(name);
    return found == settings.end() ? otherwise : found->second;
}

void log(const std::string &what) { events += what + ' '; }

void happen(const Item &item) {
    if (item.kind == 'e') {
        now += setting("pair_ns") / 2;
        *item.event = now;
        now += setting("pair_ns") / 2;
    } else if (item.ns < 0) {
        hung = true;
    } else {
        noise = noise * 6364136223846793005u + 1442695040888963407u;
        const double uniform = static_cast<double>(noise >> 11) / 9007199254740992.0 - 0.5;
        now += item.ns * (1 + setting("noise") * uniform) * (1 + setting("drift") * now / 1e9);
    }
}

void queue(const Item &item) {
    if (recording) recorded.push_back(item);
    else if (closed) pending.push_back(item);
    else happen(item);
}

pk_status fail(int code) {
    settings["last"] = code;
    return code;
}

void probe(const char *, pk_probe *out) { out->present = out->device_count = 1; }
pk_status open_device(const char *, int32_t ordinal, pk_device_t *out) {
    if (ordinal != 0) return fail(PK_NO_DEVICE);
    *out = reinterpret_cast<pk_device_t>(1);
    return PK_OK;
}
void close_device(pk_device_t) { log("shut"); }
pk_status facts(pk_device_t, pk_facts *out) {
    std::strcpy(out->name, "a fake");
    out->flush_bytes = 1 << 20;
    out->empty_kernel_ns = setting("empty_kernel_ns");
    out->blocking = setting("blocking") != 0;
    return PK_OK;
}
pk_status health(pk_device_t, pk_health *out) {
    ++healths;
    out->throttled = setting("throttled") != 0;
    return setting("no_health") != 0 ? fail(PK_UNSUPPORTED) : PK_OK;
}
void last_error(pk_device_t, pk_error *out) {
    out->code = static_cast<int32_t>(setting("last"));
    out->fatal = out->code == 700;
    if (out->code > 0) std::strcpy(out->name, "FAKE_ERROR"), std::strcpy(out->text, "the fake was told to fail");
}

pk_status allocate(pk_device_t, size_t, pk_pointer *out) { return *out = 4096, PK_OK; }
pk_status release(pk_device_t, pk_pointer) { return log("free"), PK_OK; }
pk_status copy(pk_device_t, pk_stream_t, pk_pointer, pk_pointer, size_t n) { return log("copy" + std::to_string(n)), PK_OK; }
pk_status fill(pk_device_t, pk_stream_t, pk_pointer, uint8_t value, size_t n) {
    return log("fill" + std::to_string(value) + "x" + std::to_string(n)), PK_OK;
}
pk_status load(pk_device_t, const void *, size_t, pk_module_t *out) { return *out = reinterpret_cast<pk_module_t>(1), PK_OK; }
void unload(pk_device_t, pk_module_t) { log("unload"); }
pk_status kernel(pk_device_t, pk_module_t, const char *name, uint32_t, pk_kernel_t *out) {
    *out = reinterpret_cast<pk_kernel_t>(static_cast<uintptr_t>(name[0]));
    return PK_OK;
}
pk_status launch(pk_device_t, pk_stream_t, const pk_launch *l) {
    const std::lock_guard<std::mutex> locked(mutex);
    if (++launches == static_cast<int>(setting("fail_at", -1))) return fail(static_cast<int>(setting("fail_with", 700)));
    if (setting("no_capture") != 0 && recording) return fail(900);
    log(std::string(1, static_cast<char>(reinterpret_cast<uintptr_t>(l->kernel))));
    side |= l->kernel == reinterpret_cast<pk_kernel_t>(static_cast<uintptr_t>('s'));  // works on a stream of its own
    int64_t ns = 0;
    std::memcpy(&ns, l->args[0].value, 8);
    queue({'w', static_cast<double>(ns), nullptr});
    return PK_OK;
}

pk_status stream_create(pk_device_t, pk_stream_t *out) { return *out = reinterpret_cast<pk_stream_t>(0x77), PK_OK; }
pk_status stream_wrap(pk_device_t, uint64_t native, pk_stream_t *out) {
    *out = reinterpret_cast<pk_stream_t>(native + 1);
    log("wrap" + std::to_string(native));
    return PK_OK;
}
void stream_destroy(pk_device_t, pk_stream_t) { log("unstream"); }
uint64_t stream_native(pk_device_t, pk_stream_t stream) { return reinterpret_cast<uintptr_t>(stream); }
pk_status synchronize(pk_device_t, pk_stream_t stream, int64_t timeout_ns) {
    std::unique_lock<std::mutex> lock(mutex);
    if (stream == nullptr && side) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (stream == nullptr) side = false;
    const auto done = [] { return !closed; };
    if (timeout_ns < 0) opened.wait(lock, done);
    else if (!opened.wait_for(lock, std::chrono::nanoseconds(timeout_ns), done)) return fail(PK_TIMEOUT);
    if (stream != nullptr) log("sync");
    return hung ? fail(PK_TIMEOUT) : PK_OK;
}

pk_status event_create(pk_device_t, pk_event_t *out) { return *out = reinterpret_cast<pk_event_t>(new double(0)), PK_OK; }
void event_destroy(pk_device_t, pk_event_t event) { delete reinterpret_cast<double *>(event); }
pk_status event_record(pk_device_t, pk_stream_t, pk_event_t event) {
    const std::lock_guard<std::mutex> locked(mutex);
    log("event");
    queue({'e', 0, reinterpret_cast<double *>(event)});
    return PK_OK;
}
pk_status event_elapsed(pk_device_t, pk_event_t begin, pk_event_t end, double *ns) {
    const double step = setting("step_ns", 0.001);
    *ns = std::floor(*reinterpret_cast<double *>(end) / step) * step - std::floor(*reinterpret_cast<double *>(begin) / step) * step;
    return PK_OK;
}

pk_status gate_create(pk_device_t, pk_gate_t *out) { return *out = reinterpret_cast<pk_gate_t>(1), PK_OK; }
void gate_destroy(pk_device_t, pk_gate_t) {}
pk_status gate_close(pk_device_t, pk_stream_t, pk_gate_t) {
    const std::lock_guard<std::mutex> locked(mutex);
    log("close");
    closed = true;
    return PK_OK;
}
pk_status gate_open(pk_device_t, pk_gate_t) {
    {
        const std::lock_guard<std::mutex> locked(mutex);
        if (!closed) return PK_INVALID;
        log("open");
        closed = false;
        for (const Item &item : pending) happen(item);
        pending.clear();
    }
    opened.notify_all();
    return PK_OK;
}

pk_status capture_begin(pk_device_t, pk_stream_t) { return recording = true, log("record"), PK_OK; }
pk_status capture_end(pk_device_t, pk_stream_t, pk_graph_t *out) {
    recording = false;
    log("recorded");
    *out = reinterpret_cast<pk_graph_t>(new std::vector<Item>(std::move(recorded)));
    recorded.clear();
    return PK_OK;
}
pk_status graph_launch(pk_device_t, pk_stream_t, pk_graph_t graph) {
    const std::lock_guard<std::mutex> locked(mutex);
    log("graph");
    for (const Item &item : *reinterpret_cast<std::vector<Item> *>(graph)) queue(item);
    return PK_OK;
}
void graph_destroy(pk_device_t, pk_graph_t graph) { delete reinterpret_cast<std::vector<Item> *>(graph); }

pk_status flush(pk_device_t, pk_stream_t) {
    const std::lock_guard<std::mutex> locked(mutex);
    log("flush");
    queue({'w', 50'000, nullptr});
    return PK_OK;
}
pk_status reset_persisting(pk_device_t) { return log("reset"), PK_OK; }
pk_status launch_empty(pk_device_t, pk_stream_t) {
    const std::lock_guard<std::mutex> locked(mutex);
    log("empty");
    queue({'w', 1'000, nullptr});
    return PK_OK;
}

constexpr pk_driver everything() {
    pk_driver t{};
    t.abi = PK_DRIVER_ABI, t.struct_size = sizeof(pk_driver), t.name = "fake", t.title = "a device made of arithmetic";
    t.probe = probe, t.open = open_device, t.close = close_device, t.facts = facts, t.health = health, t.last_error = last_error;
    t.allocate = allocate, t.free = release, t.copy = copy, t.fill = fill;
    t.load = load, t.unload = unload, t.kernel = kernel, t.launch = launch;
    t.stream_create = stream_create, t.stream_wrap = stream_wrap, t.stream_destroy = stream_destroy;
    t.synchronize = synchronize, t.event_create = event_create, t.event_destroy = event_destroy;
    t.event_record = event_record, t.event_elapsed = event_elapsed;
    t.gate_create = gate_create, t.gate_destroy = gate_destroy, t.gate_close = gate_close, t.gate_open = gate_open;
    t.capture_begin = capture_begin, t.capture_end = capture_end, t.graph_launch = graph_launch, t.graph_destroy = graph_destroy;
    t.flush = flush, t.reset_persisting = reset_persisting, t.launch_empty = launch_empty, t.stream_native = stream_native;
    return t;
}

constexpr pk_driver little() {
    pk_driver t = everything();
    t.name = "little", t.health = nullptr, t.flush = nullptr, t.reset_persisting = nullptr, t.launch_empty = nullptr;
    t.gate_create = nullptr, t.capture_begin = nullptr, t.stream_native = nullptr;
    return t;
}

}  // namespace

extern "C" {
extern const pk_driver fake = everything();
extern const pk_driver little_fake = little();
extern const pk_driver old_fake = [] {  // as compiled against a header that ended before the graphs
    pk_driver t = everything();
    t.name = "old";
    t.struct_size = offsetof(pk_driver, capture_begin);
    return t;
}();
void fake_set(const char *name, double value) { settings[name] = value; }
const char *fake_log() { return events.c_str(); }
int fake_healths() { return healths; }
void fake_reset() {
    settings.clear(), events.clear(), pending.clear(), recorded.clear();
    closed = recording = hung = side = false;
    launches = healths = 0, noise = 1, now = 0;
}
}
