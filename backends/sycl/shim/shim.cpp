// The SYCL runtime behind a C interface: Python loads this with ctypes, so nothing of portakern is built against SYCL.
//
// It is compiled on first use by the host's own C++ compiler against the headers of the intel-sycl-rt wheel, and cached.
// Every function that can fail gives a null pointer, a negative number or a status other than 0 and leaves the reason in
// pk_error(). Handles belong to the caller, who hands them back to the matching *_free.
#define SYCL_DISABLE_FSYCL_SYCLHPP_WARNING 1
#include <CL/cl.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <sycl/khr/split_headers/backend.hpp>
#include <sycl/khr/split_headers/context.hpp>
#include <sycl/khr/split_headers/device.hpp>
#include <sycl/khr/split_headers/event.hpp>
#include <sycl/khr/split_headers/handler.hpp>
#include <sycl/khr/split_headers/index_space.hpp>
#include <sycl/khr/split_headers/kernel_bundle.hpp>
#include <sycl/khr/split_headers/queue.hpp>
#include <sycl/khr/split_headers/usm.hpp>
#include <vector>

namespace syclx = sycl::ext::oneapi::experimental;

#define PK_API extern "C" __attribute__((visibility("default")))

namespace {

thread_local std::string last_error;

// Runs f; false, with the reason kept, when it threw.
template <class F>
bool attempt(F f) {
    try {
        f();
        return true;
    } catch (const std::exception& e) {
        last_error = e.what();
    } catch (...) {
        last_error = "an exception of unknown type";
    }
    return false;
}

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

// A function of the OpenCL library that the SYCL runtime itself uses.
template <class F>
F* opencl(const char* name) {
    static void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error("libOpenCL.so.1 was not found");
    void* found = dlsym(library, name);
    if (!found) throw std::runtime_error(std::string("libOpenCL.so.1 has no ") + name);
    return reinterpret_cast<F*>(found);
}
#define PK_OPENCL(name) opencl<decltype(name)>(#name)

cl_device_id native_device(Queue* q) { return sycl::get_native<sycl::backend::opencl>(q->of.get_device()); }

std::vector<sycl::device> cpus() { return sycl::device::get_devices(sycl::info::device_type::cpu); }

}  // namespace

PK_API const char* pk_error() { return last_error.c_str(); }

// Number of CPU devices; -1 on failure.
PK_API int pk_devices() {
    int count = -1;
    attempt([&] { count = static_cast<int>(cpus().size()); });
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

PK_API void* pk_allocate(Queue* q, size_t bytes) {
    void* made = nullptr;
    attempt([&] { made = sycl::aligned_alloc_shared(4096, bytes, q->of); });
    return made;
}
PK_API void pk_release(Queue* q, void* memory) {
    attempt([&] { sycl::free(memory, q->of); });
}

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
    attempt([&] {
        cl_context context = sycl::get_native<sycl::backend::opencl>(q->of.get_context());
        cl_device_id device = native_device(q);
        cl_int error = 0, status = 0;
        const auto* bytes = static_cast<const unsigned char*>(data);
        cl_program p = is_spirv ? PK_OPENCL(clCreateProgramWithIL)(context, data, size, &error)
                                : PK_OPENCL(clCreateProgramWithBinary)(context, 1, &device, &size, &bytes, &status, &error);
        if (error) throw std::runtime_error("the driver refused the program, OpenCL error " + std::to_string(error));
        error = PK_OPENCL(clBuildProgram)(p, 1, &device, options, nullptr, nullptr);
        if (error) {
            size_t length = 0;
            PK_OPENCL(clGetProgramBuildInfo)(p, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &length);
            std::string log(length, '\0');
            PK_OPENCL(clGetProgramBuildInfo)(p, device, CL_PROGRAM_BUILD_LOG, length, log.data(), nullptr);
            throw std::runtime_error("the driver could not build the program, OpenCL error " + std::to_string(error) + ": " + log);
        }
        made = new Program{p};
    });
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
    attempt([&] {
        cl_int error = 0;
        cl_kernel k = PK_OPENCL(clCreateKernel)(p->of, name, &error);
        if (error) throw std::runtime_error(std::string("the program has no kernel ") + name);
        made = new Kernel{sycl::make_kernel<sycl::backend::opencl>(k, q->of.get_context())};
    });
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
        cl_device_id device = native_device(q);
        ask(native, device, CL_KERNEL_PRIVATE_MEM_SIZE, sizeof(cl_ulong), &memory[0], nullptr);
        ask(native, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof(cl_ulong), &memory[1], nullptr);
        ask(native, device, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof(size_t), &multiple, nullptr);
        facts[0] = memory[0], facts[1] = memory[1], facts[2] = multiple;
    }) ? 0 : 1;
}

struct Argument {
    const void* data;  // the pointer itself where bytes is 0, else where the value lies
    size_t bytes;
};

// Runs a kernel to its end. grid and block have x, y, z; SYCL counts dimensions the other way round.
PK_API int pk_launch(Queue* q, Kernel* k, const size_t* grid, const size_t* block, const Argument* args, int count) {
    return attempt([&] {
        q->of.submit([&](sycl::handler& h) {
            for (int i = 0; i < count; ++i) {
                if (args[i].bytes)
                    h.set_arg(i, syclx::raw_kernel_arg(args[i].data, args[i].bytes));
                else
                    h.set_arg(i, const_cast<void*>(args[i].data));
            }
            const sycl::range<3> local(block[2], block[1], block[0]), groups(grid[2], grid[1], grid[0]);
            h.parallel_for(sycl::nd_range<3>(groups * local, local), k->of);
        });
        q->of.wait_and_throw();
    }) ? 0 : 1;
}
