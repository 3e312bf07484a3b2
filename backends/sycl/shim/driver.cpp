// The table of the driver "sycl": SYCL's CPU device, with unified shared memory, in-order queues that keep profiles, and
// kernels taken from programs of the OpenCL beneath; behind it in the count of devices the GPUs of the Level Zero adapter, with
// memory of their own and kernels taken from SPIR-V. No GPU has run any of this yet (docs/drivers.md).
//
// As with the OpenCL driver, an event is a place between two commands: as the beginning of a span it is the start of the
// next one, as the end the end of the last one. The closed gate is a user event that the next command depends on. Nothing
// polls (finisher.hpp). A stream's native handle is the address of a sycl::queue, which must be in order, keep profiles
// and share the device's context; 0 is the default stream.
#include "shim.hpp"

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "finisher.hpp"
#include "own_kernels.hpp"
#include "portakern/driver.h"
#include "portakern/entry.hpp"

namespace {

using portakern::Finisher;

thread_local pk_error error{};

void set_text(char* to, size_t size, const std::string& text) { snprintf(to, size, "%s", text.c_str()); }
#define PK_TEXT(to, text) set_text(to, sizeof(to), text)

pk_status refused(pk_status status, const std::string& text) {
    error = {};
    error.code = status;
    PK_TEXT(error.text, text);
    return status;
}

// PK_OK, or what f threw.
template <class F>
pk_status done(const char* function, F f) {
    return shim::attempt(f) ? PK_OK : refused(PK_FAILED, std::string(function) + ": " + shim::last_error);
}

void last_error(pk_device_t, pk_error* out) { *out = error; }

struct Stream;

struct Gate {
    using Handle = pk_gate_t;
    cl_event event = nullptr;  // while closed
    Stream* stream = nullptr;
};

struct Event {
    using Handle = pk_event_t;
    Stream* stream = nullptr;
    uint64_t place = 0;  // how many commands the stream had seen
    std::optional<sycl::event> before, after;
};

struct Stream {
    using Handle = pk_stream_t;
    explicit Stream(const sycl::queue& q) : queue(q) {}

    sycl::queue queue;
    uint64_t commands = 0;
    std::optional<sycl::event> last, wait_for;
    std::vector<Event*> waiting;  // whose next command has not come yet
    Gate* gate = nullptr;         // closed on this stream
};

struct Kernel {
    using Handle = pk_kernel_t;
    sycl::kernel kernel;
};

struct Module {
    using Handle = pk_module_t;
    cl_program program = nullptr;  // of the CPU device
    std::list<Kernel> kernels;
    std::optional<sycl::kernel_bundle<sycl::bundle_state::executable>> bundle;  // of a GPU
};

struct Device {
    using Handle = pk_device_t;
    // Queues of other libraries share the default context of a GPU's platform.
    Device(const sycl::device& d, bool is_gpu)
        : device(d), context(is_gpu ? d.get_platform().khr_get_default_context() : sycl::context(d)), gpu(is_gpu) {}

    sycl::device device;
    sycl::context context;
    bool gpu;
    int32_t ordinal = 0;
    std::recursive_mutex mutex;
    std::list<Stream> streams;
    Stream* first = nullptr;
    Finisher finisher;
    std::optional<Module> own;
    Kernel *read = nullptr, *empty = nullptr, *wake = nullptr;
    void* swept = nullptr;

    sycl::queue queue() const {
        return {context, device, {sycl::property::queue::in_order{}, sycl::property::queue::enable_profiling{}}};
    }
};

using Locked = std::lock_guard<std::recursive_mutex>;

int64_t cache_bytes = 0;  // the machine's last level, which SYCL does not tell
std::vector<std::byte> gpu_kernels;  // own_gpu.cpp as SPIR-V

bool ended(const sycl::event& e) {
    using sycl::info::event_command_status;
    return e.get_info<sycl::info::event::command_execution_status>() == event_command_status::complete;
}

// Submits one command. Every command goes through here, so that events know their neighbours and gates hold.
template <class F>
pk_status submit(Device* device, Stream* stream, const char* function, F command) {
    const Locked lock(device->mutex);
    return done(function, [&] {
        const sycl::event made = stream->queue.submit([&](sycl::handler& h) {
            if (stream->wait_for) h.depends_on(*stream->wait_for);
            command(h);
        });
        ++stream->commands;
        stream->last = made;
        for (Event* event : stream->waiting) event->after = made;
        stream->waiting.clear();
        stream->wait_for.reset();
    });
}

// ---- devices

void probe(const char*, pk_probe* out) {
    out->present = 1;
    PK_TEXT(out->path, "the shim");
    if (!shim::attempt([&] { out->device_count = static_cast<int32_t>(shim::cpus().size() + shim::gpus().size()); })) {
        PK_TEXT(out->error, shim::last_error);
    } else if (out->device_count == 0) {
        PK_TEXT(out->error, "SYCL finds no CPU device and no GPU");
    }
}

pk_status stream_create(Device* device, Stream** out) {
    const Locked lock(device->mutex);
    return done("sycl::queue", [&] {
        device->streams.emplace_back(device->queue());
        *out = &device->streams.back();
    });
}

pk_status open(const char*, int32_t ordinal, Device** out) {
    std::unique_ptr<Device> device;
    const pk_status status = done("sycl::device", [&] {
        const auto cpus = shim::cpus(), gpus = shim::gpus();
        const auto number = static_cast<size_t>(ordinal);
        if (ordinal < 0 || number >= cpus.size() + gpus.size()) throw std::runtime_error("no such device");
        const bool gpu = number >= cpus.size();
        device = std::make_unique<Device>(gpu ? gpus[number - cpus.size()] : cpus[number], gpu);
        device->ordinal = ordinal;
    });
    if (status != PK_OK) return PK_NO_DEVICE;
    if (const pk_status made = stream_create(device.get(), &device->first); made != PK_OK) return made;
    *out = device.release();
    return PK_OK;
}

void give_back(Module& module) {
    module.kernels.clear();
    if (module.program) PK_OPENCL(clReleaseProgram)(module.program);
}

void unload(Device*, Module* module) {
    shim::attempt([&] { give_back(*module); });
    delete module;
}

void close(Device* device) {
    shim::attempt([&] {
        if (device->swept) sycl::free(device->swept, device->context);
        if (device->own) give_back(*device->own);
        delete device;
    });
}

pk_status facts(Device* device, pk_facts* out) {
    namespace info = sycl::info::device;
    return done("sycl::device::get_info", [&] {
        const sycl::device& d = device->device;
        PK_TEXT(out->name, d.get_info<info::name>());
        PK_TEXT(out->version,
                d.get_platform().get_info<sycl::info::platform::name>() + " " + d.get_info<info::driver_version>());
        out->ordinal = device->ordinal;
        out->units = static_cast<int32_t>(d.get_info<info::max_compute_units>());
        out->clock_khz = static_cast<int32_t>(d.get_info<info::max_clock_frequency>()) * 1000;
        out->shared_bytes = static_cast<int32_t>(d.get_info<info::local_mem_size>());
        out->memory_bytes = static_cast<int64_t>(d.get_info<info::global_mem_size>());
        out->cache_bytes = static_cast<int64_t>(d.get_info<info::global_mem_cache_size>());
        if (device->gpu) {
            snprintf(out->arch, sizeof(out->arch), "0x%04x", shim::gpu_number(d));
            out->timer_ns = static_cast<int64_t>(d.get_info<info::profiling_timer_resolution>());
        } else {
            out->cache_bytes = std::max(out->cache_bytes, cache_bytes);
            size_t tick = 0;
            PK_OPENCL(clGetDeviceInfo)(shim::native_device(device->first->queue), CL_DEVICE_PROFILING_TIMER_RESOLUTION,
                                       sizeof(tick), &tick, nullptr);
            out->timer_ns = static_cast<int64_t>(tick);
            out->host_memory = d.has(sycl::aspect::usm_system_allocations) ? 1 : 0;
        }
        out->flush_bytes = static_cast<int64_t>(portakern::whole_groups(2 * out->cache_bytes) * portakern::bytes_per_group);
    });
}

// ---- waiting

pk_status synchronize(Device* device, Stream* stream, int64_t timeout_ns) {
    std::vector<sycl::queue> queues;
    bool idle = true;
    const pk_status asked = done("sycl::event::get_info", [&] {
        const Locked lock(device->mutex);
        for (Stream& each : device->streams) {
            if (stream != nullptr && stream != &each) continue;
            queues.push_back(each.queue);
            idle = idle && (!each.last || ended(*each.last));
        }
    });
    if (asked != PK_OK) return asked;
    auto reason = std::make_shared<std::string>();  // may outlive this call
    auto wait = [queues = std::move(queues), reason]() mutable {
        const bool fine = shim::attempt([&] {
            for (sycl::queue& queue : queues) queue.wait_and_throw();
        });
        if (!fine) *reason = shim::last_error;
        return fine ? 0 : 1;
    };
    bool in_time = true;
    const int status = timeout_ns >= 0 && !idle ? device->finisher.wait(wait, timeout_ns, &in_time) : wait();
    if (!in_time) return refused(PK_TIMEOUT, "the work was not done by its deadline");
    return status == 0 ? PK_OK : refused(PK_FAILED, "sycl::queue::wait_and_throw: " + *reason);
}

// ---- memory

void* address(pk_pointer pointer) { return reinterpret_cast<void*>(pointer); }

pk_status allocate(Device* device, size_t bytes, pk_pointer* out) {
    void* made = nullptr;
    const pk_status status = done("sycl::aligned_alloc", [&] {
        const auto kind = device->gpu ? sycl::usm::alloc::device : sycl::usm::alloc::shared;
        made = sycl::aligned_alloc(4096, std::max<size_t>(bytes, 1), device->device, device->context, kind);
        if (made == nullptr) throw std::runtime_error("no " + std::to_string(bytes) + " bytes");
    });
    *out = reinterpret_cast<pk_pointer>(made);
    return status;
}

pk_status release(Device* device, pk_pointer pointer) {
    const pk_status status = synchronize(device, nullptr, -1);  // sycl::free does not wait for kernels that use it
    if (status != PK_OK) return status;
    return done("sycl::free", [&] { sycl::free(address(pointer), device->context); });
}

pk_status copied(Device* device, Stream* stream, void* to, const void* from, size_t bytes) {
    if (bytes == 0) return PK_OK;
    return submit(device, stream, "sycl::handler::memcpy", [&](sycl::handler& h) { h.memcpy(to, from, bytes); });
}

pk_status copied_now(Device* device, void* to, const void* from, size_t bytes) {
    if (device->first->gate != nullptr) {
        return refused(PK_INVALID, "a copy that waits was asked for behind a closed gate: it would never end");
    }
    const pk_status status = copied(device, device->first, to, from, bytes);
    return status == PK_OK ? synchronize(device, device->first, -1) : status;
}

pk_status copy_in(Device* device, pk_pointer to, const void* from, size_t bytes) {
    return copied_now(device, address(to), from, bytes);
}

pk_status copy_out(Device* device, void* to, pk_pointer from, size_t bytes) {
    return copied_now(device, to, address(from), bytes);
}

pk_status copy(Device* device, Stream* stream, pk_pointer to, pk_pointer from, size_t bytes) {
    return copied(device, stream, address(to), address(from), bytes);
}

pk_status fill(Device* device, Stream* stream, pk_pointer to, uint8_t value, size_t bytes) {
    if (bytes == 0) return PK_OK;
    return submit(device, stream, "sycl::handler::memset", [&](sycl::handler& h) { h.memset(address(to), value, bytes); });
}

// ---- kernels

// A GPU's binary is SPIR-V, which its driver compiles now.
sycl::kernel_bundle<sycl::bundle_state::executable> bundle_of(const Device& device, const void* spirv, size_t bytes) {
    const auto* first = static_cast<const std::byte*>(spirv);
    const std::vector<std::byte> copy(first, first + bytes);
    auto source = syclx::create_kernel_bundle_from_source(device.context, syclx::source_language::spirv, copy);
    return syclx::build(source);
}

pk_status load(Device* device, const void* binary, size_t bytes, Module** out) {
    if (device->gpu) {
        return done("sycl::build", [&] {
            auto made = std::make_unique<Module>();
            made->bundle.emplace(bundle_of(*device, binary, bytes));
            *out = made.release();
        });
    }
    return done("clBuildProgram", [&] {
        auto made = std::make_unique<Module>();
        made->program = shim::built(device->first->queue, binary, bytes, false, "");
        *out = made.release();
    });
}

pk_status kernel(Device* device, Module* module, const char* name, uint32_t shared_bytes, Kernel** out) {
    if (shared_bytes != 0) return refused(PK_UNSUPPORTED, "local memory of a SYCL kernel is declared in it");
    const Locked lock(device->mutex);
    return done("clCreateKernel", [&] {
        // The compiler puts a prefix before the name of a free function.
        const std::string full = "__sycl_kernel_" + std::string(name);
        module->kernels.push_back({module->bundle ? module->bundle->ext_oneapi_get_kernel(full)
                                                  : shim::kernel_of(device->first->queue, module->program, full.c_str())});
        *out = &module->kernels.back();
    });
}

// SYCL counts dimensions the other way round.
sycl::nd_range<3> range_of(const uint32_t (&grid)[3], const uint32_t (&block)[3]) {
    const sycl::range<3> local(block[2], block[1], block[0]), groups(grid[2], grid[1], grid[0]);
    return {groups * local, local};
}

pk_status launch(Device* device, Stream* stream, const pk_launch* what) {
    if (what->attributes != 0 || what->shared_bytes != 0 || what->cluster[0] * what->cluster[1] * what->cluster[2] > 1) {
        return refused(PK_UNSUPPORTED, "SYCL has no clusters, launch attributes or dynamic local memory here");
    }
    const sycl::kernel& kernel = reinterpret_cast<Kernel*>(what->kernel)->kernel;
    return submit(device, stream, "sycl::handler::parallel_for", [&](sycl::handler& h) {
        for (uint32_t i = 0; i < what->arg_count; ++i) {
            const pk_arg& arg = what->args[i];
            if (arg.kind == PK_ARG_POINTER) {
                void* pointer = nullptr;
                std::memcpy(&pointer, arg.value, sizeof(pointer));
                h.set_arg(static_cast<int>(i), pointer);
            } else {
                h.set_arg(static_cast<int>(i), syclx::raw_kernel_arg(arg.value, arg.size));
            }
        }
        h.parallel_for(range_of(what->grid, what->block), kernel);
    });
}

// ---- streams, events, gates

pk_status stream_wrap(Device* device, uint64_t native, Stream** out) {
    *out = device->first;
    if (native == 0) return PK_OK;
    const Locked lock(device->mutex);
    for (Stream& each : device->streams) {
        if (reinterpret_cast<uint64_t>(&each.queue) == native) *out = &each;
    }
    if (*out != device->first) return PK_OK;
    const auto& queue = *reinterpret_cast<const sycl::queue*>(native);
    if (queue.get_context() != device->context || !queue.is_in_order() ||
        !queue.has_property<sycl::property::queue::enable_profiling>()) {
        return refused(PK_UNSUPPORTED, "the queue must be in order, keep profiles and share the device's context");
    }
    device->streams.emplace_back(queue);
    *out = &device->streams.back();
    return PK_OK;
}

uint64_t stream_native(Device*, Stream* stream) { return reinterpret_cast<uint64_t>(&stream->queue); }

pk_status gate_open(Device* device, Gate* gate) {
    const Locked lock(device->mutex);
    if (gate->event == nullptr) return PK_OK;
    // The helper waits for the queue from before its first command can run: it is one of the device's workers.
    device->finisher.begin([queue = gate->stream->queue]() mutable { return shim::attempt([&] { queue.wait(); }) ? 0 : 1; });
    const pk_status status = done("clSetUserEventStatus", [&] {
        PK_OPENCL(clSetUserEventStatus)(gate->event, CL_COMPLETE);
        PK_OPENCL(clReleaseEvent)(gate->event);
    });
    gate->event = nullptr;
    gate->stream->gate = nullptr;
    gate->stream = nullptr;
    return status;
}

void stream_destroy(Device* device, Stream* stream) {
    const Locked lock(device->mutex);
    if (stream == device->first) return;
    if (stream->gate != nullptr) gate_open(device, stream->gate);
    device->streams.remove_if([&](const Stream& each) { return &each == stream; });
}

pk_status event_create(Device*, Event** out) {
    *out = new Event;
    return PK_OK;
}

void forget(Device* device, Event* event) {
    for (Stream& stream : device->streams) {  // the event's own may be gone
        auto& waiting = stream.waiting;
        waiting.erase(std::remove(waiting.begin(), waiting.end(), event), waiting.end());
    }
}

void event_destroy(Device* device, Event* event) {
    const Locked lock(device->mutex);
    forget(device, event);
    delete event;
}

pk_status event_record(Device* device, Stream* stream, Event* event) {
    const Locked lock(device->mutex);
    forget(device, event);
    *event = {stream, stream->commands, stream->last, std::nullopt};
    stream->waiting.push_back(event);
    return PK_OK;
}

pk_status event_elapsed(Device* device, Event* begin, Event* end, double* nanoseconds) {
    namespace profile = sycl::info::event_profiling;
    const Locked lock(device->mutex);
    if (begin->stream == nullptr || begin->stream != end->stream || begin->place > end->place) {
        return refused(PK_INVALID, "the events were not recorded one after the other on one stream");
    }
    *nanoseconds = 0;
    if (begin->place == end->place) return PK_OK;  // nothing ran between them
    return done("sycl::event::get_profiling_info", [&] {
        if (!ended(*begin->after) || !ended(*end->before)) throw std::runtime_error("the event has not happened yet");
        const auto from = begin->after->get_profiling_info<profile::command_start>();
        const auto to = end->before->get_profiling_info<profile::command_end>();
        *nanoseconds = static_cast<double>(static_cast<int64_t>(to - from));
    });
}

// ---- between samples

pk_status load_own_of_gpu(Device* device) {
    if (gpu_kernels.empty()) return refused(PK_UNSUPPORTED, "the kernels of this driver were not compiled for a GPU");
    return done("sycl::build", [&] {
        Module made;
        made.bundle.emplace(bundle_of(*device, gpu_kernels.data(), gpu_kernels.size()));
        for (const char* name : {"__sycl_kernel_pk_read", "__sycl_kernel_pk_empty"}) {
            made.kernels.push_back({made.bundle->ext_oneapi_get_kernel(name)});
        }
        device->own.emplace(std::move(made));
        device->read = &device->own->kernels.front();
        device->empty = &device->own->kernels.back();
    });
}

pk_status load_own_of_cpu(Device* device) {
    const sycl::queue& queue = device->first->queue;
    return done("clBuildProgram", [&] {
        cl_context context = sycl::get_native<sycl::backend::opencl>(queue.get_context());
        cl_device_id id = shim::native_device(queue);
        const char* text = portakern::own_kernels;
        cl_int failed = 0;
        cl_program program = PK_OPENCL(clCreateProgramWithSource)(context, 1, &text, nullptr, &failed);
        if (!failed) failed = PK_OPENCL(clBuildProgram)(program, 1, &id, "", nullptr, nullptr);
        if (failed) throw std::runtime_error("OpenCL error " + std::to_string(failed));
        Module made;
        made.program = program;
        for (const char* name : {"pk_read", "pk_empty", "pk_wake"}) {
            made.kernels.push_back({shim::kernel_of(queue, program, name)});
        }
        device->own.emplace(std::move(made));
        auto each = device->own->kernels.begin();
        device->read = &*each++;
        device->empty = &*each++;
        device->wake = &*each;
    });
}

pk_status prepare_own(Device* device) {
    const Locked lock(device->mutex);
    if (device->swept != nullptr) return PK_OK;
    const pk_status status = device->gpu ? load_own_of_gpu(device) : load_own_of_cpu(device);
    if (status != PK_OK) return status;
    pk_facts told{};
    pk_pointer made = 0;
    if (const pk_status asked = facts(device, &told); asked != PK_OK) return asked;
    const size_t bytes = static_cast<size_t>(told.flush_bytes);
    if (const pk_status room = allocate(device, bytes, &made); room != PK_OK) return room;
    device->swept = address(made);
    return fill(device, device->first, made, 0x5A, bytes);  // pages that were never written share one of zeros
}

pk_status run(Device* device, Stream* stream, const Kernel* kernel, size_t groups, const std::vector<pk_arg>& args) {
    pk_launch what{};
    what.kernel = reinterpret_cast<pk_kernel_t>(const_cast<Kernel*>(kernel));
    for (int i = 0; i < 3; ++i) what.grid[i] = what.block[i] = what.cluster[i] = 1;
    what.grid[0] = static_cast<uint32_t>(groups);
    if (device->gpu) what.block[0] = portakern::gpu_items;
    what.arg_count = static_cast<uint32_t>(args.size());
    what.args = args.data();
    return launch(device, stream, &what);
}

pk_status launch_empty(Device* device, Stream* stream) {
    const pk_status status = prepare_own(device);
    return status == PK_OK ? run(device, stream, device->empty, 1, {}) : status;
}

pk_status flush(Device* device, Stream* stream) {
    if (const pk_status status = prepare_own(device); status != PK_OK) return status;
    pk_facts told{};
    if (const pk_status asked = facts(device, &told); asked != PK_OK) return asked;
    const uint64_t lines = portakern::lines_per_group;
    const pk_status status = run(device, stream, device->read, portakern::whole_groups(static_cast<size_t>(told.flush_bytes)),
                                 {{&device->swept, 8, PK_ARG_POINTER}, {&lines, 8, PK_ARG_VALUE}, {&device->swept, 8, PK_ARG_POINTER}});
    // The runtime went out of the CPU's caches, too, and how it starts a kernel is not what is asked for.
    return status == PK_OK && !device->gpu ? launch_empty(device, stream) : status;
}

pk_status gate_create(Device* device, Gate** out) {
    if (device->gpu) return refused(PK_UNSUPPORTED, "a queue of Level Zero cannot be made to wait for the host through SYCL");
    prepare_own(device);  // compiles and allocates: not behind a closed gate
    *out = new Gate;
    return PK_OK;
}

void gate_destroy(Device* device, Gate* gate) {
    gate_open(device, gate);
    delete gate;
}

pk_status gate_close(Device* device, Stream* stream, Gate* gate) {
    const Locked lock(device->mutex);
    if (gate->event != nullptr || stream->gate != nullptr) return refused(PK_INVALID, "the gate or the stream is closed already");
    const pk_status status = done("clCreateUserEvent", [&] {
        cl_int failed = 0;
        cl_context context = sycl::get_native<sycl::backend::opencl>(device->context);
        cl_event made = PK_OPENCL(clCreateUserEvent)(context, &failed);
        if (failed) throw std::runtime_error("OpenCL error " + std::to_string(failed));
        PK_OPENCL(clRetainEvent)(made);  // SYCL's event gives one reference back, the gate the other
        stream->wait_for = sycl::make_event<sycl::backend::opencl>({made}, device->context);
        gate->event = made;
        gate->stream = stream;
        stream->gate = gate;
    });
    if (status != PK_OK) return status;
    const size_t units = device->device.get_info<sycl::info::device::max_compute_units>();
    const uint64_t turns = portakern::wake_turns;
    return run(device, stream, device->wake, units * portakern::wake_groups_per_unit,
               {{&turns, 8, PK_ARG_VALUE}, {&device->swept, 8, PK_ARG_POINTER}});
}

pk_driver made_table() {
    using portakern::entry;
    pk_driver t{};
    t.abi = PK_DRIVER_ABI;
    t.struct_size = sizeof(pk_driver);
    t.name = "sycl";
    t.title = "SYCL's CPU device and Level Zero GPUs (intel-sycl-rt)";
    t.probe = probe;
    t.open = entry<open>;
    t.close = entry<close>;
    t.facts = entry<facts>;
    t.last_error = last_error;
    t.allocate = entry<allocate>;
    t.free = entry<release>;
    t.copy_in = entry<copy_in>;
    t.copy_out = entry<copy_out>;
    t.copy = entry<copy>;
    t.fill = entry<fill>;
    t.load = entry<load>;
    t.unload = entry<unload>;
    t.kernel = entry<kernel>;
    t.launch = entry<launch>;
    t.stream_create = entry<stream_create>;
    t.stream_wrap = entry<stream_wrap>;
    t.stream_native = entry<stream_native>;
    t.stream_destroy = entry<stream_destroy>;
    t.synchronize = entry<synchronize>;
    t.event_create = entry<event_create>;
    t.event_destroy = entry<event_destroy>;
    t.event_record = entry<event_record>;
    t.event_elapsed = entry<event_elapsed>;
    t.gate_create = entry<gate_create>;
    t.gate_destroy = entry<gate_destroy>;
    t.gate_close = entry<gate_close>;
    t.gate_open = entry<gate_open>;
    t.flush = entry<flush>;
    t.launch_empty = entry<launch_empty>;
    return t;
}

}  // namespace

// The table; `last_level_bytes` is the machine's last level of cache.
PK_API const pk_driver* pk_table(int64_t last_level_bytes) {
    cache_bytes = last_level_bytes;
    static const pk_driver table = made_table();
    return &table;
}

// The driver's kernels for GPUs (own_gpu.cpp) as SPIR-V; without them nothing is flushed there.
PK_API void pk_gpu_kernels(const void* spirv, size_t bytes) {
    const auto* first = static_cast<const std::byte*>(spirv);
    gpu_kernels.assign(first, first + bytes);
}
