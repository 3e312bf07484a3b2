#include "device/error.hpp"

namespace portakern {

namespace {

const char *kind_of(pk_status status, const pk_error &error) {
    if (error.fatal != 0) return "device-lost";
    switch (status) {
        case PK_NO_DEVICE: return "no-device";
        case PK_TIMEOUT: return "timeout";
        case PK_UNSUPPORTED: return "unsupported";
        case PK_INVALID: return "invalid";
        default: return "driver";
    }
}

const char *words_for(pk_status status) {
    switch (status) {
        case PK_NO_DEVICE: return "there is no such device";
        case PK_TIMEOUT: return "the deadline passed and the work is still running";
        case PK_UNSUPPORTED: return "this device or driver cannot do it";
        case PK_INVALID: return "an argument makes no sense";
        default: return "failed without saying why";
    }
}

}  // namespace

DriverError driver_error(const pk_driver &driver, pk_device_t device, pk_status status, const char *function) {
    pk_error error{};
    if (driver.last_error != nullptr) driver.last_error(device, &error);
    // What an earlier call left behind says nothing about this one.
    const bool same = error.code == status || status == PK_FAILED;
    if (!same) error = {};
    std::string text = std::string(driver.name) + " " + function + ": ";
    if (error.name[0] != '\0') text += std::string(error.name) + " ";
    if (status > 0) text += "(" + std::to_string(status) + ") ";
    text += error.text[0] != '\0' ? error.text : words_for(status);
    return {kind_of(status, error), text, status};
}

}  // namespace portakern
