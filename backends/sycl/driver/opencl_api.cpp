#include "opencl_api.hpp"

#include <utility>

namespace portakern::opencl {

namespace {

thread_local pk_error error{};

std::string trimmed(std::string text) {
    while (!text.empty() && (text.back() == '\0' || text.back() == ' ' || text.back() == '\n')) text.pop_back();
    const std::size_t begin = text.find_first_not_of(' ');
    return begin == std::string::npos ? std::string() : text.substr(begin);
}

template <typename Ask>
std::string asked(Ask ask) {
    std::size_t size = 0;
    if (ask(std::size_t{0}, nullptr, &size) != 0) return {};
    std::string text(size, '\0');
    if (ask(size, text.data(), nullptr) != 0) return {};
    return trimmed(std::move(text));
}

}  // namespace

Api::Api(const char *path) : library(path, {"libOpenCL.so.1", "libOpenCL.so", "OpenCL.dll"}) {
    if (!library.is_open()) return;
    auto find = [&](auto &function, const char *name) {
        function = library.function<std::remove_pointer_t<std::remove_reference_t<decltype(function)>>>(name);
        if (function == nullptr && missing.empty()) missing = name;
    };
#define PK_FIND(name) find(name, "cl" #name)
    PK_FIND(GetPlatformIDs);
    PK_FIND(GetPlatformInfo);
    PK_FIND(GetDeviceIDs);
    PK_FIND(GetDeviceInfo);
    PK_FIND(CreateContext);
    PK_FIND(ReleaseContext);
    PK_FIND(CreateCommandQueueWithProperties);
    PK_FIND(GetCommandQueueInfo);
    PK_FIND(RetainCommandQueue);
    PK_FIND(ReleaseCommandQueue);
    PK_FIND(Flush);
    PK_FIND(Finish);
    PK_FIND(SVMAlloc);
    PK_FIND(SVMFree);
    PK_FIND(EnqueueSVMMemcpy);
    PK_FIND(EnqueueSVMMemFill);
    PK_FIND(CreateProgramWithBinary);
    PK_FIND(CreateProgramWithSource);
    PK_FIND(BuildProgram);
    PK_FIND(GetProgramBuildInfo);
    PK_FIND(ReleaseProgram);
    PK_FIND(CreateKernel);
    PK_FIND(ReleaseKernel);
    PK_FIND(SetKernelArg);
    PK_FIND(SetKernelArgSVMPointer);
    PK_FIND(EnqueueNDRangeKernel);
    PK_FIND(CreateUserEvent);
    PK_FIND(SetUserEventStatus);
    PK_FIND(GetEventInfo);
    PK_FIND(GetEventProfilingInfo);
    PK_FIND(RetainEvent);
    PK_FIND(ReleaseEvent);
#undef PK_FIND
}

std::string Api::text(DeviceId device, cl_uint what) const {
    return asked([&](std::size_t size, void *out, std::size_t *needed) {
        return GetDeviceInfo(device, what, size, out, needed);
    });
}

std::string Api::text(Platform platform, cl_uint what) const {
    return asked([&](std::size_t size, void *out, std::size_t *needed) {
        return GetPlatformInfo(platform, what, size, out, needed);
    });
}

const char *error_name(cl_int code) {
    static constexpr std::pair<cl_int, const char *> names[] = {
        {-1, "CL_DEVICE_NOT_FOUND"},
        {-2, "CL_DEVICE_NOT_AVAILABLE"},
        {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
        {-5, "CL_OUT_OF_RESOURCES"},
        {-6, "CL_OUT_OF_HOST_MEMORY"},
        {-7, "CL_PROFILING_INFO_NOT_AVAILABLE"},
        {-11, "CL_BUILD_PROGRAM_FAILURE"},
        {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
        {-30, "CL_INVALID_VALUE"},
        {-33, "CL_INVALID_DEVICE"},
        {-34, "CL_INVALID_CONTEXT"},
        {-35, "CL_INVALID_QUEUE_PROPERTIES"},
        {-36, "CL_INVALID_COMMAND_QUEUE"},
        {-42, "CL_INVALID_BINARY"},
        {-44, "CL_INVALID_PROGRAM"},
        {-45, "CL_INVALID_PROGRAM_EXECUTABLE"},
        {-46, "CL_INVALID_KERNEL_NAME"},
        {-48, "CL_INVALID_KERNEL"},
        {-49, "CL_INVALID_ARG_INDEX"},
        {-50, "CL_INVALID_ARG_VALUE"},
        {-51, "CL_INVALID_ARG_SIZE"},
        {-52, "CL_INVALID_KERNEL_ARGS"},
        {-53, "CL_INVALID_WORK_DIMENSION"},
        {-54, "CL_INVALID_WORK_GROUP_SIZE"},
        {-55, "CL_INVALID_WORK_ITEM_SIZE"},
        {-56, "CL_INVALID_GLOBAL_OFFSET"},
        {-57, "CL_INVALID_EVENT_WAIT_LIST"},
        {-58, "CL_INVALID_EVENT"},
        {-59, "CL_INVALID_OPERATION"},
        {-61, "CL_INVALID_BUFFER_SIZE"},
        {-63, "CL_INVALID_GLOBAL_WORK_SIZE"},
        {no_platform_found, "CL_PLATFORM_NOT_FOUND_KHR"},
    };
    for (const auto &[known, name] : names) {
        if (known == code) return name;
    }
    return "";
}

pk_status failed(const char *function, cl_int code, const std::string &detail) {
    error = {};
    error.code = code;
    set_text(error.name, error_name(code));
    const std::string name = error.name[0] != '\0' ? error.name : "error " + std::to_string(code);
    set_text(error.text, std::string(function) + ": " + name + (detail.empty() ? "" : ": " + detail));
    return PK_FAILED;
}

pk_status refused(pk_status status, const std::string &text) {
    error = {};
    error.code = status;
    set_text(error.text, text);
    return status;
}

void last_error(pk_device_t, pk_error *out) { *out = error; }

}  // namespace portakern::opencl
