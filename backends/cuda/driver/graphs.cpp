// Graphs: captured by timing, or made of a call's launches.
#include <memory>
#include <new>

#include "launch.hpp"

namespace portakern::cuda {

namespace {

struct GraphHandle {
    GraphExec exec = nullptr;
    Graph graph = nullptr;         // kept where its nodes are needed:
    std::vector<GraphNode> nodes;  // those of the launches, in order
};

GraphHandle *handle_of(pk_graph_t graph) { return reinterpret_cast<GraphHandle *>(graph); }

bool is_legacy_default(Stream stream) { return reinterpret_cast<std::uintptr_t>(stream) <= 1; }

void destroy(const Api &api, const GraphHandle &graph) {
    if (graph.exec != nullptr) api.graph_exec_destroy(graph.exec);
    if (graph.graph != nullptr) api.graph_destroy(graph.graph);
}

// Ends the capture, also of one that failed, and makes what was captured ready to launch.
pk_status instantiate(Gpu &gpu, Stream stream, GraphHandle &out) {
    pk_status status = gpu.check(gpu.api.stream_end_capture(stream, &out.graph), "cuStreamEndCapture");
    if (status == PK_OK) status = gpu.check(gpu.api.graph_instantiate(&out.exec, out.graph, 0), "cuGraphInstantiateWithFlags");
    return status;
}

// The nodes of a graph that is one chain; false for any other.
bool read_chain(const Gpu &gpu, Graph graph, std::size_t count, std::vector<GraphNode> &out) {
    GraphNode node = nullptr;
    std::size_t found = 1;
    if (gpu.api.graph_get_root_nodes(graph, &node, &found) != success || found != 1) return false;
    for (out.push_back(node); out.size() < count; out.push_back(node)) {
        found = 1;
        if (gpu.api.graph_node_get_dependent_nodes(out.back(), &node, &found) != success || found != 1) return false;
    }
    return true;
}

// A stream of our own to record on; it never runs anything.
pk_status ready_recorder(Gpu &gpu) {
    if (gpu.recorder != nullptr) return PK_OK;
    return gpu.check(gpu.api.stream_create(&gpu.recorder, stream_non_blocking), "cuStreamCreate");
}

pk_status record(Gpu &gpu, pk_device_t device, const pk_launch *launches, uint32_t count, GraphHandle &out) {
    const std::lock_guard<std::mutex> locked(gpu.recording);
    pk_status status = ready_recorder(gpu);
    if (status == PK_OK) status = gpu.check(gpu.api.stream_begin_capture(gpu.recorder, capture_relaxed), "cuStreamBeginCapture");
    if (status != PK_OK) return status;
    StreamHandle stream{gpu.recorder, false};
    for (uint32_t i = 0; i < count && status == PK_OK; ++i) {
        status = launch(device, reinterpret_cast<pk_stream_t>(&stream), &launches[i]);
    }
    const pk_status ended = instantiate(gpu, gpu.recorder, out);
    return status != PK_OK ? status : ended;
}

// While it lives, captures of other threads are not disturbed by what this thread does.
class RelaxedCapture {
  public:
    explicit RelaxedCapture(const Api &api) : api_(api) { api_.thread_exchange_capture_mode(&mode_); }
    ~RelaxedCapture() { api_.thread_exchange_capture_mode(&mode_); }
    RelaxedCapture(const RelaxedCapture &) = delete;
    RelaxedCapture &operator=(const RelaxedCapture &) = delete;

  private:
    const Api &api_;
    int mode_ = capture_relaxed;
};

}  // namespace

// ---- captured

pk_status capture_begin(pk_device_t device, pk_stream_t stream) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    if (is_legacy_default(stream_of(stream))) {
        return fail(PK_UNSUPPORTED, "the default stream cannot be captured; queue on a stream of one's own");
    }
    if (const pk_status status = gpu.prepare_helpers(); status != PK_OK) return status;
    return gpu.check(gpu.api.stream_begin_capture(stream_of(stream), capture_relaxed), "cuStreamBeginCapture");
}

pk_status capture_end(pk_device_t device, pk_stream_t stream, pk_graph_t *out) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    GraphHandle made;
    pk_status status = instantiate(gpu, stream_of(stream), made);
    // Or the first replay would do it, perhaps behind a gate.
    if (status == PK_OK) status = gpu.check(gpu.api.graph_upload(made.exec, stream_of(stream)), "cuGraphUpload");
    auto *handle = status == PK_OK ? new (std::nothrow) GraphHandle : nullptr;
    if (handle == nullptr) {
        destroy(gpu.api, made);
        return status != PK_OK ? status : fail(PK_FAILED, "the host has no memory left");
    }
    gpu.api.graph_destroy(made.graph);
    handle->exec = made.exec;
    *out = reinterpret_cast<pk_graph_t>(handle);
    return PK_OK;
}

pk_status graph_launch(pk_device_t device, pk_stream_t stream, pk_graph_t graph) {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    const Stream to = stream_of(stream);
    // It would end the capture of another library with an error.
    int capturing = capture_none;
    if (!is_legacy_default(to) && (gpu.api.stream_is_capturing(to, &capturing) != success || capturing != capture_none)) {
        return fail(PK_UNSUPPORTED, "a graph cannot be launched on a stream that is being captured");
    }
    return gpu.check(gpu.api.graph_launch(handle_of(graph)->exec, to), "cuGraphLaunch");
}

void graph_destroy(pk_device_t device, pk_graph_t graph) {
    Gpu &gpu = gpu_of(device);
    if (const CurrentContext current(gpu); current) destroy(gpu.api, *handle_of(graph));
    delete handle_of(graph);
}

// ---- made of launches

pk_status graph_make(pk_device_t device, const pk_launch *launches, uint32_t count, pk_graph_t *out) try {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    if (gpu.api.graph_exec_kernel_node_set_params == nullptr) return fail(PK_UNSUPPORTED, "a driver of CUDA 12 is needed");
    const RelaxedCapture relaxed(gpu.api);
    auto made = std::make_unique<GraphHandle>();
    pk_status status = record(gpu, device, launches, count, *made);
    if (status == PK_OK && !read_chain(gpu, made->graph, count, made->nodes)) {
        status = fail(PK_UNSUPPORTED, "the launches are no chain of kernels");
    }
    if (status != PK_OK) {
        destroy(gpu.api, *made);
        return status;
    }
    *out = reinterpret_cast<pk_graph_t>(made.release());
    return PK_OK;
} catch (const std::bad_alloc &) {
    return fail(PK_FAILED, "the host has no memory left");
}

pk_status graph_update(pk_device_t device, pk_graph_t graph, uint32_t index, const pk_launch *x) try {
    Gpu &gpu = gpu_of(device);
    const CurrentContext current(gpu);
    if (!current) return current.status();
    if (index >= handle_of(graph)->nodes.size()) return fail(PK_INVALID, "the graph has no launch of that number");
    if (const pk_status status = check_arguments(*x); status != PK_OK) return status;
    Arguments args(*x);
    const KernelNodeParams params = {kernel_of(x->kernel).function, {x->grid[0], x->grid[1], x->grid[2]}, {x->block[0], x->block[1], x->block[2]},
                                     x->shared_bytes, args.data(), nullptr, nullptr, nullptr};
    return gpu.check(gpu.api.graph_exec_kernel_node_set_params(handle_of(graph)->exec, handle_of(graph)->nodes[index], &params),
                     "cuGraphExecKernelNodeSetParams");
} catch (const std::bad_alloc &) {
    return fail(PK_FAILED, "the host has no memory left");
}

}  // namespace portakern::cuda
