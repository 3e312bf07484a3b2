// The compiler and the devices of SYCL behind a C interface: Python loads this with ctypes, so nothing of portakern is built
// against SYCL. What runs kernels is the table of driver.cpp.
//
// It is compiled on first use by the host's own C++ compiler against the headers of the intel-sycl-rt wheel, and cached.
// Every function that can fail gives a null pointer, a negative number or a status other than 0 and leaves the reason in
// pk_error(). Handles belong to the caller, who hands them back to the matching *_free.
#include "shim.hpp"

using namespace shim;

namespace {

struct Queue {
    sycl::queue of;
};
struct Bytes {
    std::string log;
    std::vector<char> data;
};
struct Program {
    cl_program of;
};
struct Kernel {
    sycl::kernel of;
};

}  // namespace

PK_API const char* pk_error() { return last_error.c_str(); }

// Number of CPU devices; -1 on failure.
PK_API int pk_devices() {
    int count = -1;
    attempt([&] { count = static_cast<int>(cpus().size()); });
    return count;
}

// Number of GPUs, which the driver counts behind the CPU devices, and what the PCI bus calls the first `room` of them;
// -1 on failure.
PK_API int pk_gpus(uint32_t* numbers, int room) {
    int count = -1;
    attempt([&] {
        const auto found = gpus();
        for (int i = 0; i < room && i < static_cast<int>(found.size()); ++i) numbers[i] = gpu_number(found[i]);
        count = static_cast<int>(found.size());
    });
    return count;
}

// "name\tplatform\tdriver" of a CPU device.
PK_API int pk_describe(int index, char* text, size_t capacity) {
    return attempt([&] {
        const auto d = cpus().at(index);
        namespace info = sycl::info;
        const std::string name = d.get_info<info::device::name>(), driver = d.get_info<info::device::driver_version>();
        const std::string platform = d.get_platform().get_info<info::platform::name>();
        snprintf(text, capacity, "%s\t%s\t%s", name.c_str(), platform.c_str(), driver.c_str());
    }) ? 0 : 1;
}

PK_API Queue* pk_queue(int index) {
    Queue* made = nullptr;
    attempt([&] { made = new Queue{sycl::queue(cpus().at(index), sycl::property::queue::in_order{})}; });
    return made;
}
PK_API void pk_queue_free(Queue* q) { delete q; }

// SYCL source to a SYCLBIN, which holds the SPIR-V of its kernels; nothing is built for the device.
PK_API Bytes* pk_compile(Queue* q, const char* source, const char** options, int count) {
    auto* made = new Bytes;
    const bool ok = attempt([&] {
        auto bundle = syclx::create_kernel_bundle_from_source(q->of.get_context(), syclx::source_language::sycl, source);
        const std::vector<std::string> given(options, options + count);
        auto object = syclx::compile(bundle, {q->of.get_device()},
                                     syclx::properties{syclx::build_options{given}, syclx::save_log{&made->log}});
        const auto content = object.ext_oneapi_get_content();
        const char* bytes = reinterpret_cast<const char*>(content.data());
        made->data.assign(bytes, bytes + content.size());
    });
    if (ok) return made;
    delete made;
    return nullptr;
}
PK_API const char* pk_bytes_log(Bytes* b) { return b->log.c_str(); }
PK_API const char* pk_bytes_data(Bytes* b) { return b->data.data(); }
PK_API size_t pk_bytes_size(Bytes* b) { return b->data.size(); }
PK_API void pk_bytes_free(Bytes* b) { delete b; }

// A program of the device from SPIR-V or from its own machine code.
PK_API Program* pk_program(Queue* q, const void* data, size_t size, int is_spirv, const char* options) {
    Program* made = nullptr;
    attempt([&] { made = new Program{built(q->of, data, size, is_spirv, options)}; });
    return made;
}

PK_API void pk_program_free(Program* p) {
    attempt([&] { PK_OPENCL(clReleaseProgram)(p->of); });
    delete p;
}

// The machine code of a program. With out == nullptr its size; -1 on failure.
PK_API int64_t pk_program_binary(Program* p, void* out) {
    int64_t size = -1;
    attempt([&] {
        size_t bytes = 0;
        PK_OPENCL(clGetProgramInfo)(p->of, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, nullptr);
        if (out) {
            auto* target = static_cast<unsigned char*>(out);
            PK_OPENCL(clGetProgramInfo)(p->of, CL_PROGRAM_BINARIES, sizeof target, &target, nullptr);
        }
        size = static_cast<int64_t>(bytes);
    });
    return size;
}

PK_API Kernel* pk_kernel(Queue* q, Program* p, const char* name) {
    Kernel* made = nullptr;
    attempt([&] { made = new Kernel{kernel_of(q->of, p->of, name)}; });
    return made;
}

PK_API void pk_kernel_free(Kernel* k) { delete k; }

// Private and local memory of a work-item and a work-group in bytes, and the preferred work-group multiple.
PK_API int pk_kernel_facts(Queue* q, Kernel* k, uint64_t* facts) {
    return attempt([&] {
        cl_kernel native = sycl::get_native<sycl::backend::opencl>(k->of);
        cl_ulong memory[2] = {};
        size_t multiple = 0;
        auto* ask = PK_OPENCL(clGetKernelWorkGroupInfo);
        cl_device_id device = native_device(q->of);
        ask(native, device, CL_KERNEL_PRIVATE_MEM_SIZE, sizeof(cl_ulong), &memory[0], nullptr);
        ask(native, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof(cl_ulong), &memory[1], nullptr);
        ask(native, device, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof(size_t), &multiple, nullptr);
        facts[0] = memory[0], facts[1] = memory[1], facts[2] = multiple;
    }) ? 0 : 1;
}
