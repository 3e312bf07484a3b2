// What the handles of the HIP table point at.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "hip_api.hpp"

namespace portakern::hip {

struct StreamState {
    using Handle = pk_stream_t;
    Stream stream = nullptr;
    bool owned = false;
};

struct EventState {
    using Handle = pk_event_t;
    Event event = nullptr;
};

struct KernelState {
    using Handle = pk_kernel_t;
    Function function = nullptr;
};

struct ModuleState {
    using Handle = pk_module_t;
    Module module = nullptr;
    std::list<KernelState> kernels;
};

struct GraphState {
    using Handle = pk_graph_t;
    GraphExec exec = nullptr;
};

// A word that both sides see. Each closing waits for the next number, so that one that is still in a queue is not held
// up by the gate having been closed again.
struct GateState {
    using Handle = pk_gate_t;
    void *host = nullptr;    // where the host writes
    void *device = nullptr;  // the same word for the stream
    bool is_signal = false;  // from hipExtMallocWithFlags; else from hipHostMalloc
    std::uint32_t closings = 0;
};

struct DeviceState {
    using Handle = pk_device_t;
    explicit DeviceState(const char *path) : api(path) {}

    Api api;
    int ordinal = 0;
    std::string arch;  // gfx942:sramecc+:xnack-
    std::string pci;
    std::int64_t cache_bytes = 0;
    std::int64_t flush_bytes = 0;

    // For `flush` and `launch_empty`, made at first use or with the first gate.
    std::mutex mutex;
    Module own = nullptr;
    Function read = nullptr, empty = nullptr;
    void *swept = nullptr;
};

// Makes the device this thread's, and what was before it afterwards: libraries like torch count on theirs.
class CurrentDevice {
  public:
    explicit CurrentDevice(DeviceState *device) : device_(device) {
        if (device->api.GetDevice(&before_) == success && before_ != device->ordinal) {
            status_ = device->api.SetDevice(device->ordinal);
            changed_ = status_ == success;
        }
    }
    ~CurrentDevice() {
        if (changed_) device_->api.SetDevice(before_);
    }
    CurrentDevice(const CurrentDevice &) = delete;
    CurrentDevice &operator=(const CurrentDevice &) = delete;

  private:
    DeviceState *device_;
    int before_ = 0, status_ = success;
    bool changed_ = false;
};

// Calls a function of the API on the device: PK_OK, or what last_error then tells.
#define PK_HIP(device, function, ...) answer(device, "hip" #function, (device)->api.function(__VA_ARGS__))
inline pk_status answer(DeviceState *device, const char *function, int code) {
    return code == success ? PK_OK : failed(device->api, function, code);
}

// hip_device.cpp
void probe(const char *path, pk_probe *out);
pk_status open(const char *path, std::int32_t ordinal, DeviceState **out);
void close(DeviceState *device);
pk_status facts(DeviceState *device, pk_facts *out);
pk_status health(DeviceState *device, pk_health *out);

// hip_memory.cpp
pk_status allocate(DeviceState *device, std::size_t bytes, pk_pointer *out);
pk_status free(DeviceState *device, pk_pointer pointer);
pk_status copy_in(DeviceState *device, pk_pointer to, const void *from, std::size_t bytes);
pk_status copy_out(DeviceState *device, void *to, pk_pointer from, std::size_t bytes);
pk_status copy(DeviceState *device, StreamState *stream, pk_pointer to, pk_pointer from, std::size_t bytes);
pk_status fill(DeviceState *device, StreamState *stream, pk_pointer to, std::uint8_t value, std::size_t bytes);

// hip_kernel.cpp
pk_status load(DeviceState *device, const void *binary, std::size_t bytes, ModuleState **out);
void unload(DeviceState *device, ModuleState *module);
pk_status kernel(DeviceState *device, ModuleState *module, const char *name, std::uint32_t shared_bytes,
                 KernelState **out);
pk_status launch(DeviceState *device, StreamState *stream, const pk_launch *what);

// hip_own.cpp: kernels of the driver itself
pk_status prepare_own(DeviceState *device);
pk_status flush(DeviceState *device, StreamState *stream);
pk_status launch_empty(DeviceState *device, StreamState *stream);
void release_own(DeviceState *device);

// hip_stream.cpp
pk_status stream_create(DeviceState *device, StreamState **out);
pk_status stream_wrap(DeviceState *device, std::uint64_t native, StreamState **out);
std::uint64_t stream_native(DeviceState *device, StreamState *stream);
void stream_destroy(DeviceState *device, StreamState *stream);
pk_status synchronize(DeviceState *device, StreamState *stream, std::int64_t timeout_ns);
pk_status event_create(DeviceState *device, EventState **out);
void event_destroy(DeviceState *device, EventState *event);
pk_status event_record(DeviceState *device, StreamState *stream, EventState *event);
pk_status event_elapsed(DeviceState *device, EventState *begin, EventState *end, double *nanoseconds);
pk_status gate_create(DeviceState *device, GateState **out);
void gate_destroy(DeviceState *device, GateState *gate);
pk_status gate_close(DeviceState *device, StreamState *stream, GateState *gate);
pk_status gate_open(DeviceState *device, GateState *gate);
pk_status capture_begin(DeviceState *device, StreamState *stream);
pk_status capture_end(DeviceState *device, StreamState *stream, GraphState **out);
pk_status graph_launch(DeviceState *device, StreamState *stream, GraphState *graph);
void graph_destroy(DeviceState *device, GraphState *graph);

}  // namespace portakern::hip
