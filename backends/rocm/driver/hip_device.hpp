// What the handles of the HIP table point at.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "hip_api.hpp"

struct pk_stream {
    portakern::hip::Stream stream = nullptr;
    bool owned = false;
};

struct pk_event {
    portakern::hip::Event event = nullptr;
};

struct pk_kernel {
    portakern::hip::Function function = nullptr;
};

struct pk_module {
    portakern::hip::Module module = nullptr;
    std::list<pk_kernel> kernels;
};

struct pk_graph {
    portakern::hip::GraphExec exec = nullptr;
};

// A word that both sides see. Each closing waits for the next number, so that one that is still in a queue is not held up
// by the gate having been closed again.
struct pk_gate {
    void *host = nullptr;     // where the host writes
    void *device = nullptr;   // the same word for the stream
    bool is_signal = false;   // from hipExtMallocWithFlags; else from hipHostMalloc
    std::uint32_t closings = 0;
};

struct pk_device {
    explicit pk_device(const char *path) : api(path) {}

    portakern::hip::Api api;
    int ordinal = 0;
    std::string arch;  // gfx942:sramecc+:xnack-
    std::string pci;
    std::int64_t cache_bytes = 0;
    std::int64_t flush_bytes = 0;

    // For `flush` and `launch_empty`, made at first use or with the first gate.
    std::mutex mutex;
    portakern::hip::Module own = nullptr;
    portakern::hip::Function read = nullptr, empty = nullptr;
    void *swept = nullptr;
};

namespace portakern::hip {

// Makes the device this thread's, and what was before it afterwards: libraries like torch count on theirs.
class Current {
  public:
    explicit Current(pk_device_t device) : device_(device) {
        if (device->api.GetDevice(&before_) == success && before_ != device->ordinal) {
            status_ = device->api.SetDevice(device->ordinal);
            changed_ = status_ == success;
        }
    }
    ~Current() {
        if (changed_) device_->api.SetDevice(before_);
    }
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;

  private:
    pk_device_t device_;
    int before_ = 0, status_ = success;
    bool changed_ = false;
};

// Calls a function of the API on the device: PK_OK, or what last_error then tells.
#define PK_HIP(device, function, ...) portakern::hip::answer(device, "hip" #function, (device)->api.function(__VA_ARGS__))
inline pk_status answer(pk_device_t device, const char *function, int code) {
    return code == success ? PK_OK : failed(device->api, function, code);
}

// hip_device.cpp
void probe(const char *path, pk_probe *out);
pk_status open(const char *path, std::int32_t ordinal, pk_device_t *out);
void close(pk_device_t device);
pk_status facts(pk_device_t device, pk_facts *out);
pk_status health(pk_device_t device, pk_health *out);

// hip_memory.cpp
pk_status allocate(pk_device_t device, std::size_t bytes, pk_pointer *out);
pk_status free(pk_device_t device, pk_pointer pointer);
pk_status copy_in(pk_device_t device, pk_pointer to, const void *from, std::size_t bytes);
pk_status copy_out(pk_device_t device, void *to, pk_pointer from, std::size_t bytes);
pk_status copy(pk_device_t device, pk_stream_t stream, pk_pointer to, pk_pointer from, std::size_t bytes);
pk_status fill(pk_device_t device, pk_stream_t stream, pk_pointer to, std::uint8_t value, std::size_t bytes);

// hip_kernel.cpp
pk_status load(pk_device_t device, const void *binary, std::size_t bytes, pk_module_t *out);
void unload(pk_device_t device, pk_module_t module);
pk_status kernel(pk_device_t device, pk_module_t module, const char *name, std::uint32_t shared_bytes, pk_kernel_t *out);
pk_status launch(pk_device_t device, pk_stream_t stream, const pk_launch *what);

// hip_own.cpp: kernels of the driver itself
pk_status prepare_own(pk_device_t device);
pk_status flush(pk_device_t device, pk_stream_t stream);
pk_status launch_empty(pk_device_t device, pk_stream_t stream);
void release_own(pk_device_t device);

// hip_stream.cpp
pk_status stream_create(pk_device_t device, pk_stream_t *out);
pk_status stream_wrap(pk_device_t device, std::uint64_t native, pk_stream_t *out);
std::uint64_t stream_native(pk_device_t device, pk_stream_t stream);
void stream_destroy(pk_device_t device, pk_stream_t stream);
pk_status synchronize(pk_device_t device, pk_stream_t stream, std::int64_t timeout_ns);
pk_status event_create(pk_device_t device, pk_event_t *out);
void event_destroy(pk_device_t device, pk_event_t event);
pk_status event_record(pk_device_t device, pk_stream_t stream, pk_event_t event);
pk_status event_elapsed(pk_device_t device, pk_event_t begin, pk_event_t end, double *nanoseconds);
pk_status gate_create(pk_device_t device, pk_gate_t *out);
void gate_destroy(pk_device_t device, pk_gate_t gate);
pk_status gate_close(pk_device_t device, pk_stream_t stream, pk_gate_t gate);
pk_status gate_open(pk_device_t device, pk_gate_t gate);
pk_status capture_begin(pk_device_t device, pk_stream_t stream);
pk_status capture_end(pk_device_t device, pk_stream_t stream, pk_graph_t *out);
pk_status graph_launch(pk_device_t device, pk_stream_t stream, pk_graph_t graph);
void graph_destroy(pk_device_t device, pk_graph_t graph);

}  // namespace portakern::hip
