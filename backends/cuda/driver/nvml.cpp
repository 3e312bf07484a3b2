#include "nvml.hpp"

#include "drivers/library.hpp"

namespace portakern::cuda {

namespace {

// Values follow the NVML API reference.
using Handle = struct NvmlDevice *;
enum : int { clock_sm = 1, clock_memory = 2, sensor_gpu = 0 };

struct Reason {
    unsigned long long bit;
    const char *name;
};

// nvmlClocksEventReason*: those by which a loaded GPU runs slower than it could. Idle, and clocks that someone set, are not.
constexpr Reason slowdowns[] = {
    {0x04, "software power cap"},    {0x08, "hardware slowdown"},  {0x20, "software thermal slowdown"},
    {0x40, "hardware thermal slowdown"}, {0x80, "hardware power brake"},
};

struct Nvml {
    Nvml();

    std::string error;
    int (*by_uuid)(const char *uuid, Handle *out) = nullptr;
    int (*by_bus)(const char *bus, Handle *out) = nullptr;
    int (*clock)(Handle device, int which, unsigned *mhz) = nullptr;
    int (*temperature)(Handle device, int sensor, unsigned *celsius) = nullptr;
    int (*power)(Handle device, unsigned *milliwatts) = nullptr;
    int (*reasons)(Handle device, unsigned long long *bits) = nullptr;
};

Nvml::Nvml() {
    const Library library(nullptr, {"libnvidia-ml.so.1", "nvml.dll"});
    if (!library.is_open()) {
        error = "NVML is not installed here (" + library.error() + ")";
        return;
    }
    auto *init = library.function<int()>("nvmlInit_v2");
    const int status = init != nullptr ? init() : -1;
    if (status != 0) {
        error = "NVML does not start: nvmlInit_v2 returned " + std::to_string(status);
        return;
    }
    by_uuid = library.function<int(const char *, Handle *)>("nvmlDeviceGetHandleByUUID");
    by_bus = library.function<int(const char *, Handle *)>("nvmlDeviceGetHandleByPciBusId_v2");
    clock = library.function<int(Handle, int, unsigned *)>("nvmlDeviceGetClockInfo");
    temperature = library.function<int(Handle, int, unsigned *)>("nvmlDeviceGetTemperature");
    power = library.function<int(Handle, unsigned *)>("nvmlDeviceGetPowerUsage");
    reasons = library.function<int(Handle, unsigned long long *)>("nvmlDeviceGetCurrentClocksEventReasons");
    if (reasons == nullptr) {  // its name before CUDA 12.2
        reasons = library.function<int(Handle, unsigned long long *)>("nvmlDeviceGetCurrentClocksThrottleReasons");
    }
}

// Started once; it stays.
const Nvml &nvml() {
    static const Nvml library;
    return library;
}

// What `get` gives, or -1 where it does not.
template <typename Get, typename... Args>
int32_t value(Get *get, Args... args) {
    unsigned found = 0;
    return get != nullptr && get(args..., &found) == 0 ? static_cast<int32_t>(found) : -1;
}

void read_reasons(const Nvml &nvml, Handle device, pk_health *out) {
    unsigned long long bits = 0;
    if (nvml.reasons == nullptr || nvml.reasons(device, &bits) != 0) return;
    std::string text;
    for (const Reason &x : slowdowns) {
        if ((bits & x.bit) != 0) text += (text.empty() ? "" : ", ") + std::string(x.name);
    }
    out->throttled = text.empty() ? 0 : 1;
    set_text(out->reason, text);
}

}  // namespace

bool read_health(const std::string &uuid, const char *bus, pk_health *out, std::string *error) {
    const Nvml &library = nvml();
    *out = {-1, -1, -1, -1, -1, ""};
    if (!library.error.empty()) {
        *error = library.error;
        return false;
    }
    Handle device = nullptr;
    const bool found = (library.by_uuid != nullptr && library.by_uuid(uuid.c_str(), &device) == 0) ||
                       (library.by_bus != nullptr && library.by_bus(bus, &device) == 0);
    if (!found) {
        *error = "NVML knows no GPU " + uuid + " at " + bus;
        return false;
    }
    out->clock_mhz = value(library.clock, device, static_cast<int>(clock_sm));
    out->memory_clock_mhz = value(library.clock, device, static_cast<int>(clock_memory));
    out->temperature_c = value(library.temperature, device, static_cast<int>(sensor_gpu));
    out->power_mw = value(library.power, device);
    read_reasons(library, device, out);
    return true;
}

}  // namespace portakern::cuda
