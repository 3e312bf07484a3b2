// The driver's own kernels. Machine code differs between GPUs, so HIP's run-time compiler makes it for the one at hand:
// hiprtc ships with the runtime, in libamdhip64 up to ROCm 6 and beside it since. Without it nothing can be flushed; a
// fill in its place would leave the cache full of lines that the timed kernel must then write back.
#include <algorithm>
#include <vector>

#include "hip_device.hpp"

namespace portakern::hip {

namespace {

constexpr char text[] = R"(
struct Line { unsigned long long x, y; };

extern "C" __global__ void pk_empty() {}

// Only reads, so that no line is left that must be written back. The comparison never holds.
extern "C" __global__ void pk_read(const Line* data, unsigned long long count, unsigned long long* never) {
    unsigned long long sum = 0;
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        sum ^= data[i].x + data[i].y;
    if (sum == 0x706f7274616b6572ull) *never = sum;
}
)";
constexpr std::size_t line = 16;
constexpr unsigned threads = 256, blocks_per_unit = 8;

using Program = struct rtc_program *;

struct Compiler {
    int (*CreateProgram)(Program *, const char *, const char *, int, const char **, const char **);
    int (*CompileProgram)(Program, int, const char **);
    int (*GetCodeSize)(Program, std::size_t *);
    int (*GetCode)(Program, char *);
    int (*DestroyProgram)(Program *);

    explicit Compiler(const Library &library)
        : CreateProgram(library.function<std::remove_pointer_t<decltype(CreateProgram)>>("hiprtcCreateProgram")),
          CompileProgram(library.function<std::remove_pointer_t<decltype(CompileProgram)>>("hiprtcCompileProgram")),
          GetCodeSize(library.function<std::remove_pointer_t<decltype(GetCodeSize)>>("hiprtcGetCodeSize")),
          GetCode(library.function<std::remove_pointer_t<decltype(GetCode)>>("hiprtcGetCode")),
          DestroyProgram(library.function<std::remove_pointer_t<decltype(DestroyProgram)>>("hiprtcDestroyProgram")) {}

    bool complete() const { return CreateProgram && CompileProgram && GetCodeSize && GetCode && DestroyProgram; }
};

// The code object; empty, with the error kept, where there is no compiler or it fails.
std::vector<char> compiled(DeviceState *device) {
    Compiler compiler(device->api.library);
    if (!compiler.complete()) {
        compiler = Compiler(Library(nullptr, {"libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6", "hiprtc.dll"}));
    }
    if (!compiler.complete()) {
        refused(PK_UNSUPPORTED, "HIP's run-time compiler (libhiprtc), which flushing needs, is not here");
        return {};
    }
    const std::string option = "--offload-arch=" + device->arch;
    const char *options[] = {option.c_str()};
    Program program = nullptr;
    std::vector<char> code;
    std::size_t size = 0;
    int status = compiler.CreateProgram(&program, text, "portakern.hip", 0, nullptr, nullptr);
    if (status == success) status = compiler.CompileProgram(program, device->arch.empty() ? 0 : 1, options);
    if (status == success) status = compiler.GetCodeSize(program, &size);
    if (status == success) {
        code.resize(size);
        status = compiler.GetCode(program, code.data());
    }
    if (program != nullptr) compiler.DestroyProgram(&program);
    if (status != success) {
        refused(PK_UNSUPPORTED, "HIP's run-time compiler does not compile for " + device->arch + ": hiprtcResult " +
                                    std::to_string(status));
        code.clear();
    }
    return code;
}

pk_status run(DeviceState *device, StreamState *stream, Function function, unsigned blocks, unsigned block,
              void **args) {
    const CurrentDevice current(device);
    return PK_HIP(device, ModuleLaunchKernel, function, blocks, 1, 1, block, 1, 1, 0, stream->stream, args, nullptr);
}

// Everything that waits or allocates, which must not happen behind a closed gate. Written once: what the pages hold
// does not matter, but memory that was never written may not be there.
pk_status made_own(DeviceState *device) {
    if (device->swept != nullptr) return PK_OK;
    if (device->own == nullptr) {
        const std::vector<char> code = compiled(device);
        if (code.empty()) return PK_UNSUPPORTED;
        pk_status status = PK_HIP(device, ModuleLoadData, &device->own, code.data());
        if (status == PK_OK) status = PK_HIP(device, ModuleGetFunction, &device->read, device->own, "pk_read");
        if (status == PK_OK) status = PK_HIP(device, ModuleGetFunction, &device->empty, device->own, "pk_empty");
        if (status != PK_OK) return status;
    }
    const auto bytes = static_cast<std::size_t>(device->flush_bytes);
    void *swept = nullptr;
    pk_status status = PK_HIP(device, Malloc, &swept, bytes);
    if (status == PK_OK) status = PK_HIP(device, MemsetAsync, swept, 0x5A, bytes, nullptr);
    if (status == PK_OK) status = PK_HIP(device, StreamSynchronize, nullptr);
    if (status == PK_OK) device->swept = swept;
    return status;
}

}  // namespace

pk_status prepare_own(DeviceState *device) {
    const std::lock_guard lock(device->mutex);
    const CurrentDevice current(device);
    return made_own(device);
}

pk_status flush(DeviceState *device, StreamState *stream) {
    if (const pk_status status = prepare_own(device); status != PK_OK) return status;
    unsigned long long count = static_cast<unsigned long long>(device->flush_bytes) / line;
    void *args[] = {&device->swept, &count, &device->swept};
    const int units = std::max(device->api.attribute(multiprocessor_count, device->ordinal), 1);
    return run(device, stream, device->read, static_cast<unsigned>(units) * blocks_per_unit, threads, args);
}

pk_status launch_empty(DeviceState *device, StreamState *stream) {
    if (const pk_status status = prepare_own(device); status != PK_OK) return status;
    return run(device, stream, device->empty, 1, 64, nullptr);
}

void release_own(DeviceState *device) {
    const CurrentDevice current(device);
    if (device->swept != nullptr) device->api.Free(device->swept);
    if (device->own != nullptr) device->api.ModuleUnload(device->own);
}

}  // namespace portakern::hip
