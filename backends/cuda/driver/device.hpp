// A GPU: its primary context, which frameworks in the process share, and what the driver keeps for it.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "api.hpp"
#include "portakern/driver.h"

namespace portakern::cuda {

struct Gpu;

// Keeps what went wrong for last_error of this thread, and returns the code.
pk_status fail(pk_status code, const std::string &text);
pk_status fail(Gpu &gpu, Result code, const char *function);

// Kernels of our own, compiled by the driver from PTX: nothing, the reading of a flush, and a gate for drivers that
// cannot wait for a word in memory.
struct Helpers {
    Module module = nullptr;
    Function empty = nullptr, flush = nullptr, gate = nullptr;
    Pointer flush_memory = 0;
};

struct Gpu {
    Gpu(const Api &functions, int number, Device handle);

    const Api &api;
    const int ordinal;
    const Device handle;
    const int units, capability;  // capability: 90 for 9.0
    const std::size_t flush_bytes;
    std::atomic<Context> context{nullptr};  // made when first needed: facts need none
    std::mutex mutex;                       // of what follows
    Helpers helpers;
    bool helpers_ready = false;
    std::mutex recording;        // of the stream that launches are recorded on to make a graph
    Stream recorder = nullptr;

    int attribute(int which) const;

    pk_status check(Result code, const char *function) { return code == success ? PK_OK : fail(*this, code, function); }

    // Makes the helpers and the memory that a flush reads. To be called before anything may stand behind a gate, where an
    // allocation or a module's loading could wait for ever.
    pk_status prepare_helpers();

  private:
    pk_status load_helpers();
};

// Makes a GPU's context this thread's current one for as long as it lives. The context that was current comes back, so
// that a framework's idea of the current device stays true; a thread that had none keeps that of the first GPU, which
// is what a framework would choose.
class CurrentContext {
  public:
    explicit CurrentContext(Gpu &gpu);
    ~CurrentContext();
    CurrentContext(const CurrentContext &) = delete;
    CurrentContext &operator=(const CurrentContext &) = delete;

    explicit operator bool() const { return status_ == PK_OK; }
    pk_status status() const { return status_; }

  private:
    Gpu &gpu_;
    Context before_ = nullptr;
    bool changed_ = false;
    pk_status status_ = PK_OK;
};


// The table's functions, by file.
void probe(const char *path, pk_probe *out);
pk_status open(const char *path, int32_t ordinal, pk_device_t *out);
void close(pk_device_t device);
pk_status facts(pk_device_t device, pk_facts *out);
pk_status health(pk_device_t device, pk_health *out);
void last_error(pk_device_t device, pk_error *out);

pk_status allocate(pk_device_t device, size_t bytes, pk_pointer *out);
pk_status free(pk_device_t device, pk_pointer pointer);
pk_status copy_in(pk_device_t device, pk_pointer to, const void *from, size_t bytes);
pk_status copy_out(pk_device_t device, void *to, pk_pointer from, size_t bytes);
pk_status copy(pk_device_t device, pk_stream_t stream, pk_pointer to, pk_pointer from, size_t bytes);
pk_status fill(pk_device_t device, pk_stream_t stream, pk_pointer to, uint8_t value, size_t bytes);

pk_status load(pk_device_t device, const void *binary, size_t bytes, pk_module_t *out);
void unload(pk_device_t device, pk_module_t module);
pk_status kernel(pk_device_t device, pk_module_t module, const char *name, uint32_t shared_bytes, pk_kernel_t *out);
pk_status launch(pk_device_t device, pk_stream_t stream, const pk_launch *launch);

pk_status stream_create(pk_device_t device, pk_stream_t *out);
pk_status stream_wrap(pk_device_t device, uint64_t native, pk_stream_t *out);
void stream_destroy(pk_device_t device, pk_stream_t stream);
uint64_t stream_native(pk_device_t device, pk_stream_t stream);
pk_status synchronize(pk_device_t device, pk_stream_t stream, int64_t timeout_ns);

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

pk_status graph_make(pk_device_t device, const pk_launch *launches, uint32_t count, pk_graph_t *out);
pk_status graph_update(pk_device_t device, pk_graph_t graph, uint32_t index, const pk_launch *launch);

pk_status tensor_map(pk_device_t device, const pk_tensor_map *what, void *out);

pk_status flush(pk_device_t device, pk_stream_t stream);
pk_status reset_persisting(pk_device_t device);
pk_status launch_empty(pk_device_t device, pk_stream_t stream);

inline Gpu &gpu_of(pk_device_t device) { return *reinterpret_cast<Gpu *>(device); }

// A stream by its native handle; one of our own is destroyed with it.
struct StreamHandle {
    Stream handle;
    bool owned;
};

inline StreamHandle *handle_of(pk_stream_t stream) { return reinterpret_cast<StreamHandle *>(stream); }

inline Stream stream_of(pk_stream_t stream) { return stream != nullptr ? handle_of(stream)->handle : nullptr; }

}  // namespace portakern::cuda
