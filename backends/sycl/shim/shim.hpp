// What the parts of the shim share: the last error, and the OpenCL beneath SYCL's CPU device.
#pragma once

#define SYCL_DISABLE_FSYCL_SYCLHPP_WARNING 1
#include <CL/cl.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#if __has_include(<sycl/ext/intel/info/device.hpp>)
#include <sycl/ext/intel/info/device.hpp>
#endif
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

namespace shim {

inline thread_local std::string last_error;

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

// A function of the OpenCL library that the SYCL runtime itself uses.
template <class F>
F* opencl(const char* name) {
    static void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error("libOpenCL.so.1 was not found");
    void* found = dlsym(library, name);
    if (!found) throw std::runtime_error(std::string("libOpenCL.so.1 has no ") + name);
    return reinterpret_cast<F*>(found);
}
#define PK_OPENCL(name) shim::opencl<decltype(name)>(#name)

inline std::vector<sycl::device> cpus() { return sycl::device::get_devices(sycl::info::device_type::cpu); }

// GPUs that the Level Zero adapter offers. PK_GPU_STANDIN is for tests: the CPU device counts as a GPU with that number.
inline std::vector<sycl::device> gpus() {
#ifdef PK_GPU_STANDIN
    return cpus();
#else
    std::vector<sycl::device> found;
    for (const sycl::device& d : sycl::device::get_devices(sycl::info::device_type::gpu)) {
        if (d.get_backend() == sycl::backend::ext_oneapi_level_zero) found.push_back(d);
    }
    return found;
#endif
}

// What the PCI bus calls a GPU; 0 where its driver does not tell.
inline uint32_t gpu_number(const sycl::device& d) {
#ifdef PK_GPU_STANDIN
    return PK_GPU_STANDIN;
#else
    return d.has(sycl::aspect::ext_intel_device_id) ? d.get_info<sycl::ext::intel::info::device::device_id>() : 0;
#endif
}

inline cl_device_id native_device(const sycl::queue& q) { return sycl::get_native<sycl::backend::opencl>(q.get_device()); }

// A program of the queue's device from SPIR-V or from its own machine code. Throws with the driver's log.
inline cl_program built(const sycl::queue& q, const void* data, size_t size, bool is_spirv, const char* options) {
    cl_context context = sycl::get_native<sycl::backend::opencl>(q.get_context());
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
        PK_OPENCL(clReleaseProgram)(p);
        throw std::runtime_error("the driver could not build the program, OpenCL error " + std::to_string(error) + ": " + log);
    }
    return p;
}

inline sycl::kernel kernel_of(const sycl::queue& q, cl_program p, const char* name) {
    cl_int error = 0;
    cl_kernel k = PK_OPENCL(clCreateKernel)(p, name, &error);
    if (error) throw std::runtime_error(std::string("the program has no kernel ") + name);
    return sycl::make_kernel<sycl::backend::opencl>(k, q.get_context());
}

}  // namespace shim
