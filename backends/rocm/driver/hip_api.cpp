#include "hip_api.hpp"

#include <algorithm>
#include <iterator>

namespace portakern::hip {

namespace {

thread_local pk_error error{};

// ECC error, illegal address, launch timeout, context destroyed, assertion, launch failure: nothing more will run.
constexpr int fatal_codes[] = {214, 700, 702, 709, 710, 719};

}  // namespace

Api::Api(const char *path)
    : library(path, {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "amdhip64_7.dll",
                     "amdhip64_6.dll", "amdhip64.dll"}) {
    if (!library.is_open()) return;
#define PK_FIND(name, signature) name = library.function<signature>("hip" #name);
    PK_HIP_REQUIRED(PK_FIND)
    PK_HIP_OPTIONAL(PK_FIND)
#undef PK_FIND
#define PK_CHECK(name, signature) \
    if (name == nullptr && missing.empty()) missing = "hip" #name;
    PK_HIP_REQUIRED(PK_CHECK)
#undef PK_CHECK
}

int Api::attribute(int what, int ordinal) const {
    int value = 0;
    return DeviceGetAttribute(&value, what, ordinal) == success ? value : 0;
}

std::string Api::version() const {
    int version = 0;
    if (RuntimeGetVersion == nullptr || RuntimeGetVersion(&version) != success) return {};
    // HIP_VERSION is major * 10^7 + minor * 10^5 + patch.
    return std::to_string(version / 10'000'000) + "." + std::to_string(version / 100'000 % 100) + "." +
           std::to_string(version % 100'000);
}

pk_status failed(const Api &api, const char *function, int code) {
    error = {};
    error.code = code;
    error.fatal = std::find(std::begin(fatal_codes), std::end(fatal_codes), code) != std::end(fatal_codes) ? 1 : 0;
    const char *name = api.GetErrorName != nullptr ? api.GetErrorName(code) : nullptr;
    const char *words = api.GetErrorString != nullptr ? api.GetErrorString(code) : nullptr;
    set_text(error.name, name != nullptr ? name : "");
    set_text(error.text, std::string(function) + ": " + (words != nullptr ? words : "error " + std::to_string(code)));
    return code > 0 ? code : PK_FAILED;
}

pk_status refused(pk_status status, const std::string &text) {
    error = {};
    error.code = status;
    set_text(error.text, text);
    return status;
}

void last_error(pk_device_t, pk_error *out) { *out = error; }

}  // namespace portakern::hip
